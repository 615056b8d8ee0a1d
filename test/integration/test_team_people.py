# SPDX-License-Identifier: Apache-2.0
"""Strategy `team` in the real node: two robots act at their own kernels, two people answer what they are asked, and a stop word
in the chat halts every robot."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from ghostshell.action import AskHuman
from ghostshell.msg import Question, QuestionArray, Said
from ghostshell.srv import AnswerQuestion
from sensor_msgs.msg import Image

from bench.reading import read_blocks
from bench.simulated_model.model_server import ModelServer, RecordedRequest
from ghostshell_ros.runtime.goal_client import GoalClient
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED, SENSORS
from ros_support import wait_until
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallKind
from team_support import Gate, Person, Team, outcome, team_up

ANSWERS = {
    "manager": {"clear": True},
    "perceiver": {"perception": ["the form lies on the table"], "world": [["form", "on", "table"]]},
    "validator": {"verdict": "pass", "thought": "it fits"},
}
DONE = {"flag": "Y", "thought": "both have lifted, and the form is signed", "summary": "done"}
_numbers = count()
MISSING = {"flag": "N", "thought": "a robot is missing", "summary": "one failed"}


class Crowd(RuntimeNode):
    """People of the team, who answer at once what they were told to, in order; the newest question to each is kept."""

    def __init__(self, team: str, replies: dict[str, list[str]]) -> None:
        super().__init__("crowd", namespace=team)
        self._replies, self._taken = replies, set[str]()
        self.asked: list[Question] = []
        self.most_open = 0
        self._answer = self.create_client(AnswerQuestion, "answer_question")
        self._asking = GoalClient(self, AskHuman, "ask_human")
        self.chat = self.create_publisher(Said, "said", INSTRUCTION)
        self.create_subscription(QuestionArray, "questions", self._questions, LATCHED)

    def ask(self, person: str, reply: str) -> None:
        """Have a program ask a person, who replies."""
        self._replies[person] = [reply]
        goal = AskHuman.Goal(question="How are you?", person=person, timeout_s=30.0, any_words=True)
        self.call_soon(lambda: self._asking.send(goal, on_end=lambda *_: None))

    def film(self, robot: str) -> None:
        """Give a robot a camera that shows a red dot."""
        camera = self.create_publisher(Image, f"/{robot}/camera/image_raw", SENSORS)
        dot = Image(height=1, width=1, encoding="rgb8", step=3, data=b"\xff\0\0")
        self.call_soon(lambda: self.steady_timer(0.02, lambda: camera.publish(dot)))
        wait_until(lambda: camera.get_subscription_count() > 0, 10.0, "the team's planner looks")

    def _questions(self, message: QuestionArray) -> None:
        people = [question.person for question in message.questions]
        self.most_open = max(self.most_open, *map(people.count, people), 0)
        for question in message.questions:
            if question.id not in self._taken and self._replies.get(question.person):
                self._taken.add(question.id)
                self.asked.append(question)
                text = self._replies[question.person].pop(0)
                self._answer.call_async(AnswerQuestion.Request(question_id=question.id, text=text))


class Agents:
    """Answer for the five agents from what their prompts show."""

    def __init__(self, plans: list[Any], assignments: list[Any], reviews: list[Any]) -> None:
        self._left = {"planner": plans, "assigner": assignments, "REVIEW": reviews}
        self.blocks: list[tuple[str, dict[str, list[Any]]]] = []
        self.pictures: dict[str, int] = {}
        """The most pictures that came with a question to each agent."""

    def __call__(self, request: RecordedRequest) -> str:
        system = str(request.body["messages"][0]["content"])
        layer = next(line.removeprefix("LAYER ") for line in system.splitlines() if line.startswith("LAYER "))
        blocks = read_blocks(request.last_user_text)
        self.pictures[layer] = max(self.pictures.get(layer, 0), len(request.images))
        self.blocks.append((layer, blocks))
        left = self._left.get(next((block for block in ("REVIEW", "CLARIFY") if block in blocks), layer))
        return json.dumps(left.pop(0) if left else ANSWERS[layer])

    def shown(self, instruction: str, layer: str = "") -> str:
        """Return what agents, or one of them, were shown of a task."""
        told = ((asked, f"{blocks}") for asked, blocks in self.blocks)
        return "\n".join(blocks for asked, blocks in told if asked.startswith(layer) and instruction in blocks)


@contextmanager
def office(folder: Path, replies: dict[str, list[str]], agents: Agents) -> Iterator[tuple[Team, Person, Gate, Gate, Crowd]]:
    """Bring the team up with two people, Li and Bo."""
    people = folder / "people.yaml"
    people.write_text(yaml.safe_dump({"people": {"Li": {"place": "lab"}, "Bo": {}}}))
    number = f"{os.getpid()}_p{next(_numbers)}"
    with (
        ModelServer(agents) as server,
        team_up(
            folder,
            number,
            {"strategy": "team", "people": str(people)},
            f"model:=openai:any@{server.openai_url}",
            "team.pictures:=true",
        ) as up,
        NodeHost((crowd := Crowd(f"team{number}", replies),)) as host,
    ):
        host.start()
        yield (*up, crowd)


def step(number: int, skill: str, *dep: int) -> dict[str, Any]:
    return {"step": number, "skill": skill, "dep": list(dep)}


def assign(*given: tuple[int, str, str]) -> dict[str, Any]:
    return {"assignments": [{"step": n, "agent": agent, "call": call, "why": "Wang needs it"} for n, agent, call in given]}


def test_robots_and_people_do_a_task_together_and_a_stop_in_the_chat_halts_all(
    ros: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    plan = {"thought": "lift both, then sign", "steps": [step(1, "lift()"), step(2, "lift()"), step(3, "sign(form)", 1, 2)]}
    more = {"thought": "hold", "steps": [step(1, "hold()"), step(2, "hold()")]}
    agents = Agents([plan, more], [], [DONE])
    replies = {"Li": ["private: ask Bo instead, I see a doctor"], "Bo": ["yes", "done"]}
    with office(tmp_path, replies, agents) as (team, person, left, right, crowd):
        lifts = [(1, team.left, "lift(seconds=1.0)"), (2, team.right, "lift(seconds=1.0)"), (3, "Li", "Please sign the form.")]
        holds = [(1, team.left, "hold(seconds=30.0)"), (2, team.right, "hold(seconds=30.0)")]
        agents._left["assigner"] = [assign(*lifts), assign(*holds)]
        crowd.film(team.left)
        end = person.task("have the form signed").end()
        assert outcome(end) == ("SUCCESS", DONE["thought"])
        ended = person.of(CallKind.ENDED, "lift")
        assert {call.channels for call in ended} == {(team.left,), (team.right,)}
        assert min(call.end_s for call in ended) > max(call.start_s for call in ended), "they overlap"
        assert [(q.person, q.text, q.why) for q in crowd.asked] == [
            ("Li", "Please sign the form.", "Wang needs it"),
            ("Bo", "Please sign the form.", "Wang needs it; Li named you"),
            ("Bo", "Tell me when it is done: Please sign the form.", "Wang needs it"),
        ]
        assert min(call.start_s for call in person.of(CallKind.STARTED, "ask")) >= max(call.end_s for call in ended)
        assert next(call.value["text"] for call in person.of(CallKind.ENDED, "ask")) == "(private)"
        assert "doctor" not in f"{agents.blocks} {person.lines}", "it is in no prompt and in nothing that is told"
        assert crowd.most_open == 1 and person.of(CallKind.ENDED, "ask")[-1].value["answer"] == "done"
        shown = next(blocks for layer, blocks in agents.blocks if layer == "planner")
        assert {robot["robot"] for robot in shown["ROBOTS"]} == {team.left, team.right}

        assert [one for layer, blocks in agents.blocks for one in blocks.get("IMAGES", [])][:1] == [{"robot": team.left}]
        assert agents.pictures.pop("perceiver") == 1 and not any(agents.pictures.values()), "the others see none"

        agents._left["CLARIFY"] = [{"clear": True, "standing": True}]
        person.call_soon(partial(person.send, "bring me what I need", sender="Li"))
        wait_until(lambda: agents.shown("bring me", "perceiver"), 5.0, "it is a standing order")
        crowd.ask("Li", "private: the doctor wants a stool")
        wait_until(lambda: "wants a stool" in agents.shown("bring me", "perceiver"), 5.0, "it looks what Li needs now")

        person.task("hold still").runs("hold")
        wait_until(lambda: len(person.of(CallKind.STARTED, "hold")) == 2, 5.0, "both hold")
        assert "doctor" not in agents.shown("hold still") and "doctor" not in f"{person.lines}"
        crowd.chat.publish(Said(person="Li", text="Stop!"))
        wait_until(lambda: left.halted and right.halted, 3.0, "both robots are halted")


@pytest.mark.faults
def test_a_robot_that_is_lost_is_replaced_told_when_it_is_back_and_does_nothing_twice(
    ros: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    agents = Agents(
        [{"thought": "", "steps": [step(1, "lift()")]}, {"thought": "", "steps": [step(2, "lift()")]}], [], [MISSING, DONE]
    )
    with office(tmp_path, {}, agents) as (team, person, _, right, _):
        agents._left["assigner"] = [assign((1, team.left, "lift(seconds=20.0)")), assign((2, team.right, "lift(seconds=0.5)"))]
        task = person.task("lift it")
        task.runs("lift")
        team.kernels[team.left].send_signal(signal.SIGSTOP)
        end = task.end(15.0)
        assert outcome(end)[0] == "SUCCESS" and right.halted is False
        lost, done = person.of(CallKind.ENDED, "lift")
        assert (lost.outcome, lost.error_code) == (Outcome.FAILED, CallCode.KERNEL_UNAVAILABLE) and lost.channels == (
            team.left,
        )
        assert (done.outcome, done.channels) == (Outcome.DONE, (team.right,)) and done.start_s - lost.start_s < 8.0
        states = [robot["state"] for robot in agents.blocks[-3][1]["ROBOTS"]]
        team.kernels[team.left].send_signal(signal.SIGCONT)
        wait_until(lambda: f"{team.left} is back, and was told that lift is over" in person.notices(), 10.0, "it is told")
        assert sorted(states) == ["free", "out of reach"] and len(person.of(CallKind.STARTED, "lift")) == 2
