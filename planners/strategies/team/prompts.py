# SPDX-License-Identifier: Apache-2.0
"""Build the prompts of the five agents (InteractGen III.A): a static front that providers can cache, and a message a question.

These are the blocks of each message, in this order; one without items is left out:

manager, at first       TASK, CLARIFIED, ROBOTS, PEOPLE, SAID, MEMORY, and CLARIFY
manager, afterwards     TASK, CLARIFIED, MEMORY, PERCEPTION, PLAN, FEEDBACK, and REVIEW
perceiver               TASK, CLARIFIED, ROBOTS, PEOPLE, SAID, MEMORY, IMAGES, OBSERVATION, PERCEPTION, REFLECTION, PLAN,
                        FEEDBACK, SETTLED, and PROPOSE for a standing order
planner                 TASK, CLARIFIED, ROBOTS, PEOPLE, MEMORY, PERCEPTION, REFLECTION, PLAN, FEEDBACK, NUMBER
assigner                TASK, CLARIFIED, ROBOTS, PEOPLE, MEMORY, PERCEPTION, REFLECTION, PLAN, FEEDBACK, STEPS
validator               TASK, CLARIFIED, ROBOTS, PEOPLE, MEMORY, PERCEPTION, REFLECTION, PLAN, ASSIGNED

ROBOTS holds one {"robot", …abilities, "state"} each, with state free, busy, halted or out of reach; PEOPLE one {"person",
"about", "place"}; SAID one {"person", "said", "ago_s"}; IMAGES one {"robot"} a picture, in their order; OBSERVATION one
{"robot", …its fields}; PLAN one {"step", "skill", "dep", "agent", "state", "told"} a step so far, and before it DONE
the calls that ended before the planner was started anew; STEPS one {"step", "skill", "dep"} to be assigned; ASSIGNED
one {"step", "dep", "agent", "call", "why"}; CLARIFIED one {"question", "answer"}; REFLECTION one {"flag", "thought",
"summary"}; NUMBER is what new steps begin with; all else texts. Without a perceiver planner and assigner are shown SAID
and OBSERVATION themselves; without a planner the assigner is shown NUMBER and no STEPS. What a person said in private
is shown in that person's own tasks alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from planners.prompts.blocks import Layer, block, front, text_beside
from planners.prompts.prompt import DATA, RobotFacts, compose, described, functions, observation_now, observed, remembered, task
from planners.strategies.closed_loop.actions import ROBOT
from planners.strategies.closed_loop.pictures import Pictures
from planners.strategies.team.answers import Review
from planners.strategies.team.toa import State, Step, ToaGraph
from planners.strategy import PlannerIO, RobotView, Task

SHOWN_AGENTS, SHOWN_SAID, SHOWN_WHY = 20, 12, 6
"""Robots or people of a prompt at most, those that the task names first, and the newest sayings and reasons."""
SHOWN_PICTURES = 6
"""Pictures of a prompt at most; each is as long as a page of text."""
SHOWN_DONE = 60
"""The newest calls of the task from before its planner started anew, and the newest steps beside those that run or wait."""
_FRONTS = {
    layer: text_beside(__file__, f"{layer}_rules.txt")
    for layer in (Layer.MANAGER, Layer.PERCEIVER, Layer.PLANNER, Layer.ASSIGNER, Layer.VALIDATOR)
}
WITHOUT = {
    Layer.MANAGER: "Nobody reflects on what was done: learn from FEEDBACK yourself.",
    Layer.PERCEIVER: "Nobody reads what is known for you: read SAID, OBSERVATION and MEMORY yourself.",
    Layer.PLANNER: "Nobody plans: write all steps yourself, each with `dep`, the numbers of the steps it needs; NUMBER is the "
    "first. Nothing left to do: no assignments. Nothing can be done: also give_up true, with the reason as thought.",
    Layer.VALIDATOR: "Nobody checks your assignments: check them yourself.",
}
"""What the assigner is told in place of an agent that is switched off (figure 12)."""


class Prompts:
    """Write the questions of one process. What has changed since the last one is set before."""

    def __init__(self, task: Task, robots: Mapping[str, RobotView], io: PlannerIO, off: Iterable[Layer]) -> None:
        self._task, self._robots, self._io, self._off = task, robots, io, frozenset(off)
        self.graph = ToaGraph()
        self.memory: Sequence[str] = ()
        """Lines of the robots' memory."""
        self.clarified: list[dict[str, str]] = []
        self.perception: Sequence[str] = ()
        self.reflection: Review | None = None
        self.feedback: list[str] = []
        """Why a plan is needed, since the last that was accepted."""
        self.settled: list[str] = []
        """Proposals that were carried out, or that nobody wanted."""

    @property
    def words(self) -> str:
        """Return all that the task names."""
        return " ".join([self._task.instruction, *(text for one in self.clarified for text in one.values()), *self.feedback])

    def system(self, layer: Layer) -> str:
        """Return the static front of an agent: the robots and their functions where it must know them, and its rules."""
        rules = _FRONTS[layer]
        if layer is Layer.ASSIGNER:
            rules = "\n".join([rules, *(text for off, text in WITHOUT.items() if off in self._off), ""])
        knows = layer in (Layer.PLANNER, Layer.ASSIGNER, Layer.VALIDATOR)
        return compose(self._functions() if knows else "", front(layer) + rules)

    def clarify(self) -> str:
        """Return what the manager is asked about the instruction."""
        return compose(self._asked(), self._team(), self._said(), remembered(self.memory), block("CLARIFY", ["is it clear?"]))

    def review(self) -> str:
        """Return what the manager is asked about what was done."""
        known = (remembered(self.memory), self._perceived(), self._plan(), self._feedback())
        return compose(self._asked(), *known, block("REVIEW", ["is the task done?"]))

    def look(self) -> Callable[[], Pictures]:
        """Return what takes, on any thread, the pictures that the perceiver sees: of the first robots that have one."""
        robots = {name: self._robots[name] for name in self._first(self._robots)}

        def take() -> Pictures:
            seen = islice((name for name, robot in robots.items() if robot.images()), SHOWN_PICTURES)
            return Pictures.take({name: robots[name] for name in seen})

        return take

    def perceive(self, pictures: Pictures, *, propose: bool) -> str:
        """Return what the perceiver is asked; `propose`: also whether there is something to do."""
        return compose(
            self._asked(),
            self._team(),
            self._said(),
            remembered(self.memory),
            block("IMAGES", pictures.shown(), "in the order of the pictures"),
            self._observations(),
            self._perceived(),
            self._reflected(),
            self._plan(),
            self._feedback(),
            block("SETTLED", self.settled[-SHOWN_SAID:], "proposals that were carried out or not wanted"),
            block("PROPOSE", ["is there something to do now?"] if propose else []),
        )

    def plan(self) -> str:
        """Return what the planner is asked."""
        return compose(self._asked(), self._team(), *self._known(), block("NUMBER", [self.graph.next_number]))

    def assign(self, steps: Sequence[Mapping[str, Any]]) -> str:
        """Return what the assigner is asked: who does these steps; it plans them where nobody else does."""
        number = [self.graph.next_number] if Layer.PLANNER in self._off else []
        new = block("NUMBER", number) + block("STEPS", steps, "to be assigned")
        return compose(self._asked(), self._team(), *self._known(), new)

    def validate(self, steps: Sequence[Step]) -> str:
        """Return what the validator is asked: whether these steps may begin."""
        items = [
            {
                "step": one.number,
                "dep": list(one.after),
                "agent": one.agent,
                "call": str(one.action or one.words),
                "why": one.why,
            }
            for one in steps
        ]
        known = (remembered(self.memory), self._perceived(), self._reflected(), self._plan())
        return compose(self._asked(), self._team(), *known, block("ASSIGNED", items))

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _asked(self) -> str:
        clarified = block("CLARIFIED", self.clarified, "by who wants it")
        return compose(task(self._task.instruction, self._task.sender), clarified)

    def _known(self) -> tuple[str, ...]:
        unseen = Layer.PERCEIVER in self._off
        seen = (self._said(), self._observations()) if unseen else ()
        return (remembered(self.memory), *seen, self._perceived(), self._reflected(), self._plan(), self._feedback())

    def _team(self) -> str:
        busy = {step.agent for step in self.graph.of(State.RUNNING)}
        state = {name: "busy" if name in busy else "free" for name in self._robots}
        state |= {name: why for name in self._robots if (why := self._io.unavailable(name))}
        able = {name: self._robots[name].about.abilities.shown() for name in self._first(self._robots)}
        robots = [{ROBOT: name, **shown, "state": state[name]} for name, shown in able.items()]
        known = self._io.people.known
        people = [
            {"person": name, **{key: getattr(known[name], key) for key in ("about", "place") if getattr(known[name], key)}}
            for name in self._first(known)
        ]
        return compose(block("ROBOTS", robots, DATA), block("PEOPLE", people, f"who may be asked; {DATA}"))

    def _first(self, names: Iterable[str]) -> list[str]:
        """Return the names that are shown: those that the task or the people name first, the others as they come."""
        said = " ".join(said.text for said in self._io.people.said(self._task.sender)[-SHOWN_SAID:])
        words = f"{self.words} {said} {' '.join(self.memory)}".casefold()
        return sorted(names, key=lambda name: name.casefold() not in words)[:SHOWN_AGENTS]

    def _said(self) -> str:
        people = self._io.people
        items = [
            {"person": said.person, "said": said.text, "ago_s": round(people.now() - said.at_s)}
            for said in people.said(self._task.sender)[-SHOWN_SAID:]
        ]
        return block("SAID", items, f"in the chat, oldest first; {DATA}")

    def _observations(self) -> str:
        told = {name: self._robots[name].observed() for name in self._first(self._robots)}
        return observation_now(*({ROBOT: name, **fields} for name, fields in told.items() if fields is not None))

    def _perceived(self) -> str:
        return block("PERCEPTION", self.perception, f"by the perceiver; {DATA}")

    def _reflected(self) -> str:
        thought = [self.reflection.model_dump()] if self.reflection is not None else []
        return block("REFLECTION", thought, f"by the manager; {DATA}")

    def _plan(self) -> str:
        before = [call.shown() for call in self._task.done[-SHOWN_DONE:]]
        steps = self.graph.steps
        shown = {step.number for step in (*self.graph.of(State.WAITING, State.RUNNING), *list(steps.values())[-SHOWN_DONE:])}
        plan = [step.shown() for number, step in steps.items() if number in shown]
        return compose(
            block("DONE", before, f"by this task, before its planner began anew: do none of it twice; {DATA}"),
            block("PLAN", plan, f"so far; {DATA}"),
        )

    def _feedback(self) -> str:
        return block("FEEDBACK", self.feedback[-SHOWN_WHY:], f"why a new plan is needed; {DATA}")

    def _functions(self) -> str:
        """Return the functions of the robots, those of robots that can do the same once."""
        alike: dict[str, list[str]] = {}
        for name, robot in self._robots.items():
            alike.setdefault(robot.system_prompt(_described), []).append(name)
        return compose(*(text.replace(_WHOSE, f"# Functions of {', '.join(names)}") for text, names in alike.items()))


_WHOSE = "# Functions of these robots"


def _described(robot: RobotFacts) -> str:
    """Return what a robot is and can do, under a heading for all that are like it."""
    return compose(functions(robot.skills, robot.options, heading=_WHOSE), described(robot), observed(robot))
