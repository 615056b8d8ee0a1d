# SPDX-License-Identifier: Apache-2.0
"""Sends a sentence to the layer whose latency fits: a reflex (S0), a standing guideline (S3), or a task (S1 to S3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from planners.prescriptions import wording
from planners.prescriptions.kinds import Kind, Route
from reflexes.stop_words import is_stop

SHORT_S = 15.0
"""What an action may nominally take to be a reflex's: it keeps every task off the body meanwhile."""
SLOW = frozenset({"battery_percent", "charging", "room", "posture", "heard", "age_s", "stale", "value"})
"""Accessors that change too slowly for a hundredth of a second to matter."""

_NEEDS_MODEL = "; it is in no usual form, so a model has to write its code"


@dataclass(frozen=True)
class ReflexReading:
    """A sentence that the reflexes' grammar reads: the accessors of its condition, and how long its action nominally takes."""

    accessors: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class RuleReading:
    """Condition as an expression over the accessors, and the task behind it."""

    when: str
    task: str


class Judge(Protocol):
    """What one robot understands without a model."""

    def reflex(self, sentence: str) -> ReflexReading | None:
        """The sentence as a reflex; None when the grammar does not read it."""

    def rule(self, sentence: str) -> RuleReading | None:
        """Condition and task of a sentence, when both are understood."""

    def direct(self, sentence: str) -> bool:
        """Whether it is a command that needs no plan."""


