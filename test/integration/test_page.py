# SPDX-License-Identifier: Apache-2.0
"""The operator's page of a running robot: its address, what it shows, what people do on it, and its return after a kill."""

from __future__ import annotations

import io
import json
import math
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from ghostshell.action import AskHuman
from ghostshell.msg import Lesson
from ghostshell.srv import AnswerQuestion, CompileReflex, ControlHalt, Learn
from PIL import Image
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from function_tokens.routines import RoutineStore
from ghostshell_ros.nodes.dashboard.feeds import RobotReader
from ghostshell_ros.nodes.dashboard.halts import Halts
from ghostshell_ros.nodes.dashboard.robot_services import RobotServices
from ghostshell_ros.nodes.dashboard.state import RobotPage
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd
from ghostshell_ros.runtime.lesson_client import LEARN
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import REQUESTS
from pipeline_support import BroughtUp, brought_up
from ros_support import ROOT, ask, wait_until
from skill_kernel.roles import Role

SENTENCE = "when the head is turned more than 40 degrees, look happy"
SOURCE = "def condition():\n    return abs(head_turn()) > 40\n\n\ndef action():\n    emotion(emo='happy')\n"


class Browser:
    """Keep the state as the page does, and act on it."""

    def __init__(self, address: str) -> None:
        self.host, self._token = address.split("/")[2], address.rpartition("=")[2]
        self.state: dict[str, Any] = {}
        self.heard: list[str] = []
        """Kinds of messages, in turn."""
        self._did: queue.Queue[dict[str, Any]] = queue.Queue()
        self._number = 0
        self._opened = ExitStack()
        self._socket = self._opened.enter_context(self.open("/ws"))
        threading.Thread(target=self._listen, daemon=True).start()

    def open(self, path: str) -> ClientConnection:
        cookie = {"Cookie": f"ghostshell-{self.host.rpartition(':')[2]}={self._token}"}
        options: dict[str, Any] = {"compression": None, "proxy": None, "max_size": None}
        return connect(f"ws://{self.host}{path}", origin=f"http://{self.host}", additional_headers=cookie, **options)

    def _listen(self) -> None:
        with suppress(WebSocketException):
            while True:
                message = json.loads(self._socket.recv())
                self.heard.append(message["t"])
                if message["t"] == "did":
                    self._did.put(message)
                elif message["t"] == "snapshot":
                    self.state = message["state"]
                else:
                    self._patch(message)

    def _patch(self, message: dict[str, Any]) -> None:
        for path in message["del"]:
            del self._at(path)[path[-1]]
        for path, value in message["set"]:
            node = self._at(path)
            if isinstance(node, list) and path[-1] == len(node):
                node.append(value)
            else:
                node[path[-1]] = value

    def _at(self, path: list[Any]) -> Any:
        node: Any = self.state
        for key in path[:-1]:
            node = node[key]
        return node

    def do(self, act: str, robot: str, **about: Any) -> dict[str, Any]:
        """Return the outcome of an act."""
        self._number += 1
        self._socket.send(json.dumps({"t": "do", "id": self._number, "act": act, "robot": robot, **about}))
        told = self._did.get(timeout=8.0)
        assert told["id"] == self._number
        return told

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


class Setting:
    """A robot with a page, in the name of whom it is opened."""

    def __init__(self, robot: BroughtUp, folder: Path) -> None:
        self.robot, self.folder = robot, folder
        self.name = robot.observer.get_namespace().strip("/")

    def addresses(self) -> list[str]:
        """Return the addresses that the node has printed, in turn."""
        self.robot.take_events()
        return [line.rpartition("page: ")[2].strip() for line in self.robot.log if "page: http" in line]

    def command(self, *words: str) -> str:
        """Return what `ghostshell page` prints."""
        program = [sys.executable, "-m", "ghostshell_ros.cli.main", "page", *words]
        environment = {**os.environ, "GHOSTSHELL_DATA": str(self.folder / "data")}
        done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout.removeprefix("page: ").strip()

    @contextmanager
    def browser(self, *words: str) -> Iterator[Browser]:
        """Open the page; `words` choose a role."""
        with Browser(self.command(*words) if words else self.addresses()[-1]) as browser:
            wait_until(lambda: self.of(browser).get("link") == "live", 10.0, "the robot is on the page")
            yield browser

    def of(self, browser: Browser) -> dict[str, Any]:
        """Return what the page shows of the robot."""
        found: dict[str, Any] = browser.state.get("robots", {}).get(self.name, {})
        return found


