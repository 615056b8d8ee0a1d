# SPDX-License-Identifier: Apache-2.0
"""Parse direct commands without a model: sentences, steps and clauses become a stream of function tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from function_tokens.routines import Routine, RoutineError, check_name
from planners.language.compose import Item, element, in_sequence, tag
from planners.language.conditional import is_question
from planners.language.instruction import InstructionReader, Unclear
from planners.language.lexicon import FILLERS, word_set
from planners.language.skills import MAX_REPEATS, Matcher
from planners.language.words import clean, words_of
from planners.prompts.prompt import GrammarOptions
from skill_kernel.skills.skill import MAIN, Skill

_SAVE = re.compile(
    r"^\s*(?:please\s+)?(?:remember|save|store|learn|keep(?=\s+(?:this|that|it)\b))\s+(?P<what>.*?)\s*"
    r"\b(?:as|under the name(?: of)?)\s+(?:(?:a|the) (?:routine|dance)\s+(?:called|named)?\s*)?"
    r"[\"'“‘]?(?P<name>\w[\w .\-]*?)[\"'”’]?\s*(?:[:,]\s*(?P<body>.+?))?\s*[.!]?\s*$",
    re.IGNORECASE | re.DOTALL,
)
_SAVE_CN = re.compile(
    r"^\s*(?:请)?(?:记住|保存)(?:这个|下面的动作)?(?:为|叫做|叫|成)[\"“「]?(?P<name>\w[\w .\-]*?)[\"”」]?\s*"
    r"(?:[::,,]\s*(?P<body>.+?))?\s*[。.!]?\s*$",
    re.DOTALL,
)
MEMORY_SKILL = "query_memory"
"""The skill that answers questions, where a robot has it."""
_REFERS_BACK = re.compile(
    r"^(?:this|that|it|the following|this routine|that routine|this dance|that dance|what you (?:just )?did)?$", re.IGNORECASE
)
_AGAIN = re.compile(r"^(再来|再做|重复)(一次|一遍|一下)?[。!.！]?$")
_AGAIN_WORDS = word_set("again repeat more")
_BACK_WORDS = word_set("do it that this all repeat again once more instead same thing perform play run")


@dataclass(frozen=True)
class Reading:
    """The stream to perform for an instruction, and what was left undone and why (None when nothing was)."""

    source: str
    trouble: str | None = None
    understood: bool = True


class CommandParser:
    """Reads direct commands for the skills and routines of one robot. No model, no randomness, no state."""

    def __init__(
        self,
        skills: Iterable[Skill],
        routines: Sequence[Routine] = (),
        options: GrammarOptions | None = None,
        robot_name: str = "",
    ) -> None:
        self._options = options or GrammarOptions()
        self._matcher = Matcher(skills, self._options.limits, sleep=self._options.tag("sleep"))
        self._routines = {_routine_key(r.name): r.name for r in routines}
        self._names = frozenset(w.text for w in words_of(clean(robot_name))) if robot_name else frozenset()

    def read(self, instruction: str, last: str = "") -> Reading:
        """Return the stream for an instruction; `last` is the stream of the answer before, for "again" and "save that as …"."""
        text = clean(instruction).strip()
        steps: list[Item] = []
        trouble: Unclear | None = None
        try:
            special = self._saving(text, last) or self._again(text, last) or self._asking(text)
            if special is not None:
                return Reading(special)
            InstructionReader(self._matcher, self._options, self._routines, self._names, text).read(steps)
        except Unclear as error:
            trouble = error
        source = in_sequence(steps, self._options.tag("wait")).source
        return Reading(source) if trouble is None else Reading(source, str(trouble), trouble.understood)

    def _asking(self, text: str) -> str | None:
        """Put a question that stands alone to the memory, where the robot has one."""
        names = "|".join(map(re.escape, self._names)) or "(?!)"
        asked = re.sub(rf"^(?:(?:{names}|please|hey)[\s,:]+)+", "", text, flags=re.IGNORECASE)
        alone = not re.search(r"[.!?;]\s+\S", asked)
        known = any(e.skill.name == MEMORY_SKILL for e in self._matcher.entries)
        return tag(MEMORY_SKILL, {"question": asked}) if known and alone and is_question(asked) else None

    def abilities(self, count: int = 12) -> str:
        """Return a short list of commands, made of the robot's own skills and routines."""
        named = [e.skill.name.replace("_", " ") for e in self._matcher.entries]
        more = f" and {len(named) - count} more" if len(named) > count else ""
        taught = f"; routines: {', '.join(self._routines.values())}" if self._routines else ""
        return f'say "…", wait, stop, {", ".join(named[:count])}{more}{taught}'

    def _saving(self, text: str, last: str) -> str | None:
        found = _SAVE.match(text) or _SAVE_CN.match(text)
        if found is None:
            return None
        groups = found.groupdict()
        what, body = (groups.get("what") or "").strip(), (groups.get("body") or "").strip()
        try:
            name = check_name(groups["name"])
        except RoutineError as error:
            raise Unclear(f"I did not keep anything: {error}.") from error
        if not body and not _REFERS_BACK.match(what):
            body = what
        if body:
            reading = self.read(body)
            if reading.trouble or not reading.source:
                why = reading.trouble or "There was nothing to keep."
                raise Unclear(f"I kept nothing as “{name}”. {why}", understood=reading.understood)
            if f"<{self._options.tag('save')} " in reading.source:
                raise Unclear(f"I kept nothing as “{name}”: a routine cannot keep another one.", understood=True)
            source, described = reading.source, body
        else:
            source, described = _unwrapped(last, self._options.tag("save")), "as performed before"
            if not source:
                why = "because I have not done anything yet that I could keep"
                raise Unclear(f"I kept nothing as “{name}”, {why}.", understood=True)
        return element(self._options.tag("save"), {"name": name, "description": described[:200]}, source)

    def _again(self, text: str, last: str) -> str | None:
        aside = FILLERS - {"it", "again"}
        words = [w for w in words_of(text) if w.kind != "mark" and not w.among(aside)]
        counts = [w for w in words if w.dimension == "count"]
        plain = {w.text for w in words if w not in counts}
        back = bool(plain & _AGAIN_WORDS) or (bool(counts) and bool(plain & {"do", "instead"}))
        if not _AGAIN.match(text) and not (back and len(counts) <= 1 and plain <= _BACK_WORDS):
            return None
        if not last:
            raise Unclear("I have not done anything yet that I could repeat.", understood=True)
        count = int(counts[0].value) if counts else 1
        if not 1 <= count <= MAX_REPEATS:
            raise Unclear(f"I can repeat it 1 to {MAX_REPEATS} times, not {counts[0].value:g}.", understood=True)
        save = self._options.tag("save")
        if last.startswith(f"<{save} ") and last.endswith(f"</{save}>"):
            head, inner = last[: last.index(">") + 1], _unwrapped(last, save)
            return f"{head}{self._times(inner, count)}</{save}>"
        return self._times(last, count)

    def _times(self, source: str, count: int) -> str:
        once = Item(source, frozenset({MAIN, "*"}))
        return in_sequence([once] * count, self._options.tag("wait")).source


def _unwrapped(source: str, name: str) -> str:
    if source.startswith(f"<{name} ") and source.endswith(f"</{name}>"):
        return source[source.index(">") + 1 : -len(f"</{name}>")]
    return source


def _routine_key(name: str) -> tuple[str, ...]:
    return tuple(p for w in words_of(clean(name)) if w.text not in FILLERS for p in w.text.casefold().split())
