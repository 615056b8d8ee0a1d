# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell say`, `answer`, `halt`, `clear`, `ps`, `pause`, `resume` and `stop`: instruct a robot and control its
processes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

import typer

from ghostshell_ros import halt_door
from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.robot_client import WAIT_S, RobotClient, only_robot, robots_there, spun
from planners.language.stop_words import is_stop
from skill_kernel.config.sections import shown
from skill_kernel.processes.questions import PRIVATELY, named
from skill_kernel.roles import Act, Role, key_role


def _namespace(robot: str) -> str:
    """Return the robot's name without slashes at its ends. Raises typer.BadParameter when no robot can be called so."""
    name = robot.strip("/")
    if not name or not halt_door.is_namespace(name):
        raise typer.BadParameter(f"'{robot}' is no robot's name; it has letters, digits and underscores, no digit first")
    return name


def _robot(context: typer.Context, robot: str) -> str:
    """Return the robot that is named, or else the only one that is there."""
    return _named(context, robot) or only_robot()


def _named(context: typer.Context, robot: str) -> str:
    """Return the robot that is named, "" for none."""
    source = context.get_parameter_source("robot")
    return "" if source is None or source.name == "DEFAULT" else _namespace(robot)


_ROBOT_HELP = "name of the robot; without it, the only one of this machine, or of the network"
Robot = Annotated[
    str, typer.Option("--robot", envvar="GHOSTSHELL_ROBOT", callback=_robot, help=_ROBOT_HELP, show_default=False)
]
_WAIT_HELP = "how long to wait for the robot, in seconds; up to 10, it is given up after 3 when nothing of it is found"
Wait = Annotated[float, typer.Option(min=0.1, help=_WAIT_HELP)]


def say(
    instruction: Annotated[str, typer.Argument(help="what the robot should do, in plain words")],
    robot: Robot = "",
    wait: Wait = WAIT_S,
    timeout: Annotated[float, typer.Option(min=1.0, help="end the task after this time, in seconds")] = 600.0,
    detach: Annotated[bool, typer.Option("--detach", help="return when the task has begun, and let it go on")] = False,
    json: Annotated[bool, typer.Option("--json", help="an event a line as a JSON object, the end of the task last")] = False,
) -> None:
    """Send an instruction and follow the task live until it ends. The task ends with this command: by Ctrl-C, with the
    terminal, and within 5 s of a connection that is lost; with --detach it goes on.

    Exit status: 0 the task is done, 1 it was stopped or nothing of it was done, 2 no robot answers, 3 it is partly done, 4 the
    robot only answered.
    """
    if is_stop(instruction, robot):
        # Before ROS is joined; the task then says what it ended.
        halt_door.halt(halt_door.ros_domain(), robot, f"told “{instruction}”")
    from ghostshell_ros.cli import follow
    from ghostshell_ros.cli.run_view import RunScreen

    try:
        with spun(lambda: follow.RobotClient(robot)) as client:
            if json:
                screen = follow.JsonScreen(client)
                follow.wait_ready(client, wait)
                end = follow.run_task(client, instruction, screen, timeout_s=timeout, detach=detach)
                screen.show(**follow.end_keys(end, instruction))
            else:
                with RunScreen(client.view, client) as shown:
                    follow.wait_ready(client, wait, tell=shown.refresh)
                    shown.begin()
                    end = follow.run_task(client, instruction, shown, timeout_s=timeout, detach=detach)
                print(follow.told(end, client.view), flush=True)
    except follow.NotThereError as error:
        fail(error, command="say")
    raise typer.Exit(follow.exit_status(end))


def answer(
    words: Annotated[
        list[str] | None, typer.Argument(help="the answer, behind the question's ID if several are open", metavar="[ID] TEXT")
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="nobody else is shown the answer; of a team that asks by name")
    ] = False,
    robot: Robot = "",
    wait: Wait = WAIT_S,
) -> None:
    """Answer what the robot asks; without an answer, show what it asks. Exit status: 0, 1 the answer was refused, 2 no robot
    answers."""
    client = RobotClient(
        robot,
        wait,
        service="ghostshell/AnswerQuestion answer_question",
        topics=["ghostshell/QuestionArray questions"],
        nobody=f"nobody of robot '{robot}' answers within {wait:g} s; is it launched on this ROS domain?",
    )
    with client:
        from ghostshell_ros.cli.run_view import question_line

        asked = {question.id: question for question in client.latched().questions}
        if not words:
            print("\n".join(map(question_line, asked.values())) or f"{robot} asks nothing")
            return
        client.prove(client.type.Request(question_id="nobody's"))
        question_id, text = named(words)
        request = client.type.Request(question_id=question_id, text=f"{PRIVATELY} {text}" if private else text)
        taken = client.ask(request, role=key_role(Act.INSTRUCT))
    if not taken.success:
        fail(taken.error_msg, command="answer", status=1)
    print(taken.error_msg or f"{asked[taken.question_id].text if taken.question_id in asked else robot}: {taken.answer}")


