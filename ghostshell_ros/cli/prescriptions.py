# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell prescribe`, `task`, `guideline` and `reflex`: keep sentences with a robot, and say where one belongs."""

import getpass
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.robot_client import WAIT_S, RobotClient
from ghostshell_ros.cli.say import Robot, Wait
from skill_kernel.config.plugins import RECORDINGS, load_plugin
from skill_kernel.config.sections import shown
from skill_kernel.observation.records import MOST_CHARS, observation_to_json, recorded
from skill_kernel.roles import ACT_OF, Act, Role, key_role

ANSWER_S, WRITTEN_S = 150.0, 7300.0
"""Limits on an answer, and on one for which a model may write a reflex twice, each time as long as models.yaml lets it."""
CONFLICTS_S = 1.0
SHOWN = 60
"""Characters of a sentence in the table of reflexes."""
KINDS = ("task", "guideline", "reflex")
TASK, GUIDELINE, REFLEX, ANY = 0, 1, 2, 255
STATES = ("proposed", "approved", "disabled")

Name = Annotated[str, typer.Argument(help="name of it")]
Sentence = Annotated[str, typer.Argument(help="what is wanted, in plain words")]
OwnName = Annotated[str, typer.Option(help="empty: made of the sentence")]
Person = Annotated[str, typer.Option("--by", help="who does this; empty: the user of this machine")]

task = typer.Typer(help="Goals kept under a name, to be begun again and again.", no_args_is_help=True)
guideline = typer.Typer(help="Standing wishes: when one applies, the robot begins a task by itself.", no_args_is_help=True)
reflex = typer.Typer(
    help="What a robot does at once, without any model: write it as a sentence, try it, approve it.", no_args_is_help=True
)


class Client(RobotClient):
    """Send commands to one service; end the program with status 1 when it refuses, with 2 when nobody answers."""

    def __init__(self, robot: str, wait_s: float, service: str, node: str, harmless: dict[str, Any]) -> None:
        nobody = f"the {node} of robot '{robot}' does not answer within {wait_s:g} s; is it launched on this ROS domain?"
        super().__init__(robot, wait_s, service=service, topics=["ghostshell/PrescriptionArray prescriptions"], nobody=nobody)
        self._harmless = harmless

    def do(self, command: str, **fields: Any) -> Any:
        """Return the answer to a request; end the program where the request is refused."""
        self.prove(self._request(**self._harmless))
        proves = hasattr(self.type.Request, "proof") and ACT_OF[command] is not Act.LOOK
        role = key_role(ACT_OF[command]) if proves else Role.ANONYMOUS
        answer = self.ask(self._request(command, **fields), WRITTEN_S if command == "ADD" else ANSWER_S, role)
        if not answer.success:
            fail(answer.error_msg, status=1)
        return answer

    def prescriptions(self, within_s: float | None = None) -> list[Any]:
        """Return every prescription of the robot; none where they do not arrive `within_s`, if that is given."""
        told = self.latched(within_s)
        return list(told.prescriptions) if told is not None else []

    def _request(self, command: str, **fields: Any) -> Any:
        return self.type.Request(command=getattr(self.type.Request, command), **fields)


def _book(robot: str, wait_s: float) -> Client:
    harmless = {"command": "ROUTE", "kind": ANY, "sentence": "stand still"}
    return Client(robot, wait_s, "ghostshell/Prescribe prescribe", "process_scheduler", harmless)


def _reflexes(robot: str, wait_s: float) -> Client:
    return Client(robot, wait_s, "ghostshell/CompileReflex compile_reflex", "node reflexes", {"command": "LIST"})


def _show(prescriptions: Sequence[Any], nothing: str = "") -> None:
    """Print each prescription with its layer, sentence, reason and conflicts, or `nothing` where there is none."""
    names = max((len(p.name) for p in prescriptions), default=0)
    for one in prescriptions:
        print(f"{one.name.ljust(names)}  {'on ' if one.enabled else 'off'}  {KINDS[one.kind]} {one.layer}  {one.sentence}")
        for more in (f"because: {one.reason}", *(f"CONFLICT with {conflict}" for conflict in one.conflicts)):
            print(f"{' ' * names}  {more}")
    if not prescriptions:
        print(nothing)


def _adding(app: typer.Typer, kind: int, told: str) -> None:
    """Add the command that keeps a sentence of a kind."""

    @app.command("add", help=told)
    def add(sentence: Sentence, name: OwnName = "", robot: Robot = "", wait: Wait = WAIT_S) -> None:
        with _book(robot, wait) as client:
            added = client.do("ADD", sentence=sentence, name=name, kind=kind, author=getpass.getuser()).prescription
        _show([added])
        if added.conflicts:
            print("It is kept all the same; remove or disable one of them.")


def _switching(app: typer.Typer, client: Any, command: str, told: str) -> None:
    """Add a command that takes only a name."""

    @app.command(command.lower(), help=told)
    def switch(name: Name, robot: Robot = "", wait: Wait = WAIT_S) -> None:
        with client(robot, wait) as asked:
            _switched(command, name, asked.do(command, name=name))


