# SPDX-License-Identifier: Apache-2.0
"""Run goals that take a time, or as long as a child process makes a sound."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ghostshell_ros.drivers.driver import Driver, DriverRefusal, Job
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.node import Later, NodeStartError

LOOP_PAUSE_S = 0.05
"""Pause between two rounds of a looping command, so that one which ends at once does not take the processor."""
SPARE_S, SLOWNESS = 10.0, 3.0
"""A program hangs that takes longer than this and so many times the duration of what it plays."""


class TimedJob(Job):
    """Run for `duration_s`, or until cancelled if it is None."""

    def __init__(self, driver: Driver, goal: Goal, duration_s: float | None) -> None:
        super().__init__(driver, goal)
        self._end_at = None if duration_s is None else driver.steady_now() + duration_s
        self._timer = None if duration_s is None else driver.call_later(duration_s, driver.step_jobs)

    def step(self, now: float) -> bool:
        return self._end_at is not None and now >= self._end_at - 1e-3

    def ended(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class SoundDriver(Driver):
    """Play goals through a program if there is a sound device; otherwise run them silently for their duration."""

    failure: int
    """Code of the action for a sound that could not be made."""
    program: str
    """Path of the program, "" where it is not installed."""
    audible: bool
    """False where goals take their time in silence."""

    def declare_program(self, parameter: str, choice: str, names: tuple[str, ...], package: str) -> None:
        """Declare the sound parameter (the program, `timing` for silent, or `auto`); set `program` and `audible` by it.

        Raises NodeStartError when the program is asked for and not installed.
        """
        said = f"auto: {package} if it is installed and there is a sound device; timing: silent, for its time"
        wanted = self.declare(parameter, "auto", said, choices=("auto", choice, "timing"))
        self.program = next(filter(None, map(shutil.which, names)), "")
        if wanted == choice and not self.program:
            raise NodeStartError(f"{parameter} is '{choice}', but {package} is not installed; install it or use 'timing'")
        playing = any(Path("/dev/snd").glob("pcmC*D*p"))  # the devices that play sound, as ALSA names them
        self.audible = wanted == choice or (wanted == "auto" and bool(self.program) and playing)
        self._falls_back = wanted == "auto"
        self.get_logger().info("its sounds are heard" if self.audible else "its sounds are silent, for their timing only")

    def failed(self, text: str) -> DriverRefusal:
        """Return the refusal of a goal whose program failed; where there is a choice, the next ones are silent."""
        if self._falls_back:
            self.audible = False
            self.get_logger().warning(f"its sounds are silent from now on: {text}")
        return DriverRefusal(self.failure, text)


class SoundJob(TimedJob):
    """Run while a command runs, or for `duration_s` if the driver is silent; a looping job restarts its command.

    The command runs in a session of its own, so that a cancel ends it with all its children. What `stdin` returns, called
    on a thread of its own, is written to it.
    """

    driver: SoundDriver

    def __init__(
        self,
        driver: SoundDriver,
        goal: Goal,
        duration_s: float,
        command: tuple[str, ...],
        stdin: Callable[[], bytes],
        *,
        loop: bool = False,
    ) -> None:
        plays = driver.audible and duration_s > 0.0
        super().__init__(driver, goal, None if plays or loop else duration_s)
        self._command, self._stdin, self._loop = command, stdin, loop
        self._deadline_s = SPARE_S + SLOWNESS * duration_s
        self._process: subprocess.Popen[bytes] | None = None
        self._again: Later | None = None
        self._failure = ""
        self._over = False
        if plays:
            self._start()

    def step(self, now: float) -> bool:
        if self._failure:
            raise self.driver.failed(self._failure)
        return self._over or super().step(now)

    def ended(self) -> None:
        super().ended()
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
            self.driver.call_soon(self.driver.step_jobs)
            return
        threading.Thread(target=self._wait, args=(self._process,), daemon=True).start()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """Feed the child, wait for its end, and hand the outcome to the executor. On a thread of its own."""
        try:
            _, stderr = process.communicate(self._stdin(), timeout=self._deadline_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            stderr = f"no end after {self._deadline_s:.0f} s".encode()
        except Exception as error:  # noqa: BLE001 - the goal must end, whatever made no sound
            _kill(process)
            stderr = f"{type(error).__name__}: {error}".encode()
        last = stderr.decode(errors="replace").strip().splitlines()[-1:]
        self.driver.call_soon(self._command_ended, process.wait(), last[0] if last else "")

    def _command_ended(self, status: int, text: str) -> None:
        if self._over:
            return
        if status != 0:
            self._failure = f"{self._command[0]} ended with status {status}: {text[:200]}"
        elif self._loop:
            self._again = self.driver.call_later(LOOP_PAUSE_S, self._start)
            return
        else:
            self._over = True
        self.driver.step_jobs()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a child's process group. Its number cannot be reused until the child is reaped."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
