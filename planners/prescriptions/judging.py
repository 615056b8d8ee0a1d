# SPDX-License-Identifier: Apache-2.0
"""What one robot understands of a sentence without a model: its reflexes' grammar and its commands."""

from __future__ import annotations

import re

from planners.language.parser import CommandParser
from planners.prescriptions.duration import nominal_of
from planners.prescriptions.grammar import Grammar, GrammarError
from planners.prescriptions.router import ReflexReading, RuleReading
from planners.prescriptions.wording import MODAL, MUST, REQUEST
from planners.prompts.prompt import GrammarOptions
from reflexes.rule import ReflexError
from skill_kernel.guard import GuardError, Vocabulary, compile_guarded
from skill_kernel.robot import RobotConfig

LONGEST = 150
"""Characters; what is longer needs a plan or a model's judgement, and reading it word by word would hold the node up."""
_GREET = re.compile(
    r"^(?:greet|welcome)\b(?: (?:them|him|her|it|people|everybody|everyone|the person|a person))?$", re.IGNORECASE
)


class GrammarJudge:
    """Reads for the skills and accessors of one robot."""

    def __init__(self, vocabulary: Vocabulary, robot: RobotConfig) -> None:
        self._vocabulary = vocabulary
        self._grammar = Grammar(vocabulary, robot)
        options = GrammarOptions(robot.builtin_names, robot.limits)
        self._commands = CommandParser(vocabulary.skills, (), options, robot.name)

    def reflex(self, sentence: str) -> ReflexReading | None:
        """The sentence as the grammar reads it, if the robot can do it."""
        if len(sentence) > LONGEST:
            return None
        try:
            source = self._grammar.read(sentence).source
            guarded = compile_guarded(source, self._vocabulary)
        except (GuardError, ReflexError):
            return None
        return ReflexReading(guarded.accessors, nominal_of(source, self._vocabulary))

    def rule(self, sentence: str) -> RuleReading | None:
        """Condition and task, if both are understood."""
        if len(sentence) > LONGEST:
            return None
        try:
            rule = self._grammar.rule(REQUEST.sub("", sentence, count=1))
        except (GrammarError, ReflexError):
            return None
        task = REQUEST.sub("", MODAL.sub("", MUST.sub("", rule.task)).strip(), count=1).strip()
        task = _GREET.sub("say hello", task)
        return RuleReading(rule.condition, task) if self.direct(task) else None

    def direct(self, sentence: str) -> bool:
        """Whether it is a command that the robot carries out without a model."""
        if len(sentence) > LONGEST:
            return False
        reading = self._commands.read(sentence)
        return reading.trouble is None and bool(reading.source)
