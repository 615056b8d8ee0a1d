# SPDX-License-Identifier: Apache-2.0
"""Keep the questions that wait for somebody's answer: each ends exactly once, answered or with the reason why not.

Pure and on an injected clock, on one thread.
"""

import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from skill_kernel.codes import AnswerCode, AskCode
from skill_kernel.config.sections import shown

ASK = "ask"
"""Call by which a team asks a person: `io.call("ask", "", person=…, text=…, choices=…, within=…, why=…)`."""
MAX_OPEN = 8
"""Questions that are open at a time."""
MAX_QUESTION, MAX_ANSWER = 300, 1000
"""Characters of a question, and of an answer."""
MAX_CHOICES, MAX_CHOICE = 12, 60
"""Choices of a question, and characters of one."""
USUAL_S, LONGEST_S = 120.0, 3600.0
"""Time that an answer is waited for where nothing is said, and at most."""
PRIVATELY, PRIVATE = "private:", "(private)"
"""Words with which an answer begins that nobody else is shown, and what others are shown of it."""
MAX_ENDED = 20
"""Ended questions of which is known why they are not open."""


class AskError(ValueError):
    """Refuse a question; the text says why and what to do."""

    def __init__(self, code: AskCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class AnswerError(ValueError):
    """Refuse an answer; the text says why and what to do. The question stays open."""

    def __init__(self, code: AnswerCode, message: str) -> None:
        super().__init__(message)
        self.code = code


_PRIVATELY = re.compile(rf"\s*(?:{PRIVATELY[:-1]}|私下)\s*[:：]\s*", re.IGNORECASE)


@dataclass(frozen=True)
class QuestionEnd:
    """Tell how a question ended: answered by somebody, or with `code` and the reason `why` not. `private`: nobody but who asked
    is shown the answer."""

    answer: str = ""
    by: str = ""
    private: bool = False
    code: AskCode = AskCode.NONE
    why: str = ""

    @property
    def told(self) -> str:
        """Return it in words."""
        return self.why or f"answered “{PRIVATE if self.private else shown(self.answer)}” by {self.by}"


@dataclass(frozen=True)
class OpenQuestion:
    """Hold a question that waits for an answer; times are seconds of the clock."""

    question_id: str
    process_id: str
    text: str
    choices: tuple[str, ...]
    asked_s: float
    until_s: float
    on_end: Callable[[QuestionEnd], None] = field(repr=False, compare=False)
    person: str = ""
    why: str = ""
    any_words: bool = False

    @property
    def told(self) -> str:
        """Return it on one line, with its id and its choices."""
        whom = f" to {self.person}" if self.person else ""
        return f"{self.question_id}{whom} “{self.text}”{f' ({or_(self.choices)})' if self.choices else ''}"


def new_id() -> str:
    """Return a random id of a question, which no word and no number is taken for."""
    return f"{secrets.randbelow(10)}{secrets.choice('abcdef')}{secrets.randbelow(16**2):02x}"


class Questions:
    """Ask and answer. `chosen(text, choices)` returns the one choice that an answer means, None for none or several. `most` are
    open at a time, and one for each person."""

    def __init__(
        self,
        *,
        now: Callable[[], float],
        chosen: Callable[[str, Sequence[str]], str | None],
        on_change: Callable[[], None] = lambda: None,
        new_id: Callable[[], str] = new_id,
        most: int = MAX_OPEN,
    ) -> None:
        self._most = most
        self._now, self._new_id, self._chosen, self._on_change = now, new_id, chosen, on_change
        self._open: dict[str, OpenQuestion] = {}
        self._ended: OrderedDict[str, str] = OrderedDict()

    @property
    def open(self) -> list[OpenQuestion]:
        """Return the open questions, the oldest first."""
        return list(self._open.values())

    def ask(
        self,
        text: str,
        choices: Sequence[str] = (),
        timeout_s: float = 0.0,
        *,
        process_id: str = "",
        person: str = "",
        why: str = "",
        any_words: bool = False,
        on_end: Callable[[QuestionEnd], None],
    ) -> OpenQuestion:
        """Open a question, with the reason `why`; `any_words`: words that are none of the choices answer it as well. `on_end`
        hears of its end, exactly once. Raises AskError for one that cannot be asked."""
        text, choices = " ".join(text.split()), tuple(" ".join(choice.split()) for choice in choices)
        if bad := bad_question(text, why, choices, self._chosen):
            raise AskError(AskCode.BAD_QUESTION, bad)
        if person and any(asked.person == person for asked in self._open.values()):
            told = f"{person} has an open request; ask when it has been answered"
            raise AskError(AskCode.PERSON_BUSY, told)
        if len(self._open) >= self._most:
            told = f"{self._most} questions are open already; ask again when one has been answered"
            raise AskError(AskCode.TOO_MANY_QUESTIONS, told)
        now_s, wait_s = self._now(), min(timeout_s, LONGEST_S) if timeout_s > 0.0 else USUAL_S
        question_id = self._fresh_id()
        until_s = now_s + wait_s
        asked = OpenQuestion(question_id, process_id, text, choices, now_s, until_s, on_end, person, why, any_words)
        self._open[question_id] = asked
        self._on_change()
        return asked

    def answer(self, question_id: str, text: str, by: str) -> tuple[OpenQuestion, str]:
        """Answer a question, "" = the only one that is open. Return it, and the answer as it was taken. A question to a person
        by name may be answered in private. Raises AnswerError, whose text holds nothing private."""
        asked = self._meant(question_id)
        text, private = in_private(" ".join(text.split()))
        if private and not asked.person:
            told = f"nobody is asked by name, so all can read the answer; answer without “{PRIVATELY}”, or not at all"
            raise AnswerError(AnswerCode.BAD_ANSWER, f"{told}: {asked.told}")
        if not text or len(text) > MAX_ANSWER:
            told = "the answer is empty" if not text else f"the answer has {len(text)} characters, more than {MAX_ANSWER}"
            raise AnswerError(AnswerCode.BAD_ANSWER, f"{told}; answer {asked.told}")
        answer = self._chosen(text, asked.choices) if asked.choices else text
        if answer is None and asked.any_words:
            answer = text
        if answer is None:
            given = PRIVATE if private else f"“{shown(text)}”"
            told = f"{given} is none of the choices, or could be several; answer {or_(asked.choices)}"
            raise AnswerError(AnswerCode.BAD_ANSWER, told)
        self._end(asked, QuestionEnd(answer, by, private))
        return asked, answer

    def withdraw(self, question_id: str, why: str) -> None:
        """End a question because who asked wants no answer any more; nothing happens to one that has ended."""
        if (asked := self._open.get(question_id)) is not None:
            self._end(asked, QuestionEnd(code=AskCode.CANCELLED, why=why))

    def process_ended(self, process_id: str, how: str) -> None:
        """End the questions of a process that has ended."""
        for asked in self.open:
            if process_id and asked.process_id == process_id:
                self._end(asked, QuestionEnd(code=AskCode.PROCESS_ENDED, why=f"process {process_id} has ended ({how})"))

    def end_all(self, code: AskCode, why: str) -> None:
        for asked in self.open:
            self._end(asked, QuestionEnd(code=code, why=why))

    def tick(self) -> None:
        """End the questions that nobody has answered in time. Called now and then."""
        now_s = self._now()
        for asked in self.open:
            if now_s >= asked.until_s:
                why = f"nobody answered within {asked.until_s - asked.asked_s:g} s"
                self._end(asked, QuestionEnd(code=AskCode.NO_ANSWER, why=why))

    def _meant(self, question_id: str) -> OpenQuestion:
        if question_id in self._open:
            return self._open[question_id]
        if question_id:
            why = self._ended.get(question_id, "nobody asked it, or long ago")
            told = f"question '{shown(question_id)}' is not open: {why}"
            raise AnswerError(AnswerCode.NO_SUCH_QUESTION, told)
        if not self._open:
            raise AnswerError(AnswerCode.NO_SUCH_QUESTION, "no question is open")
        if len(self._open) > 1:
            told = f"several questions are open; say which, by its id: {', '.join(q.told for q in self.open)}"
            raise AnswerError(AnswerCode.WHICH_QUESTION, told)
        return next(iter(self._open.values()))

    def _fresh_id(self) -> str:
        question_id = self._new_id()
        while question_id in self._open or question_id in self._ended:
            question_id = self._new_id()
        return question_id

    def _end(self, asked: OpenQuestion, end: QuestionEnd) -> None:
        """Remove it before anybody hears of it: whoever is told may ask again, or end others."""
        if self._open.pop(asked.question_id, None) is None:
            return
        self._ended[asked.question_id] = end.told
        if len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)
        self._on_change()
        asked.on_end(end)


