# SPDX-License-Identifier: Apache-2.0
"""Lay out what the models of a console are shown (section 3.4): what stays the same first, so that providers can cache it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planners.models.base import CHARACTERS_A_TOKEN, Message, tokens_in
from planners.prompts.blocks import Layer, front, text_beside
from planners.prompts.prompt import RobotFacts, compose, described
from planners.strategies.console.api import Api
from planners.strategies.console.examples import Example, most_similar
from planners.strategies.console.transcript import PROMPT, Entry, instructions, newest, written

MAX_EXAMPLES = 16
EXAMPLE_TOKENS = 2300
"""Length of all examples of a prompt; of those that are too long for it the less similar are left out."""
FENCE = "```"
_TEXTS = ("console_rules", "function_rules", "suffix", "loop_examples", "improve_rules", "improve_steps")
_RULES, _FUNCTION_RULES, _SUFFIX, _LOOP, _IMPROVE_RULES, _IMPROVE_STEPS = (
    text_beside(__file__, f"{name}.txt").rstrip("\n") for name in _TEXTS
)
STEPS = tuple(_IMPROVE_STEPS.split("\n"))
"""Questions by which an interaction is improved, one after the other (section 3.5)."""


class Prompts:
    """Write the prompts of one robot's consoles. `examples` of its file come before those that were learned."""

    def __init__(self, robot: RobotFacts, api: Api, history_tokens: int) -> None:
        self._api, self._history = api, history_tokens * CHARACTERS_A_TOKEN
        self._examples = tuple(
            Example(text.rstrip("\n"), f"robot {robot.name}") for text in robot.examples.get("console", {}).values()
        )
        rules = front(Layer.CONSOLE) + _RULES.format(robot=robot.name)
        self.system = f"{compose(rules + chr(10), described(robot))}\n{FENCE}\n{self._functions()}"
        """The front of each prompt: rules, the robot, and the beginning of the console with all functions."""
        self.function_system = f"{front(Layer.FUNCTIONS)}{_FUNCTION_RULES}\n\n{self._functions()}"
        improve = _IMPROVE_RULES.format(robot=robot.name, fence=FENCE)
        self.improve_system = f"{front(Layer.IMPROVE)}{improve}\n\n{self._functions()}"

    def _functions(self) -> str:
        return "\n".join(self._api.lines)

    def console(self, entries: Sequence[Entry], learned: Sequence[Example] = (), *, circle: bool = False) -> str:
        """Return what follows the front: examples, the most similar last, the task's own transcript, and the prompt. After a
        `circle` the examples show how one is left."""
        history = newest(list(entries), self._history)
        chosen = most_similar(instructions(list(entries)), [*self._examples, *learned], MAX_EXAMPLES)
        examples = [_LOOP] if circle else _fitting([example.text for example in chosen])
        return "\n".join([*examples, _SUFFIX, written(history), PROMPT])

    def interaction(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the part of a transcript from which is learned: the newest interactions that a prompt can show."""
        return newest(list(entries), self._history)

    def improve(self, entries: Sequence[Entry], answers: Sequence[str]) -> tuple[Message, ...]:
        """Return the next question about an interaction, behind those that were answered."""
        first, *later = STEPS
        told = [Message("user", f"{FENCE}\n{written(list(entries))}\n{FENCE}\n{first}")]
        for answer, step in zip(answers, later, strict=False):
            told += [Message("assistant", answer), Message("user", step)]
        return tuple(told)

    def function(self, call: str, known: Mapping[str, str]) -> str:
        """Return what asks for the function that a call needs. `known`: those that were written for the same statement."""
        return "\n\n".join([*known.values(), f"# define function: {call}."])


def _fitting(texts: Sequence[str]) -> list[str]:
    """Return the texts that a prompt has room for, in their order; the last ones go first."""
    room = EXAMPLE_TOKENS
    kept: list[str] = []
    for text in reversed(texts):
        if (tokens := tokens_in(text)) <= room:
            room -= tokens
            kept.insert(0, text)
    return kept
