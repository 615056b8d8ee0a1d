# SPDX-License-Identifier: Apache-2.0
"""Build the prompts of observer, summarizer, planner and critic (CLEA IV): a static front that providers can cache, and one
message a question.

These are the blocks of each message, in this order; one without items is left out:

observer     TASK, SUBGOAL, NAMES, IMAGES, OBSERVATION
summarizer   TASK, HISTORY
planner      TASK, MEMORY, NAMES, BELIEF, HISTORY, SEEN, IMAGES (open loop only), OBSERVATION, RUNNING, FEEDBACK
critic       TASK, SUBGOAL, BELIEF, HISTORY, IMAGES, OBSERVATION, RUNNING, and ACTION or CLAIM

NAMES is one object, parameter to its values; IMAGES one {"robot"} a picture, in their order, then {"robot", "missing"};
OBSERVATION one {"robot", …its fields} a robot; HISTORY one {"step", "observation", "action", "feedback"} an action, for planner
and critic of those that BELIEF does not know yet; all else texts. An action reads as the planner writes it:
`pick_from(robot="hebe", object="tea", space="fridge")`.

Observer and summarizer answer in plain text, the planner in YAML with Subgoal, Action Plan and Status (continue, done,
impossible), the critic in YAML with Action Suitability, Feedback and, where it can, Region (`answers.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from planners.prompts.blocks import Layer, block, front, text_beside
from planners.prompts.prompt import (
    DATA,
    RobotFacts,
    compose,
    declared,
    described,
    functions,
    observation_now,
    observed,
    places,
    remembered,
    task,
)
from planners.strategies.closed_loop.actions import ROBOT, Action
from planners.strategies.closed_loop.memory import Entry
from planners.strategies.closed_loop.pictures import Pictures
from planners.strategy import RobotView, Task

WHOLE_ENTRIES, MAX_CHARS, SHORT_CHARS = 3, 1200, 160
"""Newest entries of HISTORY, length of their observations, and of all others."""
MAX_CALLS = 5
"""Calls of a plan in the closed loop."""
_FRONTS = {layer: text_beside(__file__, f"{layer}_rules.txt") for layer in (Layer.OBSERVER, Layer.SUMMARIZER, Layer.CRITIC)}
_PLANNER = text_beside(__file__, "planner_rules.txt")
_CLOSED = {
    "sight": "You do not see: BELIEF is the memory of what was done and where\nthings are, SEEN is what the cameras show now",
    "length": f"1 to 3 calls, never more than {MAX_CALLS}: what comes next and can be foreseen. You are asked again",
}
_OPEN = {
    "sight": "The pictures are the cameras', in the order of IMAGES",
    "length": "the whole plan up to the end of TASK, all calls in order: it is carried out without another look",
}


class Prompts:
    """Write the questions of one process to its four roles."""

    def __init__(self, task: Task, robots: Mapping[str, RobotView], *, open_loop: bool) -> None:
        self._task, self._robots = task, robots
        self._open = open_loop
        self.memory: Sequence[str] = ()
        """Lines of the robots' memory."""
        self.subgoal = self.belief = ""
        """What planner and summarizer said last."""
        self.recent: Sequence[Entry] = ()
        """Newest entries that the belief does not hold yet."""

    def system(self, layer: Layer) -> str:
        """Return the static front of a role: its rules, and what the robots can do where it must know."""
        names = {"robots": " and ".join(self._robots), "robot": next(iter(self._robots))}
        if layer is Layer.PLANNER:
            mode = _OPEN if self._open else _CLOSED
            rules = _PLANNER.format(example=self._example(), **mode, **names)
        else:
            rules = _FRONTS[layer].format(**names)
        bodies = [robot.system_prompt(_described) for robot in self._robots.values()]
        return compose(*(bodies if layer in (Layer.PLANNER, Layer.CRITIC) else ()), front(layer) + rules)

    def observer(self, pictures: Pictures) -> str:
        """Return what the observer is asked."""
        return compose(self._goal(), self._names(), self._images(pictures), self._observations())

    def summarizer(self, entries: Sequence[Entry]) -> str:
        """Return what the summarizer is asked."""
        return compose(self._asked(), _history(entries, ""))

    def planner(self, seen: str, pictures: Pictures, running: Iterable[Action], feedback: Sequence[str]) -> str:
        """Return what the planner is asked."""
        return compose(
            self._asked(),
            remembered(self.memory),
            self._names(),
            self._believed(),
            block("SEEN", filter(None, [seen]), f"by the observer; {DATA}"),
            self._images(pictures),
            self._observations(),
            block("RUNNING", map(str, running), "is being done"),
            block("FEEDBACK", feedback, f"on the last plan; {DATA}"),
        )

    def critic(self, pictures: Pictures, running: Iterable[Action], action: Action | None, claim: str = "") -> str:
        """Return what the critic is asked: of an action, or of what the planner claims to have achieved."""
        return compose(
            self._goal(),
            self._believed(),
            self._images(pictures),
            self._observations(),
            block("RUNNING", map(str, running), "is being done"),
            block("ACTION", [str(action)]) if action is not None else block("CLAIM", [claim], DATA),
        )

    def _asked(self) -> str:
        return task(self._task.instruction, self._task.sender)

    def _goal(self) -> str:
        return compose(self._asked(), block("SUBGOAL", filter(None, [self.subgoal]), "of the planner"))

    def _believed(self) -> str:
        belief = block("BELIEF", filter(None, [self.belief]), f"of the summarizer; {DATA}")
        return compose(belief, _history(self.recent, "what BELIEF does not know yet, "))

    def _images(self, pictures: Pictures) -> str:
        return block("IMAGES", pictures.shown(), "in the order of the pictures")

    def _observations(self) -> str:
        told = {name: robot.observed() for name, robot in self._robots.items()}
        return observation_now(*({ROBOT: name, **fields} for name, fields in told.items() if fields is not None))

    def _names(self) -> str:
        """Return the block of what things and places are called: the choices of all parameters."""
        names: dict[str, dict[str, None]] = {}
        for robot in self._robots.values():
            for skill in robot.about.skills:
                for parameter in declared(skill, robot.about.options.limits):
                    if parameter.kind == "choice":
                        names.setdefault(parameter.name, {}).update(dict.fromkeys(parameter.choices))
        return block("NAMES", [{name: list(values) for name, values in names.items()}] if names else [])

    def _example(self) -> str:
        """Return a call that exists."""
        for name, robot in self._robots.items():
            for skill in robot.about.skills:
                given = {p.name: p.choices[0] for p in declared(skill) if p.required and p.choices}
                if given and len(given) == sum(p.required for p in declared(skill)):
                    return str(Action(name, skill.name, given))
        return 'function(argument="value")'


def _described(robot: RobotFacts) -> str:
    """Return what a robot is and can do."""
    heading = f"# Functions of {robot.name}"
    return compose(described(robot), functions(robot.skills, robot.options, heading=heading), observed(robot), places(robot))


def _history(entries: Sequence[Entry], what: str) -> str:
    items = [_short(entry, whole=entry in entries[-WHOLE_ENTRIES:]) for entry in entries]
    return block("HISTORY", items, f"{what}oldest first; {DATA}")


def _short(entry: Entry, *, whole: bool) -> Mapping[str, Any]:
    most = MAX_CHARS if whole else SHORT_CHARS
    shown = {"step": entry.step, "observation": entry.observation[:most], "action": entry.action}
    return {**shown, "feedback": entry.feedback[:SHORT_CHARS]}
