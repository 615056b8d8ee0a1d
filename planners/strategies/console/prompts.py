# SPDX-License-Identifier: Apache-2.0
"""Lay out what the models of a console are shown (section 3.4): what stays the same first, so that providers can cache it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planners.models.base import CHARACTERS_A_TOKEN
from planners.prompts.blocks import Layer, front, text_beside
from planners.prompts.prompt import RobotFacts, compose, described
from planners.strategies.console.api import Api
from planners.strategies.console.examples import Example, most_similar
from planners.strategies.console.transcript import PROMPT, Entry, instructions, newest, written

MAX_EXAMPLES = 16
FENCE = "```"
_RULES, _FUNCTION_RULES, _SUFFIX, _LOOP = (
    text_beside(__file__, f"{name}.txt").rstrip("\n") for name in ("console_rules", "function_rules", "suffix", "loop_examples")
)


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

    def _functions(self) -> str:
        return "\n".join(self._api.lines)

    def console(self, entries: Sequence[Entry], learned: Sequence[Example] = (), *, circle: bool = False) -> str:
        """Return what follows the front: examples, the most similar last, the task's own transcript, and the prompt. After a
        `circle` the examples show how one is left."""
        history = newest(list(entries), self._history)
        chosen = most_similar(instructions(list(entries)), [*self._examples, *learned], MAX_EXAMPLES)
        examples = [_LOOP] if circle else [example.text for example in chosen]
        return "\n".join([*examples, _SUFFIX, written(history), PROMPT])

    def function(self, call: str, known: Mapping[str, str]) -> str:
        """Return what asks for the function that a call needs. `known`: those that were written for the same statement."""
        return "\n\n".join([*known.values(), f"# define function: {call}."])
