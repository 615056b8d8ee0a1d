# SPDX-License-Identifier: Apache-2.0
"""Read the usual forms of a reflex without any language model: a sentence becomes a condition and an action."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from function_tokens.mapper import Mapped, Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError, TokenKind
from planners.language.conditional import QUOTED, TRIGGERS, condition_first, condition_last
from planners.language.parser import CommandParser
from planners.language.words import figures
from planners.prescriptions.condition_forms import Condition, Conditions, GrammarError, restored
from planners.prompts.prompt import GrammarOptions
from skill_kernel.guard import Vocabulary
from skill_kernel.guard.code import LONGEST_WAIT_S
from skill_kernel.robot import RobotConfig

_I = re.IGNORECASE
_MARKS = str.maketrans({"“": '"', "”": '"', "„": '"', "’": "'", "‘": "'", "«": '"', "»": '"', "–": "-", "\u00a0": " "})
_FIRST, _LAST = condition_first(TRIGGERS), condition_last(TRIGGERS)
_BEGINS = re.compile(rf"(?:{TRIGGERS})\s", _I)
_UNLESS = re.compile(r"\s*,?\s+(?:unless|except (?:when|if))\s+", _I)
_STEP = re.compile(r"\s*(?:[,;]\s*(?:and\s+)?(?:then\s+)?|\s+and\s+(?:then\s+)?|\s+then\s+)", _I)
_STOP = re.compile(
    r"(?:please )?(?:stop|halt|freeze|(?:stand|stay|hold) still|stop (?:moving|walking|at once|there|immediately)|"
    r"(?:do not|don't) move)",
    _I,
)
_REPHRASED = tuple(
    (re.compile(pattern, _I), other)
    for pattern, other in (
        (r"\b(?:back (?:off|away|up)|retreat|move away|get back|draw back|step backwards?|keep away)\b", "step back"),
        (r"\bstep aside(?: to the)? (left|right)\b", r"step \1"),
        (
            r"\b(?:greet|welcome)(?: (?:them|him|her|it|everybody|everyone|the person|a person|the people|people))?$",
            "say hello",
        ),
        (r"^(?:wait|pause|stay)(?: for)? (?=[\d.]+ s$)", "wait "),
    )
)
_SAY = re.compile(r"(?:say|shout|call|announce|tell (?:them|him|her|everybody))\s*:?\s+(?P<text>.+)", _I)
_CONDITION = re.compile(r"\b(?:if|when(?:ever)?|unless|until|till|but|while|except)\b", _I)

STAY_S = 25
"""Longest time a reflex that only stops stands still; less than an action may take."""
_STAY = ("stop()", f"for second in range({STAY_S}):", "    if not ({condition}):", "        return", "    wait(1)")


@dataclass(frozen=True)
class Reading:
    """The source that a sentence was read as. `notes` tell what was supposed where the sentence did not say."""

    source: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A condition over the accessors, and a task in plain words."""

    condition: str
    task: str


class Grammar:
    """Reads sentences for one robot. The steps of an action are read by the command parser, as instructions are."""

    def __init__(self, vocabulary: Vocabulary, robot: RobotConfig) -> None:
        options = GrammarOptions(robot.builtin_names, robot.limits)
        self.vocabulary = vocabulary
        self.commands = CommandParser(vocabulary.skills, (), options, robot.name)
        self._conditions = Conditions(vocabulary.accessors, tuple(robot.rooms))
        self._mapper = Mapper.for_robot(robot, vocabulary.skills)
        self._stop, self._sleep = options.tag("stop"), options.tag("sleep")

    def read(self, sentence: str) -> Reading:
        """Return the source of a reflex. Raises GrammarError with the piece that was not understood."""
        condition, action, texts = self._halves(sentence)
        notes = condition.notes
        lines = [line for step in _STEP.split(figures(action.strip())) if step.strip() for line in self._step(step, texts)]
        if not lines:
            raise GrammarError(f"“{action}” names nothing to do; the robot can: {self.commands.abilities()}")
        if lines == ["stop()"]:
            lines = [line.format(condition=condition.source) for line in _STAY]
            notes = (*notes, f"it stands still as long as that is so, at most {STAY_S} s")
        body = "\n".join(f"    {line}" for line in lines)
        return Reading(f"def condition():\n    return {condition.source}\n\n\ndef action():\n{body}\n", notes)

    def rule(self, sentence: str) -> Rule:
        """Return the condition as an expression, and the action as it was said. Raises GrammarError."""
        condition, action, texts = self._halves(sentence)
        return Rule(condition.source, restored(action.strip(), texts))

    def _halves(self, sentence: str) -> tuple[Condition, str, list[str]]:
        """Return the condition, and the action with the quoted texts that its «n» stand for."""
        text = " ".join(sentence.translate(_MARKS).split()).strip().rstrip(".!")
        texts: list[str] = []

        def keep(match: re.Match[str]) -> str:
            texts.append(match.group()[1:-1])
            return f"«{len(texts) - 1}»"

        when, action, unless = _parts(QUOTED.sub(keep, text))
        condition = self._conditions.read(when, texts)
        if unless:
            but = self._conditions.read(unless, texts)
            condition = Condition(f"({condition.source}) and not ({but.source})", (*condition.notes, *but.notes))
        return condition, action, texts

    def _step(self, step: str, texts: Sequence[str]) -> list[str]:
        step = step.strip()
        if _STOP.fullmatch(step):
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
        reading = self.commands.read(step)
        if reading.trouble is not None or not reading.source:
            raise GrammarError(f"the step “{step}” was not understood; the robot can: {self.commands.abilities()}")
        try:
            parser = StreamingParser("strict")
            tokens = [*parser.feed(reading.source), *parser.close()]
        except ParseError as error:
            raise GrammarError(f"the step “{step}” was not understood ({error.message})") from error
        return [line for token in tokens if (line := self._line(token, step))]

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
    text = re.sub(r"^please[ ,]+", "", text, flags=_I)
    unless = ""
    pieces = _UNLESS.split(text, maxsplit=1)
    if len(pieces) == 2:
        text, unless = pieces
        behind = re.fullmatch(r"(?P<unless>.+?)\s*,\s*(?:then\s+)?(?P<action>.+)", unless)
        if behind and _BEGINS.match(text) and "," not in text:
            text, unless = f"{text}, {behind['action']}", behind["unless"]
    match = _FIRST.fullmatch(text)
    if match is None and _BEGINS.match(text):
        why = f"no action stands behind “{text}”; put a comma between what is to happen and what to do"
        raise GrammarError(why, examples=True)
    match = match or _LAST.fullmatch(text)
    if match is not None:
        return match["condition"], match["action"], unless
    if unless:  # "stop unless …" has no cause of its own
        raise GrammarError(f"nothing says when: “{text}”; begin with 'when' or 'if'", examples=True)
    raise GrammarError(f"“{text[:80]}” says no condition; begin with 'when' or 'if'", examples=True)
