# SPDX-License-Identifier: Apache-2.0
"""The action planner's side of the seam: what a strategy hears of its streams and calls, and what becomes of what it raises."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="the node's part is of ROS")
pytest.importorskip("ghostshell.msg", reason="needs the built interfaces")

from builtin_interfaces.msg import Time
from ghostshell.msg import LlmChunk, ProcessState

from ghostshell_ros.nodes.action_planner.planned_process import PlannedProcess
from ghostshell_ros.nodes.team_planner.team_process import TeamProcess
from ghostshell_ros.runtime.strategy_host import HostTable
from planners.people import ASK, People
from planners.scene import Present
from planners.strategy import PlannerEvent, PlannerIO, Planning, RobotView, Strategy, Task, load_strategies
from skill_kernel.codes import CallCode, ModelCode, Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind, ProcessKind, StreamEvent, StreamKind


class Listening(Strategy):
    """Keeps what it hears; `fails` raises at each event."""

    name = "listening"

    def __init__(self, *, fails: bool = False) -> None:
        self.heard: list[PlannerEvent] = []
        self.closed: list[str] = []
        self._fails = fails

    def start(self, task: Task, robot: RobotView, io: PlannerIO) -> Planning:
        self.io = io
        return self

    def on(self, event: PlannerEvent) -> None:
        self.heard.append(event)
        if self._fails:
            raise LookupError("no such thing")

    def close(self, why: str) -> None:
        self.closed.append(why)


class Bench:
    """The parts of a node that a process needs. `told`: what it wrote below `events`; `chunks`: what it wrote of streams."""

    def __init__(self, strategy: Listening) -> None:
        self.told: list[Any] = []
        self.chunks: list[LlmChunk] = []
        self.stopped: list[str] = []
        self.logged: list[str] = []
        timer = SimpleNamespace(cancel=lambda: None)
        log = SimpleNamespace(error=self.logged.append)
        clock = SimpleNamespace(now=lambda: SimpleNamespace(to_msg=Time))
        node = SimpleNamespace(
            steady_now=lambda: 1.0, call_later=lambda *_: timer, get_logger=lambda: log, get_clock=lambda: clock
        )
        desk = self.desk = SimpleNamespace(
            node=node,
            robot=SimpleNamespace(present=Present, about=SimpleNamespace(name="coco")),
            settings={},
            judge=None,
            folder=Path(),
            people=People(),
            learned=None,
            chunks=SimpleNamespace(publish=self.chunks.append),
            stop=lambda process_id, epoch, why, then: self.stopped.append(process_id),
            events=SimpleNamespace(write=self.told.append),
        )
        self.process = PlannedProcess(
            desk,  # type: ignore[arg-type]
            strategy,
            ProcessState(process_id="p", instruction="walk", strategy="listening", created=Time()),
        )
        self.process.start()

    def stream(self, number: int) -> str:
        """Return the id of a stream, counted from 0 in the order in which they began."""
        return list(dict.fromkeys(chunk.stream_id for chunk in self.chunks))[number]

    def ends(self) -> list[tuple[int, str]]:
        return [(e.error_code, e.error_msg) for e in self.told if e.kind is ProcessKind.PLAN_ENDED]


def over(code: int, why: str) -> StreamEvent:
    return StreamEvent(kind=StreamKind.TURN_ENDED, process_id="p", stream_id="s", end="end", error_code=code, error_msg=why)


def test_a_process_that_the_channel_scheduler_has_no_room_for_ends_with_its_reason() -> None:
    strategy = Listening()
    bench = Bench(strategy)
    bench.process.event(over(int(TaskCode.TOO_MANY_PROCESSES), "wait for one to end, or end one"))
    bench.process.event(over(int(TaskCode.TOO_MANY_PROCESSES), "wait for one to end, or end one"))
    assert bench.ends() == [(int(TaskCode.TOO_MANY_PROCESSES), "wait for one to end, or end one")]
    assert bench.stopped == ["p"], "a stream whose end was lost is closed, or its process would stay"
    assert strategy.closed == ["wait for one to end, or end one"]


def test_another_end_of_a_turn_ends_no_process() -> None:
    bench = Bench(Listening())
    bench.process.event(over(0, ""))
    assert bench.ends() == []


def test_calls_arrive_as_events_of_the_seam() -> None:
    strategy = Listening()
    bench = Bench(strategy)
    call: dict[str, Any] = {
        "process_id": "p",
        "stream_id": "s",
        "call_id": "c",
        "function": "walk",
        "args_json": '{"distance_m": 1.5}',
    }
    bench.process.event(CallEvent(kind=CallKind.STARTED, **call))
    assert bench.process.running == {"c"}
    bench.process.event(
        CallEvent(kind=CallKind.ENDED, outcome=Outcome.REFUSED, error_code=CallCode.OUT_OF_RANGE, error_msg="too far", **call)
    )
    started, ended = strategy.heard
    assert isinstance(started, CallEvent) and started.arguments == {"distance_m": 1.5} and not started.outcome
    assert isinstance(ended, CallEvent) and (ended.outcome, ended.error_code) == (Outcome.REFUSED, CallCode.OUT_OF_RANGE)
    assert ended.told == "too far" and not bench.process.running


def test_what_a_strategy_raises_ends_its_process_and_says_so() -> None:
    strategy = Listening(fails=True)
    bench = Bench(strategy)
    bench.process.event(over(0, ""))
    why = "strategy 'listening' failed: LookupError: no such thing"
    assert bench.ends() == [(int(TaskCode.CALL_FAILED), why)] and bench.stopped == ["p"]
    assert "Traceback" in bench.logged[0]
    bench.process.event(over(0, ""))
    assert len(strategy.heard) == 1, "a process whose plan has ended hears nothing more"


def test_what_a_timer_of_a_strategy_raises_ends_its_process_too() -> None:
    bench = Bench(Listening())
    due: list[Any] = []
    bench.desk.node.call_later = lambda _, callback: due.append(callback)
    bench.process.clock.call_later(1.0, lambda: int(float("inf")))
    due[0]()
    assert [code for code, _ in bench.ends()] == [int(TaskCode.CALL_FAILED)] and "OverflowError" in bench.ends()[0][1]
    due[0]()
    assert len(bench.ends()) == 1, "a timer that comes late finds no strategy"


def test_a_plan_ends_once() -> None:
    strategy = Listening()
    bench = Bench(strategy)
    strategy.io.finish(int(TaskCode.GIVEN_UP), "it cannot be done")
    strategy.io.finish()
    bench.process.interrupt("a halt")
    assert bench.ends() == [(int(TaskCode.GIVEN_UP), "it cannot be done")]
    bench.process.close("the process has ended")
    bench.process.close("the process has ended")
    assert strategy.closed == ["the process has ended"]


# -- calls of a strategy ----------------------------------------------------------------------------------------------


def call_over(stream_id: str, outcome: Outcome = Outcome.DONE, **fields: Any) -> CallEvent:
    told: dict[str, Any] = {"process_id": "p", "stream_id": stream_id, "call_id": "c", "function": "walk"}
    return CallEvent(kind=CallKind.ENDED, outcome=outcome, **told, **fields)


def test_a_call_of_a_strategy_is_a_stream_of_one_tag_and_hands_back_the_typed_value() -> None:
    strategy = Listening()
    bench = Bench(strategy)
    heard: list[CallEvent] = []
    handle = strategy.io.call("walk", distance=10, slow=True, towards='the "door"')
    handle.then(heard.append)
    written, end = bench.chunks
    assert (written.text, end.last) == ('<walk distance="10" slow="true" towards="the &quot;door&quot;"/>', True)
    assert handle.ended is None
    bench.process.event(call_over("other", value_json='{"distance": 1.0}'))
    bench.process.event(call_over(bench.stream(0), value_json='{"distance": 9.5}'))
    bench.process.event(call_over(bench.stream(0), value_json='{"distance": 99.0}'))
    assert [(c.outcome_name, c.value) for c in heard] == [("DONE", {"distance": 9.5})] and handle.ended is heard[0]
    handle.then(heard.append)
    assert heard[1] is heard[0], "who asks late is told at once"


def test_calls_of_a_strategy_have_turns_of_their_own() -> None:
    strategy = Listening()
    Bench(strategy)
    for turn in range(3):
        strategy.io.call("walk")
        assert strategy.io._next_turn == turn + 1  # type: ignore[attr-defined]


def test_a_name_that_no_stream_can_hold_is_refused_at_once() -> None:
    strategy = Listening()
    Bench(strategy)
    ended = strategy.io.call("no tag!").ended
    assert ended is not None and (ended.outcome_name, ended.error_code) == ("REFUSED", CallCode.INVALID_ARGUMENT)
    assert "'no tag!' cannot be the name of a tag" in ended.told


def test_a_call_may_name_its_own_robot_and_is_refused_for_another() -> None:
    strategy = Listening()
    bench = Bench(strategy)
    assert strategy.io.call("walk", "coco").ended is None and [chunk.text for chunk in bench.chunks] == ["<walk/>", ""]
    ended = strategy.io.call("walk", "hebe").ended
    assert ended is not None and (ended.outcome_name, ended.error_code) == ("REFUSED", CallCode.INVALID_ARGUMENT)
    assert ended.told == "there is no robot 'hebe' here; this planner plans for 'coco' alone"
    assert len(bench.chunks) == 2, "nothing of it reaches a robot"


def test_a_call_that_is_refused_ends_with_code_and_reason() -> None:
    strategy = Listening()
    bench = Bench(strategy)
    heard: list[CallEvent] = []
    strategy.io.call("walk", distance=1e9).then(heard.append)
    bench.process.event(
        call_over(bench.stream(0), Outcome.REFUSED, error_code=int(CallCode.OUT_OF_RANGE), error_msg="distance: at most 50")
    )
    assert [(c.outcome_name, c.error_code, c.told, c.value) for c in heard] == [
        ("REFUSED", CallCode.OUT_OF_RANGE, "distance: at most 50", None)
    ]


def test_a_call_ends_once_when_its_process_is_interrupted_or_its_stream_is_over() -> None:
    strategy = Listening()
    bench = Bench(strategy)
    heard: list[tuple[str, str]] = []
    strategy.io.call("walk").then(lambda call: heard.append((call.outcome_name, call.told)))
    bench.process.interrupt("a person said stop")
    bench.process.event(call_over(bench.stream(0), Outcome.INTERRUPTED))
    assert heard == [("INTERRUPTED", "a person said stop")]
    strategy.io.call("walk").then(lambda call: heard.append((call.outcome_name, call.told)))
    bench.process.event(StreamEvent(kind=StreamKind.TURN_ENDED, process_id="p", stream_id=bench.stream(1), end="end"))
    assert heard[1:] == [("FAILED", "the stream ended without it")]


def test_a_plan_ends_once_though_the_strategy_finishes_when_it_is_interrupted() -> None:
    class Finishing(Listening):
        def on(self, event: PlannerEvent) -> None:
            self.io.finish(0, "enough")

    bench = Bench(Finishing())
    bench.process.interrupt("a person said so")
    assert bench.ends() == [(0, "enough")]


def test_a_plan_ends_once_though_the_strategy_fails_at_its_close() -> None:
    class Failing(Listening):
        def close(self, why: str) -> None:
            raise LookupError("no such thing")

    bench = Bench(Failing())
    bench.process.lost("its channel scheduler died")
    assert bench.ends() == [(int(TaskCode.NODE_UNAVAILABLE), "its channel scheduler died")]
    assert len(bench.logged) == 1 and "LookupError" in bench.logged[0]


def test_an_answer_that_comes_after_the_close_is_not_handed_on() -> None:
    bench = Bench(strategy := Listening())
    heard: list[CallEvent] = []
    call = strategy.io.call("walk")
    call.then(heard.append)
    bench.process.close("the node ends")
    call.end(CallEvent(kind=CallKind.ENDED, process_id="p", stream_id=bench.stream(0), outcome=Outcome.DONE))
    assert heard == [] and strategy.closed == ["the node ends"]


def test_a_call_that_cannot_be_written_opens_no_stream() -> None:
    bench = Bench(strategy := Listening())
    call = strategy.io.call("speak", text="a\0b")
    assert call.ended is not None and call.ended.outcome is Outcome.REFUSED
    assert bench.chunks == []


def test_what_a_strategy_calls_when_it_is_planned_again_bears_the_new_epoch() -> None:
    bench = Bench(strategy := Listening())
    strategy.io.call("walk").then(lambda ended: strategy.io.call("sit"))
    bench.process.restart(ProcessState(process_id="p", instruction="walk", epoch=7, created=Time()))
    assert [chunk.epoch for chunk in bench.chunks if chunk.last] == [0, 7]


@pytest.mark.parametrize(("name", "role"), [("console", "console"), ("closed_loop", "planner"), ("team", "assigner")])
def test_a_strategy_that_needs_a_model_refuses_each_task_without_one(name: str, role: str) -> None:
    strategy, told, asked = load_strategies()[0][name], [], []
    models = SimpleNamespace(thinks=lambda role: bool(asked.append(role)), events=SimpleNamespace(write=told.append))
    table: HostTable[Strategy, PlannedProcess] = HostTable(
        {name: strategy},
        {},
        models,  # type: ignore[arg-type]
        lambda *_: pytest.fail("no process is planned"),
    )
    table.take(ProcessState(process_id="p", strategy=name, status=ProcessState.IN_PROGRESS))
    assert not table and asked == [role] and role in {known.name for known in strategy.roles}
    (ended,) = told
    assert (ended.kind, ended.process_id, ended.error_code) == (ProcessKind.PLAN_ENDED, "p", ModelCode.MODEL_NOT_UNDERSTOOD)
    assert f"strategy {name} needs a language model" in ended.error_msg and "parameter `model`" in ended.error_msg


def test_a_strategy_that_needs_no_model_is_never_refused() -> None:
    for name in ("stream", "layered", "tokens"):
        assert load_strategies()[0][name].refusal(lambda role: False) == ""


def test_a_team_s_requests_go_on_with_its_process_also_where_that_waits_for_a_robot() -> None:
    """A process that is resumed while a call of it waits is WAITING at once; a request would have no deadline."""
    asked: list[str] = []
    questions = SimpleNamespace(
        ask=lambda goal, then: asked.append(goal.person) or SimpleNamespace(), withdraw=lambda asked, why: None
    )
    bench = Bench(Listening())
    bench.desk.node.now_s = lambda: 1.0
    vars(bench.desk).update(members={}, present=Present, questions=questions)
    process = TeamProcess(bench.desk, Listening(), ProcessState(process_id="p", epoch=1))  # type: ignore[arg-type]
    process.call(ASK, person="Li", text="Shall I?", within=60.0)
    process.update(ProcessState(process_id="p", epoch=1, status=ProcessState.PAUSED))
    process.update(ProcessState(process_id="p", epoch=1, status=ProcessState.WAITING))
    assert asked == ["Li", "Li"]