@pytest.fixture(scope="module")
def page(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "data" / "coco").mkdir(parents=True)
    RoutineStore(folder / "data/coco/routines.json", clock=lambda: 0.0).save("bow", "a deep one", "<head_act/>")
    with brought_up(folder, page="true", memory="true") as robot:
        made = Setting(robot, folder)
        wait_until(made.addresses, 20.0, "an address is printed")
        yield made


def test_an_instruction_becomes_calls_and_talk(page: Setting) -> None:
    assert page.command() == page.addresses()[-1]
    with page.browser() as browser:
        assert browser.state["you"]["name"] == "user"
        done = browser.do("instruct", page.name, text="nod once <img src=x onerror=alert(1)>")
        assert not done["ok"] or done["message"].startswith("process ")
        done = browser.do("instruct", page.name, text="nod once")
        assert done["ok"], done
        process = done["message"].removeprefix("process ")
        shown = lambda: page.of(browser)["processes"].get(process, {})  # noqa: E731
        wait_until(lambda: shown() and shown()["states"][-1][0] == "SUCCESS", 15.0, "it is done")
        calls = [call for call in page.of(browser)["calls"].values() if call["process"] == process]
        assert [(call["function"], call["outcome"]) for call in calls] == [("head_act", "DONE")]
        talk = [(line["from"], line["text"]) for line in page.of(browser)["chat"]]
        assert ("person", "nod once") in talk and ("person", "nod once <img src=x onerror=alert(1)>") in talk
        assert page.of(browser)["drivers"]["move_joints_driver"] == "active"
        assert "head_turn" in page.of(browser)["observation"]
        routine = {"kind": "routine", "name": "bow", "text": "a deep one", "state": "approved", "actions": ["test", "revoke"]}
        kept = lambda: [r for r in page.of(browser)["rules"] if r["kind"] == "routine"]  # noqa: E731
        wait_until(kept, 5.0, "what it was taught")
        assert kept() == [{**routine, "detail": [["code", "<head_act/>"]]}]
        wait_until(lambda: "safety_gate" in page.of(browser)["diagnostics"], 6.0, "nodes report their health")
    record = [json.loads(line) for line in (page.folder / "data/page/acts.jsonl").read_text().splitlines()]
    assert (record[-1]["role"], record[-1]["act"], record[-1]["ok"]) == ("user", "instruct", True)


def test_a_halt_is_shown_when_the_gate_has_latched_it_and_cleared_by_who_may(page: Setting) -> None:
    with page.browser() as browser, page.browser("--as", "viewer") as viewer:
        halted = lambda: page.of(browser)["halted"]  # noqa: E731
        assert halted()["on"] is False
        before = halted()["number"]
        with viewer.open("/halt") as link:
            link.send(json.dumps({"robot": page.name, "cause": "page"}))
            assert json.loads(link.recv(3.0))["ok"]
        wait_until(lambda: halted()["on"] is True and halted()["number"] > before, 5.0, "the page says STOPPED")
        wait_until(lambda: "viewer" in halted()["cause"], 5.0, "who called it")
        refused = viewer.do("clear", page.name, number=halted()["number"])
        assert not refused["ok"] and "operator" in refused["message"]
        old = browser.do("clear", page.name, number=halted()["number"] + 1)
        assert not old["ok"] and halted()["on"]
        assert browser.do("clear", page.name, number=halted()["number"])["ok"]
        wait_until(lambda: halted()["on"] is False, 5.0, "it is cleared")


