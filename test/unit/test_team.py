# SPDX-License-Identifier: Apache-2.0
"""Teams without their robots: the file, what a strategy may call, and what the scheduler asks of several robots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planners.language.choices import chosen
from planners.people import REQUEST, People, Person
from planners.scene import Present
from planners.strategy import PlannerEvent, PlannerIO, Planning, TeamStrategy
from skill_kernel.codes import AskCode, CallCode, Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind, ProcessKind, StreamKind
from skill_kernel.processes.questions import OpenQuestion, QuestionEnd, Questions
from skill_kernel.robot import RobotConfigError
from skill_kernel.team import TeamConfig

pytest.importorskip("rclpy", reason="the node's part is of ROS")
pytest.importorskip("ghostshell.msg", reason="needs the built interfaces")

from builtin_interfaces.msg import Time
from ghostshell.msg import ProcessState

from ghostshell_ros.nodes.team_planner.team_link import TeamLink
from ghostshell_ros.nodes.team_planner.team_member import TeamCall
from ghostshell_ros.nodes.team_planner.team_process import TeamProcess
from skill_kernel.calls import CallSpec


def test_the_shipped_team_is_found_by_its_name() -> None:
    team = TeamConfig.load("kitchen")
    assert (team.name, dict(team.robots), team.strategy) == ("kitchen", {"atlas": "atlas", "hebe": "hebe"}, "closed_loop")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name: crew\nrobots: {}\n", "robots"),
        ("name: crew\nrobots: {'1st': coco}\n", "not a robot's namespace, such as 'hebe'"),
        ("name: crew\nrobot: {a: coco}\n", "robot"),
        ("name: my crew\nrobots: {a: coco}\n", "not a name of letters, digits and underscores"),
        ("[]\n", "must hold keys with values"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence_that_names_it(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "crew.yaml"
    file.write_text(text)
    with pytest.raises(RobotConfigError) as error:
        TeamConfig.load(file)
    assert str(error.value).startswith(f"team file {file}") and why in str(error.value)


def test_a_team_that_is_not_there_is_told_with_the_nearest_one() -> None:
    with pytest.raises(RobotConfigError, match="there is no team 'kichen'; did you mean 'kitchen'"):
        TeamConfig.load("kichen")


class Noting(TeamStrategy):
    """Keeps what it hears."""

    name = "noting"

    def __init__(self) -> None:
        self.heard: list[PlannerEvent] = []

    def start_team(self, task: Any, robots: Any, io: PlannerIO) -> Planning:
        self.io, self.robots = io, robots
        return self

    def on(self, event: PlannerEvent) -> None:
        self.heard.append(event)

    def close(self, why: str) -> None:
        """Nothing has to be ended."""


class Robot:
    """Notes the calls that reach it."""

    def __init__(self, name: str) -> None:
        self.view = SimpleNamespace(name=name)
        self.called: list[TeamCall] = []

    def call(self, process_id: str, skill: str, arguments: Any) -> TeamCall:
        number = str(len(self.called))
        self.called.append(TeamCall(process_id, CallSpec("k", number, skill, arguments, stream_id=number)))
        return self.called[-1]


class Asking:
    """Asks people as the team's server of questions does."""

    def __init__(self) -> None:
        self.questions = Questions(now=lambda: 1.0, chosen=chosen)
        self.open: list[OpenQuestion] = []

    def ask(self, goal: Any, on_end: Callable[[QuestionEnd], None]) -> OpenQuestion:
        how = {"process_id": goal.process_id, "person": goal.person, "why": goal.why, "any_words": goal.any_words}
        self.open.append(self.questions.ask(goal.question, goal.choices, goal.timeout_s, on_end=on_end, **how))
        return self.open[-1]

    def withdraw(self, asked: OpenQuestion, why: str) -> None:
        self.questions.withdraw(asked.question_id, why)


class Planned:
    """A process of a team of these robots. `told`: what it wrote below `events`."""

    def __init__(self, *robots: str) -> None:
        self.told: list[Any] = []
        self.stopped: list[str] = []
        self.robots = {name: Robot(name) for name in robots}
        self.people = Asking()
        log = SimpleNamespace(error=lambda text: None)
        desk = SimpleNamespace(
            node=SimpleNamespace(steady_now=lambda: 1.0, now_s=lambda: 1.0, call_later=lambda *_: None, get_logger=lambda: log),
            questions=self.people,
            members=self.robots,
            present=Present,
            settings={},
            judge=None,
            folder=Path(),
            people=People({"Li": Person(), "Bo": Person()}),
            learned=None,
            stop=lambda process_id, why, then: self.stopped.append(why),
            events=SimpleNamespace(write=self.told.append),
        )
        self.strategy = Noting()
        self.process = TeamProcess(desk, self.strategy, state())  # type: ignore[arg-type]
        self.process.start()

    def plan_ends(self) -> list[tuple[int, str]]:
        return [(e.error_code, e.error_msg) for e in self.told if e.kind is ProcessKind.PLAN_ENDED]


