# SPDX-License-Identifier: Apache-2.0
"""Reads what a reflex does: the offline command parser reads the steps, and its function tokens become skill calls."""

from __future__ import annotations

import re

from function_tokens.mapper import Mapped, Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import ParseError, TokenKind
from planners.language.parser import CommandParser
from planners.prescriptions.grammar.problem import GrammarError
from planners.prescriptions.grammar.quantities import NUMBER, number_of
from planners.prompts.prompt import GrammarOptions
from skill_kernel.guard import Vocabulary
from skill_kernel.guard.vocabulary import LONGEST_WAIT_S
from skill_kernel.robot import RobotConfig

_STEP = re.compile(r"\s*(?:[,;]\s*(?:and\s+)?(?:then\s+)?|\s+and\s+(?:then\s+)?|\s+then\s+)", re.IGNORECASE)
_STOP = re.compile(
    r"(?:please )?(?:stop|halt|freeze|(?:stand|stay|hold) still|stop (?:moving|walking|at once|there|immediately)|"
    r"(?:do not|don't) move)",
    re.IGNORECASE,
)
_WAIT = re.compile(rf"(?:wait|pause|stay)(?: for)? (?P<number>{NUMBER}) ?(?:s|secs?|seconds?)", re.IGNORECASE)
_BACK = r"\b(?:back (?:off|away|up)|retreat|move away|get back|draw back|step backwards?|keep away)\b"
_GREET = r"\b(?:greet|welcome)(?: (?:them|him|her|it|everybody|everyone|the person|the people|people))?$"
_REWRITTEN = tuple(
    (re.compile(pattern, re.IGNORECASE), other)
    for pattern, other in (
        (_BACK, "step back"),
        (r"\bstep aside(?: to the)? (left|right)\b", r"step \1"),
        (_GREET, "say hello"),
        (r"\bhalf an? (met(?:er|re))\b", r"0.5 \1"),
    )
)
_SAY = re.compile(r"(?:say|shout|call|announce|tell (?:them|him|her|everybody))\s*:?\s+(?P<text>.+)", re.IGNORECASE)

_CONDITION = re.compile(r"\b(?:if|when(?:ever)?|unless|until|till|but|while|except)\b", re.IGNORECASE)


class Actions:
    """Reads actions for the skills of one robot."""

    def __init__(self, vocabulary: Vocabulary, robot: RobotConfig) -> None:
        options = GrammarOptions(robot.builtin_names, robot.limits)
        self._vocabulary = vocabulary
        self._parser = CommandParser(vocabulary.skills, (), options, robot.name)
        self._mapper = Mapper.for_robot(robot, vocabulary.skills)
        self._stop, self._sleep = options.tag("stop"), options.tag("sleep")

    def read(self, text: str, texts: list[str]) -> list[str]:
        """The lines of the action. Raises GrammarError for a step that no skill fits."""
        lines = [line for step in _STEP.split(text.strip()) if step.strip() for line in self._step(step.strip(), texts)]
        if not lines:
            raise GrammarError(f"“{text}” names nothing to do; the robot can: {self._parser.abilities()}")
        return lines

    def _step(self, step: str, texts: list[str]) -> list[str]:
        if _STOP.fullmatch(step):
            return ["stop()"]
        if wait := _WAIT.fullmatch(step):
            seconds = number_of(wait["number"])
            if not 0 < seconds <= LONGEST_WAIT_S:
                raise GrammarError(f"“{step}”: a reflex waits at most {LONGEST_WAIT_S:g} seconds")
            return [f"wait({seconds:g})"]
        if found := _CONDITION.search(step):
            whole = _restored(step, texts, quote='"')
            raise GrammarError(
                f"“{whole}”: a step takes no '{found.group()}'; say before it when it is to happen, and put what is to be said "
                'in quotes: say "hello"'
            )
        if said := _SAY.fullmatch(step):
            return [self._speaking(_restored(said["text"], texts))]
        for pattern, other in _REWRITTEN:
            step = pattern.sub(other, step)
        if said := _SAY.fullmatch(step):
            return [self._speaking(said["text"])]
        return self._commanded(_restored(step, texts, quote='"'))

    def _speaking(self, text: str) -> str:
        skill = self._vocabulary.skills.text_skill
        if skill is None or skill.content is None:
            raise GrammarError("this robot has no skill that speaks")
        words = text.strip().strip("\"'").replace("\\", " ")
        return f"{skill.name}({skill.content}={_quoted(words)})"

    def _commanded(self, step: str) -> list[str]:
        reading = self._parser.read(step)
        if reading.trouble is not None or not reading.source:
            raise GrammarError(f"the step “{step}” was not understood; the robot can: {self._parser.abilities()}")
        lines: list[str] = []
        try:
            parser = StreamingParser("strict")
            tokens = [*parser.feed(reading.source), *parser.close()]
        except ParseError as error:
            raise GrammarError(f"the step “{step}” was not understood ({error.message})") from error
        for token in tokens:
            if token.kind in (TokenKind.CHAR, TokenKind.REF):
                if token.text.strip():
                    lines.append(self._speaking(token.text))
            elif token.kind is TokenKind.SCF and token.name == self._stop:
                # What only stands still is read before; this would end something else, such as barking.
                raise GrammarError(f"the step “{step}” was not understood; to stand still, say only: stop")
            elif token.kind is TokenKind.SCF and token.name == self._sleep:
                lines.append(f"wait({token.attrs['seconds']})")
            elif token.kind is TokenKind.SCF:
                lines.append(self._call(token.name, dict(token.attrs), step))
            elif token.kind is TokenKind.AF and token.name not in self._vocabulary.skills:
                continue  # an element that only orders what stands in it; a reflex does one after the other anyway
            elif token.kind is not TokenKind.RF:
                raise GrammarError(f"the step “{step}” goes on until something else ends, which a reflex cannot")
        return lines

    def _call(self, name: str, attributes: dict[str, str], step: str) -> str:
        mapped = self._mapper.map(name, attributes)
        if not isinstance(mapped, Mapped) or mapped.builtin:
            raise GrammarError(f"the step “{step}” cannot stand in a reflex")
        given = {key: value for key, value in mapped.arguments.items() if key in attributes}
        arguments = [f"{k}={_quoted(v)}" if isinstance(v, str) else f"{k}={v!r}" for k, v in given.items()]
        return f"{name}({', '.join(arguments)})"


def _restored(text: str, texts: list[str], quote: str = "") -> str:
    return re.sub(r"«(\d+)»", lambda m: f"{quote}{texts[int(m.group(1))]}{quote}", text)


def _quoted(text: str) -> str:
    """A text as the guard takes it: in plain quotes, nothing escaped."""
    words = " ".join(text.split())
    return f'"{words}"' if '"' not in words else f"'{words.replace(chr(39), '’')}'"
