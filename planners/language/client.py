# SPDX-License-Identifier: Apache-2.0
"""Put the parser of direct commands behind the protocol of the language models."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from function_tokens.builtins import BUILTINS
from function_tokens.routines import RoutineStore
from function_tokens.scheduling.calls import TEXT
from planners.language.compose import speech, tag
from planners.language.controls import read_control
from planners.language.lexicon import Reason, is_chinese
from planners.language.parser import MAX_QUOTED, CommandParser
from planners.language.present import PresentAnswerer
from planners.language.questions import read
from planners.language.stop_words import is_stop
from planners.models.base import CancelToken, Finished, ModelError, ModelEvent, ModelRequest, TextDelta, Usage
from planners.prompts.prompt import CallReport, RobotFacts
from planners.scene import Present
from skill_kernel.codes import ModelCode
from skill_kernel.config.sections import shown

NAME = "offline-command-parser (no language model)"
MEMORY_SKILL = "query_memory"
"""The skill that answers questions about the past, where a robot has it."""
MAX_INSTRUCTION = 1000
"""Longest instruction read, in characters."""

_PIECE = re.compile(r"<[^>]*>|[^<]+")
_BAD_OUTCOMES = ("FAILED", "REFUSED")


class OfflineClient:
    """Answer direct commands and plain questions in English and Chinese: commands with function tokens of the skills it is
    given, questions with a sentence from what is known now, or through the robot's memory.

    The robot's skills and `routines` are read for every request, so exchanged ones are followed. An instruction is done
    whole or not at all: then the stream ends with ModelError MODEL_NOT_UNDERSTOOD. In later turns of the same task it
    reports what failed instead of repeating the instruction. It answers at once and uses no network.
    """

    def __init__(self, about: RobotFacts, routines: RoutineStore | None = None) -> None:
        self._about, self._routines = about, routines
        self._closed = False

    is_language_model = False

    @property
    def name(self) -> str:
        """Return the name shown to people; it says that this is no language model."""
        return NAME

    def prepare(self) -> None:
        """Do nothing: there is nothing to load."""

    def close(self) -> None:
        """End running streams with MODEL_CANCELLED at their next piece."""
        self._closed = True

    def stream(self, request: ModelRequest, *, cancel: CancelToken) -> Iterator[ModelEvent]:
        """Yield the answer, a tag or a text at a time. Raises ModelError MODEL_NOT_UNDERSTOOD or MODEL_CANCELLED."""
        self._check(cancel, partial=False)
        for piece in _PIECE.findall(self.answer(request)):
            yield TextDelta(piece)
            self._check(cancel, partial=True)
        yield Usage(prompt_tokens=0, completion_tokens=0, cost_usd=0.0)
        yield Finished()

    def answer(self, request: ModelRequest) -> str:
        """Return the whole answer at once. Raises ModelError MODEL_NOT_UNDERSTOOD."""
        plan_done = f"<{self._about.options.tag('plan_done')}/>"
        if request.turn:
            return f"{_failures(request.done) if self._about.speaks else ''}{plan_done}"
        instruction = request.instruction
        if len(instruction) > MAX_INSTRUCTION:
            raise _not_understood(f"the instruction has {len(instruction)} characters; say it in at most {MAX_INSTRUCTION}")
        last = next((m.text for m in reversed(request.messages[:-1]) if m.role == "assistant"), "")
        parser = self._parser()
        if asked := self._answer(instruction, parser, request.present or Present()):
            return rest_of(asked, request.done, self._repeatable()) or plan_done
        reading = parser.read(instruction, last, mends=True)
        if why := self._only_controls(instruction, reading.source):
            raise _not_understood(Reason(why, what=shown(instruction, MAX_QUOTED)).text(chinese=is_chinese(instruction)))
        if not reading.source:
            raise _not_understood(parser.refusal(instruction, reading))
        return rest_of(reading.source, request.done, self._repeatable()) or plan_done

    def read_wholly(self, text: str, done: Sequence[CallReport] = (), present: Present | None = None) -> str:
        """Return the stream for a text that is understood wholly, without what was done of it; "" for any other text, and
        where nobody knows how far something came. Plain questions are answered where `present` is given."""
        if not text.strip() or len(text) > MAX_INSTRUCTION:
            return ""
        parser = self._parser()
        source = self._answer(text, parser, present) if present is not None else ""
        source = source or parser.read(text).source
        if self._only_controls(text, source):
            return ""
        try:
            return rest_of(source, done, self._repeatable())
        except ModelError:
            return ""

    def _answer(self, text: str, parser: CommandParser, present: Present) -> str:
        """Return the answer to a plain question, or the call that asks the robot's memory; "" for what is no question."""
        asked = read(text, present.time_s, (self._about.name,)) if text.strip() else None
        if asked is None or not asked.form or (asked.form == "able_now" and asked.subject and parser.read(text).source):
            return ""
        answerer = PresentAnswerer(asked, present, self._about, parser)
        said = answerer.answer()
        if said is None and any(skill.name == MEMORY_SKILL for skill in self._about.skills):
            return tag(MEMORY_SKILL, {"question": asked.text})
        return speech(said or answerer.nobody_knows()).source

    def _only_controls(self, text: str, source: str) -> str:
        """Return what is told of a text that says only what becomes of tasks (texts of the lexicon), "" for any other. A stop
        word halts before it is read here, and what means a task that runs is obeyed."""
        control = None if is_stop(text, self._about.name) else read_control(text, self._about.name)
        if control is not None and not (control.what and (source or control.command == "stop")):
            return "no_task"
        stop = re.escape(self._about.options.tag("stop"))
        only = not is_stop(text, self._about.name) and re.fullmatch(rf"(?:<{stop}(?: [^>]*)?/>)+", source)
        return "only_stops" if only else ""

    def _repeatable(self) -> set[str]:
        """Return the functions that may begin again when they were interrupted: no distance is covered twice by that."""
        return {TEXT, *BUILTINS, *(s.name for s in self._about.skills if s.idempotent)}

    def _parser(self) -> CommandParser:
        routines = self._routines.list() if self._routines is not None else ()
        return CommandParser(self._about.skills, routines, self._about.options, self._about.name)

    def _check(self, cancel: CancelToken, *, partial: bool) -> None:
        if cancel.cancelled or self._closed:
            raise ModelError(ModelCode.MODEL_CANCELLED, "the answer was cancelled", partial=partial)


def rest_of(source: str, done: Iterable[CallReport], repeatable: Collection[str]) -> str:
    """Return what of a stream is still to do when a plan is made again.

    Raises ModelError MODEL_NOT_UNDERSTOOD when a call that is not repeatable was interrupted: nobody knows how far it came,
    and beginning it again could go too far.
    """
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
    """Yield the elements and texts on the top level, each with the functions in it, the outermost first."""
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


def _failures(results: Iterable[CallReport]) -> str:
    """Return a sentence about the calls that failed: in a later turn there is nothing else to plan."""
    failed = [r.function.replace("_", " ") for r in results if r.outcome in _BAD_OUTCOMES]
    return speech(f"That did not work: {', '.join(dict.fromkeys(failed[:3]))}.").source if failed else ""


def _not_understood(message: str) -> ModelError:
    return ModelError(ModelCode.MODEL_NOT_UNDERSTOOD, message)
