# SPDX-License-Identifier: Apache-2.0
"""The launch runner in a terminal: shows what the processes say and takes Ctrl-C, as `ros2 launch` does."""

import contextlib
import datetime
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

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
    with _open_log(specs) or contextlib.nullcontext() as log:
        printer = _Printer(specs, log)
        with LaunchRun(specs, listener=printer.show) as processes, _signals(processes, printer):
            printer.on_broken_pipe = processes.request_stop
            processes.start()
            processes.wait()
    return 1 if printer.terminated or processes.refused else 0


def arguments_text(arguments: Sequence[DeclaredArgument]) -> str:
    """Return what `--show-args` prints, in the form of `ros2 launch`."""
    lines = ["Arguments (pass arguments as '<name>:=<value>'):"]
    for argument in arguments:
        lines += ["", f"    '{argument.name}':{'*' if argument.conditional else ''}", f"        {argument.description}"]
        if argument.default is not None:
            lines.append(f"        (default: '{argument.default}')")
    if not arguments:
        lines += ["", "  No arguments."]
    if any(argument.conditional for argument in arguments):
        lines += ["", "* argument(s) which are only used if specific conditions occur"]
    return "\n".join(lines)


def _open_log(specs: Sequence[ProcessSpec]) -> TextIO | None:
    """Open the launch log if any process writes to it."""
    if all(spec.output == "screen" for spec in specs):
        return None
    own, home = os.environ.get("ROS_LOG_DIR"), os.environ.get("ROS_HOME")
    base = Path(own).expanduser() if own else Path(home or "~/.ros").expanduser() / "log"
    stamp = datetime.datetime.now().astimezone().strftime("%Y-%m-%d-%H-%M-%S-%f")
    folder = base / f"{stamp}-ghostshell-{os.getpid()}"
    try:
        folder.mkdir(parents=True)
        log = (folder / "launch.log").open("w", encoding="utf-8", buffering=1)
    except OSError as error:
        print(f"cannot write a log below '{base}': {error.strerror}", file=sys.stderr)
        return None
    print(f"[INFO] [launch]: output that is not shown here goes to {folder}/launch.log", flush=True)
    return log


class _Printer:
    """Write events to the terminal and the log, and request a stop when the terminal is gone."""

    def __init__(self, specs: Sequence[ProcessSpec], log: TextIO | None) -> None:
        self._outputs = {spec.name: spec.output for spec in specs}
        self._log = log
        self._silent = False
        self.terminated = False
        self.on_broken_pipe: Callable[[], None] = lambda: None

    def show(self, event: Event) -> None:
        line = _line(event)
        kind = self._outputs[event.name] if isinstance(event, Output) else "both"
        if kind != "screen" and self._log is not None:
            with contextlib.suppress(OSError):  # a full disk must not end the robot
                self._log.write(f"{line}\n")
        shown = kind != "log" or (isinstance(event, Output) and event.stream == "stderr")
        if self._silent or not shown:
            return
        try:
            print(line, flush=True)
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