def named(words: Sequence[str]) -> tuple[str, str]:
    """Return the id with which an answer begins, "" for none, and the answer behind it."""
    has_id = bool(words) and re.fullmatch(r"[0-9][a-f][0-9a-f]{2}", words[0].removesuffix(":")) is not None
    return (words[0].removesuffix(":") if has_id else "", " ".join(words[1:] if has_id else words))


def in_private(text: str) -> tuple[str, bool]:
    """Return an answer without the words that make it private, and whether they were there."""
    begins = _PRIVATELY.match(text)
    return (text[begins.end() :] if begins else text, begins is not None)


def or_(choices: Sequence[str]) -> str:
    """Return choices as a person reads them."""
    return " or ".join([", ".join(choices[:-1]), choices[-1]] if len(choices) > 1 else choices)


def bad_question(text: str, why: str, choices: Sequence[str], chosen: Callable[[str, Sequence[str]], str | None]) -> str:
    """Return why a question cannot be asked; "" when it can."""
    if not text or len(text) > MAX_QUESTION:
        return "the question is empty" if not text else f"the question has {len(text)} characters; ask in {MAX_QUESTION}"
    if len(why) > MAX_QUESTION:
        return f"the reason has {len(why)} characters; give it in {MAX_QUESTION}"
    if len(choices) > MAX_CHOICES or any(len(choice) > MAX_CHOICE for choice in choices):
        return f"a question has up to {MAX_CHOICES} choices of up to {MAX_CHOICE} characters; ask for words instead"
    unclear = next((choice for choice in choices if chosen(choice, choices) != choice), None)
    return f"the choice '{shown(unclear)}' cannot be told from another one, or from none" if unclear is not None else ""