def _switched(command: str, name: str, answer: Any) -> None:
    print(f"{name}: {command.lower()}d")
    for conflict in answer.prescription.conflicts if hasattr(answer, "prescription") else ():
        print(f"CONFLICT with {conflict}")


_adding(task, TASK, 'Keep a task, such as "go to the kitchen and look for the ball"; it does not begin by that.')
_adding(guideline, GUIDELINE, 'Keep a guideline, such as "greet visitors"; it holds from now on. What it contradicts is shown.')
_switching(task, _book, "REMOVE", "Forget a task.")
_switching(guideline, _book, "REMOVE", "Forget a guideline.")
_switching(guideline, _book, "ENABLE", "Let a guideline hold again.")
_switching(guideline, _book, "DISABLE", "Keep a guideline from holding until it is enabled.")
_switching(reflex, _reflexes, "REMOVE", "Delete a reflex.")
_switching(reflex, _reflexes, "ENABLE", "Let an approved reflex that was disabled fire again.")


def prescribe(
    sentence: Sentence,
    robot: Robot = "",
    wait: Wait = WAIT_S,
    dry: Annotated[bool, typer.Option("--dry", help="only say where it belongs")] = False,
) -> None:
    """Send a sentence to the layer whose latency fits, and say which and why: a task begins, a guideline holds from now on, a
    reflex waits for approval."""
    with _book(robot, wait) as client:
        found = client.do("ROUTE", sentence=sentence, kind=ANY).prescription
        if dry or found.kind == TASK:
            print(f"{KINDS[found.kind]} ({found.layer}): {found.reason}")
        if dry:
            return
        answer = client.do("RUN" if found.kind == TASK else "ADD", sentence=sentence, kind=ANY, author=getpass.getuser())
        if found.kind == TASK:
            print(f"process {answer.process_id}")
            return
        _show([answer.prescription])
        if answer.prescription.kind == REFLEX:
            print(f"Approve it with: ghostshell reflex approve {answer.prescription.name} --robot {robot}")


@task.command("list")
def list_tasks(
    robot: Robot = "",
    wait: Wait = WAIT_S,
    all_: Annotated[bool, typer.Option("--all", help="guidelines and reflexes, too")] = False,
) -> None:
    """Show the tasks of a robot, with the reason why each is one."""
    with _book(robot, wait) as client:
        shown = [p for p in client.prescriptions() if all_ or p.kind == TASK]
        _show(shown, f"{robot}: there are no {'prescriptions' if all_ else 'tasks'}")


@task.command("run")
def run_task(name: Name, robot: Robot = "", wait: Wait = WAIT_S) -> None:
    """Begin a task now; `ghostshell ps` shows how it goes."""
    with _book(robot, wait) as client:
        print(f"{name}: process {client.do('RUN', name=name, author=getpass.getuser()).process_id}")


@guideline.command("list")
def list_guidelines(robot: Robot = "", wait: Wait = WAIT_S) -> None:
    """Show the guidelines of a robot, and the reflexes that contradict one."""
    with _book(robot, wait) as client:
        shown = [p for p in client.prescriptions() if p.kind == GUIDELINE or (p.kind == REFLEX and p.conflicts)]
        _show(shown, f"{robot}: there are no guidelines")


@reflex.command("add")
def add_reflex(
    sentence: Annotated[str, typer.Argument(help='such as "when anything is closer than 0.2 m in front, step back 0.5 m"')],
    robot: Robot = "",
    wait: Wait = WAIT_S,
    name: OwnName = "",
    priority: Annotated[int, typer.Option(min=0, max=100, help="a higher one interrupts a lower one")] = 50,
    cooldown_s: Annotated[float, typer.Option(min=0.1, help="rest after its action [s]")] = 2.0,
    repeats: Annotated[bool, typer.Option("--repeats", help="fire again while the condition stays true")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="by the grammar, whatever model there is")] = False,
    code: Annotated[Path | None, typer.Option(help="file with the two functions, instead of compiling the sentence")] = None,
    by: Person = "",
) -> None:
    """Make a reflex of a sentence. It is proposed: it does not fire before it is approved."""
    try:
        source = code.read_text(encoding="utf-8") if code is not None else ""
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{code} cannot be read ({error})", command="reflex add")
    asked = {"sentence": sentence, "source": source, "name": name, "person": by or getpass.getuser()}
    with _reflexes(robot, wait) as client:
        answer = client.do("ADD", **asked, priority=priority, cooldown_s=cooldown_s, repeats=repeats, offline=offline)
    _show_reflexes(answer.reflexes)
    print(answer.report)
    if answer.reflexes:
        print(f"\nApprove it with: ghostshell reflex approve {answer.reflexes[0].name} --robot {robot}")


