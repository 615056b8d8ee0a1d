# SPDX-License-Identifier: Apache-2.0
"""Several processes on one robot, with the real nodes: together, displaced and back, planned anew, and after a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from ghostshell.msg import LlmChunk, ProcessArray, ProcessState, Question, QuestionArray
from ghostshell.srv import AnswerQuestion, ControlProcess
from process_robot import ROBOT_YAML
from std_msgs.msg import String

from bench.simulated_model.model_server import ModelServer, RecordedRequest
from ghostshell_ros.nodes.action_planner import node as action_planner
from ghostshell_ros.nodes.action_planner import planned_process
from ghostshell_ros.nodes.process_scheduler.node import ProcessSchedulerNode
from ghostshell_ros.runtime.node import Level, RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED, STREAM
from pipeline_support import Observer
from ros_support import ROOT, Processes, wait_until
from skill_kernel.codes import AnswerCode, CallCode, Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind, NoticeKind, ProcessKind, RunEvent, StreamEvent, StreamKind
from skill_kernel.roles import Role

NEVER_S = 3600.0
STOP, PAUSE, RESUME = ControlProcess.Request.STOP, ControlProcess.Request.PAUSE, ControlProcess.Request.RESUME
WALK, LONG_WALK = '<walk seconds="0.3"/>', '<walk seconds="30"/>'
ASK = '<ask choices="yes,no">Shall I open the door?</ask><walk seconds="30"/>'
HOP, WAVE = '<hop seconds="30"/>', '<wave seconds="30"/>'


class Several:
    """The robot: its kernel and its planners as two processes, a model that answers by the words of the instruction."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.namespace = f"/several{os.getpid()}_{id(self) % 10000}"
        self.nodes = Processes(self.namespace)
        self.watch = Observer(self.namespace)
        self.questions: list[Question] = []
        self.watch.create_subscription(QuestionArray, "questions", lambda m: setattr(self, "questions", m.questions), LATCHED)
        self.answers = self.watch.create_client(AnswerQuestion, "answer_question")
        self.server = server
        self._host = NodeHost([self.watch])
        self._robot, self._models = folder / "several.yaml", folder / "models.yaml"
        self._robot.write_text(ROBOT_YAML)
        served = {"provider": "openai", "model": "any", "base_url": server.openai_url}
        self._models.write_text(yaml.safe_dump({"default": "served", "models": {"served": served}}))
        path = os.pathsep.join([str(ROOT / "test" / "support"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._env = {"PYTHONPATH": path, "GHOSTSHELL_DATA": str(folder / "data")}
        self.mind: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Several:
        self._host.start()
        self.nodes.start("skill_kernel", f"robot:={self._robot}", env=self._env)
        self.start_mind()
        return self

    def __exit__(self, *_: object) -> None:
        self.nodes.end()
        self._host.close()

    def start_mind(self) -> None:
        """Return the planning nodes, with idle behaviour out of the way."""
        self.watch.processes = []
        self.mind = self.nodes.start(
            "mind",
            f"robot:={self._robot}",
            "model:=served",
            f"models_file:={self._models}",
            f"idle_after_s:={NEVER_S}",
            "reactive_doors:=[reactive]",
            "strategy:=stream",
            env=self._env,
        )
        watch = self.watch
        clients = [*watch.clients_of.values(), watch.control]
        wait_until(
            lambda: (
                all(c.service_is_ready() for c in clients)
                and watch.count_publishers("events/notices") >= 4
                and watch.servers_ready
                and watch.count_publishers("scheduler_heartbeat")
            ),
            30.0,
            "the nodes are up",
        )
        answered = threading.Event()

        def ask() -> None:
            """Ask again: a service that does not know its client yet loses its answer."""
            if not answered.is_set():
                request = ControlProcess.Request(process_id="nobody", command=STOP)
                watch.control.call_async(request).add_done_callback(lambda _: answered.set())
                watch.call_later(0.3, ask)

        watch.call_soon(ask)
        wait_until(answered.is_set, 10.0, "control_process answers")

    def begin(self, instruction: str, *, door: str = "", call: str = "") -> str:
        """Give an instruction; with `call`, wait until it runs. Gives the process id."""
        process_id = self.watch.task(instruction, door=door).process_id
        if call:
            self.runs(process_id, call)
        return process_id

    def runs(self, process_id: str, function: str, since: int = 0) -> RunEvent:
        return self.watch.wait_event(CallKind.STARTED, 5.0, since, process_id=process_id, function=function)

    def state(self, process_id: str, status: int) -> ProcessState:
        return self.watch.wait_status(process_id, status, 5.0)

    def control(self, command: int, process_id: str = "") -> Any:
        return self.watch.ask(self.watch.control, ControlProcess.Request(process_id=process_id, command=command))

    def calls(self, process_id: str) -> list[RunEvent]:
        return self.watch.of(process_id, CallKind.ENDED)

    def asked(self) -> Question:
        """Wait for the one open question."""
        wait_until(lambda: len(self.questions) == 1, 15.0, "a question is open")
        return self.questions[0]

    def answer(self, question_id: str, text: str, role: Role = Role.OPERATOR) -> Any:
        request = AnswerQuestion.Request(question_id=question_id, text=text)
        return self.watch.ask(self.answers, signed(self.watch, "answer_question", request, role))

    def quiet(self) -> None:
        """End whatever lives."""
        for process in self.watch.processes:
            if process.status < ProcessState.SUCCESS:
                self.control(STOP, process.process_id)
        wait_until(
            lambda: (
                all(p.status >= ProcessState.SUCCESS for p in self.watch.processes)
                and self.watch.kernel is not None
                and not self.watch.kernel.running
                and not self.watch.kernel.processes
            ),
            5.0,
            "nothing lives, and nobody holds anything",
        )


def answer(request: RecordedRequest) -> str:
    """Return what the model writes for the last word of the instruction; in a plan made anew, the short form."""
    text = request.last_user_text
    words = {"door": ASK, "patrol": LONG_WALK, "hop": HOP, "wave": WAVE, "walk": WALK}
    found = next((tags for word, tags in words.items() if word in text.rsplit("\n", 2)[-1] or f'{word}"' in text[-40:]), "Yes.")
    return found if "RESULTS" not in text else "<walk seconds='0.1'/>"


@pytest.fixture(scope="module")
def several(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    with ModelServer(answer) as server, Several(tmp_path_factory.mktemp("several"), server) as robot:
        yield robot


@pytest.fixture
def robot(several: Several) -> Iterator[Several]:
    yield several
    several.quiet()


def test_processes_run_together_while_they_need_different_things(robot: Several) -> None:
    patrol, wave = robot.begin("patrol", call="walk"), robot.begin("wave", call="wave")
    question = robot.begin("how are you?")
    assert robot.state(question, ProcessState.SUCCESS).calls_done == 1
    wait_until(
        lambda: {tuple(p.subsystems) for p in robot.watch.processes[-3:]} >= {("legs",), ("arm",)}, 3.0, "what each holds"
    )
    assert robot.state(patrol, ProcessState.IN_PROGRESS) and robot.state(wave, ProcessState.IN_PROGRESS)
    assert not robot.calls(patrol) and not robot.calls(wave)


def test_a_newer_user_task_replaces_the_one_it_contends_with(robot: Several) -> None:
    patrol, wave = robot.begin("patrol", call="walk"), robot.begin("wave", call="wave")
    walk = robot.begin("walk", call="walk")
    old = robot.state(patrol, ProcessState.STOPPED)
    assert (old.error_code, old.displaced_by) == (TaskCode.REPLACED, "")
    (ended,) = robot.calls(patrol)
    assert ended.outcome == Outcome.INTERRUPTED
    robot.state(walk, ProcessState.SUCCESS)
    assert robot.state(wave, ProcessState.IN_PROGRESS)


def test_stop_do_something_then_resume(robot: Several) -> None:
    patrol = robot.begin("patrol", call="walk")
    walk = robot.begin("stop, walk, then resume")
    paused = robot.state(patrol, ProcessState.PAUSED)
    assert (paused.pause_causes, paused.displaced_by) == (["s3"], walk)
    done = robot.state(walk, ProcessState.SUCCESS)
    assert done.instruction == "walk" and not robot.watch.halted
    robot.state(patrol, ProcessState.IN_PROGRESS)
    wait_until(
        lambda: (
            robot.watch.kernel
            and len(robot.watch.kernel.running) == 1
            and [p.process_id for p in robot.watch.kernel.processes] == [patrol]
        ),
        3.0,
        "it has its legs back",
    )
    assert not robot.calls(patrol) and robot.state(patrol, ProcessState.IN_PROGRESS).epoch == paused.epoch


def test_a_call_that_cannot_pause_makes_the_plan_anew_from_what_was_done(robot: Several) -> None:
    hop = robot.begin("hop", call="hop")
    asked = len(robot.server.requests)
    walk = robot.begin("walk, then go on")
    robot.state(walk, ProcessState.SUCCESS)
    done = robot.state(hop, ProcessState.SUCCESS)
    assert [(e.function, e.outcome) for e in robot.calls(hop)] == [("hop", Outcome.INTERRUPTED), ("walk", Outcome.DONE)]
    assert robot.calls(hop)[0].error_code == CallCode.PROCESS_PAUSED and done.epoch > 0
    again = robot.server.requests[asked + 1].last_user_text
    assert '"function": "hop"' in again and "INTERRUPTED" in again and '"hop"' in again.splitlines()[-1]


def test_a_reactive_task_pauses_the_users_and_gives_back(robot: Several) -> None:
    patrol = robot.begin("patrol", call="walk")
    reactive = robot.begin("walk", door="reactive", call="walk")
    assert robot.state(patrol, ProcessState.PAUSED).displaced_by == reactive
    second = robot.begin("walk", door="reactive")
    robot.state(reactive, ProcessState.SUCCESS)
    robot.state(second, ProcessState.SUCCESS)
    robot.state(patrol, ProcessState.IN_PROGRESS)
    assert not robot.calls(patrol)


def test_a_door_and_a_sender_that_nothing_proves_are_not_believed(robot: Several) -> None:
    forged = robot.watch.task("walk", door="reactive", sender="Ada", role=Role.ANONYMOUS).process_id
    state = robot.state(forged, ProcessState.SUCCESS)
    assert (state.door, state.sender, state.source) == ("action", "Ada (unverified)", ProcessState.USER)
    seen = robot.watch.task("walk", role=Role.VIEWER)
    wait_until(lambda: seen.ends, 5.0, "a viewer's task ends")
    assert seen.ends[0][1].error_code == TaskCode.NOT_PERMITTED and "operator may" in seen.ends[0][1].error_msg


def test_the_user_pauses_resumes_and_stops(robot: Several) -> None:
    patrol = robot.begin("patrol", call="walk")
    assert robot.control(PAUSE).process_id == patrol
    robot.state(patrol, ProcessState.PAUSED)
    walk = robot.begin("walk")
    robot.state(walk, ProcessState.SUCCESS)
    assert robot.state(patrol, ProcessState.PAUSED).pause_causes == ["user"]
    assert robot.control(PAUSE, patrol).error_code == ControlProcess.Request.NOT_ALLOWED
    blocker = robot.begin("patrol", call="walk")
    assert robot.control(RESUME, patrol).success
    wait_until(lambda: robot.state(patrol, ProcessState.PAUSED).displaced_by == blocker, 3.0, "it is told who walks")
    assert robot.control(STOP, blocker).success
    robot.state(patrol, ProcessState.IN_PROGRESS)
    assert robot.control(STOP).process_id == patrol
    assert robot.state(patrol, ProcessState.STOPPED).error_code == TaskCode.CANCELLED
    assert robot.control(STOP).error_code == ControlProcess.Request.NO_SUCH_PROCESS


def test_plain_words_pause_resume_and_end_what_they_name_and_begin_nothing(robot: Several) -> None:
    patrol, wave = robot.begin("patrol", call="walk"), robot.begin("wave", call="wave")
    asked = len(robot.server.requests)

    def told(sentence: str) -> str:
        task = robot.watch.task(sentence)
        wait_until(lambda: task.ends, 5.0, f"“{sentence}” is obeyed")
        result = task.ends[0][1]
        assert (result.status, result.achievement) == (ProcessState.SUCCESS, ProcessState.DONE), result
        return str(result.error_msg)

    assert told("please wait").startswith("paused “patrol”, “wave”")
    for process in (patrol, wave):
        assert robot.state(process, ProcessState.PAUSED).pause_causes == ["user"]
    assert told("go on") == "“patrol”, “wave” goes on"
    robot.state(wave, ProcessState.IN_PROGRESS)
    assert told("stop waving") == "ended “wave”"
    assert robot.state(wave, ProcessState.STOPPED).error_code == TaskCode.CANCELLED
    assert robot.state(patrol, ProcessState.IN_PROGRESS) and not robot.watch.halted
    assert told("不要巡逻了") == "已结束“patrol”"
    robot.state(patrol, ProcessState.STOPPED)
    assert len(robot.server.requests) == asked
    stray = robot.watch.task("never mind")  # nothing runs any more, so it is an instruction like any other
    wait_until(lambda: stray.ends, 5.0, "the model answers it")
    assert len(robot.server.requests) > asked


def test_the_command_line_shows_and_stops_processes(robot: Several) -> None:
    patrol = robot.begin("patrol", call="walk")

    def ghostshell(*words: str) -> str:
        command = [sys.executable, "-m", "ghostshell_ros.cli.main", *words, "--robot", robot.namespace, "--wait", "10"]
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False, env={**os.environ, "COLUMNS": "200"}
        ).stdout

    table = ghostshell("ps")
    assert patrol in table and "IN_PROGRESS" in table and "legs" in table
    assert f"{patrol} stopped" in ghostshell("stop", patrol[:6])
    robot.state(patrol, ProcessState.STOPPED)
    patrol, wave = robot.begin("patrol", call="walk"), robot.begin("wave", call="wave")
    told = ghostshell("stop")
    assert f"{patrol} stopped: patrol" in told and f"{wave} stopped: wave" in told
    assert robot.state(patrol, ProcessState.STOPPED) and robot.state(wave, ProcessState.STOPPED)


def test_a_person_is_asked_and_the_next_turn_begins_with_the_answer(robot: Several) -> None:
    process_id = robot.begin("open the door")
    question = robot.asked()
    assert (question.process_id, question.text, question.choices) == (process_id, "Shall I open the door?", ["yes", "no"])
    refused = robot.answer(question.id, "yes, but slowly")
    assert refused.error_code == AnswerCode.BAD_ANSWER and "yes or no" in refused.error_msg
    refused = robot.answer(question.id, "yes", Role.VIEWER)
    assert refused.error_code == AnswerCode.NOT_PERMITTED and "operator may" in refused.error_msg
    command = [sys.executable, "-m", "ghostshell_ros.cli.main", "answer", "Yes,", "please", "--robot", robot.namespace]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert (told.returncode, told.stdout) == (0, "Shall I open the door?: yes\n"), told
    robot.state(process_id, ProcessState.SUCCESS)
    begun = [(call.function, call.outcome) for call in robot.calls(process_id) if call.outcome is not Outcome.DROPPED]
    assert begun == [("ask", Outcome.DONE), ("walk", Outcome.DONE)], "no walk before the answer"
    assert '"yes"' in robot.server.requests[-1].last_user_text and robot.questions == []


def test_of_two_answers_at_once_one_counts_and_an_anonymous_one_by_the_topic_does(robot: Several) -> None:
    first = robot.begin("open the door")
    question = robot.asked()
    requests = [AnswerQuestion.Request(question_id=question.id, text=text) for text in ("yes", "no")]
    answers: list[Any] = []
    for request in requests:
        robot.watch.call_soon(
            lambda r=request: robot.answers.call_async(r).add_done_callback(lambda f: answers.append(f.result()))
        )
    wait_until(lambda: len(answers) == 2, 5.0, "both are answered")
    taken, late = sorted(answers, key=lambda a: not a.success)
    assert taken.success and late.error_code == AnswerCode.NO_SUCH_QUESTION
    assert f"“{taken.answer}” by somebody who proves no role" in late.error_msg
    robot.state(first, ProcessState.SUCCESS)
    second = robot.begin("open the door")
    question = robot.asked()
    topic = robot.watch.create_publisher(String, "answer", INSTRUCTION)
    wait_until(topic.get_subscription_count, 5.0, "the topic is heard")
    topic.publish(String(data=f"{question.id}: no"))
    robot.state(second, ProcessState.SUCCESS)
    asked = next(call for call in robot.calls(second) if call.function == "ask")
    assert asked.told == "no"


def test_a_question_ends_with_its_process_and_a_stop_word_as_an_answer_halts(robot: Several) -> None:
    process_id = robot.begin("open the door")
    question = robot.asked()
    assert robot.control(PAUSE, process_id).success
    wait_until(lambda: not robot.questions, 3.0, "a paused process asks nothing")
    assert robot.control(RESUME, process_id).success
    again = robot.asked()
    assert again.id != question.id
    assert robot.control(STOP, process_id).success
    robot.state(process_id, ProcessState.STOPPED)
    assert robot.questions == []
    late = robot.answer(again.id, "yes")
    assert late.error_code == AnswerCode.NO_SUCH_QUESTION and "has ended" in late.error_msg
    process_id = robot.begin("open the door")
    stopped = robot.answer(robot.asked().id, "Stop, please!")
    assert not stopped.success and "the safety gate does not confirm the halt" in stopped.error_msg, "there is no gate"
    assert "the robot may still be moving" in stopped.error_msg and not stopped.error_msg.startswith("stopped")
    wait_until(lambda: not robot.questions, 3.0, "its question has ended")
    assert robot.state(process_id, ProcessState.STOPPED).error_code == TaskCode.ROBOT_HALTED
    wait_until(lambda: robot.watch.kernel and not robot.watch.kernel.running, 3.0, "nothing waits any more")


@pytest.fixture
def plan(ros: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Callable[..., Any]) -> Callable[..., Observer]:
    """Return a planner that is given a process, before a parser that does `read(chunk)`."""
    monkeypatch.setenv("GHOSTSHELL_DATA", str(tmp_path))
    monkeypatch.setattr(planned_process, "TAKEN_S", 0.5)
    monkeypatch.setattr(planned_process, "ENDED_S", 0.3)

    def begin(parser: RuntimeNode, read: Callable[[LlmChunk], None]) -> Observer:
        watch = Observer("/")
        parser.create_subscription(LlmChunk, "llm_chunks", read, STREAM)
        said = parser.create_publisher(ProcessArray, "processes", LATCHED)
        host(action_planner.ActionPlanner(), parser, watch)
        wait_until(
            lambda: said.get_subscription_count() > 1 and watch.count_publishers("events/notices"), 5.0, "the planner hears"
        )
        said.publish(ProcessArray())
        now = parser.get_clock().now().to_msg()
        process = ProcessState(
            process_id="p", instruction="nod", status=ProcessState.IN_PROGRESS, strategy="stream", created=now
        )
        said.publish(ProcessArray(processes=[process]))
        return watch

    return begin


def test_a_stream_that_nobody_takes_ends_its_plan(plan: Callable[..., Observer]) -> None:
    """As when the parser was killed, which stays in the graph for a while: here one that throws away what it reads."""
    ended = plan(RuntimeNode("token_parser"), lambda _: None).wait_event(ProcessKind.PLAN_ENDED, 10.0, process_id="p")
    assert ended.error_code == TaskCode.NODE_UNAVAILABLE and "did not take" in ended.error_msg


def test_a_stream_whose_end_is_lost_ends_its_plan_once_what_began_has_ended(plan: Callable[..., Observer]) -> None:
    """As when the parser was killed after the last tag and before the end."""
    parser = RuntimeNode("token_parser")
    streams: list[str] = []
    events = EventWriter(parser, CallEvent, StreamEvent)

    def tell(kind: CallKind) -> None:
        events.write(CallEvent(kind=kind, process_id="p", stream_id=streams[0], call_id="c", function="nod"))

    def read(chunk: LlmChunk) -> None:
        if not streams:
            streams.append(chunk.stream_id)
            events.write(StreamEvent(kind=StreamKind.STARTED, process_id="p", stream_id=streams[0]))
            tell(CallKind.STARTED)

    watch = plan(parser, read)
    watch.wait_event(CallKind.STARTED, 10.0, process_id="p")
    time.sleep(1.0)
    assert not watch.of("p", ProcessKind.PLAN_ENDED), "the call still runs"
    tell(CallKind.ENDED)
    ended = watch.wait_event(ProcessKind.PLAN_ENDED, 5.0, process_id="p")
    assert ended.error_code == TaskCode.NODE_UNAVAILABLE and "lost the end" in ended.error_msg


def test_without_its_file_the_scheduler_goes_on_and_says_so(
    ros: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Callable[..., Any]
) -> None:
    monkeypatch.setenv("GHOSTSHELL_DATA", str(tmp_path))
    file = tmp_path / "processes" / "robot.sqlite3"
    file.parent.mkdir()
    file.write_bytes(b"no database " * 500)
    node = ProcessSchedulerNode()
    watch = Observer("/")
    host(node, watch)
    notice = watch.wait_event(NoticeKind.MESSAGE, 5.0, node="process_scheduler")
    assert str(file) in notice.error_msg and "move the file away" in notice.error_msg
    assert node.health().level is Level.WARN
    wait_until(lambda: watch.servers_ready or watch.tasks.server_is_ready(), 5.0, "it takes tasks")
    process_id = watch.task("walk").process_id
    assert watch.wait_status(process_id, ProcessState.IN_PROGRESS, 5.0).instruction == "walk"


def test_the_kernel_hears_who_owns_a_process_before_anybody_hears_of_the_process(
    ros: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Callable[..., Any]
) -> None:
    monkeypatch.setenv("GHOSTSHELL_DATA", str(tmp_path))
    node, watch = ProcessSchedulerNode(), Observer("/")
    said: list[tuple[str, bool]] = []
    for name, ids in (("_heartbeat", lambda m: m.process_ids), ("_publisher", lambda m: [p.process_id for p in m.processes])):
        publisher = getattr(node, name)
        publish = partial(lambda of, ids, send, m: (said.append((of, bool(ids(m)))), send(m)), name, ids, publisher.publish)
        monkeypatch.setattr(publisher, "publish", publish)
    host(node, watch)
    wait_until(lambda: watch.servers_ready or watch.tasks.server_is_ready(), 5.0, "it takes tasks")
    watch.wait_status(watch.task("walk").process_id, ProcessState.IN_PROGRESS, 5.0)
    assert [of for of, names_it in said if names_it][:2] == ["_heartbeat", "_publisher"]


@pytest.mark.faults
def test_the_log_says_what_becomes_of_an_instruction(
    ros: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GHOSTSHELL_DATA", str(tmp_path))
    node, watch = ProcessSchedulerNode(), Observer("/")
    host(node, watch)
    wait_until(lambda: watch.servers_ready or watch.tasks.server_is_ready(), 5.0, "it takes tasks")
    process_id = watch.task("walk\x1b[2J").process_id
    watch.wait_status(process_id, ProcessState.IN_PROGRESS, 5.0)
    assert watch.ask(watch.control, ControlProcess.Request(process_id=process_id, command=STOP)).success
    watch.wait_status(process_id, ProcessState.STOPPED, 5.0)
    watch.say("  ")
    said = ""

    def refused() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "refused: the instruction is empty" in said

    wait_until(refused, 5.0, "the refusal")
    lines = [line.partition("instruction ")[2] for line in said.splitlines() if "INFO" in line and "instruction '" in line]
    assert lines[0] == f"'walk\ufffd[2J' received by action: process {process_id}", "and no escape reaches the terminal"
    assert lines[1] == "'walk\ufffd[2J' started" and lines[2].startswith("'walk\ufffd[2J' stopped: ") and len(lines) == 4


def test_after_a_crash_every_process_is_there_and_none_runs_until_the_user_says_so(ros: None, tmp_path: Path) -> None:
    with ModelServer(answer) as server, Several(tmp_path, server) as robot:
        watch = robot.watch
        done = robot.begin("walk")
        robot.state(done, ProcessState.SUCCESS)
        patrol, wave = robot.begin("patrol", call="walk"), robot.begin("wave", call="wave")
        door = robot.begin("open the door")
        question = robot.asked()
        wait_until(lambda: watch.kernel and len(watch.kernel.running) == 3, 3.0, "all run")
        asked = len(server.requests)
        assert robot.mind is not None
        robot.mind.kill()
        wait_until(lambda: watch.kernel and not watch.kernel.running, 3.0, "the kernel stopped what nobody answers for")
        robot.start_mind()
        wait_until(lambda: not robot.questions, 3.0, "nobody waits for the answer")
        assert robot.answer(question.id, "yes").error_code == AnswerCode.NO_SUCH_QUESTION
        assert robot.control(STOP, door).success
        for name in (patrol, wave):
            state = robot.state(name, ProcessState.PAUSED)
            assert state.pause_causes == ["user"] and "resume or stop" in state.message
        assert robot.state(done, ProcessState.SUCCESS).calls_done == 1
        wait_until(
            lambda: watch.kernel and {p.process_id for p in watch.kernel.processes} == {patrol, wave}, 5.0, "the kernel knows"
        )
        assert len(server.requests) == asked and not watch.kernel.running
        since = len(watch.events)
        assert robot.control(RESUME, patrol).success
        robot.runs(patrol, "walk", since)
        again = robot.state(patrol, ProcessState.SUCCESS)
        assert (again.instruction, again.calls_done) == ("patrol", 1)
        assert "started anew" in server.requests[-1].last_user_text
        assert robot.control(STOP, wave).success
        assert robot.state(wave, ProcessState.STOPPED) and len(server.requests) == asked + 1


@pytest.mark.faults
def test_what_ran_when_the_robot_was_shut_down_on_purpose_is_not_taken_up_again(ros: None, tmp_path: Path) -> None:
    with ModelServer(answer) as server, Several(tmp_path, server) as robot:
        patrol = robot.begin("patrol", call="walk")
        assert robot.mind is not None
        robot.mind.send_signal(signal.SIGINT)
        assert robot.mind.wait(10.0) == 0
        robot.start_mind()
        assert "shut down" in robot.state(patrol, ProcessState.STOPPED).message
        assert not robot.control(RESUME, "").success
