# SPDX-License-Identifier: Apache-2.0
"""Read the usual forms of a reflex without any language model: a sentence becomes an expression over the accessors, by a table
of forms, and an action, by the command parser."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from function_tokens.mapper import Mapped, Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, TokenKind
from planners.language.conditional import QUOTED, REQUEST, STEP, split
from planners.language.lexicon import with_pieces
from planners.language.parser import CommandParser
from planners.language.stop_words import is_stop
from planners.language.words import figures
from planners.prompts.blocks import text_beside
from planners.prompts.prompt import GrammarOptions
from reflexes.rule import ReflexError
from skill_kernel.config.sections import shown
from skill_kernel.config.yaml_text import read_yaml
from skill_kernel.guard.code import LONGEST_WAIT_S, Vocabulary
from skill_kernel.observation.accessors import Accessor, plain_words
from skill_kernel.robot import RobotConfig

_I = re.IGNORECASE
_MARKS = str.maketrans({"“": '"', "”": '"', "„": '"', "’": "'", "‘": "'", "«": '"', "»": '"', "–": "-", "\u00a0": " "})
_TRIGGERS = "when(?:ever)?|if|as soon as|once|every time|each time"
"""Words in front of what has to become true."""
_BEGINS = re.compile(rf"(?:{_TRIGGERS})\s", _I)
_UNLESS = re.compile(r"\s*,?\s+(?:unless|except (?:when|if))\s+", _I)
_STILL = re.compile(r"(?:please )?(?:stand|stay|hold) still", _I)
_SAY = re.compile(r"(?:say|shout|call|announce|tell (?:them|him|her|everybody))\s*:?\s+(?P<text>.+)", _I)
_CONDITION = re.compile(r"\b(?:if|when(?:ever)?|unless|until|till|but|while|except)\b", _I)

STAY_S = 25
"""Longest time a reflex that only stops stands still; less than an action may take."""
_STAY = ("stop()", f"for second in range({STAY_S}):", "    if not ({condition}):", "        return", "    wait(1)")


CLOSE_M = 0.5
"""Distance of a thing that is said to be close."""
LOW_PERCENT = 20.0
ASIDE_DEG = 15.0
"""Bearing from which a thing is on the left or the right, not ahead."""

_TEXTS: dict[str, str] = read_yaml(text_beside(__file__, "forms.yaml"), strict=True)
EXAMPLES = _TEXTS["examples"]
"""One sentence of each form, for help texts and error messages."""


class GrammarError(ReflexError):
    """Report that a sentence, or a piece of it, was not understood. With `examples` the message ends in sentences that are."""

    def __init__(self, message: str, *, examples: bool = False) -> None:
        super().__init__(f"{message}. Forms that are understood without a model:\n{EXAMPLES}" if examples else message)


def _rows(kind: str) -> list[tuple[str, str]]:
    return [(left, right) for left, _, right in (row.partition(" => ") for row in _TEXTS[kind].splitlines())]


_PIECES = dict(_rows("pieces"))
_FORMS, _REPHRASED = (
    [(re.compile(with_pieces(form, _PIECES), _I), other) for form, other in _rows(kind)] for kind in ("forms", "rephrased")
)
_SIGNS = {">": "more than,above,over,faster", ">=": "at least", "<": "fewer than,less than,lower than,below,under,slower"}
_SIGN = {word: sign for sign, words in _SIGNS.items() for word in words.split(",")} | {"exactly": "=="}
_OPPOSITE = {"<": ">=", ">=": "<", "==": "!="}
_SIDES = {"back": "behind|back", "left": "left", "right": "right", "front": "front|ahead|before"}
_SUPPOSED = {
    "free": ("a way was read as free for {} m", CLOSE_M),
    "close": ("“close” was read as less than {} m", CLOSE_M),
    "close to it": ("“close” was read as less than {} m", 2 * CLOSE_M),
    "low": ("“low” was read as less than {} %", LOW_PERCENT),
}
_PEOPLE = frozenset(
    {"people", "human", "humans", "man", "woman", "child", "somebody", "someone", "anyone", "anybody", "everybody", "visitor"}
)


@dataclass(frozen=True)
class Reading:
    """Hold the source that a sentence or a condition was read as. `notes` tell what was supposed where it did not say."""

    source: str
    notes: tuple[str, ...] = ()


class Conditions:
    """Read conditions for the accessors and rooms of one robot."""

    def __init__(self, accessors: Mapping[str, Accessor], rooms: Sequence[str]) -> None:
        self._accessors, self._rooms = accessors, rooms
        self._notes: list[str] = []
        self._texts: Sequence[str] = ()

    def read(self, text: str, texts: Sequence[str]) -> Reading:
        """Return the expression for a condition; `and` binds closer than `or`. «n» stands for `texts[n]`.

        Raises GrammarError.
        """
        self._notes, self._texts = [], texts
        text = figures(re.sub(r"\b(?:nobody|no one)\b", "no person", text, flags=_I))
        text = re.sub(r"^\s*(?:either|both)\s+", "", text.strip().rstrip(","), flags=_I)
        alternatives = []
        for alternative in re.split(r"\s*,?\s+or\s+(?:when\s+|if\s+)?", text, flags=_I):
            parts = re.split(r"\s*,?\s+(?:and|but|while)\s+(?:also\s+|when\s+|if\s+)?", alternative, flags=_I)
            alternatives.append(" and ".join(self._clause(part.strip().strip(",")) for part in parts))
        return Reading(" or ".join(alternatives), tuple(dict.fromkeys(self._notes)))

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
        word, side = (said.get(name) or "").lower(), _side(said.get("side") or said.get("other") or "")
        if name == "length" and said["metres"] is None:
            name = "free"
        if name in _SUPPOSED:
            note, value = _SUPPOSED[name]
            self._notes.append(note.format(f"{value:g}"))
            return written(value)
        match name:
            case "sector":
                self._check(f"{side or 'nearest'}_distance_m")
                return f"{side or 'nearest'}_distance_m()"
            case "length":
                return written(float(said["metres"] or 0.0))
            case "sign":
                return _SIGN[(said["how"] or "").lower()]
            case "count":
                return written(1.0 if word in ("a", "an", "one") else float(word))
            case "thing":
                return repr(self._label(word))
            case "aside":
                return self._aside(side, said["thing"] or "")
            case "posture":
                return repr({"sitting": "sit", "standing": "stand"}.get(word, "lie"))
            case "room" if word in self._rooms:
                return repr(word)
            case "room":
                raise GrammarError(f"there is no room “{said['room']}”; the robot knows {', '.join(self._rooms) or 'none'}")
        words = plain_words(restored(said["text"] or "", self._texts))
        if not words:
            raise GrammarError(f"“{restored(said['text'] or '', self._texts)}” does not say which word", examples=True)
        return repr(words)

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
        if side == "back":
            raise GrammarError("the camera looks ahead and recognises nothing behind the robot")
        beside = {"left": f"{bearing} > {written(ASIDE_DEG)}", "right": f"{bearing} < -{written(ASIDE_DEG)}"}
        return f" and {beside.get(side, f'abs({bearing}) <= {written(2 * ASIDE_DEG)}')}"


def _side(place: str) -> str:
    """Return back, left, right or front, "" for all around."""
    return next((side for side, words in _SIDES.items() if re.search(words, place, _I)), "")


def restored(text: str, texts: Sequence[str], quote: str = '"') -> str:
    """Return the text with the quotations that «n» stands for, between these quotation marks."""
    return re.sub(r"«(\d+)»", lambda m: f"{quote}{texts[int(m[1])]}{quote}", text)


def written(value: float) -> str:
    """Return a number as code."""
    return f"{value:.4f}".rstrip("0").rstrip(".") or "0"


class Grammar:
    """Read sentences for one robot. The steps of an action are read by the command parser, as instructions are."""

    def __init__(self, vocabulary: Vocabulary, robot: RobotConfig) -> None:
        options = GrammarOptions(robot.builtin_names, robot.limits)
        self.vocabulary = vocabulary
        self.commands = CommandParser(vocabulary.skills, (), options, robot.name)
        self._conditions = Conditions(vocabulary.accessors, tuple(robot.rooms))
        self._mapper = Mapper(robot, vocabulary.skills)
        self._stop, self._sleep = options.tag("stop"), options.tag("sleep")

    def read(self, sentence: str) -> Reading:
        """Return the source of a reflex. Raises GrammarError with the piece that was not understood."""
        condition, action, texts = self._halves(sentence)
        notes = condition.notes
        lines = [line for step in STEP.split(figures(action.strip())) if step.strip() for line in self._step(step, texts)]
        if not lines:
            raise GrammarError(f"“{action}” names nothing to do; the robot can: {self.commands.abilities()}")
        if lines == ["stop()"]:
            lines = [line.format(condition=condition.source) for line in _STAY]
            notes = (*notes, f"it stands still as long as that is so, at most {STAY_S} s")
        body = "\n".join(f"    {line}" for line in lines)
        return Reading(f"def condition():\n    return {condition.source}\n\n\ndef action():\n{body}\n", notes)

    def rule(self, sentence: str) -> tuple[str, str]:
        """Return the condition as an expression, and the action as it was said. Raises GrammarError."""
        condition, action, texts = self._halves(sentence)
        return condition.source, restored(action.strip(), texts)

    def _halves(self, sentence: str) -> tuple[Reading, str, list[str]]:
        """Return the condition, and the action with the quoted texts that its «n» stand for."""
        text = " ".join(sentence.translate(_MARKS).split()).strip().rstrip(".!")
        texts, numbers = [quotation[1:-1] for quotation in QUOTED.findall(text)], count()
        when, action, unless = _parts(QUOTED.sub(lambda _: f"«{next(numbers)}»", text))
        condition = self._conditions.read(when, texts)
        if unless:
            but = self._conditions.read(unless, texts)
            condition = Reading(f"({condition.source}) and not ({but.source})", (*condition.notes, *but.notes))
        return condition, action, texts

    def _step(self, step: str, texts: Sequence[str]) -> list[str]:
        step = step.strip()
        if is_stop(step) or _STILL.fullmatch(step):
            return ["stop()"]
        if found := _CONDITION.search(step):
            raise GrammarError(
                f"“{restored(step, texts)}”: a step takes no '{found.group()}'; say before it when it is to happen, and put "
                'what is to be said in quotes: say "hello"'
            )
        for pattern, other in () if _SAY.fullmatch(step) else _REPHRASED:
            step = pattern.sub(other, step)
        if said := _SAY.fullmatch(step):
            return [self._speaking(restored(said["text"], texts, quote=""))]
        return self._commanded(restored(step, texts))

    def _speaking(self, text: str) -> str:
        skill = self.vocabulary.skills.text_skill
        if skill is None or skill.content is None:
            raise GrammarError("this robot has no skill that speaks")
        return f"{skill.name}({skill.content}={_quoted(text.strip().strip(chr(34) + chr(39)).replace(chr(92), ' '))})"

    def _commanded(self, step: str) -> list[str]:
        """Return the calls of a step that the command parser reads wholly."""
        source = self.commands.read(step).source
        if not source:
            raise GrammarError(f"the step “{step}” was not understood; the robot can: {self.commands.abilities()}")
        parser = StreamingParser("strict")
        return [line for token in (*parser.feed(source), *parser.close()) if (line := self._line(token, step))]

    def _line(self, token: FunctionToken, step: str) -> str:
        """Return the call that a token stands for, or "" for one that only orders what stands in it: a reflex performs one
        call after the other anyway."""
        if token.kind in (TokenKind.CHAR, TokenKind.REF):
            return self._speaking(token.text) if token.text.strip() else ""
        if token.kind is TokenKind.RF or (token.kind is TokenKind.AF and token.name not in self.vocabulary.skills):
            return ""
        if token.kind is TokenKind.AF:
            raise GrammarError(f"the step “{step}” goes on until something else ends, which a reflex cannot")
        if token.name == self._stop:  # standing still is read before; this would end something else, such as barking
            raise GrammarError(f"the step “{step}” was not understood; to stand still, say only: stop")
        if token.name == self._sleep:
            if not 0 < float(token.attrs["seconds"]) <= LONGEST_WAIT_S:
                raise GrammarError(f"“{step}”: a reflex waits at most {LONGEST_WAIT_S:g} seconds")
            return f"wait({token.attrs['seconds']})"
        mapped = self._mapper.map(token.name, dict(token.attrs))
        if not isinstance(mapped, Mapped) or mapped.builtin:
            raise GrammarError(f"the step “{step}” cannot stand in a reflex")
        given = {key: value for key, value in mapped.arguments.items() if key in token.attrs}
        arguments = [f"{k}={_quoted(v)}" if isinstance(v, str) else f"{k}={v!r}" for k, v in given.items()]
        return f"{token.name}({', '.join(arguments)})"


def _quoted(text: str) -> str:
    """Return a text as the guard takes it: in plain quotes, nothing escaped."""
    words = " ".join(text.split())
    return f'"{words}"' if '"' not in words else f"'{words.replace(chr(39), '’')}'"


def _parts(text: str) -> tuple[str, str, str]:
    """Return condition, action, and what stands behind `unless`. Raises GrammarError."""
    text, unless = REQUEST.sub("", text, count=1), ""
    pieces = _UNLESS.split(text, maxsplit=1)
    if len(pieces) == 2:
        text, unless = pieces
        behind = re.fullmatch(r"(?P<unless>.+?)\s*,\s*(?:then\s+)?(?P<action>.+)", unless)
        if behind and _BEGINS.match(text) and "," not in text:
            text, unless = f"{text}, {behind['action']}", behind["unless"]
    clause = split(text)
    if clause is not None and re.fullmatch(_TRIGGERS, clause.word):
        if clause.action:
            return clause.condition, clause.action, unless
        why = f"no action stands behind “{text}”; put a comma between what is to happen and what to do"
        raise GrammarError(why, examples=True)
    # "stop unless …" has no cause of its own
    why = f"nothing says when: “{text}”" if unless else f"“{shown(text)}” says no condition"
    raise GrammarError(f"{why}; begin with 'when' or 'if'", examples=True)
