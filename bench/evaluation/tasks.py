# SPDX-License-Identifier: Apache-2.0
"""The tasks of TypeGo's table 2 in Kalos's building: what is said, how the world is arranged, when it counts as done."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass

Spot = tuple[float, float, float]

AHEAD_M, STANDS_S, PERSON_HOME = 1.05, 8.0, (7.9, -2.7, 1.5708)
"""Somebody steps so far before the robot's middle, stands there no longer than that, and leaves when a reflex has acted."""
OUTSIDE = (7.0, -9.0)
"""A place where nobody sees the ball."""
DRIFT = 0.12
"""Start places vary by so many metres, headings by twice as many radians."""

FIND_BALL = (
    "Look around this room for a ball. If you find one, walk up to it and bark twice. If you have checked the whole room and "
    "there is none, return to the start and sit down."
)
FIND_BALL_FAR = FIND_BALL.replace("this room ", "").replace("the whole room", "the whole area")
"""The same as the paper has it: the area is the building, and a trial about as long as the paper's."""


@dataclass(frozen=True)
class Task:
    """`added` is what a person says, `person` whether one steps in the way, while the task runs. `deadline_s` bounds a
    trial, from the instruction to the process's end."""

    id: str
    category: str
    instruction: str
    criterion: str
    deadline_s: float
    added: str = ""
    person: bool = False

    @property
    def concurrent(self) -> bool:
        """Return whether a second activity comes in between: TypeGo's table 4."""
        return bool(self.added) or self.person


@dataclass(frozen=True)
class Setting:
    """Arrangement of the world before a trial: m and rad. `chair` is the one to be pictured."""

    robot: Spot
    ball: tuple[float, float] | None = None
    chair: Spot | None = None
    person: Spot | None = None
    door_shut: bool = False

    def arrangement(self) -> str:
        """As the simulator's parameter `arrangement` takes it."""
        wishes: dict[str, object] = {"robot": list(self.robot), "ball": list(self.ball or OUTSIDE)}
        if self.chair is not None:
            wishes["chair_spare"] = list(self.chair)
        if self.person is not None:
            wishes["person"] = list(self.person)
        if self.door_shut:
            wishes["office_door"] = "shut"
        return json.dumps(wishes)


CHINESE = {"C1": "T1", "C3": "T3", "C5": "T5"}
"""The tasks in Chinese, and those in whose worlds they take place."""
_BALL = (
    "With a ball: exactly two barks, the first with the ball within 1.3 m and 35 degrees of where it faces. Without: no bark, "
    "it has faced every direction of the room to within its camera's view, and sits within 0.6 m of its start."
)
_LIST = (
    Task(
        "T1",
        "explicit",
        "Turn around and face the person.",
        "At the end the person is within 15 degrees of where it faces, and it stands within 1 m of its start.",
        60.0,
    ),
    Task(
        "T2",
        "explicit",
        "Step back, turn left twice, and nod three times.",
        "In this order: at least 0.15 m back, then 140 to 220 degrees to the left in all, then exactly three nods; it "
        "stands at the end.",
        60.0,
    ),
    Task(
        "T3",
        "explicit",
        "Go to the hallway.",
        "The office's door is shut, so it stays in the office; a call of its own out of it began and failed, or it came "
        "within 1 m of the door; the process ends as FAILED with a reason, or it says aloud that it cannot, and does not say "
        "that it has come there.",
        120.0,
    ),
    Task(
        "T4",
        "open-ended",
        "Look for a chair in the hallway and take a picture of it.",
        "A picture kept on disk was taken while it stood in the hallway and the hallway's chair was within 5 m and 28 degrees "
        "of where it faced. It starts in the kitchen, in sight of another chair.",
        150.0,
    ),
    Task("T5", "open-ended", FIND_BALL, _BALL, 120.0),
    Task(
        "L5",
        "T5 at the paper's length",
        FIND_BALL_FAR,
        "That of T5; the ball always lies in the kitchen, and it starts in the hallway.",
        180.0,
    ),
    Task(
        "T6",
        "concurrent",
        FIND_BALL,
        _BALL + " After the interruption it rests within 2 s, then looks 60 to 135 degrees to the left of where it looked, "
        "and the first task goes on.",
        180.0,
        added="Stop, check what is on your left, then resume.",
    ),
    Task(
        "T7",
        "concurrent",
        FIND_BALL,
        _BALL + " The number it says is that of the rooms or named places it has truly been in, and the walk is not "
        "paused for it.",
        150.0,
        added="How many places have you explored?",
    ),
    Task(
        "T8",
        "concurrent",
        FIND_BALL,
        _BALL + " The reflex backs it off the person and gives the body back; it never comes nearer to them than 0.45 m "
        "(middle to middle).",
        150.0,
        person=True,
    ),
    Task("C1", "T1 in Chinese", "转身，面对那个人。", "That of T1.", 60.0),
    Task("C3", "T3 in Chinese", "去走廊。", "That of T3.", 120.0),
    Task(
        "C5",
        "condition in Chinese",
        "如果看到球就叫三声，否则坐下。",
        "With a ball: exactly three barks, the first with the ball within 35 degrees of where it faces; it does not sit at the "
        "end. Without: no bark, it has faced every direction of the room to within its camera's view, and sits at the end.",
        120.0,
    ),
    Task("A6", "add-on of T6 alone", "Check what is on your left.", "It looks 60 to 135 degrees to the left.", 60.0),
    Task(
        "A7",
        "add-on of T7 alone",
        "How many places have you explored?",
        "The number it says is that of the rooms or named places it has truly been in.",
        60.0,
    ),
)
TASKS = {task.id: task for task in _LIST}
MAIN_TASKS = ("T1", "T2", "T3", "T4", "T5")
CONCURRENT_TASKS = ("T6", "T7", "T8")
ADD_ONS = {"T6": "A6", "T7": "A7"}