def state(epoch: int = 0) -> ProcessState:
    return ProcessState(process_id="p", instruction="cook", strategy="noting", created=Time(), epoch=epoch)


def test_a_call_goes_to_the_robot_that_it_names_and_its_end_comes_back_once() -> None:
    planned = Planned("atlas", "hebe")
    ends: list[CallEvent] = []
    planned.strategy.io.call("open", "hebe", what="fridge").then(ends.append)
    (call,) = planned.robots["hebe"].called
    assert (call.spec.function, call.spec.arguments) == ("open", {"what": "fridge"}) and not planned.robots["atlas"].called
    assert [event.kind for event in planned.told] == [StreamKind.STARTED]
    ended = CallEvent(kind=CallKind.ENDED, process_id="p", stream_id=call.spec.stream_id, outcome=Outcome.DONE)
    planned.process.call_event(ended)
    planned.process.call_event(ended)
    assert ends == [ended]


@pytest.mark.parametrize(
    ("said", "told"), [("ask Bo instead", "ask Bo instead"), ("private: ask Bo instead, I see a doctor", "(private)")]
)
def test_a_person_is_asked_by_a_call_that_ends_once_with_what_the_reply_means(said: str, told: str) -> None:
    planned = Planned("atlas")
    call = planned.strategy.io.call("ask", "", person="Li", text="May I?", choices=REQUEST, within=60.0, why="Wang needs it")
    (asked,) = planned.people.open
    assert (asked.person, asked.why, asked.any_words, asked.until_s) == ("Li", "Wang needs it", True, 61.0)
    assert planned.process.asks and call.ended is None
    planned.people.questions.answer("", said, "somebody")
    started, ended = (event for event in planned.told if isinstance(event, CallEvent))
    planned.process.call_event(ended)
    assert started.kind is CallKind.STARTED and call.ended is ended and not planned.process.asks
    assert ended.value == {"answer": "instead", "text": told, "person": "Li", "instead": "Bo"}
    assert "doctor" not in f"{planned.told}"


def test_a_paused_task_takes_its_request_back_and_asks_again_when_it_goes_on() -> None:
    planned = Planned("atlas")
    planned.strategy.io.call("ask", "", person="Li", text="May I?", within=60.0)
    planned.process.update(ProcessState(process_id="p", status=ProcessState.PAUSED))
    assert planned.people.questions.open == [] and planned.process.asks
    for _ in range(2):
        planned.process.update(ProcessState(process_id="p", status=ProcessState.IN_PROGRESS))
    assert len(planned.people.questions.open) == 1 and len(planned.people.open) == 2
    planned.strategy.io.finish()
    ends = [event for event in planned.told if isinstance(event, CallEvent) and event.kind is CallKind.ENDED]
    assert [event.outcome for event in ends] == [Outcome.INTERRUPTED] and planned.people.questions.open == []


def test_a_second_request_to_one_person_is_refused_and_so_is_what_no_request_has() -> None:
    planned = Planned("atlas")
    for _ in range(2):
        planned.strategy.io.call("ask", "", person="Li", text="May I?")
    ended = planned.told[-1]
    assert (ended.outcome, ended.error_code) == (Outcome.REFUSED, AskCode.PERSON_BUSY)
    odd = planned.strategy.io.call("ask", "", person="Li", question="May I?").ended
    assert odd is not None and "a request has no question" in odd.told


@pytest.mark.parametrize(
    ("robot", "arguments", "why"),
    [
        ("", {}, "name the robot: atlas, hebe"),
        ("heba", {}, "there is no robot 'heba' in the team; did you mean 'hebe'?: atlas, hebe"),
        ("hebe", {"what": float("nan")}, "its arguments are no JSON: "),
        ("hebe", {"what": object()}, "its arguments are no JSON: "),
    ],
)
def test_a_call_that_no_robot_can_get_is_refused_at_once(robot: str, arguments: dict[str, Any], why: str) -> None:
    planned = Planned("atlas", "hebe")
    ended = planned.strategy.io.call("open", robot, **arguments).ended
    assert ended is not None and (ended.outcome, ended.error_code) == (Outcome.REFUSED, CallCode.INVALID_ARGUMENT)
    assert why in ended.told
    assert not planned.told and not planned.robots["hebe"].called


