# SPDX-License-Identifier: Apache-2.0
"""The common part of drivers whose goals take a time: heartbeat, end, cancel, and a child that makes the sound."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.lifecycle import ManagedNode
from ghostshell_ros.runtime.node_runtime import Later

FEEDBACK_S = 0.1
LOOP_PAUSE_S = 0.05
"""Between two rounds of a looping command, so that one which ends at once does not take the processor."""


class DriverRefusal(Exception):
    """A goal cannot be done; `code` is a constant of the action, the message goes to the caller."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Work:
    """What a goal does: lasts `duration_s` (None: until cancelled), or as long as `command` runs, but not longer than
    `deadline_s`. What `stdin` gives, called on a thread of its own, is written to the command; one that loops is
    started again whenever it ends."""

    duration_s: float | None
    command: tuple[str, ...] = ()
    stdin: Callable[[], bytes] = bytes
    deadline_s: float = 60.0
    loop: bool = False


@dataclass
class Activity:
    """A goal at work."""

    goal: Goal
    work: Work
    started_at: float
    end_timer: Later | None = None
    process: subprocess.Popen[bytes] | None = None


def has_sound_device() -> bool:
    """Whether the kernel offers a device that plays sound (`/dev/snd/pcmC*D*p`, ALSA's naming)."""
    return any(Path("/dev/snd").glob("pcmC*D*p"))


class TimedDriver(ManagedNode):
    """A driver whose goals take a time. Subclasses say what a goal does and what its messages hold."""

    def __init__(self, name: str, action_type: Any, action_name: str) -> None:
        super().__init__(name)
        self._active: dict[bytes, Activity] = {}
        self._heartbeat = self.steady_timer(FEEDBACK_S, self._beat)
        self._heartbeat.cancel()
        self._server = GoalServer(self, action_type, action_name, on_goal=self._on_goal, on_cancel=self._on_cancel)

    @abstractmethod
    def plan(self, goal: Goal) -> Work:
        """What the goal does. Raises DriverRefusal. On the executor's thread, so it returns at once."""

    @abstractmethod
    def feedback(self, goal: Goal, elapsed_s: float) -> Any:
        """The feedback message of a goal."""

    @abstractmethod
    def result(self, goal: Goal, elapsed_s: float, *, whole: bool) -> Any:
        """The result message of a goal; `whole` when it came to its own end."""

    @abstractmethod
    def refused(self, code: int, text: str) -> Any:
        """The result message of a goal that could not be done."""

    def ended(self, goal: Goal) -> None:
        """Called once for every goal that was planned, however it ended."""

    def failed(self, activity: Activity, text: str) -> DriverRefusal:
        """What to tell the caller when the command failed with `text`."""
        return DriverRefusal(0, text)

    def _on_goal(self, goal: Goal) -> None:
        try:
            work = self.plan(goal)
        except DriverRefusal as refusal:
            goal.abort(self.refused(refusal.code, str(refusal)))
            return
        activity = Activity(goal, work, self.steady_now())
        self._active[goal.goal_id] = activity
        if self._heartbeat.is_canceled():
            self._heartbeat.reset()
        if work.command:
            self._start_command(activity)
        elif work.duration_s is not None:
            activity.end_timer = self.call_later(work.duration_s, lambda: self._finish(activity))

    def _start_command(self, activity: Activity) -> None:
        """Start the child in a session of its own, so that a cancel ends it with all its children."""
        try:
            activity.process = subprocess.Popen(
                activity.work.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self._fail(activity, str(error))
            return
        threading.Thread(target=self._wait, args=(activity, activity.process), daemon=True).start()

    def _wait(self, activity: Activity, process: subprocess.Popen[bytes]) -> None:
        """On a thread of its own: feed the child, wait for its end, hand the outcome to the executor."""
        try:
            _, stderr = process.communicate(activity.work.stdin(), timeout=activity.work.deadline_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            stderr = f"no end after {activity.work.deadline_s:.0f} s".encode()
        last = stderr.decode(errors="replace").strip().splitlines()[-1:]
        self.call_soon(self._command_ended, activity, process.wait(), last[0] if last else "")

    def _command_ended(self, activity: Activity, status: int, text: str) -> None:
        if self._active.get(activity.goal.goal_id) is not activity:
            return
        if status != 0:
            self._fail(activity, f"{activity.work.command[0]} ended with status {status}: {text[:200]}")
        elif activity.work.loop:
            activity.end_timer = self.call_later(LOOP_PAUSE_S, lambda: self._start_command(activity))
        else:
            self._finish(activity)

    def _beat(self) -> None:
        now = self.steady_now()
        for activity in self._active.values():
            activity.goal.feedback(self.feedback(activity.goal, now - activity.started_at))
        if not self._active:
            self._heartbeat.cancel()

    def _on_cancel(self, goal: Goal) -> None:
        activity = self._active.get(goal.goal_id)
        if activity is not None:
            result = self.result(goal, self.steady_now() - activity.started_at, whole=False)
            self._forget(activity)
            goal.canceled(result)

    def _finish(self, activity: Activity) -> None:
        if self._active.get(activity.goal.goal_id) is activity:
            result = self.result(activity.goal, self.steady_now() - activity.started_at, whole=True)
            self._forget(activity)
            activity.goal.succeed(result)

    def _fail(self, activity: Activity, text: str) -> None:
        refusal = self.failed(activity, text)
        self._forget(activity)
        activity.goal.abort(self.refused(refusal.code, str(refusal)))

    def _forget(self, activity: Activity) -> None:
        self._active.pop(activity.goal.goal_id, None)
        if activity.end_timer is not None:
            activity.end_timer.cancel()
        if activity.process is not None:
            _kill(activity.process)
        self.ended(activity.goal)

    def close(self) -> None:
        for activity in list(self._active.values()):
            if activity.process is not None:
                _kill(activity.process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a child's whole session. Its number is safe to use while the child was not reaped."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