def test_a_robot_of_another_machine_is_halted_through_ros(namespace: str, host: Callable[..., Any]) -> None:
    """Its gate has no socket here."""
    gate, asked = RuntimeNode("gate", namespace=namespace), list[str]()

    def halt(request: ControlHalt.Request, response: ControlHalt.Response) -> ControlHalt.Response:
        asked.extend([request.cause] if request.command == ControlHalt.Request.HALT else [])
        response.success, response.message = True, "halted"
        return response

    gate.create_service(ControlHalt, "request_halt", halt)
    host(gate)
    halts, robot = Halts(gate.context.get_domain_id()), namespace.strip("/")
    try:
        halts.prepare(robot)
        assert halts.halt(robot, "a child on the stairs", known=True) == (True, "halted") and asked == ["a child on the stairs"]
        assert halts.halt(f"{robot}x", "why", known=False) == (False, f"there is no robot {robot}x")
        assert not halts.halt("▶ walk.mcap", "why", known=False)[0]
    finally:
        halts.close()


def test_a_reflex_is_tried_and_approved_as_it_was_shown(page: Setting, host: Callable[..., Any]) -> None:
    node = RuntimeNode("somebody", namespace=page.name)
    host(node)
    about = {"name": "enough", "sentence": SENTENCE, "source": SOURCE, "person": "Ada"}
    request = CompileReflex.Request(command=CompileReflex.Request.ADD, **about)
    added = ask(node, node.create_client(CompileReflex, "compile_reflex"), request, 10.0)
    assert added.success, added.error_msg
    with page.browser() as browser, page.browser("--as", "operator") as operator:
        rule = lambda: next((r for r in page.of(browser)["rules"] if r["name"] == "enough"), {})  # noqa: E731
        wait_until(lambda: rule().get("state") == "proposed", 5.0, "it is proposed")
        about = {"kind": "reflex", "name": "enough"}
        tried = browser.do("rule", page.name, **about, action="test")
        assert tried["ok"] and tried["message"], tried
        refused = operator.do("rule", page.name, **about, action="approve")
        assert not refused["ok"] and "approver" in refused["message"]
        assert not browser.do("rule", page.name, **about, action="enable")["ok"]
        assert browser.do("rule", page.name, **about, action="approve")["ok"]
        wait_until(lambda: rule().get("state") == "approved", 5.0, "it is approved")
        assert operator.do("rule", page.name, **about, action="remove")["ok"]
        wait_until(lambda: not rule(), 5.0, "it is removed")


def test_a_lesson_is_approved_and_taken_back_among_the_rules(page: Setting, host: Callable[..., Any]) -> None:
    node = RuntimeNode("console", namespace=page.name)
    host(node)
    wait_until(
        lambda: page.addresses() and f"remembers what robot '{page.name}'" in "".join(page.robot.log), 20.0, "the memory"
    )
    lesson = Lesson(kind="example", level="skill", text=">>> nod()", correction="not so fast", better="Next time I nod slowly.")
    lesson.sender = "Ada"
    asked = Learn.Request(command=Learn.Request.PROPOSE, robot=page.name, lesson=lesson)
    proposed = ask(node, node.create_client(Learn, LEARN), asked, 10.0, again_s=math.inf)
    assert proposed.success, proposed.error_msg
    with page.browser() as browser, page.browser("--as", "viewer") as viewer:
        rule = lambda: next((r for r in page.of(browser)["rules"] if r["kind"] == "learned"), {})  # noqa: E731
        about = {"kind": "learned", "name": str(proposed.id)}
        for action, state in [("approve", "confirmed"), ("revoke", "revoked"), ("approve", "confirmed")]:
            wait_until(lambda action=action: action in rule().get("actions", ()), 5.0, f"one can {action}")
            assert not viewer.do("rule", page.name, **about, action=action)["ok"]
            assert browser.do("rule", page.name, **about, action=action)["ok"]
            wait_until(lambda state=state: rule().get("state") == state, 5.0, f"it is {state}")
        assert dict(rule()["detail"])["said by"] == "Ada (unverified)", "nothing proves who corrected it"
        assert (rule()["text"], dict(rule()["detail"])["changed by"]) == ("not so fast", "page (user)")
        assert not browser.do("rule", page.name, **about, action="approve")["ok"], "it is confirmed"


