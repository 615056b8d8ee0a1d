# SPDX-License-Identifier: Apache-2.0
"""Keep the Thought-of-Action graph of a task (InteractGen V): steps with dependencies. Independent ones run together, and one
that fails takes along only what stands on it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from typing import Any

from planners.models.model_call import AnswerError
from planners.strategies.closed_loop.actions import Action


class State(str, Enum):
    """Name how a step stands."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    VOID = "void"
    """A step that it depends on has failed."""


@dataclass(eq=False)
class Step:
    """Hold a step and who does it: `action` a robot, or by `words` and with the reason `why` a person. `told`: how it ended."""

    number: int
    skill: str
    after: tuple[int, ...]
    agent: str
    action: Action | None = None
    words: str = ""
    why: str = ""
    state: State = State.WAITING
    told: str = ""

    def shown(self) -> dict[str, Any]:
        """Return it as prompts show it."""
        told = {"told": self.told} if self.told else {}
        return {
            "step": self.number,
            "skill": self.skill,
            "dep": list(self.after),
            "agent": self.agent,
            "state": self.state,
            **told,
        }


def check_order(steps: Iterable[tuple[int, Sequence[int]]], known: Iterable[int] = ()) -> None:
    """Check steps with the numbers that they depend on; `known` stand already. Raises AnswerError for a number that is there
    twice, for one that nobody has, and for a circle."""
    before: dict[int, Sequence[int]] = dict.fromkeys(known, ())
    for number, after in steps:
        if number in before:
            raise AnswerError(f"step {number} is there twice, or was planned before; number new steps on")
        before[number] = after
    for number, after in before.items():
        if missing := next((one for one in after if one not in before), None):
            raise AnswerError(f"step {number} depends on step {missing}, which is not there or has failed")
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        raise AnswerError(f"steps {', '.join(map(str, error.args[1]))} depend on one another in a circle") from error


class ToaGraph:
    """Hold the steps of a task by number; only such that may be carried out are added."""

    def __init__(self) -> None:
        self.steps: dict[int, Step] = {}

    @property
    def next_number(self) -> int:
        """Return the number that a new step begins with."""
        return max(self.steps, default=0) + 1

    def of(self, *states: State) -> list[Step]:
        """Return the steps in these states."""
        return [step for step in self.steps.values() if step.state in states]

    @property
    def sound(self) -> list[int]:
        """Return the numbers that a new step may depend on."""
        return [step.number for step in self.of(State.WAITING, State.RUNNING, State.DONE)]

    def add(self, steps: Iterable[Step]) -> None:
        """Add steps. Raises AnswerError as `check_order` does; then none is added."""
        new = list(steps)
        self.check([(step.number, step.after) for step in new])
        self.steps.update((step.number, step) for step in new)

    def check(self, steps: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Check steps by number with the numbers that they depend on, before they are added. Raises AnswerError."""
        if taken := next((number for number, _ in steps if number in self.steps), None):
            raise AnswerError(f"step {taken} was planned before; number new steps on from {self.next_number}")
        check_order(steps, self.sound)

    def due(self) -> list[Step]:
        """Return the steps that may begin: all that they depend on is done, and who does them does nothing else."""
        busy = {step.agent for step in self.of(State.RUNNING)}
        found = []
        for step in self.of(State.WAITING):
            ready = all(self.steps[number].state is State.DONE for number in step.after)
            if ready and step.agent not in busy:
                found.append(step)
                busy.add(step.agent)
        return found

    def fail(self, step: Step, told: str) -> None:
        """Fail a step, and void what stands on it."""
        step.state, step.told = State.FAILED, told
        fallen = {step.number}
        while more := [other for other in self.of(State.WAITING) if fallen & {*other.after}]:
            for other in more:
                other.state, other.told = State.VOID, "what it depends on has failed"
                fallen.add(other.number)
