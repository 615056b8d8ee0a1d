# SPDX-License-Identifier: Apache-2.0
"""Prescriptions and System 3's judgement with the real nodes: sentences in, processes out, a model behind HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ghostshell.msg import Observation as ObservationMsg
from ghostshell.msg import PrescriptionArray, ProcessState
from ghostshell.srv import CompileReflex, ControlProcess, Prescribe
from process_robot import ROBOT_YAML
from std_msgs.msg import String

from bench.reading import layer_of, read_blocks
from bench.simulated_model.model_server import ModelServer, RecordedRequest
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.observation_messages import observation_message
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED, OBSERVATION
from pipeline_support import Observer
from planners.prompts.blocks import Layer
from ros_support import ROOT, Processes, wait_until
from skill_kernel.codes import TaskCode
from skill_kernel.events import CallKind, EventKind, ModelKind, NoticeKind, ProcessKind, RunEvent
from skill_kernel.observation.model import FieldValue, Kind, Observation, SeenObject
from skill_kernel.roles import ACT_OF, key_role

ASK = Prescribe.Request
OBSERVED = """
observation:
  object_detections:
    role: What it sees.
    kind: objects
    source: {topic: object_detections}
    process: {function: track, labels: [person, ball], min_confidence: 0.3}
    max_age_s: 1.0
"""
SHIPPED = """
prescriptions:
  - {name: round, kind: task, sentence: walk}
  - {name: greet, kind: guideline, sentence: wave at people, when: visible('person'), task: wave, cooldown_s: 0,
     enabled: false}
  - {name: ball_left, kind: guideline, sentence: step aside, when: count('ball') > 8, task: walk left}
  - {name: ball_right, kind: guideline, sentence: give way, when: count('ball') > 9, task: walk right}
"""
NEAR = "if a person comes within 1 m, stop"
LONG = '<walk seconds="30"/>'


class Watcher(Observer):
    """Also prescribes, and plays the observer."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.prescriptions: list[Any] = []
        self.people = 0
        self.prescribe = self.create_client(Prescribe, "prescribe")
        self.reflexes = self.create_client(CompileReflex, "compile_reflex")
        self.sentences = self.create_publisher(String, "prescription", INSTRUCTION)
        self._seen = self.create_publisher(ObservationMsg, "observation", OBSERVATION)
        self.create_subscription(PrescriptionArray, "prescriptions", self._prescribed, LATCHED)
        self.steady_timer(0.1, self._observe)

    def _prescribed(self, message: PrescriptionArray) -> None:
        self.prescriptions = list(message.prescriptions)

    def _observe(self) -> None:
        now = time.monotonic()
        seen = tuple(SeenObject(i, "person", 0.9, 0.0, 1.5) for i in range(self.people))
        field = FieldValue("object_detections", Kind.OBJECTS, seen, now, 1.0)
        ros_s = self.get_clock().now().nanoseconds * 1e-9
        self._seen.publish(observation_message(Observation(now, time_s=ros_s, fields={field.name: field})))

    def kept(self, name: str) -> Any:
        return next((p for p in self.prescriptions if p.name == name), None)


