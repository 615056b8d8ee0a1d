# SPDX-License-Identifier: Apache-2.0
"""Compile a sentence into a proposed reflex: by a model, with one repair, or without one by the grammar (TypeGo 6).

The model is shown code as prompt: the accessors of the robot as Python stubs, its skills as lines."""

import ast
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from planners.models.base import CancelToken, Message, ModelClient, ModelRequest, TextDelta
from planners.models.config import Deadlines
from planners.models.model_call import without_thoughts
from planners.prescriptions.grammar import EXAMPLES, Grammar
from planners.prompts.blocks import quoted, text_beside
from planners.prompts.prompt import RobotFacts, compose, conditions, described, line
from reflexes.rule import LONGEST_ACTION_S, MAX_SENTENCE, ReflexError
from skill_kernel.config.sections import shown
from skill_kernel.guard.code import FUNCTIONS, LONGEST_WAIT_S, OWN_ACTIONS, WAIT, Vocabulary
from skill_kernel.guard.compiler import Guarded, compile_guarded
from skill_kernel.guard.reading import LIMITS, GuardError, read
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.arguments import ArgumentError, bind_typed
from skill_kernel.skills.skill import SkillDefinitionError

GRAMMAR = "grammar (no language model)"
"""The `model` of a rule that the grammar read."""
MAX_ANSWER = 6_000
REPAIRS = 1

