# SPDX-License-Identifier: Apache-2.0
"""The node task_planner over real DDS, with a model behind real HTTP that is good, slow, wrong, silent or gone."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ghostshell.msg import Observation as ObservationMsg
from ghostshell.msg import ObservationField, Plan, ProcessArray, ProcessState
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters

from bench.reading import layer_of, read_blocks
from bench.simulated_model.model_server import Fault, ModelServer, RecordedRequest
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.events import EventWriter, read_events
from ghostshell_ros.wire.qos import LATCHED, OBSERVATION, PLANS
from planners.prompts.blocks import Layer
from ros_support import Processes, wait_until
from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, CallKind, EventKind, ModelKind, ProcessEvent, ProcessKind, RunEvent

MODULE = "task_planner"
PLAN = (
    '<subtask criteria="in the kitchen" watch="room">Go to the kitchen</subtask>'
    '<subtask criteria="said">If somebody is there, say hello</subtask><event cond="visible(\'person\')">wave</event>'
)


class Robot(RuntimeNode):
    """The rest of the robot: its processes, what happens in them, and what is planned for them."""

    def __init__(self, namespace: str) -> None:
        super().__init__("robot", namespace=namespace)
        self.plans: list[Plan] = []
        self.events: list[RunEvent] = []
        self.created = self.get_clock().now().to_msg()
        self.states: dict[str, ProcessState] = {}
        self.event_out = EventWriter(self, CallEvent, ProcessEvent)
        self.processes = self.create_publisher(ProcessArray, "processes", LATCHED)
        self.observations = self.create_publisher(ObservationMsg, "observation", OBSERVATION)
        self.create_subscription(Plan, "plans", self.plans.append, PLANS)
        read_events(self, self.events.append)
        self.parameters = self.create_client(SetParameters, "task_planner/set_parameters")
        self.room = ""
        self.steady_timer(0.1, self._observe)

    def _observe(self) -> None:
        if self.room:
            field = ObservationField(name="room", kind=ObservationField.TEXT, text=self.room, max_age_s=1.0)
            self.observations.publish(ObservationMsg(stamp=self.get_clock().now().to_msg(), seq=1, fields=[field]))

    def process(self, process_id: str, **fields: Any) -> None:
        old = self.states.get(process_id)
        made = {"instruction": "say hello in the kitchen", "status": ProcessState.IN_PROGRESS, "strategy": "layered"}
        state = old or ProcessState(process_id=process_id, created=self.get_clock().now().to_msg(), **made)
        for name, value in fields.items():
            setattr(state, name, value)
        self.states[process_id] = state
        message = ProcessArray(processes=list(self.states.values()))
        self.call_soon(self.processes.publish, message)

    def tell(self, event: RunEvent) -> None:
        self.call_soon(self.event_out.write, event)

    def fails(self, process_id: str, why: str = "the way is blocked") -> None:
        self.tell(
            CallEvent(
                kind=CallKind.ENDED,
                process_id=process_id,
                call_id="c",
                function="goto_waypoint",
                args_json='{"id": 3}',
                outcome=Outcome.FAILED,
                error_msg=why,
            )
        )

    def of(self, process_id: str) -> list[Plan]:
        return [p for p in self.plans if p.process_id == process_id]

    def newest(self, process_id: str) -> Plan:
        return max(self.of(process_id), key=lambda p: int(p.revision))

    def heard(self, kind: EventKind, process_id: str) -> list[RunEvent]:
        return [e for e in self.events if e.kind == kind and e.process_id == process_id]

    def waits_plan(self, process_id: str, what: Callable[[Plan], object], timeout_s: float = 8.0) -> Plan:
        wait_until(lambda: any(what(p) for p in self.of(process_id)), timeout_s, f"the plan of {process_id}")
        return next(p for p in self.of(process_id) if what(p))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(PLAN) as made:
        yield made


Start = Callable[..., Any]


@pytest.fixture
def start(server: ModelServer, processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Start:
    monkeypatch.setenv("OPENAI_API_KEY", "key")

    def begin(*params: str, model: str = "") -> Any:
        spec = model or f"openai:any@{server.openai_url}"
        return processes.start(MODULE, "robot:=kalos", f"data_dir:={tmp_path}", f"model:={spec}", "deadline_s:=2.5", *params)

    return begin


@pytest.fixture
def robot(namespace: str, host: Callable[..., Any]) -> Robot:
    made = Robot(namespace)
    host(made)
    return made


def up(robot: Robot) -> None:
    wait_until(lambda: robot.count_publishers("plans") and robot.processes.get_subscription_count(), 20.0, "the task planner")
    heard = ("events/calls", "events/processes")
    wait_until(lambda: all(robot.count_subscribers(topic) >= 2 for topic in heard), 5.0, "its ear for events")


def prompt(request: RecordedRequest) -> tuple[str, dict[str, list[Any]]]:
    system, user = request.body["messages"][0], request.body["messages"][-1]
    return str(system["content"]), read_blocks(str(user["content"]))


def test_a_task_is_planned_while_the_model_writes_and_revised_when_something_happens(
    robot: Robot, server: ModelServer, start: Start
) -> None:
    server.rate = 40.0
    start()
    up(robot)
    robot.room = "hallway"
    robot.process("a")
    early = robot.waits_plan("a", lambda p: p.subtasks and not p.complete)
    assert [s.description for s in early.subtasks] == ["Go to the kitchen"] and server.completed == 0
    plan = robot.waits_plan("a", lambda p: p.complete)
    shown = [(s.id, s.criteria, list(s.watch)) for s in plan.subtasks]
    assert shown == [("t1", "in the kitchen", ["room"]), ("t2", "said", [])]
    assert [(e.condition, e.response) for e in plan.events] == [("visible('person')", "wave")] and plan.made_by == "openai:any"
    system, blocks = prompt(server.requests[0])
    assert layer_of(system) is Layer.S2 and "\ngoto_waypoint(" in system and "\n- visible(" in system
    (task,) = blocks["TASK"]
    assert (task["instruction"], task["from"]) == ("say hello in the kitchen", "the operator")
    assert task.get("at_start", {"room": "hallway"}) == {"room": "hallway"}, "where it began, if that was observed by then"

    server.rate, server.answer = None, "<keep/>"
    wait_until(lambda: robot.heard(ModelKind.ANSWERED, "a"), 5.0, "what it cost")
    time.sleep(1.2)  # nothing happens, so nothing is asked; the next question has another reason
    assert len(server.requests) == 1
    told_s = time.monotonic()
    robot.room = "kitchen"
    assert server.wait_until(lambda s: len(s.requests) == 2, 3.0) and time.monotonic() - told_s < 2.6
    assert "kitchen" in str(prompt(server.requests[1])[1]["WHY"])
    assert prompt(server.requests[1])[1]["OBSERVATION"][0]["room"] == "kitchen"
    robot.tell(ProcessEvent(kind=ProcessKind.SUBTASK_DONE, process_id="a", plan_item_id="t1"))
    assert server.wait_until(lambda s: len(s.requests) == 3, 3.0)
    assert [s["status"] for s in prompt(server.requests[2])[1]["PLAN"]] == ["DONE", "ACTIVE"]
    server.answer = "<give_up>Nobody is there.</give_up>"
    robot.fails("a")
    given_up = robot.waits_plan("a", lambda p: p.given_up)
    assert given_up.reason == "Nobody is there." and given_up.revision == robot.newest("a").revision
    (call,) = prompt(server.requests[3])[1]["DONE"]
    assert (call["function"], call["outcome"], call["message"]) == ("goto_waypoint", "FAILED", "the way is blocked")
    assert prompt(server.requests[3])[0] == system, "the front of the prompt is not the same, so no provider can cache it"


@pytest.mark.parametrize("fault", ["slow", "silent", "malformed", "half"])
@pytest.mark.faults
def test_a_model_in_trouble_makes_the_instruction_the_plan_until_it_is_well(
    robot: Robot, server: ModelServer, start: Start, fault: str
) -> None:
    if fault == "slow":
        server.inject(Fault.slow_first_token(30.0))
    elif fault == "silent":
        server.inject(Fault.silence(0, 30.0))
    elif fault == "half":
        server.inject(Fault.silence(len(PLAN) // 2, 30.0))
    else:
        answers = iter(["I would go there.", "Really, I would."])
        server.answer = lambda _: next(answers, PLAN)
    start()
    up(robot)
    robot.process("a")
    fallback = robot.waits_plan("a", lambda p: p.made_by == "fallback")
    assert fallback.complete and fallback.subtasks[-1].description == "say hello in the kitchen"
    assert len(fallback.subtasks) == (2 if fault == "half" else 1)
    wait_until(lambda: robot.heard(ModelKind.DEGRADED, "a"), 2.0, "that it goes on without its model")
    (degraded,) = robot.heard(ModelKind.DEGRADED, "a")
    assert degraded.layer == "s2" and degraded.fallback and degraded.error_msg
    if fault == "malformed":
        assert "no tag" in str(prompt(server.requests[1])[1]["FAULTS"])
    well = robot.waits_plan("a", lambda p: p.complete and p.made_by != "fallback")
    assert [s.description for s in well.subtasks] == ["Go to the kitchen", "If somebody is there, say hello"]


@pytest.mark.faults
def test_a_killed_server_leaves_the_plan_as_it_is_and_a_dead_one_is_not_flooded(
    robot: Robot, server: ModelServer, start: Start
) -> None:
    start()
    up(robot)
    robot.process("a")
    plan = robot.waits_plan("a", lambda p: p.complete)
    port = server.port
    server.stop()
    try:
        robot.fails("a")
        wait_until(lambda: robot.heard(ModelKind.DEGRADED, "a"), 8.0, "that it goes on without")
        assert robot.newest("a").subtasks == plan.subtasks and robot.newest("a").reason in ("", "kept")
        robot.process("b")
        robot.waits_plan("b", lambda p: p.made_by == "fallback")
        assert len(robot.heard(ModelKind.ASKED, "a")) <= 4
    finally:
        again = ModelServer(PLAN.replace("hello", "goodbye"), port=port).start()
        server.stop = again.stop  # type: ignore[method-assign]
    found = robot.waits_plan("b", lambda p: p.complete and p.made_by != "fallback", 15.0)
    assert found.subtasks[1].description == "If somebody is there, say goodbye"


@pytest.mark.slow
def test_what_is_paused_asks_nothing_and_what_ends_stops_its_answer(robot: Robot, server: ModelServer, start: Start) -> None:
    server.rate = 3.0
    start()
    up(robot)
    robot.process("a")
    assert server.wait_until(lambda s: len(s.requests) == 1, 5.0)
    robot.process("a", status=ProcessState.PAUSED)
    assert server.wait_until(lambda s: s.disconnects == 1, 5.0)
    robot.fails("a")
    robot.process("b", status=ProcessState.PAUSED)
    robot.process("c")  # asked after everything above was heard
    assert server.wait_until(lambda s: len(s.requests) == 2, 5.0)
    robot.process("c", status=ProcessState.STOPPED)
    assert server.wait_until(lambda s: s.disconnects == 2, 5.0)
    server.rate = None
    robot.process("a", status=ProcessState.IN_PROGRESS)
    robot.waits_plan("a", lambda p: p.complete)
    assert {p.process_id for p in robot.plans} == {"a"} and len(server.requests) == 3
    assert "goto_waypoint FAILED: the way is blocked" in prompt(server.requests[2])[1]["WHY"]
    wait_until(lambda: robot.heard(ModelKind.ANSWERED, "c"), 5.0, "the end of the stopped answer")
    stopped = robot.heard(ModelKind.ANSWERED, "c")
    assert [e.error_code for e in stopped] == [307] and stopped[0].prompt_tokens > 500


@pytest.mark.faults
def test_a_node_that_is_started_anew_plans_above_what_the_former_one_gave_out(
    robot: Robot, server: ModelServer, start: Start
) -> None:
    first = start()
    up(robot)
    robot.process("a")
    old = robot.waits_plan("a", lambda p: p.complete)
    first.send_signal(signal.SIGKILL)
    first.wait()
    start()
    new = robot.waits_plan("a", lambda p: p.revision > old.revision, 20.0)
    assert new.complete and not {s.id for s in new.subtasks} & {s.id for s in old.subtasks}
    assert "anew" in str(prompt(server.requests[-1])[1]["WHY"])


@pytest.mark.slow
def test_cost_awareness_is_changed_live(robot: Robot, server: ModelServer, start: Start) -> None:
    server.answer = lambda r: PLAN if "PLAN" not in prompt(r)[1] else "<keep/>"
    start("cost_aware:=false", "review_s:=0.5")
    up(robot)
    robot.process("a")
    assert server.wait_until(lambda s: len(s.requests) >= 3, 8.0), "it does not look again by itself"
    value = ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=True)
    assert robot.parameters.wait_for_service(5.0)
    robot.parameters.call_async(SetParameters.Request(parameters=[Parameter(name="cost_aware", value=value)]))
    time.sleep(1.5)
    asked = len(server.requests)
    time.sleep(2.5)
    assert len(server.requests) == asked


@pytest.mark.slow
def test_other_strategies_and_the_offline_parser_are_none_of_its_business(
    robot: Robot, server: ModelServer, start: Start, processes: Processes
) -> None:
    start()
    up(robot)
    robot.process("s", strategy="stream")
    robot.process("a")
    robot.waits_plan("a", lambda p: p.complete)
    assert robot.of("s") == [] and len(server.requests) == 1
    processes.end()
    start(model="offline")
    wait_until(lambda: robot.count_publishers("plans") == 1, 20.0, "the task planner")
    count = len(robot.events)
    robot.process("b")
    time.sleep(1.0)
    assert robot.of("b") == [] and len(robot.events) == count
