# SPDX-License-Identifier: Apache-2.0
"""Read what must be so for a reflex to act, clause by clause, into an expression over the accessors: a table of forms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planners.language.lexicon import with_pieces
from planners.language.words import figures
from reflexes.rule import ReflexError
from skill_kernel.observation.accessors import Accessor, plain_words

CLOSE_M = 0.5
"""How near a thing is that is said to be close."""
LOW_PERCENT = 20.0
FRESH_S = 2.0
"""How long something heard counts as said now."""
ASIDE_DEG = 15.0
"""Bearing from which a thing is on the left or the right, not ahead."""

EXAMPLES = """\
when anything is closer than 0.2 m in front, step back 0.5 m
if a person comes within 1 m, stop and say hello
when the way on the left is not free for 50 cm, step right 20 cm
when you see a ball and the battery is above 20 %, bark twice
if you hear "kalos", turn around and say "yes?"
when there are more than 2 people, say "hello everybody"
when the battery drops below 20 % unless it is charging, go to the lobby
if you are in the kitchen or a chair is nearer than 60 cm, stop, wait 2 seconds, then turn left 90 degrees"""
"""One sentence of each form, for help texts and error messages."""


class GrammarError(ReflexError):
    """A sentence, or a piece of it, was not understood. With `examples` the message ends in sentences that are."""

    def __init__(self, message: str, *, examples: bool = False) -> None:
        super().__init__(f"{message}. Forms that are understood without a model:\n{EXAMPLES}" if examples else message)


_TABLE = r"""
ANY(?: COMES)?SIDE NEAR LENGTHTAILOTHER => {sector} < {length}
ANY(?: COMES)? (?:too |very )?(?:close|near)SIDE => {sector} < {close}
ANY(?: COMES)?PLACED(?: (?:too |very )?(?:close|near))? => {sector} < {close}
the waySIDE is (?P<no>not )?(?:free|clear|open)(?: for LENGTH)? => {sector} >= {length}
the waySIDE is (?P<no>blocked)(?: within LENGTH)? => {sector} >= {length}
(?:there is )?no obstacle NEAR LENGTHTAILSIDE => {sector} >= {length}
(?P<thing>.+?)(?: IS)? NEAR LENGTHTAILSIDE => distance_to({thing}) < {length}{aside}
(?P<thing>.+?)(?: IS)? FAR LENGTHTAIL => visible({thing}) and distance_to({thing}) > {length}
(?P<thing>.+?) IS (?:too |very )?(?:close|near)(?: to SUBJECT)? => distance_to({thing}) < {close to it}
(?:there (?:is|are)|SUBJECT SEE) HOWMANY (?P<thing>\w+)(?: SEEN)? => count({thing}) {sign} {count}
HOWMANY (?P<thing>\w+) SEEN => count({thing}) {sign} {count}
CHARGE(?: level)? (?:is|falls|drops|gets|goes|sinks|rises) HOWFULL ?(?:%|per ?cent)? => battery_percent() {sign} {count}
CHARGE (?:is|gets|runs) (?P<no>not )?(?:low|nearly empty|almost empty) => battery_percent() < {low}
(?:SUBJECT|the battery) (?:is|are) (?P<no>not )?(?:being )?(?:charging|charged) => charging()
SUBJECT hears? (?:(?:somebody|someone) say |the word )?(?P<text>.+) => heard_words({text}) and heard_age_s() < {fresh}
SUBJECT (?:is|are) called (?P<text>.+) => heard_words({text}) and heard_age_s() < {fresh}
SPEAKER (?:says?|calls?|shouts?) (?:the word )?(?P<text>.+) => heard_words({text}) and heard_age_s() < {fresh}
SUBJECT (?:is|are) (?P<no>not )?(?:moving|walking|driving|on the move|turning) => moving()
SUBJECT (?:stands?|is standing|are standing) still => not moving()
SUBJECT (?:is|are|moves?|walks?) (?P<how>faster|slower) than (?P<count>NUMBER) ?MPS => speed_mps() {sign} {count}
SUBJECT (?:(?:is|are) (?P<no>not )?(?:in|inside)|ENTERS) (?:the )?(?P<room>\w+) => room() == {room}
SUBJECT (?:is|are) (?P<no>not )?(?P<posture>sitting|standing|lying(?: down)?) => posture() == {posture}
SUBJECT (?P<no>do(?:es)? not|don't|doesn't|cannot|can't|no longer|can no longer) SEE (?P<thing>.+) => visible({thing})
SUBJECT (?:can )?SEE (?P<thing>.+?)SIDE => visible({thing}){aside}
(?:there (?:is|are|appears) )?(?P<no>no) (?P<thing>\w+)(?: SEEN)? => visible({thing})
(?P<thing>.+?) (?:is|are) (?P<no>not|no longer) (?:visible|seen|in sight|in view|there) => visible({thing})
(?P<thing>.+?) SEEN => visible({thing})
there (?:is|are|appears) (?P<thing>.+?)SIDE => visible({thing}){aside}
(?P<thing>.+?) (?:appears?|shows? up|turns? up|comes? along|comes?|is)SIDE => visible({thing}){aside}
"""
_PLACE = (
    r"(?:in front(?: of SUBJECT)?|ahead(?: of SUBJECT)?|before SUBJECT|at the front|behind(?: SUBJECT)?|(?:at|in) the back|"
    r"(?:on|to|at) (?:the|your|its) (?:left|right)(?: side)?|left|right|around(?: SUBJECT)?|anywhere|nearby)"
)
_PIECES = {
    "HOWMANY": r"(?P<how>more than|at least|fewer than|less than|exactly) (?P<count>NUMBER)",
    "HOWFULL": r"(?P<how>below|under|less than|lower than|above|over|more than) (?P<count>NUMBER)",
    "CHARGE": r"(?:(?:the|your|its) )?(?:battery|charge)",
    "SPEAKER": r"(?:somebody|someone|anybody|anyone|a person|the user|i)",
    "ENTERS": r"enters?|gets? (?:in)?to|comes? (?:in)?to",
    "OTHER": rf"(?: (?P<other>{_PLACE}))?",
    "PLACED": rf" (?P<side>{_PLACE})",
    "SIDE": rf"(?: (?P<side>{_PLACE}))?",
    "ANY": r"(?:there COMES )?(?:anything|something|whatever|an?y? obstacles?|obstacles?|(?:an?|some) (?:object|thing))",
    "TAIL": r"(?: (?:away|off|of SUBJECT|from SUBJECT|to SUBJECT|near SUBJECT))?",
    "NEAR": r"(?:(?:closer|nearer|less|not farther|not further)(?: to SUBJECT)? than|within|at less than|under|below|inside)",
    "FAR": r"(?:(?:farther|further|more)(?: away)? than|beyond|over|outside)",
    "SEEN": r"(?:is|are|becomes?|comes?) (?:visible|seen|in sight|in view|into view|into sight|there)",
    "SEE": r"(?:sees?|spots?|notices?|detects?|recogni[sz]es?|catch(?:es)? sight of|finds?)",
    "MPS": r"m(?:/s| (?:a|per) second)",
    "LENGTH": r"(?P<metres>\d+(?:\.\d+)?) m\b",
    "NUMBER": r"(?:\d+(?:\.\d+)?|an?|one)",
    "SUBJECT": r"(?:it|you|the robot)",
    "COMES": r"(?:is|are|comes?|gets?|appears?)",
    "IS": r"(?:is|are|comes?|gets?|appears?|walks?|stands?|moves?|goes|steps?|runs?|shows? up|turns? up|becomes?|lies?|sits?)",
}
_FORMS = tuple(
    (re.compile(with_pieces(form, _PIECES), re.IGNORECASE), source)
    for form, _, source in (row.partition(" => ") for row in _TABLE.strip().splitlines())
)
"""Pattern and expression of each form; the first whose pattern and words fit is taken. A `no` in the pattern negates."""
_SIGNS = {">": "more than,above,over,faster", ">=": "at least", "<": "fewer than,less than,lower than,below,under,slower"}
_SIGN = {word: sign for sign, words in _SIGNS.items() for word in words.split(",")} | {"exactly": "=="}
_OPPOSITE = {"<": ">=", ">=": "<", "==": "!="}
_PEOPLE = frozenset(
    {"people", "human", "humans", "man", "woman", "child", "somebody", "someone", "anyone", "anybody", "everybody", "visitor"}
)


@dataclass(frozen=True)
class Condition:
    """An expression, and what was supposed where the sentence did not say."""

    source: str
    notes: tuple[str, ...] = ()


class Conditions:
    """Reads conditions for the accessors and rooms of one robot."""

    def __init__(self, accessors: Mapping[str, Accessor], rooms: Sequence[str]) -> None:
        self._accessors, self._rooms = accessors, rooms
        self._notes: list[str] = []
        self._texts: Sequence[str] = ()

    def read(self, text: str, texts: Sequence[str]) -> Condition:
        """Return the expression for a condition; `and` binds closer than `or`. «n» stands for `texts[n]`.

        Raises GrammarError.
        """
        self._notes, self._texts = [], texts
        text = figures(re.sub(r"\b(?:nobody|no one)\b", "no person", text, flags=re.IGNORECASE))
        text = re.sub(r"^\s*(?:either|both)\s+", "", text.strip().rstrip(","), flags=re.IGNORECASE)
        alternatives = []
        for alternative in re.split(r"\s*,?\s+or\s+(?:when\s+|if\s+)?", text, flags=re.IGNORECASE):
            parts = re.split(r"\s*,?\s+(?:and|but|while)\s+(?:also\s+|when\s+|if\s+)?", alternative, flags=re.IGNORECASE)
            alternatives.append(" and ".join(self._clause(part.strip().strip(",")) for part in parts))
        return Condition(" or ".join(alternatives), tuple(dict.fromkeys(self._notes)))

    def _clause(self, clause: str) -> str:
        trouble: GrammarError | None = None
        for pattern, expression in _FORMS:
            if match := pattern.fullmatch(clause):
                try:
                    return self._expression(expression, match.groupdict())
                except GrammarError as error:
                    trouble = trouble or error
        raise trouble or GrammarError(f"the condition “{restored(clause, self._texts)}” was not understood", examples=True)

    def _expression(self, form: str, said: Mapping[str, str | None]) -> str:
        source = re.sub(r"\{([\w ]+)\}", lambda place: self._value(place[1], said), form)
        for name in re.findall(r"(\w+)\(", form):
            self._check(name)
        if not said.get("no"):
            return source
        compared = re.fullmatch(r"(.+) (<|>=|==) (.+)", source)
        return f"{compared[1]} {_OPPOSITE[compared[2]]} {compared[3]}" if compared else f"not {source}"

    def _check(self, accessor: str) -> None:
        if accessor not in self._accessors:
            sensed = ", ".join(sorted(self._accessors))
            raise GrammarError(f"this robot has no accessor {accessor}: nothing of it measures that; it has {sensed}")

    def _value(self, name: str, said: Mapping[str, str | None]) -> str:
        """Return what stands for a place in a form. Raises GrammarError."""
        word = (said.get(name) or "").lower()
        match name:
            case "sector":
                return self._sector((said.get("side") or said.get("other") or "").lower())
            case "length" if said["metres"] is None:
                return self._supposed("a way was read as free for {} m", CLOSE_M)
            case "length":
                return written(float(said["metres"] or 0.0))
            case "close":
                return self._supposed("“close” was read as less than {} m", CLOSE_M)
            case "close to it":
                return self._supposed("“close” was read as less than {} m", 2 * CLOSE_M)
            case "low":
                return self._supposed("“low” was read as less than {} %", LOW_PERCENT)
            case "fresh":
                return written(FRESH_S)
            case "sign":
                return _SIGN[(said["how"] or "").lower()]
            case "count":
                return written(1.0 if word in ("a", "an", "one") else float(word))
            case "thing":
                return repr(self._label(word))
            case "aside":
                return self._aside((said.get("side") or "").lower(), said["thing"] or "")
            case "posture":
                return repr({"sitting": "sit", "standing": "stand"}.get(word, "lie"))
            case "room" if word not in self._rooms:
                raise GrammarError(f"there is no room “{said['room']}”; the robot knows {', '.join(self._rooms) or 'none'}")
            case "room":
                return repr(word)
        words = plain_words(restored(said["text"] or "", self._texts))
        if not words:
            raise GrammarError(f"“{restored(said['text'] or '', self._texts)}” does not say which word", examples=True)
        return repr(words)

    def _supposed(self, note: str, value: float) -> str:
        self._notes.append(note.format(f"{value:g}"))
        return written(value)

    def _sector(self, side: str) -> str:
        """Return the accessor of the distance in the direction that is said."""
        word = "back" if re.search("behind|back", side) else next((w for w in ("left", "right") if w in side), "")
        if not word and re.search("front|ahead|before", side):
            word = "front"
        accessor = f"{word or 'nearest'}_distance_m"
        self._check(accessor)
        return f"{accessor}()"

    def _label(self, text: str) -> str:
        """Return the label that a thing is detected under. Raises GrammarError with those there are."""
        words = re.sub(r"^(?:an?|the|any|some|my|your|his|her|another)\s+", "", text.strip())
        self._check("visible")
        choices = self._accessors["visible"].parameters[0].choices
        singular = [words, words.removesuffix("s"), words.removesuffix("es"), "person" if words in _PEOPLE else words]
        for word in (w.replace(" ", "_") for w in singular):
            if word in choices or (not choices and re.fullmatch(r"[a-z]\w*", word)):
                return word
        known = f"; it knows {', '.join(choices)}" if choices else ""
        thing = restored(text.strip(), self._texts)
        raise GrammarError(f"“{thing}” is nothing the robot can recognise{known}", examples=True)

    def _aside(self, side: str, thing: str) -> str:
        """Return more of the condition where it says left, right or in front of a thing."""
        if not side:
            return ""
        self._check("bearing_to")
        bearing = f"bearing_to({self._label(thing.lower())!r})"
        if "left" in side:
            return f" and {bearing} > {written(ASIDE_DEG)}"
        if "right" in side:
            return f" and {bearing} < -{written(ASIDE_DEG)}"
        if re.search("front|ahead|before", side):
            return f" and abs({bearing}) <= {written(2 * ASIDE_DEG)}"
        if re.search("behind|back", side):
            raise GrammarError(f"“{side}”: the camera looks ahead and recognises nothing behind the robot")
        return ""


def restored(text: str, texts: Sequence[str], quote: str = '"') -> str:
    """Return the text with the quotations that «n» stands for, between these quotation marks."""
    return re.sub(r"«(\d+)»", lambda m: f"{quote}{texts[int(m[1])]}{quote}", text)


def written(value: float) -> str:
    """Return a number as code."""
    return f"{value:.4f}".rstrip("0").rstrip(".") or "0"
