# SPDX-License-Identifier: Apache-2.0
"""Ask a person, and have a person do a step of a plan (InteractGen III.A, `request(Human, Skill)`): yes, no, later, somebody
else or silence, and at last that it is done."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from planners.people import ASK, ENDED, REQUEST, Kind, Reply
from planners.strategies.team.toa import Step
from planners.strategy import PlannerIO
from skill_kernel.codes import AskCode, Outcome
from skill_kernel.config.sections import shown
from skill_kernel.events import CallEvent
from skill_kernel.processes.questions import MAX_QUESTION

AGAIN_S = 5.0
"""Time after which one who could not be asked is tried again."""
LATER_S, MAX_LATER = 300.0, 2
"""Time after which one who said "later" is asked again, and how often."""


class Request:
    """Ask one person one thing. `then` hears the reply, or the text why there is none, once, unless it is dropped.

    One who may not be asked now is tried again; both together, and the wait for the answer, take `within_s` at most. While
    `held`, nobody is asked.
    """

    def __init__(
        self,
        io: PlannerIO,
        held: Callable[[], bool],
        then: Callable[[Reply | str], None],
        *,
        person: str,
        text: str,
        why: str,
        choices: Sequence[str],
        within_s: float,
    ) -> None:
        self._io, self._held, self._then, self._dropped = io, held, then, False
        self._person, self._by_s = person, io.clock.now() + within_s
        self._asked = {"text": shown(text, MAX_QUESTION), "choices": tuple(choices), "why": shown(why, MAX_QUESTION)}
        self._refused = "the task was paused for too long"
        io.clock.call_later(0.0, self._ask)

    def drop(self) -> None:
        """Ask no more, and tell nobody."""
        self._dropped = True

    def _ask(self) -> None:
        left_s = self._by_s - self._io.clock.now()
        if self._dropped:
            return
        if left_s <= 0.0:
            self._then(f"could not be asked: {self._refused}")
        elif self._held():
            self._io.clock.call_later(AGAIN_S, self._ask)
        else:
            self._io.call(ASK, "", person=self._person, within=left_s, **self._asked).then(self._answered)

    def _answered(self, call: CallEvent) -> None:
        if self._dropped:
            return
        if call.error_code == AskCode.PERSON_BUSY:
            self._refused = call.told
            self._io.clock.call_later(AGAIN_S, self._ask)
        elif call.outcome is Outcome.DONE and isinstance(call.value, dict):
            reply: Mapping[str, Any] = call.value
            self._then(Reply(Kind(reply["answer"]), str(reply["text"]), str(reply.get("instead", ""))))
        else:
            self._then(call.told or "gave no answer")


class Errand:
    """Have one step done by a person, or by whom that person names. `ended(done, told)` is called once, unless it is dropped;
    `named(person)` hears of somebody who was named, and who is asked after `ask_instead`.

    A person has `team.answer_s` to answer, and `team.work_s` to do what was accepted.
    """

    def __init__(
        self,
        step: Step,
        io: PlannerIO,
        held: Callable[[], bool],
        ended: Callable[[bool, str], None],
        named: Callable[[str], None],
    ) -> None:
        self._step, self._io, self._held, self._ended, self._named = step, io, held, ended, named
        self._asked = [step.agent]
        """Who was asked, in order."""
        self._laters, self._dropped = 0, False
        self._by_s = 0.0
        """Time by which what was accepted is to be done."""
        self._ask()

    def drop(self) -> None:
        """Ask no more, and tell nobody."""
        self._dropped = True
        self._request.drop()

    def ask_instead(self, person: str) -> None:
        """Ask the person who was named."""
        self._asked.append(person)
        self._ask()

    def _ask(self) -> None:
        if not self._dropped:
            named = f"; {self._asked[-2]} named you" if len(self._asked) > 1 else ""
            self._request = self._make(self._step.words, REQUEST, self._io.settings["team.answer_s"], self._replied, named)

    def _ask_end(self) -> None:
        text, left_s = f"Tell me when it is done: {self._step.words}", self._by_s - self._io.clock.now()
        self._request = self._make(text, ENDED, left_s, self._worked)

    def _make(
        self, text: str, choices: Sequence[str], within_s: float, then: Callable[[Reply | str], None], named: str = ""
    ) -> Request:
        asked: dict[str, Any] = {"text": text, "why": self._step.why + named, "choices": choices}
        return Request(self._io, self._held, then, person=self._asked[-1], within_s=within_s, **asked)

    def _replied(self, reply: Reply | str) -> None:
        kind = reply.kind if isinstance(reply, Reply) else None
        if kind is Kind.ACCEPT:
            self._by_s = self._io.clock.now() + self._io.settings["team.work_s"]
            self._ask_end()
        elif kind is Kind.LATER and self._laters < MAX_LATER:
            self._laters += 1
            self._io.clock.call_later(LATER_S, self._ask)
        elif isinstance(reply, Reply) and kind is Kind.INSTEAD and self._may_ask(reply.instead):
            self._named(reply.instead)
        else:
            self._end(reply, done=kind is Kind.DONE)

    def _may_ask(self, person: str) -> bool:
        people = self._io.people
        hidden = people.leaked(f"{self._step.words} {self._step.why}", person)
        return person not in self._asked and not hidden and not people.refusal(person)

    def _worked(self, reply: Reply | str) -> None:
        if isinstance(reply, Reply) and reply.kind in (Kind.ACCEPT, Kind.LATER):  # “ok, in a minute” is not done yet
            self._ask_end()
        else:
            self._end(reply, done=isinstance(reply, Reply) and reply.kind is Kind.DONE)

    def _end(self, reply: Reply | str, *, done: bool) -> None:
        told = f"answered: {shown(reply.text, 200)}" if isinstance(reply, Reply) else reply
        named = "".join(f"{one} named {other}; " for one, other in pairwise(self._asked))
        self._ended(done, f"{named}{self._asked[-1]} {told}")