def test_the_only_robot_needs_no_name() -> None:
    planned = Planned("hebe")
    assert planned.strategy.io.call("open").ended is None and len(planned.robots["hebe"].called) == 1


def test_nothing_is_called_between_an_interrupt_and_the_next_plan() -> None:
    planned = Planned("hebe")
    first = planned.strategy.io.call("open")
    planned.process.interrupt("an event came true")
    assert first.ended is not None and first.ended.outcome is Outcome.INTERRUPTED
    late = planned.strategy.io.call("open").ended
    assert late is not None and (late.outcome, late.told) == (Outcome.INTERRUPTED, "an event came true")
    planned.process.restart(state(epoch=1))
    assert planned.strategy.io.call("open").ended is None and len(planned.robots["hebe"].called) == 2


def test_a_strategy_that_writes_a_stream_is_ended_and_its_calls_are_stopped() -> None:
    planned = Planned("hebe")
    planned.process._guarded(planned.strategy.io.open, 0)
    ((code, why),) = planned.plan_ends()
    assert code == TaskCode.CALL_FAILED and "a team acts by io.call(skill, robot, …)" in why
    assert planned.stopped == [why]


class Member:
    """A robot at whose commands the test plays the kernel."""

    def __init__(self, *calls: TeamCall) -> None:
        self.calls = {call.spec.call_id: call for call in calls}
        self.asked: list[tuple[str, Callable[..., None]]] = []

    def pause(self, call: TeamCall, cause: str, then: Callable[[Sequence[str]], None]) -> None:
        call.paused = True
        self.asked.append((f"pause {call.spec.call_id}", then))

    def resume(self, call: TeamCall, cause: str, then: Callable[[Sequence[str]], None]) -> None:
        self.asked.append((f"resume {call.spec.call_id}", then))

    def stop(self, call: TeamCall, cause: str, then: Callable[[], None]) -> None:
        self.asked.append((f"stop {call.spec.call_id}", then))


def called(call_id: str, *, waits: bool = False, process_id: str = "p") -> TeamCall:
    return TeamCall(process_id, CallSpec(f"k{call_id}", call_id, "open"), waits=waits)


class Linked:
    """A link to two robots; `heard` is what the scheduler's core hears."""

    def __init__(self, left: Member, right: Member) -> None:
        self.heard: list[tuple[Any, ...]] = []
        node = SimpleNamespace(call_soon=lambda callback, *args: callback(*args))
        self.link = TeamLink(
            node,  # type: ignore[arg-type]
            {"left": left, "right": right},  # type: ignore[dict-item]
            on_change=lambda process: None,
            on_amend=lambda process: None,
            interrupt_plan=lambda process_id, cause: self.heard.append(("void", process_id)),
        )
        hear = lambda name: lambda *args: self.heard.append((name, *args))  # noqa: E731
        self.link.core = SimpleNamespace(  # type: ignore[assignment]
            paused=hear("paused"), resumed=hear("resumed"), interrupted=hear("interrupted"), epoch=4
        )


def test_a_pause_is_done_when_every_kernel_has_answered() -> None:
    left, right = Member(called("1"), called("2", process_id="q")), Member(called("3"), called("4", waits=True))
    linked = Linked(left, right)
    linked.link.pause("p", "user")
    assert [what for what, _ in left.asked + right.asked] == ["pause 1", "pause 3"]
    left.asked.pop()[1]([])
    assert not linked.heard
    right.asked.pop()[1](["3"])
    assert linked.heard == [("paused", "p", ["3"])]


def test_a_resume_takes_the_pause_back_also_from_a_call_that_waits_at_its_door() -> None:
    late = called("1", waits=True)
    late.paused = True
    left, right = Member(late), Member(called("3"))
    linked = Linked(left, right)
    linked.link.resume("p", "user")
    assert [what for what, _ in left.asked + right.asked] == ["resume 1"]
    left.asked.pop()[1](["other"])
    assert linked.heard == [("resumed", "p", "user", False, ["other"])]


def test_a_process_without_calls_is_paused_and_resumed_at_once() -> None:
    linked = Linked(Member(), Member())
    linked.link.pause("p", "user")
    linked.link.resume("p", "user")
    assert linked.heard == [("paused", "p", []), ("resumed", "p", "user", True, [])]


def test_a_plan_is_void_when_every_kernel_was_told_to_stop() -> None:
    left, right = Member(called("1")), Member(called("3", waits=True))
    linked = Linked(left, right)
    linked.link.void_plan("p", "an event")
    assert linked.heard == [("void", "p")]
    for _, then in left.asked + right.asked:
        then()
    assert linked.heard[1:] == [("interrupted", "p", 5)]
