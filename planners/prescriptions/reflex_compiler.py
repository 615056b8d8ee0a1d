# SPDX-License-Identifier: Apache-2.0
"""Compiles a sentence into a proposed reflex: by a model, with one repair, or without one by the grammar (TypeGo 6)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape

from planners.models.base import CancelToken, Message, ModelClient, ModelRequest, TextDelta
from planners.prescriptions.grammar import Grammar
from planners.prescriptions.reflex_prompt import repair_prompt, sentence_prompt, system_prompt
from reflexes.rule import ReflexError
from skill_kernel.guard import Guarded, GuardError, Vocabulary, compile_guarded
from skill_kernel.robot import RobotConfig

GRAMMAR = "grammar (no language model)"
"""What stands as `model` of a rule that the grammar read."""
MAX_SENTENCE = 500
DEADLINE_S = 60.0
MAX_ANSWER = 6_000
REPAIRS = 1

_FENCE = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\r?\n(?P<code>.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT = re.compile(r"<(think|thinking)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_PART = re.compile(r"<(condition|action)>(?P<code>.*?)</\1>", re.DOTALL | re.IGNORECASE)
_CANNOT = re.compile(r"^\s*CANNOT:\s*(?P<why>.+)", re.IGNORECASE | re.MULTILINE)


class CompileError(ReflexError):
    """A sentence did not become a reflex. `source` is the last code that was refused, "" when there was none."""

    def __init__(self, message: str, source: str = "") -> None:
        super().__init__(message)
        self.source = source


@dataclass(frozen=True)
class Proposal:
    """Code that passed the guard. `attempts` counts the answers of the model; `notes` are for the person who approves."""

    sentence: str
    source: str
    guarded: Guarded
    model: str
    attempts: int = 1
    notes: tuple[str, ...] = ()


class Compiler:
    """Compiles for one robot. `client` is None where there is no model: then the grammar reads."""

    def __init__(self, vocabulary: Vocabulary, robot: RobotConfig, client: ModelClient | None) -> None:
        self._vocabulary, self._robot, self._client = vocabulary, robot, client
        self._grammar = Grammar(vocabulary, robot)

    def compile(self, sentence: str, *, cancel: CancelToken, offline: bool = False) -> Proposal:
        """Blocks until the model has answered, at most twice DEADLINE_S. `offline`: by the grammar, whatever there is.

        Raises CompileError, GrammarError, or ModelError when the model gave no answer.
        """
        text = " ".join(sentence.split())
        if not text:
            raise CompileError(
                "say what the reflex is to do, such as: when anything is closer than 0.2 m in front, step back 0.5 m"
            )
        if len(text) > MAX_SENTENCE:
            raise CompileError(f"the sentence has {len(text)} characters; say it in at most {MAX_SENTENCE}")
        if self._client is None or offline:
            return self._by_grammar(text)
        return self._by_model(text, self._client, cancel)

    def check(self, sentence: str, source: str, author: str) -> Proposal:
        """A proposal of code that somebody wrote by hand. Raises CompileError."""
        try:
            guarded = compile_guarded(source, self._vocabulary)
        except GuardError as error:
            raise CompileError(f"the code was refused: {error}", source) from error
        return Proposal(sentence, source, guarded, author, notes=guarded.notes)

    def _by_grammar(self, sentence: str) -> Proposal:
        reading = self._grammar.read(sentence)
        try:
            guarded = compile_guarded(reading.source, self._vocabulary)
        except GuardError as error:
            raise CompileError(f"“{sentence}” was read, but the robot cannot do it: {error.message}", reading.source) from error
        return Proposal(sentence, reading.source, guarded, GRAMMAR, notes=(*reading.notes, *guarded.notes))

    def _by_model(self, sentence: str, client: ModelClient, cancel: CancelToken) -> Proposal:
        system = system_prompt(self._vocabulary, robot_name=self._robot.name, robot_description=self._robot.description)
        messages = [Message("user", sentence_prompt(sentence))]
        for attempt in range(1, REPAIRS + 2):
            answer = _answer(client, system, tuple(messages), sentence, cancel)
            source = code_of(answer)
            if source is None:
                why = _CANNOT.search(answer)
                raise CompileError(
                    f"the model says that it cannot be done: {why['why'].strip()[:400]}"
                    if why
                    else f"the model answered without code: “{answer.strip()[:200]}”; say the sentence more plainly"
                )
            try:
                guarded = compile_guarded(source, self._vocabulary)
            except GuardError as error:
                if attempt > REPAIRS:
                    raise CompileError(f"the model's code was refused {attempt} times, at last: {error}", source) from error
                messages += [Message("assistant", answer), Message("user", repair_prompt(error))]
            else:
                return Proposal(sentence, source, guarded, client.name, attempt, guarded.notes)
        raise AssertionError("a loop that returns or raises")


def code_of(answer: str) -> str | None:
    """The two functions in an answer: in a fenced block, in elements <condition> and <action>, or bare; None without any."""
    text = _THOUGHT.sub("", answer)
    blocks = [match["code"] for match in _FENCE.finditer(text)]
    inside = next((b for b in blocks if "def condition" in b and "def action" in b), "\n\n".join(blocks))
    parts = {match.group(1).lower(): match["code"] for match in _PART.finditer(inside or text)}
    if len(parts) == 2:
        functions = (_function(name, unescape(parts[name])) for name in ("condition", "action"))
        return "\n\n".join(functions)
    if inside.strip():
        return _tidy(inside)
    begin = text.find("def condition")
    return _tidy(text[begin:]) if begin >= 0 and "def action" in text else None


def _function(name: str, code: str) -> str:
    """A part in an element may be a whole function or its body."""
    inner = _FENCE.search(code)
    code = _tidy(inner["code"] if inner else code)
    if code.startswith("def "):
        return code
    if name == "condition" and "\n" not in code.strip() and not code.startswith("return"):
        code = f"return {code.strip()}\n"
    return f"def {name}():\n" + "".join(f"    {line}\n" for line in code.splitlines())


def _tidy(code: str) -> str:
    """Without blank lines around, common indentation and tabs; the guard refuses the rest that does not belong there."""
    lines = [line.rstrip() for line in code.expandtabs(4).splitlines()]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    margin = min((len(line) - len(line.lstrip(" ")) for line in lines if line), default=0)
    return "".join(f"{line[margin:]}\n" for line in lines)


def _answer(client: ModelClient, system: str, messages: tuple[Message, ...], sentence: str, cancel: CancelToken) -> str:
    request = ModelRequest(system, messages, max_output_tokens=2000, deadline_s=DEADLINE_S, instruction=sentence)
    pieces: list[str] = []
    stream = client.stream(request, cancel=cancel)
    for event in stream:
        if isinstance(event, TextDelta):
            pieces.append(event.text)
            if sum(map(len, pieces)) > MAX_ANSWER:
                raise CompileError("the model's answer does not end; say the sentence more plainly, or use another model")
    return "".join(pieces)