class Router:
    """Routes by rules alone; what a person stated is taken, and what the sentence reads as is told beside it."""

    def __init__(self, judge: Judge, robot: str = "") -> None:
        self._judge, self._robot = judge, robot

    def route(self, sentence: str, stated: Kind | None = None) -> Route:
        """Where a sentence goes, and why there."""
        found = self._route(" ".join(sentence.split()))
        if stated is None or stated is found.kind:
            return found
        layer = {Kind.TASK: "S2", Kind.GUIDELINE: "S3", Kind.REFLEX: "S0"}[stated]
        reason = f"as stated, {_article(stated)}; by itself it reads as {_article(found.kind)}: {found.reason}"
        return Route(stated, layer, reason, *self._rule(sentence, stated))

    def _rule(self, sentence: str, kind: Kind) -> tuple[str, str]:
        rule = self._judge.rule(sentence) if kind is Kind.GUIDELINE else None
        return (rule.when, rule.task) if rule is not None else ("", "")

    def _route(self, sentence: str) -> Route:
        if is_stop(sentence, self._robot):
            return Route(Kind.TASK, "S0", "nothing but a stop word: it halts the robot at once and is never kept")
        plain = wording.plain(sentence, self._robot)
        if wording.QUESTION.match(plain) and not wording.REQUEST.match(plain):
            return self._task(sentence, "a question, answered once")
        parts = wording.sentences(wording.REQUEST.sub("", plain))
        if len(parts) > 1:
            return self._several(sentence, parts)
        return self._one(sentence, parts[0] if parts else plain)

    def _several(self, sentence: str, parts: list[str]) -> Route:
        kinds = [self._one(part, part).kind for part in parts]
        if Kind.TASK not in kinds:
            return Route(Kind.GUIDELINE, "S3", "several standing wishes in one; System 3 weighs them together")
        if set(kinds) == {Kind.TASK}:
            return self._task(sentence, "a goal in several sentences")
        why = "a goal, with something to watch for while it lasts: System 2 keeps that as an event of this task alone"
        return Route(Kind.TASK, "S2", why)

    def _one(self, sentence: str, plain: str) -> Route:
        clause = wording.split(plain)
        if clause is None:
            return self._unconditional(sentence, plain)
        if wording.OWN_COURSE.match(clause.condition):
            return self._task(sentence, "its condition is a point in the task itself, not something to watch for afterwards")
        reflex = self._reflex(sentence, clause)
        if reflex is not None:
            return reflex
        if not clause.first and wording.steps(clause.action) > 1 and not wording.STANDING.search(plain):
            why = "a goal of several steps, with something to watch for while it lasts: an event of this task alone"
            return Route(Kind.TASK, "S2", why)
        if not clause.first and wording.REPORT.match(clause.action) and clause.word not in wording.EVERY:
            return self._task(sentence, "it asks for one report, when that has happened")
        if clause.word == "if" and not (wording.EVENT.search(clause.condition) or wording.MODAL.match(clause.action)):
            return self._task(sentence, "an 'if' about what is now: it is decided once")
        return self._guideline(sentence, f"a standing wish: it applies each time that {clause.condition}")

    def _reflex(self, sentence: str, clause: wording.Clause) -> Route | None:
        """A reflex, if the condition may be urgent and the action is fixed and short; a guideline where it only might be."""
        if wording.MAY.match(clause.action) or wording.SOCIAL.search(wording.MUST.sub("", clause.action)):
            return None
        if clause.word in wording.LASTING:
            return None
        stripped = f"when {clause.condition}, {wording.MUST.sub('', clause.action)}"
        read = self._judge.reflex(sentence) or self._judge.reflex(stripped)
        if read is None:
            urgent, at_once = wording.URGENT.search(clause.condition), wording.AT_ONCE.match(clause.action)
            if not urgent or not at_once:
                return None
            reason = f"“{urgent.group()}” calls for an answer within a fraction of a second, and “{at_once.group()}” is one"
            return Route(Kind.REFLEX, "S0", reason + _NEEDS_MODEL)
        names = ", ".join(read.accessors)
        if set(read.accessors) <= SLOW:
            return self._guideline(sentence, f"its condition ({names}) changes slowly, so a second is soon enough")
        if read.seconds > SHORT_S:
            if not clause.first and wording.steps(clause.action) > 1:
                return None
            why = f"its action takes about {read.seconds:.0f} s; a reflex would keep every task off the body for so long"
            return self._guideline(sentence, why)
        reason = f"a condition on what is sensed at once ({names}) and a fixed action of about {read.seconds:.0f} s"
        return Route(Kind.REFLEX, "S0", reason)

    def _unconditional(self, sentence: str, plain: str) -> Route:
        plain = wording.UNLESS.sub("", plain)
        if wording.ABOUT_NOW.search(plain):
            return self._task(sentence, "it is about what happens now")
        if found := wording.SCHEDULE.search(plain):
            why = f"“{found.group()}” is a time, nothing the robot observes, so no guideline could fire: a task that lasts"
            return Route(Kind.TASK, "S2", why)
        if found := wording.STANDING.search(plain):
            return self._guideline(sentence, f"“{found.group().strip()}” makes it a standing wish")
        place = wording.PLACE.match(plain)
        about = plain[place.end() :] if place else plain
        if place and re.match(r"(?:be|stay|speak|talk|walk|move|drive)\b", about, re.IGNORECASE):
            return self._guideline(sentence, f"a manner for “{place.group().strip(' ,')}”, and no goal")
        if found := next((m for p in (wording.FORBIDS, wording.MANNER, wording.TOWARDS) if (m := p.match(about))), None):
            return self._guideline(sentence, f"“{found.group().strip()}” is a wish for all that follows, and no goal")
        if (found := wording.MODAL.match(plain)) and (other := wording.ANYBODY.search(plain[found.end() :])):
            why = f"“{found.group().strip()}” leaves a choice about “{other.group()}”, which takes judgement each time"
            return self._guideline(sentence, why)
        return self._task(sentence, "a goal, and done when it is reached")

    def _guideline(self, sentence: str, reason: str) -> Route:
        rule = self._judge.rule(sentence)
        if rule is None:
            return Route(Kind.GUIDELINE, "S3", reason)
        return Route(Kind.GUIDELINE, "S3", reason, rule.when, rule.task)

    def _task(self, sentence: str, reason: str) -> Route:
        if self._judge.direct(sentence):
            return Route(Kind.TASK, "S1", f"{reason}; one direct command, which needs no plan")
        return Route(Kind.TASK, "S2", f"{reason}; it is decomposed into subtasks")


def _article(kind: Kind) -> str:
    return f"a {kind.value}"
