# SPDX-License-Identifier: Apache-2.0
"""Learn from one correction: ask a model what went wrong and how it should have gone, try that where nothing moves, keep it as
a proposal, and word the question whether it is to be used (section 3.5)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planners.learned import LearnedError, LearnedStore, Lesson, LessonKind, Proposal
from planners.models.base import Message
from planners.strategies.console.api import LEARN, WAIT_NAME, Api
from planners.strategies.console.lessons import (
    contradicted,
    corrected,
    fault_of,
    known_as,
    level_of,
    no_problem,
    routines_in,
    tidied,
)
from planners.strategies.console.prompts import STEPS, Prompts
from planners.strategies.console.rehearsal import Executor, RehearsalError, rehearsed
from planners.strategies.console.replies import unfenced
from planners.strategies.console.sandbox import SandboxError
from planners.strategies.console.transcript import Entry, read, written
from skill_kernel.config.sections import shown

MAX_SAID = 300
"""Characters of the sentence that a person is asked to confirm, and of the correction that is kept."""
NOT_NOW = f"{LEARN}() learns from what somebody just said: call it right after {WAIT_NAME}() or ask()"
NOTHING = "nothing is learned: {}"
NO_PROBLEM, NO_ANSWER = "nothing was wrong", "the model that improves interactions does not answer; ask again later"
UNTRIED = "the improved interaction fails where it is tried without the robot, at {}"
PROPOSED = "lesson {} is proposed ({}): {} It is used once somebody says yes."
KEPT, NOT_KEPT = "Lesson {} is confirmed: it is used from now on.", "Lesson {} is not kept."
NOT_SETTLED = "Lesson {} could not be settled: {}"
UNASKED = "lesson {} is proposed, but nobody could be asked whether to keep it; it can be confirmed on the page"
SOMEBODY = "somebody"
_OFFER = {
    "en": ("{} Shall I remember that?", " That takes the place of what I learned on {} from “{}”."),
    "zh": ("{} 要我记住吗？", "这会取代我在{}从“{}”学到的内容。"),
}
_YES = "yes|yeah|yep|sure|ok|okay|exactly|correct|of course|please do|是|是的|对|对的|好|好的|可以|行"
_KEEP = "(?:do )?(?:please )?(?:remember|keep|learn|save)(?: it| that| this)?|请?记住(?:它|这个|吧)?"
_NO = "no|nope|nah|no thanks|do not|don't|forget (?:it|that)|wrong|不|不要|不用|不对|不是|别|别记|算了"
_TAIL = "(?: please| thanks| thank you| now| from now on|请|吧|谢谢)*"
_YES_SAID = re.compile(rf"(?:please )?(?:(?:{_YES})(?: (?:{_YES}|{_KEEP}))?|{_KEEP}){_TAIL}")
_NO_SAID = re.compile(rf"(?:{_NO})(?: (?:{_NO}))?{_TAIL}")
_SPACE = re.compile(r"[\s,.;!?，。！？、]+")


class Refused(RuntimeError):
    """Tell why a console cannot learn now; its sentence says what to do."""


@dataclass(frozen=True)
class Offer:
    """Hold a lesson that is proposed, and the question whether it is to be used. `told` is what the console shows."""

    lesson: int
    question: str
    told: str


def agreed(said: str) -> bool | None:
    """Return whether somebody confirms what was offered: True or False for a plain yes or no, None for all that says more."""
    words = _SPACE.sub(" ", said.casefold().replace("’", "'")).strip()
    return True if _YES_SAID.fullmatch(words) else False if _NO_SAID.fullmatch(words) else None


def settle(store: LearnedStore, lesson: int, yes: bool, sender: str) -> tuple[str, bool]:
    """Confirm a lesson or take it back, as somebody said in a conversation; return what became of it, and whether that is what
    was said. Blocks."""
    who = f"{sender or SOMEBODY} (in conversation)"
    try:
        if yes:
            store.confirm(lesson, who)
        else:
            store.revoke(lesson, who, "said no")
    except LearnedError as error:
        return NOT_SETTLED.format(lesson, " ".join(str(error).split())), False
    return (KEPT if yes else NOT_KEPT).format(lesson), True


class Learning:
    """Learn from what somebody said last at a console. `ask` puts a question to the model that improves interactions and hands
    on its answer, "" for none; `work` does on another thread what blocks. `done` hears an Offer, or why nothing is learned.
    Raises Refused where there is nothing to learn from."""

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        prompts: Prompts,
        api: Api,
        store: LearnedStore,
        execute: Executor,
        observed: Mapping[str, Any],
        sender: str,
        process: str,
        ask: Callable[[Sequence[Message], Callable[[str], None]], None],
        work: Callable[[Callable[[], Offer | str], Callable[[Offer | str], None]], None],
        done: Callable[[Offer | str], None],
    ) -> None:
        correction = corrected(entries)
        if correction is None:
            raise Refused(NOT_NOW)
        self._correction, self._entries = correction, prompts.interaction(entries)
        self._prompts, self._api, self._store, self._execute, self._observed = prompts, api, store, execute, dict(observed)
        self._sender, self._process = sender, process
        self._ask, self._work, self._done = ask, work, done
        self._answers: list[str] = []
        self._ask_next()

    def _ask_next(self) -> None:
        self._ask(self._prompts.improve(self._entries, self._answers), self._answered)

    def _answered(self, answer: str) -> None:
        if not answer:
            self._nothing(NO_ANSWER)
        elif not self._answers and no_problem(answer):
            self._nothing(NO_PROBLEM)
        else:
            self._answers.append(answer)
            if len(self._answers) < len(STEPS):
                self._ask_next()
            else:
                self._judge(tidied(read(unfenced(answer))))

    def _judge(self, improved: list[Entry]) -> None:
        if fault := fault_of(improved, self._entries):
            self._nothing(fault)
            return
        self._work(lambda: self._try_and_keep(improved), self._done)

    def _try_and_keep(self, improved: list[Entry]) -> Offer | str:
        """Try an improved interaction and propose it; on the thread that may block."""
        try:
            shown_as = rehearsed(improved, self._api, self._execute, self._observed)
        except (RehearsalError, SandboxError) as error:
            return NOTHING.format(UNTRIED.format(error))
        confirmed = self._store.confirmed(LessonKind.EXAMPLE)
        if (known := known_as(shown_as, confirmed)) is not None:
            return NOTHING.format(f"it is known already, as lesson {known.id}")
        against = contradicted(shown_as, confirmed)
        level = level_of(shown_as, self._entries, self._api.acts)
        better = shown(" ".join(self._answers[1].removeprefix("2.").split()), MAX_SAID)
        proposal = Proposal(
            written(shown_as),
            shown(self._correction, MAX_SAID),
            level,
            better,
            tuple(lesson.id for lesson in against),
            routines_in(shown_as),
            source="console",
            sender=self._sender,
            process=self._process,
        )
        try:
            lesson = self._store.propose(proposal)
        except LearnedError as error:
            return NOTHING.format(error)
        question = _question(better, self._correction, against)
        return Offer(lesson, question, PROPOSED.format(lesson, f"{level.value} level", better))

    def _nothing(self, why: str) -> None:
        self._done(NOTHING.format(why))


def _question(better: str, correction: str, against: Sequence[Lesson]) -> str:
    ask, replaces = _OFFER["zh" if re.search("[\u3400-\u9fff]", correction) else "en"]
    days = [time.strftime("%Y-%m-%d", time.localtime(one.changed_s)) for one in against]
    told = "".join(replaces.format(day, shown(one.correction, 80)) for day, one in zip(days, against, strict=True))
    return ask.format(f"{better}{told}")