class Robot:
    """Kernel and minds as processes, with or without a model that answers System 3 as `s3` says."""

    def __init__(self, folder: Path, model: str, url: str) -> None:
        self.namespace = f"/told{os.getpid()}_{id(self) % 10000}"
        self.nodes, self.watch = Processes(self.namespace), Watcher(self.namespace)
        self._host = NodeHost([self.watch])
        robot, models, shipped = folder / "told.yaml", folder / "models.yaml", folder / "shipped.yaml"
        robot.write_text(ROBOT_YAML + OBSERVED)
        shipped.write_text(SHIPPED)
        served = {"provider": "openai", "model": "any", "base_url": url}
        models.write_text(yaml.safe_dump({"default": "served", "models": {"served": served}}))
        path = os.pathsep.join([str(ROOT / "test" / "support"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.env = {"PYTHONPATH": path, "GHOSTSHELL_DATA": str(folder / f"data_{model}")}
        self._minds = [
            f"robot:={robot}",
            f"model:={model}",
            f"models_file:={models}",
            f"prescriptions:={shipped}",
            "idle_after_s:=3600.0",
            f"strategy:={'layered' if model == 'served' else 'stream'}",
        ]
        self.robot_param = f"robot:={robot}"

    def __enter__(self) -> Robot:
        self._host.start()
        self.nodes.start("skill_kernel", self.robot_param, env=self.env)
        self.nodes.start("mind", *self._minds, env=self.env)
        clients = [*self.watch.clients_of.values(), self.watch.control, self.watch.prescribe]
        wait_until(
            lambda: (
                all(c.service_is_ready() for c in clients)
                and self.watch.servers_ready
                and self.watch.prescriptions
                and self.watch.count_publishers("scheduler_heartbeat")
                and self.watch.sentences.get_subscription_count()
            ),
            30.0,
            "the nodes are up",
        )
        answered = threading.Event()

        def ask() -> None:
            """Ask again: a service that does not know its client yet loses its answer."""
            if not answered.is_set():
                request = Prescribe.Request(command=ASK.ROUTE, kind=ASK.ANY, sentence="walk")
                self.watch.prescribe.call_async(request).add_done_callback(lambda _: answered.set())
                self.watch.call_later(0.3, ask)

        self.watch.call_soon(ask)
        wait_until(answered.is_set, 10.0, "prescribe answers")
        return self

    def __exit__(self, *_: object) -> None:
        self.nodes.end()
        self._host.close()

    def prescribe(self, command: int, **fields: Any) -> Any:
        return self.watch.ask(self.watch.prescribe, Prescribe.Request(command=command, **fields))

    def reflex(self, command: str, name: str) -> Any:
        """Ask the node reflexes in the role that the command takes."""
        listed = self.watch.ask(
            self.watch.reflexes, CompileReflex.Request(command=CompileReflex.Request.LIST, name=name), 15.0, again_s=2.0
        )
        request = CompileReflex.Request(command=getattr(CompileReflex.Request, command), name=name, person="Ada")
        request.sentence, request.source = listed.reflexes[0].sentence, listed.reflexes[0].source
        return self.watch.ask(self.watch.reflexes, signed(self.watch, "compile_reflex", request, key_role(ACT_OF[command])))

    def since(self) -> int:
        return len(self.watch.events)

    def event(self, kind: EventKind, since: int = 0, **fields: Any) -> RunEvent:
        return self.watch.wait_event(kind, 8.0, since, **fields)

    def sees(self, people: int) -> None:
        self.watch.people = people

    def quiet(self) -> None:
        """Nobody in sight, nothing added, nothing alive."""
        self.sees(0)
        for one in list(self.watch.prescriptions):
            if one.name not in ("round", "greet", "ball_left", "ball_right"):
                self.prescribe(ASK.REMOVE, name=one.name)
        self.prescribe(ASK.DISABLE, name="greet")
        for process in self.watch.processes:
            if process.status < ProcessState.SUCCESS:
                stop = ControlProcess.Request(process_id=process.process_id, command=ControlProcess.Request.STOP)
                self.watch.ask(self.watch.control, stop)
        wait_until(lambda: all(p.status >= ProcessState.SUCCESS for p in self.watch.processes), 8.0, "nothing lives")

    def wait_notice(self, words: str, since: int) -> str:
        def found() -> str:
            events = self.watch.events[since:]
            return next((e.text for e in events if e.kind == NoticeKind.MESSAGE and words in e.text), "")

        wait_until(found, 8.0, f"a notice with “{words}”")
        return found()


class Wits:
    """What the served model says to System 3, by a function of the prompt's blocks."""

    def __init__(self) -> None:
        self.s3: Callable[[dict[str, list[Any]]], str] = lambda blocks: "<nothing/>"
        self.asked: list[dict[str, list[Any]]] = []
        self.answered = threading.Event()
        self.hold = threading.Event()
        self.hold.set()

    def answer(self, request: RecordedRequest) -> str:
        layer = layer_of(request.prompt)
        blocks = read_blocks(request.last_user_text)
        if layer is Layer.S3:
            self.asked.append(blocks)
            self.hold.wait(10.0)
            return self.s3(blocks)
        if layer is Layer.S2 and "CLAIM" in blocks:
            return "<achieved/>"
        if layer is Layer.S2:
            return f'<subtask criteria="done">{blocks["TASK"][0]["instruction"]}</subtask>'
        if layer is Layer.S1P:
            return "<none/>"
        words = str(blocks.get("TASK", request.last_user_text))
        if blocks.get("DONE"):
            return "<subtask_complete/>"
        tag = '<wave seconds="0.3"/>' if "wave" in words else LONG if "patrol" in words else '<walk seconds="0.3"/>'
        return f"<step>{tag}</step><subtask_complete/>" if layer is Layer.S1 else tag


@pytest.fixture(scope="module")
def wits() -> Wits:
    return Wits()


@pytest.fixture(scope="module")
def offline_robot(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Robot]:
    with Robot(tmp_path_factory.mktemp("offline"), "offline", "http://127.0.0.1:9") as robot:
        yield robot


@pytest.fixture(scope="module")
def served_robot(ros: None, wits: Wits, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Robot]:
    with ModelServer(wits.answer) as server, Robot(tmp_path_factory.mktemp("served"), "served", server.openai_url) as robot:
        yield robot


@pytest.fixture
def offline(offline_robot: Robot) -> Iterator[Robot]:
    yield offline_robot
    offline_robot.quiet()


@pytest.fixture
def served(served_robot: Robot, wits: Wits) -> Iterator[Robot]:
    wits.s3 = lambda blocks: "<nothing/>"
    wits.asked.clear()
    yield served_robot
    wits.hold.set()
    served_robot.quiet()


# -- without a model ---------------------------------------------------------------------------------------------------


def test_the_shipped_ones_are_told_with_layer_and_reason(offline: Robot) -> None:
    task, greet = offline.watch.kept("round"), offline.watch.kept("greet")
    assert (task.kind, task.layer, greet.kind, greet.layer, greet.enabled) == (ASK.TASK, "S1", ASK.GUIDELINE, "S3", False)
    assert task.reason and greet.reason


def test_what_the_files_contradict_is_told_once_after_the_start(offline: Robot) -> None:
    told = offline.wait_notice("contradicts", 0)
    assert "'ball_left' contradicts 'ball_right': " in told and "left" in told
    offline.prescribe(ASK.ROUTE, kind=ASK.ANY, sentence="walk")
    assert sum("contradicts" in getattr(e, "text", "") for e in offline.watch.events) == 1


def test_a_sentence_is_routed_without_being_kept(offline: Robot) -> None:
    before = len(offline.watch.prescriptions)
    sentences = {"never wave at people": ASK.GUIDELINE, "go on patrol": ASK.TASK, NEAR: ASK.REFLEX}
    for sentence, kind in sentences.items():
        found = offline.prescribe(ASK.ROUTE, kind=ASK.ANY, sentence=sentence)
        assert found.success and found.prescription.kind == kind and found.prescription.reason
    assert len(offline.watch.prescriptions) == before


def test_a_task_is_kept_and_run_by_its_name(offline: Robot) -> None:
    added = offline.prescribe(ASK.ADD, kind=ASK.TASK, name="hello", sentence="wave", author="Ada")
    assert added.success and added.prescription.layer == "S1"
    begun = offline.prescribe(ASK.RUN, name="hello", author="Ada")
    assert begun.success
    state = offline.watch.wait_status(begun.process_id, ProcessState.SUCCESS, 8.0)
    assert (state.instruction, state.door, state.sender, state.source) == (
        "wave",
        "prescribe",
        "Ada (unverified)",
        ProcessState.USER,
    )


def test_what_cannot_be_done_is_refused_with_its_code(offline: Robot) -> None:
    for code, fields in (
        (ASK.NO_SUCH_PRESCRIPTION, {"command": ASK.RUN, "name": "nobody"}),
        (ASK.BAD_PRESCRIPTION, {"command": ASK.RUN, "name": "greet"}),
        (ASK.BAD_PRESCRIPTION, {"command": ASK.ADD, "kind": ASK.TASK, "sentence": " "}),
        (ASK.BAD_PRESCRIPTION, {"command": 99}),
        (ASK.BAD_PRESCRIPTION, {"command": ASK.ADD, "kind": ASK.TASK, "sentence": "walk", "name": "round"}),
        (ASK.BAD_PRESCRIPTION, {"command": ASK.REMOVE, "name": "round"}),
        (ASK.BAD_PRESCRIPTION, {"command": ASK.ADD, "kind": 7}),
        (ASK.PRESCRIPTION_REFUSED, {"command": ASK.ADD, "kind": ASK.REFLEX, "sentence": NEAR}),
    ):
        answer = offline.prescribe(**fields)
        assert not answer.success and answer.error_code == code and answer.error_msg, fields


def test_a_guideline_with_condition_and_task_fires_offline(offline: Robot) -> None:
    since = offline.since()
    assert offline.prescribe(ASK.ENABLE, name="greet").prescription.enabled
    offline.sees(1)
    fired = offline.event(ProcessKind.GUIDELINE_FIRED, since, guideline="greet")
    state = offline.watch.wait_status(fired.process_id, ProcessState.SUCCESS, 8.0)
    assert (state.instruction, state.source, state.door, state.sender) == ("wave", ProcessState.REACTIVE, "guideline", "greet")
    assert not [e for e in offline.watch.events[since:] if getattr(e, "layer", "") == "s3"]


def test_a_guideline_pauses_the_users_task_and_gives_back(offline: Robot) -> None:
    since = offline.since()
    patrol = offline.watch.task("walk for 20 seconds").process_id
    offline.event(CallKind.STARTED, since, process_id=patrol, function="walk")
    offline.prescribe(ASK.ADD, kind=ASK.GUIDELINE, name="meet", sentence="whenever you see a person, walk for 0.3 seconds")
    offline.sees(1)
    fired = offline.event(ProcessKind.GUIDELINE_FIRED, since, guideline="meet")
    assert offline.watch.wait_status(patrol, ProcessState.PAUSED, 5.0).displaced_by == fired.process_id
    offline.watch.wait_status(fired.process_id, ProcessState.SUCCESS, 8.0)
    offline.watch.wait_status(patrol, ProcessState.IN_PROGRESS, 5.0)


def test_a_contradiction_is_reported_and_both_stay(offline: Robot) -> None:
    offline.prescribe(ASK.ENABLE, name="greet")
    added = offline.prescribe(ASK.ADD, kind=ASK.ANY, name="shy", sentence="never wave at visitors").prescription
    assert added.enabled and len(added.conflicts) == 1 and "greet" in added.conflicts[0] and "never wave" in added.conflicts[0]
    wait_until(lambda: offline.watch.kept("greet").conflicts, 3.0, "the other one is flagged, too")
    assert offline.watch.kept("greet").enabled
    offline.prescribe(ASK.DISABLE, name="greet")
    since = offline.since()
    assert offline.prescribe(ASK.ENABLE, name="greet").prescription.conflicts
    offline.wait_notice("'greet' contradicts 'shy'", since)


def test_sentences_on_the_topic_go_their_way(offline: Robot) -> None:
    since = offline.since()
    offline.watch.sentences.publish(String(data="wave"))
    offline.event(ProcessKind.STARTED, since, instruction="wave")
    offline.watch.sentences.publish(String(data="never wave at people"))
    wait_until(lambda: offline.watch.kept("never_wave_people"), 5.0, "it is kept")
    offline.watch.sentences.publish(String(data=NEAR))
    offline.event(NoticeKind.MESSAGE, since, error_code=ASK.PRESCRIPTION_REFUSED)


def test_the_command_line_says_the_same(offline: Robot) -> None:
    def ghostshell(*words: str) -> subprocess.CompletedProcess[str]:
        options = ["--robot", offline.namespace.strip("/"), "--wait", "15"]
        command = [sys.executable, "-m", "ghostshell_ros.cli.main", *words, *options]
        return subprocess.run(command, cwd=ROOT, env={**os.environ, **offline.env}, capture_output=True, text=True, timeout=60)

    added = ghostshell("guideline", "add", "you may wave at people", "--name", "wave_at")
    assert added.returncode == 0 and "guideline S3" in added.stdout and "because:" in added.stdout
    listed = ghostshell("guideline", "list")
    assert "wave_at" in listed.stdout and "greet" in listed.stdout and "round" not in listed.stdout
    ran = ghostshell("task", "run", "round")
    assert ran.returncode == 0 and ran.stdout.startswith("round: process ")
    gone = ghostshell("guideline", "remove", "nobody")
    assert gone.returncode == 1 and "there is no prescription 'nobody'" in gone.stderr
    dry = ghostshell("prescribe", "--dry", NEAR)
    assert dry.stdout.startswith("reflex (S0): a condition on what is sensed at once")


def test_a_reflex_is_proposed_to_the_reflexes_and_weighed_with_the_guidelines(offline: Robot) -> None:
    """Last without a model: from here on the node reflexes is there."""
    offline.nodes.start("reflexes", offline.robot_param, env=offline.env)
    wait_until(lambda: offline.watch.count_publishers("reflex_states"), 20.0, "the reflexes are up")
    sentence = "whenever you see a person, wave"
    since = offline.since()

    def proposed() -> bool:
        """Its service may not know its new client yet."""
        return offline.prescribe(ASK.ADD, kind=ASK.REFLEX, name="wave_at", sentence=sentence, author="Ada").success

    wait_until(proposed, 15.0, "the reflex is proposed")
    wait_until(lambda: offline.watch.kept("wave_at"), 5.0, "it is told among the prescriptions")
    kept = offline.watch.kept("wave_at")
    assert (kept.kind, kept.layer, kept.enabled) == (ASK.REFLEX, "S0", False) and "approval" in kept.reason
    taken = offline.prescribe(ASK.ADD, kind=ASK.GUIDELINE, name="wave_at", sentence="never run")
    assert taken.error_code == ASK.BAD_PRESCRIPTION and "'wave_at' already" in taken.error_msg
    assert offline.reflex("APPROVE", "wave_at").success
    wait_until(lambda: offline.watch.kept("wave_at").enabled, 5.0, "it fires from now on")
    offline.prescribe(ASK.ADD, kind=ASK.GUIDELINE, name="still", sentence="never wave at people")
    wait_until(lambda: offline.watch.kept("wave_at").conflicts, 5.0, "the reflex is flagged")
    assert "the reflex goes first" in offline.watch.kept("still").conflicts[0]
    offline.watch.sentences.publish(String(data=NEAR))
    assert "reflex approve" in offline.wait_notice("proposed as a reflex", since)
    taken = offline.prescribe(ASK.ADD, kind=ASK.REFLEX, name="wave_at", sentence=sentence)
    assert taken.error_code == ASK.PRESCRIPTION_REFUSED and "already" in taken.error_msg
    refused = offline.prescribe(ASK.DISABLE, name="wave_at")
    assert refused.error_code == ASK.PRESCRIPTION_REFUSED and "ghostshell reflex disable wave_at" in refused.error_msg
    assert offline.reflex("DISABLE", "wave_at").success
    wait_until(lambda: not offline.watch.kept("still").conflicts, 5.0, "what does not fire contradicts nobody")


# -- with a model ------------------------------------------------------------------------------------------------------


def test_advice_replaces_without_contention_and_comes_beside_the_process(served: Robot, wits: Wits) -> None:
    patrol = served.watch.task("patrol").process_id
    served.watch.wait_status(patrol, ProcessState.IN_PROGRESS, 5.0)
    since = served.since()
    wits.hold.clear()
    wits.s3 = lambda blocks: f'<relation process="{patrol}" is="replace"/>'
    new = served.watch.task("forget the patrol and wave").process_id
    served.event(CallKind.STARTED, since, process_id=new, function="wave")
    assert served.watch.process(patrol).status < ProcessState.SUCCESS, "nothing waited for the answer, nothing came before it"
    wits.hold.set()
    ended = served.watch.wait_status(patrol, ProcessState.STOPPED, 5.0)
    assert ended.error_code == TaskCode.REPLACED
    asked = served.event(ModelKind.ANSWERED, since, process_id=new, layer="s3")
    assert asked.prompt_tokens and wits.asked[-1]["PROCESSES"][0]["instruction"] == "patrol"


def test_advice_asks_for_a_return(served: Robot, wits: Wits) -> None:
    patrol = served.watch.task("patrol").process_id
    served.event(CallKind.STARTED, process_id=patrol, function="walk")
    wits.s3 = lambda blocks: f'<relation process="{patrol}" is="return"/>'
    new = served.watch.task("walk over here for a moment").process_id
    served.watch.wait_status(patrol, ProcessState.PAUSED, 5.0)
    served.watch.wait_status(new, ProcessState.SUCCESS, 15.0)
    served.watch.wait_status(patrol, ProcessState.IN_PROGRESS, 5.0)


def test_the_model_judges_a_guideline_when_somebody_comes(served: Robot, wits: Wits) -> None:
    served.prescribe(ASK.ADD, kind=ASK.GUIDELINE, name="engage", sentence="you may engage a nearby person")
    wits.s3 = lambda blocks: '<react guideline="engage">wave</react>' if "come" in str(blocks["WHY"]) else "<nothing/>"
    since = served.since()
    served.sees(1)
    fired = served.event(ProcessKind.GUIDELINE_FIRED, since, guideline="engage")
    state = served.watch.wait_status(fired.process_id, ProcessState.SUCCESS, 15.0)
    assert (state.instruction, state.source) == ("wave", ProcessState.REACTIVE)


def test_a_malformed_answer_is_repaired_once_and_then_the_table_decides(served: Robot, wits: Wits) -> None:
    patrol = served.watch.task("patrol").process_id
    served.watch.wait_status(patrol, ProcessState.IN_PROGRESS, 5.0)
    since = served.since()
    wits.s3 = lambda blocks: "I would rather not say."
    new = served.watch.task("wave").process_id
    told = served.event(ModelKind.DEGRADED, since, process_id=new, layer="s3")
    assert "table" in told.fallback and "FAULTS" in wits.asked[-1]
    assert served.watch.process(patrol).status < ProcessState.SUCCESS