As = Annotated[Role, typer.Option("--as", help="role whose key proves who asks; what safety halts only safety clears")]


EachRobot = Annotated[
    str, typer.Option("--robot", envvar="GHOSTSHELL_ROBOT", callback=_named, help="name of the robot; without it, every one")
]


def halt(
    cause: Annotated[str, typer.Argument(help="why, for whoever finds the robot halted")] = "",
    robot: EachRobot = "",
    wait: Wait = WAIT_S,
    as_: As = Role.OPERATOR,
) -> None:
    """Halt the robot at its safety gate, or every one that is there; it stays halted until cleared."""
    status = 0
    for name in [robot] if robot else robots_there():
        try:
            with _gate(name, wait, "ghostshell/ControlHalt request_halt") as client:
                _say_halt(name, client.ask_again(client.type.Request(command=client.type.Request.HALT, cause=cause), as_))
        except typer.Exit as end:  # the others are halted all the same
            status = max(status, end.exit_code)
    raise typer.Exit(status)


def clear(robot: Robot = "", wait: Wait = WAIT_S, as_: As = Role.OPERATOR) -> None:
    """Clear a halt, so that the robot takes instructions again. A halt that comes meanwhile stays."""
    with _gate(robot, wait, "ghostshell/ControlHalt control_halt") as client:
        seen = client.ask_again(client.type.Request(command=client.type.Request.LOOK))
        request = client.type.Request(command=client.type.Request.CLEAR, number=seen.number)
        _say_halt(robot, client.ask_again(request, as_))


def _gate(robot: str, wait: float, service: str) -> RobotClient:
    nobody = f"no robot '{robot}' answers ({service}); is it launched on this ROS domain?"
    return RobotClient(robot, wait, service=service, nobody=nobody)


def _say_halt(robot: str, answer: Any) -> None:
    print(f"{robot}: {answer.message}")
    if not answer.success:
        raise typer.Exit(1)


ProcessId = Annotated[
    str,
    typer.Argument(
        help="process, or the beginning of its id; empty: the newest it fits; pause and stop take what moves the body"
    ),
]
SHOWN, WHY_SHOWN = 32, 120
"""Characters of an instruction and of a reason in the table."""
KERNEL_S = 1.0
"""Time to wait for the kernel's word on running calls."""


def ps(
    robot: Robot = "",
    wait: Wait = WAIT_S,
    all_: Annotated[bool, typer.Option("--all", help="also those that have ended")] = False,
    limit: Annotated[int, typer.Option(min=1, help="how many of them at most")] = 20,
) -> None:
    """Show the processes of a robot, the newest last."""
    with _client(robot, wait) as client:
        found = [p for p in client.latched().processes if all_ or not p.ended.sec]
        if len(found) > limit:
            print(f"{len(found) - limit} older ones are left out; --limit shows more")
        kernel = client.latched(KERNEL_S, topic=1)
        if kernel is not None and (kernel.halted or kernel.halt_cause):
            print(_halt_line(robot, kernel))
        running = _running(kernel, [p.process_id for p in found if not p.ended.sec])
        print("\n".join(_table(found[-limit:], client.node.now_s(), running)) if found else f"{robot}: nothing runs")


def _halt_line(robot: str, kernel: Any) -> str:
    """Return why a robot is halted and how it is cleared; of a team each of its robots that is, which have the gates."""
    members = dict.fromkeys(robot for robot, sign, _ in (s.name.rpartition("/") for s in kernel.subsystems) if sign)
    halted = [name for name in members if re.search(rf"(^|; ){re.escape(name)} is halted\b", kernel.halt_cause)]
    how = "; ".join(f"ghostshell clear --robot {name}" for name in halted or [robot])
    return f"{kernel.halt_cause if members else f'{robot} is halted ({kernel.halt_cause})'}; when it is safe: {how}"


def pause(process_id: ProcessId = "", robot: Robot = "", wait: Wait = WAIT_S) -> None:
    """Pause a process until it is resumed, or without an id each one that holds a part of the body, else the newest; what it
    holds is free in the meantime."""
    _control("PAUSE", "paused", process_id, robot, wait)


def resume(process_id: ProcessId = "", robot: Robot = "", wait: Wait = WAIT_S) -> None:
    """Let a paused process go on."""
    _control("RESUME", "resumed", process_id, robot, wait)


def stop(process_id: ProcessId = "", robot: Robot = "", wait: Wait = WAIT_S) -> None:
    """End one process for good, or without an id each one that holds a part of the body, else the newest. The robot is not
    halted by that: see `ghostshell halt`."""
    _control("STOP", "stopped", process_id, robot, wait)


