# SPDX-License-Identifier: Apache-2.0
"""The launch runner in a terminal: shows what the processes say and takes Ctrl-C, as `ros2 launch` does."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from ghostshell_ros.launcher.launch_file import DeclaredArgument
from ghostshell_ros.launcher.runner import Event, LaunchRun, Output, Report, Started
from ghostshell_ros.launcher.specs import LaunchError, ProcessSpec

_ONE_PRESS_S = 0.3
"""Signals closer than this count as one, because `timeout` and some shells signal both the process and its group."""
_TERMINATIONS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def parse_arguments(words: Sequence[str]) -> dict[str, str]:
    """Return the `name:=value` words as a mapping, the last of equal names; raises LaunchError for a word of another form."""
    arguments = {}
    for word in words:
        name, sign, value = word.partition(":=")
        if not name or not sign or not value:
            empty = "; leave it out for the file's own value" if name and sign else ""
            raise LaunchError(f"'{word}' is no argument, it must be <name>:=<value>{empty}")
        arguments[name] = value
    return arguments


def run(specs: Sequence[ProcessSpec]) -> int:
    """Run the processes in the foreground until they have ended; Ctrl-C stops them, and a second one stops them faster.

    The exit status is that of `ros2 launch`: 0 when they ended or were interrupted, whatever their own codes, and 1
    when the runner itself was terminated; besides, 1 when a node could not start as it is configured.
    """
    printer = _Printer()
    with LaunchRun(specs, listener=printer.show) as processes, _signals(processes, printer):
        printer.on_broken_pipe = processes.request_stop
        processes.start()
        processes.wait()
    return 1 if printer.terminated or processes.refused else 0


def arguments_text(arguments: Sequence[DeclaredArgument]) -> str:
    """Return what `--show-args` prints, in the form of `ros2 launch`."""
    lines = ["Arguments (pass arguments as '<name>:=<value>'):"]
    for argument in arguments:
        lines += ["", f"    '{argument.name}':", f"        {argument.description}"]
        if argument.default is not None:
            lines.append(f"        (default: '{argument.default}')")
    if not arguments:
        lines += ["", "  No arguments."]
    return "\n".join(lines)


class _Printer:
    """Write events to the terminal, and request a stop when it is gone."""

    def __init__(self) -> None:
        self._silent = False
        self.terminated = False
        self.on_broken_pipe: Callable[[], None] = lambda: None

    def show(self, event: Event) -> None:
        if self._silent:
            return
        try:
            print(_line(event), flush=True)
        except OSError:  # a closed pipe, or a terminal that hung up
            self._silent = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.on_broken_pipe()


def _line(event: Event) -> str:
    if isinstance(event, Output):
        return f"[{event.name}] {event.line}"
    if isinstance(event, Started):
        return f"[INFO] [{event.name}]: process started with pid [{event.pid}]"
    if isinstance(event, Report):
        return f"[{event.level}] [{event.name}]: {event.text}"
    if event.returncode == 0:
        return f"[INFO] [{event.name}]: process has finished cleanly [pid {event.pid}]"
    return f"[ERROR] [{event.name}]: process has died [pid {event.pid}, exit code {event.returncode}, cmd '{event.command}']."


@contextlib.contextmanager
def _signals(processes: LaunchRun, printer: _Printer) -> Iterator[None]:
    """Stop the processes on Ctrl-C or a termination signal while the block runs. A SIGHUP that nohup ignores stays ignored."""
    last_s = float("-inf")

    def stop(number: int, _: FrameType | None) -> None:
        nonlocal last_s
        printer.terminated = printer.terminated or number in _TERMINATIONS
        before_s, last_s = last_s, time.monotonic()
        if last_s - before_s < _ONE_PRESS_S:
            return
        processes.request_stop()
        name = signal.Signals(number).name
        with contextlib.suppress(OSError):  # the terminal may be what has gone
            os.write(sys.stderr.fileno(), f"[WARNING] [launch]: {name}, stopping; once more to hasten it\n".encode())

    heeded = [n for n in (signal.SIGINT, *_TERMINATIONS) if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
