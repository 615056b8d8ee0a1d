# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell launch`: start an XML launch file where `ros2 launch` is missing, show what it says and take Ctrl-C."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from types import FrameType
from typing import Annotated, Any

import typer

from ghostshell_ros import launcher
from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.security import refusal
from ghostshell_ros.launcher.checks import Start
from ghostshell_ros.launcher.launch_file import DeclaredArgument
from skill_kernel.review import Review

_ONE_PRESS_S = 0.3
"""Signals closer than this count as one, because `timeout` and some shells signal both the process and its group."""
Check = tuple[Sequence[str], Mapping[str, str]]
"""Options of a check that a launch file makes, and its environment."""
_TERMINATIONS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def launch(
    file: Annotated[str, typer.Argument(help="launch file, or the name of one of this package: coco")],
    arguments: Annotated[list[str] | None, typer.Argument(help="<name>:=<value> …", show_default=False)] = None,
    show_args: Annotated[bool, typer.Option("--show-args", "-s", help="show the file's arguments and end")] = False,
) -> None:
    """Start the processes of an XML launch file and show what they say; Ctrl-C ends them, a second one hastens it.

    Exit status: 0 all have ended, 1 it cannot be started as it is given (a sentence says why), or the runner was terminated.
    """
    checks: list[Check] = []
    try:
        if show_args:
            print(arguments_text(launcher.declared_arguments(file)))
            return
        specs = launcher.describe(file, parse_arguments(arguments or []), on_check=lambda *check: checks.append(check))
    except launcher.LaunchError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    for found in _checked(checks):
        for remark in found.remarks:
            print(f"[WARNING] [launch]: {remark}", file=sys.stderr)
        if found.faults:
            fail(found.faults[0], command="launch", status=1)
    if fault := _fault_of_security(specs):
        fail(fault, command="launch", status=1)
    raise typer.Exit(run(specs))


def _checked(checks: Iterable[Check]) -> list[Review]:
    """Return what each check finds. A fork looks: the robots' code and numpy would stay in this process with 16 MB."""
    try:
        ignoring: dict[str, Any] = {"initializer": signal.signal, "initargs": (signal.SIGINT, signal.SIG_IGN)}
        with ProcessPoolExecutor(1, mp_context=get_context("fork"), **ignoring) as apart:
            return list(apart.map(_check, checks))
    except BrokenProcessPool:
        return [Review(("the robot's code ended the process that checked it; import its skills and body by hand to see why",))]


def _check(check: Check) -> Review:
    options, environment = check
    return Start.told_by(options).check(environment)


def _fault_of_security(specs: Iterable[launcher.ProcessSpec]) -> str:
    """Return why ROS starts no node with the security that the launch asks for, or ""."""
    for spec in specs:
        if spec.environment.get("ROS_SECURITY_STRATEGY") == "Enforce" and "--enclave" in spec.command:
            why = refusal(spec.environment, str(spec.command[spec.command.index("--enclave") + 1]))
            return f"security:=enforce: {why}; `ghostshell security check` tells more" if why else ""
    return ""


def parse_arguments(words: Sequence[str]) -> dict[str, str]:
    """Return the `name:=value` words as a mapping, the last of equal names; raises LaunchError for a word of another form."""
    arguments = {}
    for word in words:
        name, sign, value = word.partition(":=")
        if not name or not sign or not value:
            empty = "; leave it out for the file's own value" if name and sign else ""
            raise launcher.LaunchError(f"'{word}' is no argument, it must be <name>:=<value>{empty}")
        arguments[name] = value
    return arguments


def run(specs: Sequence[launcher.ProcessSpec]) -> int:
    """Run the processes in the foreground until they have ended; Ctrl-C stops them, and a second one stops them faster.

    The exit status is that of `ros2 launch`: 0 when they ended or were interrupted, whatever their own codes, and 1
    when the runner itself was terminated; besides, 1 when a node could not start as it is configured.
    """
    printer = _Printer()
    with launcher.LaunchRun(specs, listener=printer.show) as processes, _signals(processes, printer):
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

    def show(self, event: launcher.Event) -> None:
        if self._silent:
            return
        try:
            print(event, flush=True)
        except OSError:  # a closed pipe, or a terminal that hung up
            self._silent = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.on_broken_pipe()


@contextlib.contextmanager
def _signals(processes: launcher.LaunchRun, printer: _Printer) -> Iterator[None]:
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