_LOUNGE: tuple[tuple[tuple[float, float], tuple[tuple[float, float], ...]], ...] = (
    ((10.4, 2.8), ((8.5, 1.6), (8.7, 1.5), (8.4, 1.75))),
    ((8.9, 1.9), ((10.7, 3.2), (10.5, 3.3), (10.8, 3.0))),
)
"""Start in the lounge, and places where the ball may lie for it."""


def setting(task_id: str, trial: int) -> Setting:
    """Return the world of a trial: varies with the trial, is the same for every strategy, and T6 to T8 have that of every other
    trial of T5, in which there is a ball."""
    task_id = CHINESE.get(task_id, task_id)
    if task_id in ("T5", *CONCURRENT_TASKS, *ADD_ONS.values()):
        return _lounge(trial if task_id == "T5" else 2 * trial)
    r = random.Random(f"typego {task_id} {trial}")
    if task_id == "L5":
        ball = r.uniform(0.3, 0.8), r.uniform(1.9, 2.3)
        return Setting(_about(r, 0.8, 0.0, r.uniform(-math.pi, math.pi)), ball=ball)
    if task_id == "T1":
        robot = _about(r, 0.5, 0.0, r.choice((0.0, math.pi)))
        away = robot[2] + math.pi + r.uniform(-0.5, 0.5)
        far = r.uniform(1.4, 1.8)
        # The person is behind it, whichever way that is along the hallway.
        person = (robot[0] + far * math.cos(away), max(-0.7, min(0.7, robot[1] + far * math.sin(away))), away + math.pi)
        return Setting(robot, person=person)
    if task_id == "T2":
        return Setting(_about(r, 2.0, 0.0, r.choice((0.0, math.pi))))
    if task_id == "T3":
        return Setting(_about(r, 5.0, 2.4, -math.pi / 2), door_shut=True)
    chair = (r.uniform(3.0, 6.5), r.choice((-0.72, 0.72)), r.uniform(-math.pi, math.pi))
    return Setting(_about(r, 0.9, 2.3, math.pi), chair=chair)


def _lounge(trial: int) -> Setting:
    r = random.Random(f"typego lounge {trial}")
    (x, y), balls = _LOUNGE[trial // 2 % len(_LOUNGE)]
    ball = r.choice(balls)
    away = math.atan2(ball[1] - y, ball[0] - x) + r.choice((-1, 1)) * r.uniform(1.4, 2.6)
    return Setting(_about(r, x, y, away), ball=ball if trial % 2 == 0 else None)


def _about(r: random.Random, x: float, y: float, yaw: float) -> Spot:
    turned = math.remainder(yaw + r.uniform(-2 * DRIFT, 2 * DRIFT), math.tau)
    return x + r.uniform(-DRIFT, DRIFT), y + r.uniform(-DRIFT, DRIFT), turned
