# SPDX-License-Identifier: Apache-2.0
"""Read System 2's answer while it is written, and revise its plan by it: what is done stays, what is known keeps its id
(TypeGo 6)."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from planners.models.model_call import AnswerError, Element, ElementParser
from planners.plan import GlobalEvent, Subtask, SubtaskStatus, plain
from skill_kernel.config.sections import shown


def with_status(subtasks: Sequence[Subtask]) -> tuple[Subtask, ...]:
    """Return the subtasks with the first that is not done as the active one."""
    found, active = [], False
    for subtask in subtasks:
        status = subtask.status
        if not subtask.done:
            status, active = SubtaskStatus.PENDING if active else SubtaskStatus.ACTIVE, True
        found.append(replace(subtask, status=status))
    return tuple(found)


def with_done(subtasks: Sequence[Subtask], subtask_id: str) -> tuple[Subtask, ...]:
    """Return the subtasks with one of them done."""
    return with_status([replace(s, status=SubtaskStatus.DONE) if s.id == subtask_id else s for s in subtasks])


def ending_with(subtasks: Sequence[Subtask], instruction: str, new_id: Callable[[], str]) -> tuple[Subtask, ...]:
    """Return a list that nobody finished, with the whole task as its last subtask."""
    if plain(instruction) in {plain(s.description) for s in subtasks}:
        return with_status(subtasks)
    criteria = "everything it asks for is done, and nothing of it twice"
    return with_status([*subtasks, Subtask(new_id(), instruction, criteria)])


def revised(
    subtasks: Sequence[Subtask], written: Sequence[Subtask], *, done_when_asked: Collection[str], new_id: Callable[[], str]
) -> tuple[Subtask, ...]:
    """Return the subtasks after a new list, which replaces those that are not done.

    A written one is a known one by its id, when everything else may be empty, else by its words. What is done stays, in
    front, and is not done again: neither when the list names its id, nor when it was written before that subtask was done.
    Only words that stood for something done already when the list was asked for mean doing it once more.
    """
    known = {s.id: s for s in subtasks}
    by_words: dict[str, list[Subtask]] = {}
    for subtask in subtasks:
        if not (subtask.done and subtask.id in done_when_asked):
            by_words.setdefault(plain(subtask.description), []).append(subtask)
    used: set[str] = set()
    found = [s for s in subtasks if s.done]
    for one in written:
        match = known.get(one.id) if one.id not in used else None
        if match is None and one.description:
            match = next((s for s in by_words.get(plain(one.description), ()) if s.id not in used), None)
        if match is None:
            if one.description:
                found.append(Subtask(new_id(), one.description, one.criteria, watch=one.watch))
            continue
        used.add(match.id)
        if not match.done:
            found.append(
                replace(
                    match,
                    description=one.description or match.description,
                    criteria=one.criteria or match.criteria,
                    watch=one.watch or match.watch,
                )
            )
    return with_status(found)


def revised_events(
    events: Sequence[GlobalEvent], written: Sequence[GlobalEvent], new_id: Callable[[], str]
) -> tuple[GlobalEvent, ...]:
    """Return the events after a new list: without one they stay, else it replaces them. One whose condition is known keeps its
    id and how often it has come true."""
    if not written:
        return tuple(events)
    known = {event.condition: event for event in events}
    found: dict[str, GlobalEvent] = {}
    for one in written:
        old = found.get(one.condition) or known.get(one.condition)
        found[one.condition] = replace(old, response=one.response) if old else replace(one, id=new_id())
    return tuple(found.values())


ALIASES = {
    "sub_task": "subtask",
    "global_event": "event",
    "global_evt": "event",
    "giveup": "give_up",
    "done": "achieved",
    "unchanged": "keep",
}
"""Names that models write instead, to what is meant."""

KNOWN = ("subtask", "event", "keep", "achieved", "give_up")
FORM = '<subtask criteria="…">…</subtask>, <event cond="…">…</event>, <keep/>, <achieved/> or <give_up>…</give_up>'


MAX_EVENTS, MAX_TEXT, MAX_WATCHED = 8, 400, 6
"""Bounds of what is read of one answer: events, characters of a text, fields that a subtask watches."""


@dataclass(frozen=True)
class TaskAnswer:
    """Hold the wishes of the model; new subtasks and events have no id. Without any the plan stays as it is."""

    subtasks: tuple[Subtask, ...] = ()
    events: tuple[GlobalEvent, ...] = ()
    achieved: bool = False
    give_up: str = ""


class TaskReader:
    """Read one answer; `on_subtask` hears of each subtask as soon as its end tag is read.

    `most` subtasks are read; `known` are the ids that may be named, `fields` the observation fields that may be watched
    (others are left out). `first`: there is no plan yet. `claimed`: the task is held for done, and a verdict is wanted.
    `strict` is for the first try, whose faults the model is shown; the second is read with more good will: of two things that
    contradict each other the list of subtasks counts, and what is too long is joined at its end.
    """

    def __init__(
        self,
        *,
        most: int,
        known: Collection[str],
        fields: Collection[str],
        first: bool,
        claimed: bool,
        strict: bool,
        on_subtask: Callable[[Subtask], None] = lambda one: None,
    ) -> None:
        self._most, self._known, self._fields = most, known, fields
        self._first, self._claimed, self._strict = first, claimed, strict
        self._on_subtask = on_subtask
        self._parser = ElementParser()
        self._subtasks: list[Subtask] = []
        self._events: list[GlobalEvent] = []
        self._said: set[str] = set()
        self._strange: list[str] = []
        self._give_up = ""

    def feed(self, text: str) -> None:
        for element in self._parser.feed(text):
            self._element(element)

    def close(self) -> TaskAnswer:
        for element in self._parser.close():
            if element.name:
                raise AnswerError(f"the answer ends in the middle of <{element.name}>; write less, and to the end")
        wrote = bool(self._subtasks or self._events)
        if not wrote and not self._said:
            strange = f"<{self._strange[0]}> is not known here" if self._strange else "there is no tag in it"
            raise AnswerError(f"{strange}; answer with {FORM}")
        if self._strict and (len(self._said) + wrote) > 1:
            raise AnswerError(f"<{sorted(self._said)[0]}> and something else contradict each other; write one of them")
        if self._subtasks:
            return TaskAnswer(tuple(self._joined()), tuple(self._events[:MAX_EVENTS]))
        if self._give_up:
            return TaskAnswer(give_up=self._give_up)
        if "achieved" in self._said:
            return TaskAnswer(achieved=True)
        if self._claimed:
            raise AnswerError("compare TASK with DONE and write <achieved/>, or a <subtask> for what is missing")
        if self._first:
            raise AnswerError("there is no plan yet that could be kept; write at least one <subtask>")
        return TaskAnswer(events=tuple(self._events[:MAX_EVENTS]))

    def _element(self, element: Element) -> None:
        name = element.name.lower().replace("-", "_")
        name = ALIASES.get(name, name)
        if not element.name:
            return
        inside = [i for i in element.inner if ALIASES.get(i.lower(), i.lower()) in KNOWN]
        if inside:
            raise AnswerError(f"<{inside[0]}> must not stand inside <{element.name}>; write it by itself")
        if name not in KNOWN:
            self._strange.append(element.name)
        elif element.inner:
            raise AnswerError(
                f"<{element.name}> holds <{element.inner[0]}>; write plain text between its tags, everything else as attributes"
            )
        elif name == "subtask":
            self._subtask(element)
        elif name == "event":
            self._event(element)
        else:
            self._said.add(name)
            if name == "give_up":
                self._give_up = self._text(element.text or element.attrs.get("reason", ""))
                if not self._give_up:
                    raise AnswerError("<give_up> says nothing; write between its tags why the task cannot be done")

    def _subtask(self, element: Element) -> None:
        attrs = element.attrs
        given = attrs.get("id", "").strip()
        text = self._text(element.text or attrs.get("description", "") or attrs.get("desc", ""))
        if not text and given not in self._known:
            told = f"with the id '{shown(given, 40)}', which the plan does not have, " if given else ""
            raise AnswerError(f"a <subtask> {told}has no text; write between its tags what is to be achieved")
        watch = dict.fromkeys(w for w in re.split(r"[\s,;]+", attrs.get("watch", "")) if w in self._fields)
        criteria = self._text(attrs.get("criteria", "") or attrs.get("criterion", ""))
        known = given if given in self._known else ""
        one = Subtask(known, text, criteria, watch=tuple(watch)[:MAX_WATCHED])
        self._subtasks.append(one)
        if len(self._subtasks) > self._most:
            if self._strict:
                raise AnswerError(f"there are more than {self._most} subtasks; join what belongs together")
        else:
            self._on_subtask(one)

    def _event(self, element: Element) -> None:
        attrs = element.attrs
        condition = self._text(attrs.get("cond", "") or attrs.get("condition", ""))
        response = self._text(element.text or attrs.get("response", "") or attrs.get("resp", ""))
        if not condition or not response:
            raise AnswerError('an <event> needs both: <event cond="when">what is to be done then</event>')
        self._events.append(GlobalEvent("", condition, response))
        if self._strict and len(self._events) > MAX_EVENTS:
            raise AnswerError(f"there are more than {MAX_EVENTS} events; write those that matter")

    def _joined(self) -> list[Subtask]:
        """Return the list with its last subtasks joined into one where it is too long: nothing is lost."""
        most = self._most
        if len(self._subtasks) <= most:
            return self._subtasks
        rest = [s for s in self._subtasks[most - 1 :] if s.description]
        last = Subtask("", "; then ".join(s.description for s in rest), rest[-1].criteria if rest else "")
        return [*self._subtasks[: most - 1], *([last] if last.description else [])]

    def _text(self, text: str) -> str:
        """Return a text on one line, and no longer than a plan may be."""
        text = " ".join(text.split())
        return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