_FENCE = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\r?\n(?P<code>.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_CANNOT = re.compile(r"^\s*CANNOT:\s*(?P<why>.+)", re.IGNORECASE | re.MULTILINE)

MIN_LIMIT_S = 30.0
FACTOR = 2.0
"""Multiple of its nominal time that a skill may take before something is wrong."""
EXTRA_S = 10.0
UNKNOWN_S = 30.0
"""Time granted to a skill whose arguments are known only when it is called."""


class CompileError(ReflexError):
    """Report that a sentence did not become a reflex. `source` is the last code that was refused, "" when there was none."""

    def __init__(self, message: str, source: str = "") -> None:
        super().__init__(message)
        self.source = source


@dataclass(frozen=True)
class Proposal:
    """Hold code that passed the guard. `notes` are for the person who approves."""

    sentence: str
    source: str
    guarded: Guarded
    model: str
    notes: tuple[str, ...] = ()


class Compiler:
    """Compile for one robot. `client` is None where there is no model: then the grammar reads. `deadline_s` bounds each answer
    of the model [s]."""

    def __init__(
        self, vocabulary: Vocabulary, robot: RobotConfig, client: ModelClient | None, deadline_s: float = Deadlines().reflex_s
    ) -> None:
        self._vocabulary, self._robot, self._client, self._deadline_s = vocabulary, robot, client, deadline_s
        self._grammar = Grammar(vocabulary, robot)

    def compile(self, sentence: str, *, cancel: CancelToken, offline: bool = False) -> Proposal:
        """Compile a sentence; blocks until the model has answered, at most twice `deadline_s`. With `offline` the grammar
        reads.

        Raises CompileError, GrammarError, or ModelError when the model gave no answer.
        """
        text = " ".join(sentence.split())
        if not text:
            raise CompileError(f"say what the reflex is to do, such as: {EXAMPLES.splitlines()[0]}")
        if len(text) > MAX_SENTENCE:
            raise CompileError(f"the sentence has {len(text)} characters; say it in at most {MAX_SENTENCE}")
        if self._client is None or offline:
            return self._by_grammar(text)
        return self._by_model(text, self._client, cancel)

    def check(self, sentence: str, source: str, author: str, notes: tuple[str, ...] = ()) -> Proposal:
        """Return a proposal of code that somebody wrote. Raises CompileError."""
        try:
            guarded = compile_guarded(source, self._vocabulary)
        except GuardError as error:
            raise CompileError(f"the code was refused: {error}", source) from error
        return Proposal(sentence, source, guarded, author, notes=(*notes, *guarded.notes))

    def _by_grammar(self, sentence: str) -> Proposal:
        reading = self._grammar.read(sentence)
        try:
            return self.check(sentence, reading.source, GRAMMAR, reading.notes)
        except CompileError as error:
            raise CompileError(f"“{sentence}” was read, but the robot cannot do it: {error}", reading.source) from error

    def _by_model(self, sentence: str, client: ModelClient, cancel: CancelToken) -> Proposal:
        system = system_prompt(self._vocabulary, robot_name=self._robot.name, robot_description=self._robot.description)
        messages = [Message("user", f"SENTENCE (data):\n{quoted(sentence)}\n")]
        for attempt in range(1, REPAIRS + 2):
            answer = self._answer(client, system, tuple(messages), sentence, cancel)
            source = code_of(answer)
            if source is None:
                if why := _CANNOT.search(answer):
                    raise CompileError(f"the model says that it cannot be done: {shown(why['why'], 400)}")
                told = f"“{shown(answer, 200)}”; say the sentence more plainly"
                raise CompileError(f"the model answered without code: {told}")
            try:
                return self.check(sentence, source, client.name)
            except CompileError as error:
                if attempt > REPAIRS:
                    raise CompileError(
                        f"the model's code was refused {attempt} times, at last: {error.__cause__}", source
                    ) from error
                refused = f"Your code was refused: {quoted(str(error.__cause__), 1000)}"
                repair = f"{refused}\nAnswer with the whole corrected code block, both functions."
                messages += [Message("assistant", answer), Message("user", repair)]
        raise AssertionError("a loop that returns or raises")

    def _answer(
        self, client: ModelClient, system: str, messages: tuple[Message, ...], sentence: str, cancel: CancelToken
    ) -> str:
        deadline_s = self._deadline_s
        request = ModelRequest(system, messages, max_output_tokens=2000, deadline_s=deadline_s, instruction=sentence)
        pieces: list[str] = []
        for event in client.stream(request, cancel=cancel):
            if isinstance(event, TextDelta):
                pieces.append(event.text)
                if sum(map(len, pieces)) > MAX_ANSWER:
                    raise CompileError("the model's answer does not end; say the sentence more plainly, or use another model")
        return "".join(pieces)


def code_of(answer: str) -> str | None:
    """Return the two functions in an answer, fenced or bare; None without any."""
    text = without_thoughts(answer)
    blocks = [match["code"] for match in _FENCE.finditer(text)]
    inside = next((b for b in blocks if "def condition" in b and "def action" in b), "\n\n".join(blocks))
    if inside.strip():
        return _tidy(inside)
    begin = text.find("def condition")
    return _tidy(text[begin:]) if begin >= 0 and "def action" in text else None


def _tidy(code: str) -> str:
    """Return code without blank lines around it, common indentation and tabs; the guard judges the rest."""
    lines = "\n".join(line.rstrip() for line in code.expandtabs(4).splitlines()).strip("\n")
    return "".join(f"{line}\n" for line in textwrap.dedent(lines).splitlines())


_RULES = text_beside(__file__, "reflex_rules.txt")


def system_prompt(vocabulary: Vocabulary, *, robot_name: str, robot_description: str = "") -> str:
    """Return the static part of the prompt: rules, accessors, skills."""
    functions = ", ".join(name for name in FUNCTIONS if name not in ("any", "all", "sum", "min", "max", "range"))
    rules = _RULES.format(robot=robot_name, functions=functions)
    robot = RobotFacts(robot_name, robot_description, vocabulary.skills, accessors=vocabulary.accessors)
    skills = "\n".join(line(skill, vocabulary.limits) for skill in (*OWN_ACTIONS.values(), *vocabulary.skills))
    accessors = conditions(robot, "# Accessors, for conditions and actions")
    return compose(rules, described(robot), accessors, f"# Skills, for actions\n\n```python\n{skills}\n```\n")


def limit_of(source: str, vocabulary: Vocabulary) -> float:
    """Return the `limit_s` that fits guarded code. Raises ReflexError when its action surely takes longer than any may."""
    action = _action(source)
    least = _Durations(vocabulary, longest=False).of(action)
    if least > LONGEST_ACTION_S:
        raise ReflexError(
            f"its action takes about {least:.0f} s; a reflex acts for at most {LONGEST_ACTION_S:g} s, make it shorter"
        )
    limit = FACTOR * _Durations(vocabulary, longest=True).of(action) + EXTRA_S
    return min(max(MIN_LIMIT_S, limit), LONGEST_ACTION_S)


def nominal_of(source: str, vocabulary: Vocabulary) -> float:
    """Return how long the skills of guarded code nominally take at most, without its waits."""
    return _Durations(vocabulary, longest=True, waits=False).of(_action(source))


def _action(source: str) -> list[ast.stmt]:
    return next(f for f in read(source).body if isinstance(f, ast.FunctionDef) and f.name == "action").body


class _Durations:
    """Add up seconds along the longest way, every loop at its longest, or along the shortest, whatever the sensors say."""

    def __init__(self, vocabulary: Vocabulary, *, longest: bool, waits: bool = True) -> None:
        self._vocabulary, self._longest, self._waits = vocabulary, longest, waits

    def of(self, body: Iterable[ast.stmt]) -> float:
        total = 0.0
        for statement in body:
            leaves = any(isinstance(part, (ast.Return, ast.Break, ast.Continue)) for part in ast.walk(statement))
            if leaves and not self._longest:
                break
            if isinstance(statement, ast.If):
                total += (max if self._longest else min)(self.of(statement.body), self.of(statement.orelse))
            elif isinstance(statement, ast.For):
                total += self._rounds(statement.iter) * self.of(statement.body)
            else:
                total += sum(self._call(call) for call in ast.walk(statement) if isinstance(call, ast.Call))
        return total

    def _call(self, call: ast.Call) -> float:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        skill = self._vocabulary.skills.get(name)
        if (name == WAIT and not self._waits) or (name != WAIT and skill is None):
            return 0.0
        try:
            given = [ast.literal_eval(place) for place in call.args]
            named = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
            if skill is None:
                return float([*given, *named.values()][0])
            values = dict(zip(skill.signature.parameters, given, strict=False)) | named
            return skill.nominal_for(bind_typed(skill, values, self._vocabulary.limits).values)
        except (ValueError, ArgumentError, SkillDefinitionError):
            return 0.0 if not self._longest else LONGEST_WAIT_S if skill is None else UNKNOWN_S

    def _rounds(self, over: ast.expr) -> int:
        """Return how often a loop runs: the guard has bounded a range and a list that stand there."""
        if isinstance(over, ast.Call):
            try:
                return len(range(*[int(ast.literal_eval(bound)) for bound in over.args]))
            except ValueError:
                return LIMITS.rounds
        if not self._longest:
            return 0
        return len(over.elts) if isinstance(over, ast.List) else LIMITS.items