@reflex.command("list")
def list_reflexes(robot: Robot = "", wait: Wait = WAIT_S) -> None:
    """Show the reflexes of a robot, and the guidelines that contradict one."""
    with _reflexes(robot, wait) as client:
        reflexes = client.do("LIST").reflexes
        table = Table("name", "state", "prio", "holds", "fired", "µs")
        for state in reflexes:
            table.add_row(*_row(state))
        if reflexes:
            Console(emoji=False).print(table)
        for state in reflexes:
            why = state.reason or state.last
            print(f"{state.name}: “{shown(state.sentence, SHOWN)}”{f'; {why}' if why else ''}")
        if not reflexes:
            print(f"{robot}: there are no reflexes")
        for one in client.prescriptions(CONFLICTS_S):
            for conflict in one.conflicts if one.kind == REFLEX else ():
                print(f"{one.name}: CONFLICT with {conflict}")


@reflex.command("show")
def show_reflex(name: Name, robot: Robot = "", wait: Wait = WAIT_S) -> None:
    """Show one reflex with its code."""
    with _reflexes(robot, wait) as client:
        _show_reflexes(client.do("LIST", name=name).reflexes)


def observations_in(file: Path, robot: str = "") -> str:
    """Return the recorded observations of a file, as they are sent; end the program where it holds something else."""
    try:
        path = file.expanduser()
        if path.exists() and not path.is_file():
            raise ValueError("it is no regular file")
        if path.suffix == ".mcap":
            return _observed_in(path, robot)
        with path.open(encoding="utf-8") as stream:
            return "\n".join(map(observation_to_json, recorded(stream.read(MOST_CHARS + 1))))
    except (OSError, RuntimeError, ValueError) as error:
        fail(f"observations in {file} cannot be used: {error}", command="reflex test")


def _observed_in(path: Path, robot: str) -> str:
    """Return the observations of a robot, or of the only one, in a run that `ghostshell record` kept. Raises ValueError."""
    from ghostshell_ros.wire.observation_messages import from_message

    wanted = f"/{robot or '*'}/observation"
    run: Any = load_plugin(RECORDINGS, "mcap")(path, lambda topic: fnmatchcase(topic, wanted))
    robots = sorted({message.topic for message in run.messages})
    if len(robots) != 1:
        raise ValueError(f"it holds {' and '.join(robots) or f'no {wanted}'}; name another robot by --robot")
    seen = (observation_to_json(from_message(message.value, message.log_ns * 1e-9)) for message in run.messages)
    text = "\n".join(seen)
    if len(text) > MOST_CHARS:
        raise ValueError(f"they have more than {MOST_CHARS // 1_000_000} million characters; record ten minutes at most")
    return text


@reflex.command("test")
def test_reflex(
    name: Name,
    robot: Robot = "",
    wait: Wait = WAIT_S,
    file: Annotated[
        Path | None,
        typer.Option(help="a run that `ghostshell record` kept, or one observation as JSON a line; none: the last minutes"),
    ] = None,
) -> None:
    """Tell when a reflex would have fired, and what it would have done."""
    observations = observations_in(file, robot) if file is not None else ""
    with _reflexes(robot, wait) as client:
        print(client.do("TEST", name=name, observations=observations).report)


@reflex.command("approve")
def approve_reflex(
    name: Name,
    robot: Robot = "",
    wait: Wait = WAIT_S,
    by: Person = "",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Let a proposed reflex fire from now on; shows its code and what it would have done, and asks."""
    with _reflexes(robot, wait) as client:
        state = client.do("LIST", name=name).reflexes[0]
        if not yes:
            _show_reflexes([state])
            print(client.do("TEST", name=name).report)
            typer.confirm(f"May '{name}' move the robot by itself from now on?", abort=True)
        seen = {"sentence": state.sentence, "source": state.source}
        print(client.do("APPROVE", name=name, person=by or getpass.getuser(), **seen).report)


@reflex.command("disable")
def disable_reflex(name: Name, robot: Robot = "", wait: Wait = WAIT_S, by: Person = "") -> None:
    """Keep a reflex from firing until it is enabled."""
    with _reflexes(robot, wait) as client:
        _switched("DISABLE", name, client.do("DISABLE", name=name, person=by or getpass.getuser()))


def _row(state: Any) -> list[str]:
    holds = ("no", "yes", "unknown")[state.holds]
    if state.holds == 2 and state.stale_field:
        holds = f"unknown: {state.stale_field}"
    acts = "acting" if state.acting else STATES[state.state]
    counts = [str(state.priority), holds, str(state.fired), f"{state.mean_us:.0f}"]
    return [state.name, acts, *counts]


def _show_reflexes(reflexes: Iterable[Any]) -> None:
    for state in reflexes:
        approved = f", approved by {state.approver}" if state.approver else ""
        print(f"{state.name} ({STATES[state.state]}{approved}; written by {state.model or 'nobody'})")
        print(f"“{state.sentence}”" + (f"\n{state.reason}" if state.reason else ""))
        print(f"\n{state.source}")