def test_a_routine_is_tried_and_revoked_among_the_rules(page: Setting) -> None:
    with page.browser() as browser, page.browser("--as", "viewer") as viewer:
        rule = lambda: next((r for r in page.of(browser)["rules"] if r["kind"] == "routine"), {})  # noqa: E731
        about = {"kind": "routine", "name": "bow"}
        wait_until(rule, 10.0, "the routine is shown")
        tried = viewer.do("rule", page.name, **about, action="test")
        assert tried["ok"] and tried["message"] == "each call fits coco: head_act()"
        for action, state in [("revoke", "revoked"), ("approve", "approved")]:
            assert not viewer.do("rule", page.name, **about, action=action)["ok"]
            assert browser.do("rule", page.name, **about, action=action)["ok"]
            wait_until(lambda state=state: rule().get("state") == state, 5.0, f"it is {state}")


def test_a_question_is_answered(page: Setting, host: Callable[..., Any]) -> None:
    node = RuntimeNode("asker", namespace=page.name)
    host(node)
    asking = GoalClient(node, AskHuman, "ask_human")
    ends: queue.Queue[Any] = queue.Queue()
    wait_until(lambda: node.call_soon(asking.server_is_ready) or asking._answers, 10.0, "ask_human")
    asks = {"question": "Shall I <b>open</b> the door?", "choices": ["yes", "no"], "person": "Li", "why": "it is warm"}
    goal = AskHuman.Goal(**asks, timeout_s=30.0)
    node.call_soon(lambda: asking.send(goal, on_end=lambda end, result: ends.put((end, result))))
    with page.browser() as browser, page.browser("--as", "viewer") as viewer:
        wait_until(lambda: page.of(browser)["questions"], 5.0, "the question is shown")
        ((name, asked),) = page.of(browser)["questions"].items()
        assert asked["text"] == goal.question and asked["choices"] == ["yes", "no"]
        assert (asked["person"], asked["why"], asked["any_words"]) == ("Li", "it is warm", False)
        assert not viewer.do("answer", page.name, question=name, text="no")["ok"]
        told = browser.do("answer", page.name, question=name, text="yes")
        assert told["ok"], told
        end, result = ends.get(timeout=5.0)
        assert end is GoalEnd.SUCCEEDED and (result.answered, result.answer) == (True, "yes")
        wait_until(lambda: not page.of(browser)["questions"], 5.0, "it is answered")


def test_an_answer_waits_until_the_page_has_found_the_service(namespace: str, host: Callable[..., Any]) -> None:
    """Whoever opens the page with a question on it may answer before the page has looked for services."""
    robot, page = RuntimeNode("robot", namespace=namespace), RuntimeNode("page", namespace=namespace)
    heard: queue.Queue[Any] = queue.Queue()

    def answer(request: AnswerQuestion.Request, response: AnswerQuestion.Response) -> AnswerQuestion.Response:
        response.success = request.question_id == "1abc"
        return response

    robot.create_service(AnswerQuestion, "answer_question", answer, qos_profile=REQUESTS)
    host(robot)
    host(page)
    name = namespace.strip("/")
    services = RobotServices(page, name, RobotReader(RobotPage(), page.now_s))
    request = AnswerQuestion.Request(question_id="1abc", text="yes")
    page.call_soon(lambda: services.ask("answer_question", request, Role.ANONYMOUS, heard.put))
    page.call_soon(lambda: services.connect({f"/{name}/answer_question"}))
    assert heard.get(timeout=10.0).success and heard.empty()


