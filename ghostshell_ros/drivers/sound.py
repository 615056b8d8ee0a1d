# SPDX-License-Identifier: Apache-2.0
"""Jobs that take a time, or as long as a child process makes a sound."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ghostshell_ros.drivers.driver import Driver, DriverRefusal, Job
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.node import Later

LOOP_PAUSE_S = 0.05
"""Between two rounds of a looping command, so that one which ends at once does not take the processor."""


def has_sound_device() -> bool:
    """Return whether the kernel offers a device that plays sound (`/dev/snd/pcmC*D*p`, ALSA's naming)."""
    return any(Path("/dev/snd").glob("pcmC*D*p"))


class TimedJob(Job):
    """Lasts `duration_s`, or with None until it is cancelled."""

    def __init__(self, driver: Driver, goal: Goal, duration_s: float | None) -> None:
        super().__init__(driver, goal)
        self._end_at = None if duration_s is None else driver.steady_now() + duration_s
        self._timer = None if duration_s is None else driver.call_later(duration_s, driver.look)

    def step(self, now: float) -> bool:
        return self._end_at is not None and now >= self._end_at - 1e-3

    def ended(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class CommandJob(Job):
    """Lasts as long as a command runs, but not longer than `deadline_s`; one that loops starts again when it ends.

    The command runs in a session of its own, so that a cancel ends it with all its children. What `stdin` returns, called
    on a thread of its own, is written to it. `on_failure` makes the refusal of a command that failed, from its reason.
    """

    def __init__(
        self,
        driver: Driver,
        goal: Goal,
        command: tuple[str, ...],
        stdin: Callable[[], bytes],
        *,
        deadline_s: float,
        on_failure: Callable[[str], DriverRefusal],
        loop: bool = False,
    ) -> None:
        super().__init__(driver, goal)
        self._command, self._stdin, self._deadline_s, self._loop = command, stdin, deadline_s, loop
        self._on_failure = on_failure
        self._process: subprocess.Popen[bytes] | None = None
        self._again: Later | None = None
        self._failure = ""
        self._over = False
        self._start()

    def step(self, now: float) -> bool:
        if self._failure:
            raise self._on_failure(self._failure)
        return self._over

    def ended(self) -> None:
        self._over = True
        if self._again is not None:
            self._again.cancel()
        self.release()

    def release(self) -> None:
        if self._process is not None:
            _kill(self._process)

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            self._failure = str(error)
            return
        threading.Thread(target=self._wait, args=(self._process,), daemon=True).start()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """On a thread of its own: feed the child, wait for its end, hand the outcome to the executor."""
        try:
            _, stderr = process.communicate(self._stdin(), timeout=self._deadline_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            stderr = f"no end after {self._deadline_s:.0f} s".encode()
        last = stderr.decode(errors="replace").strip().splitlines()[-1:]
        self.driver.call_soon(self._command_ended, process.wait(), last[0] if last else "")

    def _command_ended(self, status: int, text: str) -> None:
        if self._over:
            return
        if status != 0:
            self._failure = f"{self._command[0]} ended with status {status}: {text[:200]}"
        elif self._loop:
            self._again = self.driver.call_later(LOOP_PAUSE_S, self._start_again)
            return
        else:
            self._over = True
        self.driver.look()

    def _start_again(self) -> None:
        self._start()
        if self._failure:
            self.driver.look()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a child's whole session. Its number is safe to use while the child was not reaped."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
