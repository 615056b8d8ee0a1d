# SPDX-License-Identifier: Apache-2.0
"""The offline command parser behind the protocol of the language models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from function_tokens.builtins import BUILTINS
from function_tokens.routines import Routine
from function_tokens.scheduling.calls import TEXT
from planners.language.compose import speech
from planners.language.parser import CommandParser
from planners.models.base import CancelToken, Finished, ModelError, ModelEvent, ModelRequest, TextDelta, Usage
from planners.prompts.prompt import CallReport, GrammarOptions, instruction_of, results_of, turn_of
from skill_kernel.codes import ModelCode
from skill_kernel.skills.skill import Skill

NAME = "offline-command-parser (no language model)"
MAX_INSTRUCTION = 1000
"""Longest instruction read, in characters."""

_PIECE = re.compile(r"<[^>]*>|[^<]+")
_BAD_OUTCOMES = ("FAILED", "REFUSED")


class RoutineList(Protocol):
    """Where the names of taught routines come from, such as a `RoutineStore`."""

    def list(self) -> Sequence[Routine]: ...


class OfflineClient:
    """Answers direct commands in English and Chinese with function tokens of the skills it is given.

    `skills` is read anew for every request, so a `SkillRegistry` whose set is exchanged is followed. What was not
    understood is
    spoken, with the clause; when nothing was, the stream ends with ModelError MODEL_NOT_UNDERSTOOD. In later turns of
    the same
    task it reports what failed instead of repeating the instruction. It answers at once and uses no network.
    """

    def __init__(
        self,
        skills: Iterable[Skill],
        routines: RoutineList | None = None,
        *,
        options: GrammarOptions | None = None,
        robot_name: str = "",
    ) -> None:
        self._skills = skills
        self._routines = routines
        self._options = options or GrammarOptions()
        self._robot_name = robot_name
        self._closed = False

    is_language_model = False

    @property
    def name(self) -> str:
        """What it is, said plainly."""
        return NAME

    def prepare(self) -> None:
        """Nothing has to be prepared."""

    def close(self) -> None:
        """Running streams end with MODEL_CANCELLED at their next piece."""
        self._closed = True

    def stream(self, request: ModelRequest, *, cancel: CancelToken) -> Iterator[ModelEvent]:
        """The answer, a tag or a text at a time. Raises ModelError MODEL_NOT_UNDERSTOOD or MODEL_CANCELLED."""
        self._check(cancel, partial=False)
        source = self.answer(request)
        for piece in _PIECE.findall(source):
            yield TextDelta(piece)
            self._check(cancel, partial=True)
        yield Usage(prompt_tokens=0, completion_tokens=0, cost_usd=0.0)
        yield Finished()

    def answer(self, request: ModelRequest) -> str:
        """The whole answer at once. Raises ModelError MODEL_NOT_UNDERSTOOD."""
        prompt = request.messages[-1].text
        if turn_of(prompt) > 0:
            return self._follow_up(prompt)
        instruction = request.instruction or instruction_of(prompt)
        if len(instruction) > MAX_INSTRUCTION:
            raise _not_understood(f"the instruction has {len(instruction)} characters; say it in at most {MAX_INSTRUCTION}")
        last = next((m.text for m in reversed(request.messages[:-1]) if m.role == "assistant"), "")
        parser = CommandParser(self._skills, self._known(), self._options, self._robot_name)
        reading = parser.read(instruction, last)
        if (done := results_of(prompt)) and reading.source:
            return rest_of(reading.source, done, self._repeatable()) or f"<{self._options.tag('plan_done')}/>"
        if reading.trouble is None:
            if not reading.source:
                raise _not_understood(f"there is no command in “{instruction[:80]}”. I can: {parser.abilities()}")
            return reading.source
        if not reading.source and not reading.understood:
            raise _not_understood(f"{reading.trouble} I can: {parser.abilities()}")
        gap = "" if not reading.source or reading.source.endswith(">") else " "
        stopped = " I stop there." if reading.source else ""
        return f"{reading.source}{gap}{speech(reading.trouble + stopped).source}"

    def _repeatable(self) -> frozenset[str]:
        """Functions that may be begun anew when they were interrupted: no distance is covered twice by that."""
        return frozenset((TEXT, *BUILTINS, *(s.name for s in self._skills if getattr(s, "idempotent", False))))

    def _known(self) -> Sequence[Routine]:
        return self._routines.list() if self._routines is not None else ()

    def _follow_up(self, prompt: str) -> str:
        """In a later turn there is nothing to plan: say what failed, and end."""
        done = f"<{self._options.tag('plan_done')}/>"
        failed = [r for r in results_of(prompt) if r.outcome in _BAD_OUTCOMES]
        if not failed:
            return done
        names = ", ".join(dict.fromkeys(r.function.replace("_", " ") for r in failed[:3]))
        return f"{speech(f'That did not work: {names}.').source}{done}"

    def _check(self, cancel: CancelToken, *, partial: bool) -> None:
        if cancel.cancelled or self._closed:
            raise ModelError(ModelCode.MODEL_CANCELLED, "the answer was cancelled", partial=partial)


def rest_of(source: str, done: Iterable[CallReport], repeatable: Collection[str]) -> str:
    """What of a stream is still to do when a plan is made anew. Raises ModelError MODEL_NOT_UNDERSTOOD when a call was
    interrupted of which nobody here knows how far it came, since beginning it anew could go too far."""
    finished = Counter(r.function for r in done if r.outcome == "DONE")
    broken = {r.function for r in done if r.outcome == "INTERRUPTED"} - set(repeatable)
    kept = []
    for names, text in _elements(source):
        if finished[names[0]] > 0 or (names[1:] and Counter(names[1:]) <= finished):
            finished -= Counter(names)
            continue
        if cut := next((n for n in names if n in broken or (n != names[0] and finished[n] and n not in repeatable)), ""):
            raise _not_understood(f"“{cut}” was interrupted, and how far it came is not known; say what is left to do.")
        kept.append(text)
    return "".join(kept)


def _elements(source: str) -> Iterator[tuple[list[str], str]]:
    """The elements and texts on the top level, each with the functions in it, the outermost first."""
    names: list[str] = []
    pieces: list[str] = []
    depth = 0
    for piece in _PIECE.findall(source):
        pieces.append(piece)
        if piece.startswith("</"):
            depth -= 1
        elif piece.startswith("<"):
            names.append(piece.strip("</>").split()[0])
            depth += not piece.endswith("/>")
        else:
            names.append(TEXT)
        if not depth:
            yield names, "".join(pieces)
            names, pieces = [], []


def _not_understood(message: str) -> ModelError:
    return ModelError(ModelCode.MODEL_NOT_UNDERSTOOD, f"{message} (This is the {NAME}; it follows direct commands only.)")