def test_a_camera_is_heard_only_while_somebody_watches(page: Setting) -> None:
    heard = lambda: page.robot.observer.count_subscribers(f"/{page.name}/film/image_raw")  # noqa: E731
    before = heard()
    with page.browser() as browser:
        wait_until(lambda: "film/image_raw" in page.of(browser)["cameras"], 5.0, "there are cameras")
        assert heard() == before
        with browser.open(f"/camera/{page.name}/film/image_raw") as eye:
            for _ in range(2):
                assert Image.open(io.BytesIO(eye.recv(10.0))).format == "JPEG"
                eye.send("ok")
            assert heard() == before + 1
        wait_until(lambda: heard() == before, 5.0, "nobody hears it")


def test_a_page_that_is_killed_comes_back_and_tells_the_story(page: Setting) -> None:
    with page.browser() as browser:
        process = browser.do("instruct", page.name, text="nod once")["message"].removeprefix("process ")
        shown = lambda: page.of(browser)["processes"].get(process, {})  # noqa: E731
        wait_until(lambda: shown() and shown()["states"][-1][0] == "SUCCESS", 15.0, "it is done")
    address, began_s = page.addresses()[-1], page.robot.kill("dashboard")
    while True:
        try:
            with Browser(address) as again:
                wait_until(lambda: process in page.of(again).get("processes", {}), 10.0, "it tells of the process")
                back_s = time.monotonic() - began_s
                assert page.of(again)["processes"][process]["instruction"] == "nod once"
                assert "nod once" in [line["text"] for line in page.of(again)["chat"]]
                wait_until(lambda: page.of(again)["halted"]["on"] is False, 5.0, "the gate has told that nothing is halted")
                break
        except (OSError, WebSocketException):
            assert time.monotonic() - began_s < 10.0
            time.sleep(0.05)
    assert back_s < 10.0, "2 s on a machine that is not busy: bench/bench_page.py"


def test_a_second_page_stands_by(page: Setting, tmp_path: Path) -> None:
    environment = {**os.environ, "GHOSTSHELL_DATA": str(page.folder / "data")}
    command = [sys.executable, "-m", "ghostshell_ros.executables", "dashboard"]
    second = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert second.stdout is not None
    try:
        assert "stands by" in second.stdout.readline()
        with page.browser("--as", "viewer") as browser:
            assert page.of(browser)["link"] == "live"
    finally:
        second.send_signal(signal.SIGINT)
        assert "page: http" not in second.communicate(timeout=15)[0]


@pytest.mark.slow
def test_many_clients_get_the_newest_and_cost_no_memory(page: Setting) -> None:
    """20 clients for a minute, four of which take nothing: states and pictures are dropped rather than queued."""
    pid = page.robot.pid("dashboard")

    def resident_mb() -> float:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6

    with ExitStack() as opened:
        browsers = [opened.enter_context(page.browser()) for _ in range(16)]
        eyes = [opened.enter_context(b.open(f"/camera/{page.name}/film/image_raw")) for b in browsers[:8]]
        for _ in range(4):  # these never read
            opened.enter_context(browsers[0].open("/ws"))
            opened.enter_context(browsers[0].open(f"/camera/{page.name}/film/image_raw"))
        time.sleep(5.0)
        before_mb, end_s, shown = resident_mb(), time.monotonic() + 60.0, 0
        while time.monotonic() < end_s:
            for eye in eyes:
                eye.recv(10.0)
                eye.send("ok")
                shown += 1
            if not shown % 80:  # a robot that has not nodded yet takes only so many more tasks
                assert browsers[0].do("instruct", page.name, text="nod once")["ok"]
        assert shown >= 8 * 20 and resident_mb() - before_mb < 30.0
        newest = max(browser.state["now"] for browser in browsers)
        assert all(newest - browser.state["now"] <= 2 for browser in browsers)
        assert all(browser.heard.count("snapshot") <= 3 for browser in browsers)
