# SPDX-License-Identifier: Apache-2.0
"""Tell when a model only talked although its task asks for a deed of the body."""

import re
from collections.abc import Sequence

from function_tokens.builtins import BUILTINS
from function_tokens.scheduling.calls import TEXT
from planners.prompts.prompt import CallReport, RobotFacts
from skill_kernel.codes import TaskCode
from skill_kernel.config.sections import shown

REMINDER = "it began no action, though the instruction asks for one: call functions now, or say in a sentence why you cannot"
UNLESS = "; call {plan_done} alone if it asks for words only"
"""What the reminder says besides where only a verb tells that a deed is asked for."""
MOST_SAID = 160
"""Characters of what the model said that a message repeats."""
_TAG = re.compile(r"<[^>]*>")


class OnlyWords:
    """Watch the answers of one plan and the calls that came of them, `done` before it included."""

    def __init__(self, instruction: str, robot: RobotFacts, done: Sequence[CallReport] = ()) -> None:
        self._instruction, self._robot = instruction, robot
        self._words = self._said = ""
        self._called = {call.function for call in done}
        self.reminder = ""
        """With what the model is to be asked once more, after the first verdict of ONLY_WORDS."""

    def hear(self, written: str, calls: Sequence[CallReport]) -> None:
        """Take note of an answer. Each of its calls was an attempt, also one that was refused."""
        self._called.update(call.function for call in calls)
        self._words = " ".join(_TAG.sub(" ", written).split())
        self._said = self._words or self._said

    def verdict(self) -> tuple[TaskCode, str]:
        """Return why it is no success that the plan has ended, or `TaskCode.NONE`."""
        from planners.language.client import MEMORY_SKILL  # takes a while, and most processes never need it
        from planners.language.deeds import Asked, DeedReader, declined
        from planners.language.parser import CommandParser

        about = self._robot
        talk = {TEXT, MEMORY_SKILL, *BUILTINS, *(s.name for s in about.skills if s.speaks_text or s.decides)}
        if self._called - talk:
            return TaskCode.NONE, ""
        asked = DeedReader(CommandParser(about.skills, (), about.options, about.name)).asks(self._instruction)
        if asked is Asked.NO or (asked is Asked.PERHAPS and self.reminder and not self._words):
            return TaskCode.NONE, ""
        if why := declined(self._said):
            return TaskCode.GIVEN_UP, f"not done; the model says: “{shown(why, MOST_SAID)}”"
        again = ", also when asked again" if self.reminder else ""
        unless = UNLESS.format(plan_done=about.options.tag("plan_done")) if asked is Asked.PERHAPS else ""
        self.reminder = REMINDER + unless
        said = f": “{shown(self._said, MOST_SAID)}”" if self._said else ""
        return TaskCode.ONLY_WORDS, f"answered without action{again}{said}"
