# SPDX-License-Identifier: Apache-2.0
"""Plans in steps over real DDS: parser, scheduler and kernel as nodes, conditions on a published observation or a judge.

The nodes serve all tests of this file; each test is a process of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ghostshell.msg import LlmChunk, ProcessHeartbeat, StepQueue
from ghostshell.msg import Observation as ObservationMsg
from ghostshell.srv import Interrupt, JudgeCondition, ProcessLease
from step_robot import ROBOT_YAML

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.observation_messages import observation_message
from ghostshell_ros.wire.qos import OBSERVATION, QUEUES, SENSORS, STREAM
from ros_support import ROOT, spun, wait_until
from skill_kernel.codes import Outcome
from skill_kernel.events import CallKind, ProcessKind, RunEvent
from skill_kernel.observation.model import FieldValue, Kind, Observation

DONE, FAILED, DROPPED = Outcome.DONE, Outcome.FAILED, Outcome.DROPPED


class Judge(RuntimeNode):
    """Judges sentences as the action planner does; while `idle` is not set it takes its time."""

    def __init__(self, namespace: str) -> None:
        super().__init__("judge", namespace=namespace)
        self.verdict = JudgeCondition.Response()
        self.judged: list[str] = []
        self.idle = threading.Event()
        self.idle.set()
        self.create_service(JudgeCondition, "judge_condition", self._judge)

    def _judge(self, request: JudgeCondition.Request, response: JudgeCondition.Response) -> JudgeCondition.Response:
        self.judged.append(request.condition)
        self.idle.wait(3.0)
        return self.verdict if request.condition else response


class World(RuntimeNode):
    """Writes streams as the planner does, shows the lamp as the observer does."""

    def __init__(self, namespace: str) -> None:
        super().__init__("world", namespace=namespace)
        self.events: list[RunEvent] = []
        self.queues: list[StepQueue] = []
        self.lamp: bool | None = None
        self.process = "p0"
        self._tests = 0
        self._looks = 0
        self.judge = Judge(namespace)
        self.chunks = self.create_publisher(LlmChunk, "llm_chunks", STREAM)
        self.beats = self.create_publisher(ProcessHeartbeat, "process_heartbeat", SENSORS)
        self._observation = self.create_publisher(ObservationMsg, "observation", OBSERVATION)
        read_events(self, self.events.append)
        self.create_subscription(StepQueue, "step_queue", self.queues.append, QUEUES)
        self.interrupts = self.create_client(Interrupt, "channel_scheduler/interrupt")
        self.lease = self.create_client(ProcessLease, "skill_kernel/process_lease")
        self.steady_timer(0.1, self._look)

    def _look(self) -> None:
        """Answer for the process, and tell of the lamp: with None it was seen last 10 s ago."""
        self._looks += 1
        self.beats.publish(ProcessHeartbeat(process_ids=[self.process]))
        now = self.steady_now()
        seen_s = now if self.lamp is not None else now - 10.0
        lamp = FieldValue("lamp", Kind.BOOLEAN, bool(self.lamp), seen_s, 5.0)
        time_s = self.get_clock().now().nanoseconds * 1e-9
        self._observation.publish(observation_message(Observation(now, 0, time_s, {"lamp": lamp})))

    def reset(self) -> None:
        """End the process of the test before and be another; nobody looks at the lamp; forget what was heard."""
        self.judge.idle.set()
        self.ask(
            self.lease, ProcessLease.Request(command=ProcessLease.Request.END, process_id=self.process, cause="the next test")
        )
        self._tests += 1
        self.process, self.lamp = f"p{self._tests}", None
        looks = self._looks
        wait_until(lambda: self._looks > looks + 2, 5.0, "the lamp was seen too long ago")
        self.judge.judged.clear()
        self.events.clear()
        self.queues.clear()

    def ready(self) -> bool:
        there = self.interrupts.service_is_ready() and self.lease.service_is_ready() and "" in self.judge.judged
        topics = (self.chunks, self.beats, self._observation)
        return (
            there and all(topic.get_subscription_count() for topic in topics) and self.count_publishers("events/notices") >= 2
        )

    def see(self, lamp: bool | None) -> None:
        """Light the lamp or not from now on; None: nobody looks any more."""
        self.lamp = lamp
        self.call_soon(self._look)

    def stream(self, name: str) -> str:
        return f"{self.process}-{name}"

    def write(self, text: str, stream: str, *, turn: int = 0, size: int = 7) -> None:
        """Publish a whole stream in chunks."""
        parts = [text[i : i + size] for i in range(0, len(text), size)]
        for seq, part in enumerate(parts):
            ids = {"process_id": self.process, "stream_id": self.stream(stream)}
            chunk = LlmChunk(**ids, turn=turn, seq=seq, text=part, last=seq == len(parts) - 1)
            self.call_soon(self.chunks.publish, chunk)

    def ask(self, client: Any, request: Any) -> Any:
        """Call a service and wait for its answer; one that does not know its client yet loses it, so again."""
        for _ in range(5):
            answers: list[Any] = []
            self.call_soon(lambda into=answers: client.call_async(request).add_done_callback(lambda f: into.append(f.result())))
            end = time.monotonic() + 2.0
            while not answers and time.monotonic() < end:
                time.sleep(0.01)
            if answers:
                return answers[0]
        pytest.fail(f"no answer from {client.srv_name}")

    def outcomes(self) -> list[tuple[str, Outcome]]:
        return [(e.function, e.outcome) for e in self.events if e.kind == CallKind.ENDED]

    def started(self, function: str) -> int:
        return sum(e.kind == CallKind.STARTED and e.function == function for e in self.events)

    def places(self) -> list[str]:
        """Return where it has gone, in turn."""
        return [e.message for e in self.events if e.kind == CallKind.ENDED and (e.function, e.outcome) == ("go", DONE)]

    def drained(self, times: int = 1) -> None:
        wait_until(lambda: sum(e.kind == ProcessKind.DRAINED for e in self.events) >= times, 10.0, "everything has ended")


@pytest.fixture(scope="module")
def nodes(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("steps")
    robot = folder / "stepper.yaml"
    robot.write_text(ROBOT_YAML)
    path = os.pathsep.join([str(ROOT), str(ROOT / "test" / "support"), os.environ.get("PYTHONPATH", "")])
    env = {"PYTHONPATH": path, "GHOSTSHELL_DATA": str(folder)}
    namespace = f"/steps{os.getpid()}"
    made = World(namespace)
    with spun(namespace, made) as processes, spun(namespace, made.judge):
        for node, *params in (("skill_kernel",), ("channel_scheduler", "judge_s:=1.0"), ("token_parser",)):
            own = [] if node == "token_parser" else [f"robot:={robot}"]
            processes.start(node, *own, *params, env=env)
        wait_until(made.ready, 20.0, "the nodes are there")
        yield made


@pytest.fixture
def world(nodes: World) -> World:
    nodes.reset()
    return nodes


LIGHT = '<step><if cond="lamp()"><go place="{0}-lit"/></if><else><go place="{0}-dark"/></else></step>'


def test_a_branch_follows_what_is_observed_when_its_turn_has_come(world: World) -> None:
    world.see(True)
    world.write(f"{LIGHT.format('first')}<step><stroll/></step>{LIGHT.format('then')}<subtask_complete/>", "s")
    wait_until(lambda: world.started("stroll"), 10.0, "it is on its way")
    queue = world.queues[-1]
    assert queue.running == "<step><stroll/></step>" and queue.running_stream == world.stream("s") and queue.done == 1
    assert queue.queued == [LIGHT.format("then")] and not queue.reading
    world.see(False)
    time.sleep(0.2)  # the new observation arrives; nothing reports that it has
    world.ask(world.lease, ProcessLease.Request(command=ProcessLease.Request.PAUSE, process_id=world.process, cause="user"))
    wait_until(lambda: ("stroll", Outcome.INTERRUPTED) in world.outcomes(), 5.0, "it cannot pause")
    assert world.places() == ["first-lit"]
    world.see(True)
    time.sleep(0.2)
    assert len(world.places()) == 1, "no step begins in a paused process"
    world.ask(world.lease, ProcessLease.Request(command=ProcessLease.Request.RESUME, process_id=world.process, cause="user"))
    world.drained()
    assert world.places() == ["first-lit", "then-lit"], "asked after the pause"
    assert ("subtask_complete", DONE) in world.outcomes()
    assert (world.queues[-1].running, world.queues[-1].queued, world.queues[-1].done) == ("", [], 3)


def test_a_stale_observation_runs_no_branch_and_later_steps_are_dropped(world: World) -> None:
    world.write(f"{LIGHT.format('a')}<step><go place='b'/></step>", "s")
    world.write("<step><go place='c'/></step>", "s2")
    world.drained()
    step = next(e for e in world.events if e.kind == CallKind.ENDED and e.function == "step" and e.outcome == FAILED)
    assert step.error_code == 114 and "field 'lamp'" in step.error_msg
    assert world.places() == [] and (FAILED not in [o for f, o in world.outcomes() if f != "step"])
    world.see(True)
    time.sleep(0.2)
    world.write("<step><go place='late'/></step>", "s3")
    world.write(LIGHT.format("again"), "s4", turn=1)
    wait_until(lambda: world.places() == ["again-lit"], 10.0, "the plan made after the failure runs")
    assert ("step", DROPPED) in world.outcomes()


def test_a_sentence_is_judged_and_a_judge_who_cannot_tell_is_not_taken_for_no(world: World) -> None:
    world.judge.verdict = JudgeCondition.Response(known=True, holds=True, reason="it is dark outside")
    stream = '<step><if cond="it is night"><go place="bed"/></if><else><go place="work"/></else></step>'
    world.write(stream, "s")
    wait_until(lambda: world.places() == ["bed"], 10.0, "the judge's word counts")
    world.judge.verdict = JudgeCondition.Response(error_msg="no model is configured")
    world.write(stream, "s2")
    world.drained(2)
    step = next(e for e in world.events if e.kind == CallKind.ENDED and e.function == "step" and e.outcome == FAILED)
    assert "no model is configured" in step.error_msg
    assert world.judge.judged.count("it is night") == 2 and world.places() == ["bed"]


def test_a_slow_judge_holds_nothing_up_has_a_deadline_and_an_interrupt_does_not_wait_for_it(world: World) -> None:
    world.judge.idle.clear()
    text = '<go place="{0}"/><step><if cond="it is night"><go place="bed"/></if></step><step><go place="on"/></step>'
    world.write(text.format("a"), "s")
    world.drained()
    step = next(e for e in world.events if e.kind == CallKind.ENDED and e.function == "step" and e.outcome == FAILED)
    assert "within 1 s" in step.error_msg and world.places() == ["a"]
    world.write(text.format("b"), "s2", turn=1)
    wait_until(lambda: world.started("step") == 2, 5.0, "the judge is asked")
    asked_s = time.monotonic()
    world.ask(world.interrupts, Interrupt.Request(process_id=world.process, epoch=1, cause="enough"))
    world.drained(2)
    assert time.monotonic() - asked_s < 0.9, "before the judge's deadline"
    assert "bed" not in world.places() and "on" not in world.places()