def _control(command: str, done: str, process_id: str, robot: str, wait: float) -> None:
    with _client(robot, wait) as client:
        known = {p.process_id: p for p in client.latched().processes if not p.ended.sec}
        moving = [
            name for name, process in known.items() if process.subsystems and command in ("STOP", "PAUSE") and not process_id
        ]
        for chosen in moving or [_full_id(process_id, known)]:
            request = client.type.Request(process_id=chosen, cause="command line")
            request.command = getattr(client.type.Request, command)
            answer = client.ask(request)
            if not answer.success and not moving:
                fail(answer.error_msg, command=command.lower(), status=1)
            process = known.pop(answer.process_id or chosen, None)
            said = f"{shown(process.instruction, SHOWN)}; " if process else ""
            print(f"{answer.process_id} {done}: {said}{answer.error_msg}".rstrip(" :;"))
        for name, process in known.items() if moving else ():
            print(f"{name} goes on: {shown(process.instruction, SHOWN)}")


def _client(robot: str, wait_s: float) -> RobotClient:
    return RobotClient(
        robot,
        wait_s,
        service="ghostshell/ControlProcess control_process",
        topics=["ghostshell/ProcessArray processes", "ghostshell/KernelState kernel_state"],
        nobody=f"no process_scheduler of robot '{robot}' answers within {wait_s:g} s; is it launched on this ROS domain?",
    )


def _full_id(beginning: str, living: Iterable[str]) -> str:
    """Return the one living process whose id begins so, else the text itself."""
    found = [process_id for process_id in living if process_id.startswith(beginning)]
    return found[0] if beginning and len(found) == 1 else beginning


def _running(kernel: Any, living: Sequence[str]) -> dict[str, int]:
    """Return how many calls of each living process run, as far as the kernel tells (KernelState, or None)."""
    if kernel is None or len(living) == 1:
        return {living[0]: len(kernel.running)} if kernel is not None else {}
    calls: dict[str, set[str]] = {}
    for subsystem in kernel.subsystems:
        calls.setdefault(subsystem.process_id, set()).update(subsystem.call_ids)
    return {process_id: len(calls.get(process_id, ())) for process_id in living}


def _table(processes: Sequence[Any], now_s: float, running: Mapping[str, int] = MappingProxyType({})) -> list[str]:
    """Return a heading and for each process a line, with notes below: why it waits, what its planning layers have used, and
    which of them go on without their model. Lines fit into 80 columns where they can."""
    heading = ("id", "status", "for", "calls", "holds", "instruction")
    rows = [_row(process, now_s, running.get(process.process_id, 0)) for process in processes]
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    lines = []
    for row, notes in zip((heading, *rows), ([], *map(_notes, processes)), strict=True):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        lines += [" " * (widths[0] + 2) + shown(note, WHY_SHOWN) for note in notes if note]
    return lines


def _row(process: Any, now_s: float, running: int) -> tuple[str, ...]:
    from ghostshell_ros.wire.values import seconds
    from skill_kernel.processes.process import ProcessSource, ProcessStatus

    created_s, ended_s = seconds(process.created), seconds(process.ended)
    source = ProcessSource(process.source).name.lower()
    failed = f", {process.calls_failed} failed" if process.calls_failed else ""
    said = shown(process.instruction, SHOWN) + ("" if source == "user" else f" ({source})")
    return (
        process.process_id,
        ProcessStatus(process.status).name,
        f"{(ended_s or now_s) - created_s:.0f} s",
        f"{process.calls_done}{failed}{f', {running} running' if running else ''}",
        " ".join(process.subsystems) or "-",
        said,
    )


def _notes(process: Any) -> list[str]:
    degraded = f"without its model: {process.degraded}" if process.degraded else ""
    claimed = f"claimed, and not done: {'; '.join(process.unproven)}" if process.unproven else ""
    return [_why(process), claimed, *_usage(process), degraded]


def _usage(process: Any) -> list[str]:
    """Return what the layers have used, as `s1 12 calls 34k tokens (61 % cached)`, two to a line, and the price if known."""
    told = []
    for layer in process.usage:
        tokens = layer.prompt_tokens + layer.completion_tokens
        if not (tokens or layer.failures):  # no language model
            continue
        cached = f" ({layer.cached_tokens / layer.prompt_tokens:.0%} cached)" if layer.cached_tokens else ""
        failed = f", {layer.failures} failed" if layer.failures else ""
        used = f" {_count(tokens)} tokens" if tokens else ""
        told.append(f"{layer.layer} {layer.calls} call{'s' * (layer.calls != 1)}{failed}{used}{cached}")
    if told and process.cost_usd > 0:
        told.append(f"${process.cost_usd:.4f}")
    return ["; ".join(told[n : n + 2]) for n in range(0, len(told), 2)]


def _count(number: int) -> str:
    return str(number) if number < 10_000 else f"{number / 1000:.0f}k" if number < 1_000_000 else f"{number / 1e6:.1f}M"


def _why(process: Any) -> str:
    if process.displaced_by:
        return f"{process.displaced_by} runs in its place, then it resumes"
    if process.pause_causes:
        return f"by {', '.join(process.pause_causes)}{f': {process.message}' if process.message else ''}"
    return str(process.message)
