# SPDX-License-Identifier: Apache-2.0
"""Demonstrations of teams. In the kitchen two robots find, roast and table an apple, which somebody drops into the bin on the
way. In the house three robots and two people bring somebody who is ill what she needs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from geometry_msgs.msg import PoseStamped
from ghostshell.msg import Question, QuestionArray
from ghostshell.srv import AnswerQuestion
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.task import Future
from std_srvs.srv import Trigger

from bench.demo.film import FilmReel
from bench.demo.processes import ProcessView, draw_processes
from bench.simulated_model.team_roles import THINGS
from ghostshell_ros.cli.follow import INSTRUCTS, RobotClient
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import LATCHED, MEASUREMENTS
from planners.prompts.blocks import Layer
from skill_kernel.events import CallEvent, CallKind, Notice, RunEvent

TASK = "Find the apple, roast it in the oven and bring it to the table."
COMES, TAKEN = ("go_to", "in_front_of_table"), {"apple": [0.36, -0.44, 0.0, 0.75]}
"""The call of who comes for the apple, and where it lies from then on: in the bin, which only the other robot reaches."""


HOME_TASK = (
    "Put the vitamins from the middle drawer and the tea from the fridge on the table, and have somebody bring both to Li. "
    "Let Kalos tell Li that tea and vitamins are coming."
)
HELPERS: Mapping[str, str] = {"Bo": "ask Wang instead", "Wang": "yes"}
"""Answers of the simulated people when they are asked to carry something."""
ANSWER_S, CARRY_S = 2.0, 6.0
"""Time that a simulated person takes to answer, and to carry things [s]."""
SIDE_TABLE, TOP_M, APART_M = (9.75, 1.45), 0.56, 0.09
"""Middle of the side table beside Li in the world [m], height at which things are put on it, and distance between two."""
LI, KALOS_START = (9.1, 1.55), (0.0, -1.9)
"""Places of Li and of the start of Kalos in the world [m]."""
TABLE_M, TABLE_TOP_M = (0.45, 0.75), 0.70
"""Half of the kitchen table in front of Atlas, which stands at its edge, along x and y, and its height [m]."""
NEAR_M, BESIDE_M = 0.4, 1.5
"""A thing is on the side table, and Kalos with Li, up to so far from its middle, and from her [m]."""


class TeamClient(RobotClient):
    """Give a team its task, film it, and change its simulated world as people would."""

    def __init__(self, team: str, *, film: bool) -> None:
        super().__init__(team)
        self.reel = FilmReel(self, every_s=0.6) if film else None
        self.fault = ""
        """Why something that people were to do in the world was not done."""
        self._set = self.create_client(SetParameters, "sim/set_parameters")
        self._arrange = self.create_client(Trigger, "sim/arrange")
        read_events(self, self._event)

    def arrange(self, wishes: Mapping[str, Sequence[float]], then: Callable[[], object] = lambda: None) -> None:
        """Put things elsewhere in the simulated world, and call `then` once they are there."""
        value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=json.dumps(wishes))
        request = SetParameters.Request(parameters=[Parameter(name="arrangement", value=value)])

        def arranged(future: Future) -> None:
            answer = future.result()
            if not answer.success:
                self.fault = f"the simulator did not move {', '.join(wishes)}: {answer.message}"
            then()

        self._set.call_async(request).add_done_callback(
            lambda _: self._arrange.call_async(Trigger.Request()).add_done_callback(arranged)
        )

    def _event(self, event: RunEvent) -> None:
        """Take an event of the team."""

    def marks(self) -> list[tuple[float, str]]:
        """Return what is marked in the picture, with its ROS time [s]."""
        return []

    def verdict(self) -> str:
        """Return what the simulated world says against the success of the task, "" for nothing."""
        return self.fault

    def draw(self, path: Path, title: str) -> None:
        """Write a PNG of what all did and what was thought."""
        model = self.view.model
        begun_s = min((p.states[0].begin_s for p in model.processes.values() if p.states), default=0.0)
        view = ProcessView(model, origin_s=begun_s)
        view.since(self.now_s())
        view.marks = self.marks()
        draw_processes(view, path, title=title, note="measured in simulation")


class KitchenClient(TeamClient):
    """With `alone` unset, play the person who drops the apple into the bin, once."""

    def __init__(self, team: str, *, film: bool, alone: bool) -> None:
        self._alone = alone
        self.taken_s: float | None = None
        """ROS time at which the apple was taken away [s]."""
        self.rejected: list[tuple[float, str]] = []
        """Plans that the critic stopped: ROS time [s] and its sentence."""
        super().__init__(team, film=film)

    def _event(self, event: RunEvent) -> None:
        if isinstance(event, Notice) and event.layer == Layer.CRITIC.value:
            self.rejected.append((event.stamp_s, event.told))
        elif isinstance(event, CallEvent) and event.kind is CallKind.STARTED and not self._alone and not self.taken_s:
            self._called(event)

    def _called(self, call: CallEvent) -> None:
        """Take the apple away when somebody comes for it."""
        if (call.function, call.arguments.get("point")) == COMES:
            self.taken_s = self.now_s()
            self.arrange(TAKEN)

    def marks(self) -> list[tuple[float, str]]:
        marks = [(at, "the critic says no") for at, _ in self.rejected]
        return marks if self.taken_s is None else [*marks, (self.taken_s, "somebody drops the apple into the bin")]


class HomeClient(TeamClient):
    """With `alone` unset, play the people of the house, who answer what they are asked and carry what they have accepted."""

    def __init__(self, team: str, *, film: bool, alone: bool) -> None:
        super().__init__(team, film=film)
        self._alone, self._heard = alone, set[str]()
        self._answers = list[tuple[float, str]]()
        self._where, self._height = dict[str, tuple[float, float]](), dict[str, float]()
        self._answer = self.create_client(AnswerQuestion, "answer_question")
        self.create_subscription(QuestionArray, "questions", self._questions, LATCHED)
        for thing in ("vitamins", "tea"):
            self.create_subscription(PoseStamped, f"ground_truth/{thing}", partial(self._at, thing), MEASUREMENTS)
        self.create_subscription(Odometry, "/kalos/odom", partial(self._walked, "kalos"), MEASUREMENTS)

    def _at(self, name: str, message: PoseStamped) -> None:
        at = message.pose.position
        self._where[name], self._height[name] = (at.x, at.y), at.z

    def _walked(self, name: str, message: Odometry) -> None:
        at = message.pose.pose.position
        self._where[name] = (at.x + KALOS_START[0], at.y + KALOS_START[1])

    def _questions(self, message: QuestionArray) -> None:
        for question in message.questions:
            if question.person in HELPERS and question.id not in self._heard and not self._alone:
                self._heard.add(question.id)
                self._asked(question)

    def _asked(self, question: Question) -> None:
        """Answer a request; where the person is to say when it is done, do it first."""
        if "done" not in question.choices:
            self.call_later(ANSWER_S, lambda: self._reply(question, HELPERS[question.person]))
            return
        named = [thing for thing in THINGS if thing.replace("_", " ") in question.text]
        if missing := [thing for thing in named if not self._on_table(thing)]:
            self.fault = f"{question.person} was sent for the {' and the '.join(missing)}, not on the kitchen table"
            self._reply(question, "no")
            return
        middle, y = SIDE_TABLE
        wishes = {thing: [middle + APART_M * (i - 0.5), y, 0.0, TOP_M] for i, thing in enumerate(named)}
        self.call_later(CARRY_S, lambda: self.arrange(wishes, lambda: self._reply(question, "done")))

    def _on_table(self, thing: str) -> bool:
        (x, y), (half_x, half_y) = self._where.get(thing, (math.inf, math.inf)), TABLE_M
        return abs(x - half_x) <= half_x and abs(y) <= half_y and self._height[thing] > TABLE_TOP_M

    def _reply(self, question: Question, text: str) -> None:
        self._answers.append((self.now_s(), f"{question.person}: {text}"))
        request = AnswerQuestion.Request(question_id=question.id, text=text)
        self._answer.call_async(signed(self, "answer_question", request, INSTRUCTS))

    def marks(self) -> list[tuple[float, str]]:
        return self._answers

    def verdict(self) -> str:
        aims = {"vitamins": (SIDE_TABLE, NEAR_M), "tea": (SIDE_TABLE, NEAR_M), "kalos": (LI, BESIDE_M)}
        far = [name for name, (aim, most) in aims.items() if math.dist(self._where.get(name, (0, 0)), aim) > most]
        return self.fault or (f"in the simulated world {' and '.join(far)} did not come to Li" if far else "")
