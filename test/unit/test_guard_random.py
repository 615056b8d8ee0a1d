# SPDX-License-Identifier: Apache-2.0
"""Random expressions of the guard's grammar are worth what Python says, and mutated rules never get out or crash."""

from __future__ import annotations

import random
import string
from unittest import mock

from guard_corpus import HONEST, SEEN, hostile, rule
from hypothesis import given, settings
from hypothesis import strategies as st
from reflex_kit import Answers, perform, same, vocabulary
from thorough import examples

from skill_kernel.guard.code import BOOL, FLOAT, Caller, Frame, Type, Vocabulary
from skill_kernel.guard.compiler import Compiler, compile_expression, compile_guarded
from skill_kernel.guard.reading import GuardError, RuleFault

LABELS = ("person", "chair", "ball")
TEXTS = ("room()", "posture()", "heard()", "lower(heard())", "'kitchen'", "'a'", "''")
NUMBERS = (
    "front_distance_m()",
    "back_distance_m()",
    "x_m()",
    "y_m()",
    "battery_percent()",
    "people_visible()",
    "0",
    "1",
    "2.5",
    "-3",
    "7",
)
SIGNS = ("+", "-", "*", "/", "//", "%")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


class Writer:
    """Writes an expression of a wanted type, at most `depth` deep."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._names = 0

    def number(self, depth: int, names: tuple[str, ...] = ()) -> str:
        draw = self._draw
        if depth <= 0:
            return draw.choice((*NUMBERS, f"distance_to('{draw.choice(LABELS)}')", *names))
        return draw.choice(
            (
                lambda: f"({self.number(depth - 1, names)} {draw.choice(SIGNS)} {self.number(depth - 1, names)})",
                lambda: f"(-{self.number(depth - 1, names)})",
                lambda: f"abs({self.number(depth - 1, names)})",
                lambda: f"min({self.number(depth - 1, names)}, {self.number(depth - 1, names)})",
                lambda: f"max([{self.number(depth - 1, names)}, {self.number(0, names)}])",
                lambda: f"({self.number(0, names)} if {self.truth(depth - 1, names)} else {self.number(depth - 1, names)})",
                lambda: f"len({draw.choice(TEXTS)})",
                lambda: f"count('{draw.choice(LABELS)}')",
                lambda: self._over("sum", depth, names),
                lambda: f"round({self.number(depth - 1, names)})",
                lambda: f"min([{self.number(0, names)}, {self.number(depth - 1, names)}] if {self.truth(0)} else [3, 7])",
            )
        )()

    def truth(self, depth: int, names: tuple[str, ...] = ()) -> str:
        draw = self._draw
        if depth <= 0:
            return draw.choice(("moving()", "charging()", "True", "False", f"visible('{draw.choice(LABELS)}')"))
        return draw.choice(
            (
                lambda: f"({self.number(depth - 1, names)} {draw.choice(COMPARISONS)} {self.number(0, names)})",
                lambda: f"({self.number(0, names)} <= {self.number(depth - 1, names)} < {self.number(0, names)})",
                lambda: f"({self.truth(depth - 1, names)} {draw.choice(('and', 'or'))} {self.truth(depth - 1, names)})",
                lambda: f"({' or '.join(self.truth(depth - 1, names) for _ in range(3))})",
                lambda: f"(not {self.truth(depth - 1, names)})",
                lambda: f"({draw.choice(TEXTS)} {draw.choice(('in', 'not in', '==', '!='))} {draw.choice(TEXTS)})",
                lambda: f"({draw.choice(TEXTS)} in [{draw.choice(TEXTS)}, {draw.choice(TEXTS)}])",
                lambda: f"({self.number(0, names)} in ({self.number(0, names)}, {self.number(0, names)}))",
                lambda: self._over(draw.choice(("any", "all")), depth, names),
                lambda: f"any(visible(v) for v in ['person', 'ball'] if {self.truth(0)})",
            )
        )()

    def _over(self, function: str, depth: int, names: tuple[str, ...]) -> str:
        self._names += 1
        name = f"v{self._names}"
        source = self._draw.choice((f"range({self._draw.randint(0, 5)})", f"[{self.number(0)}, {self.number(0)}]"))
        inside = (*names, name)
        item = self.number(depth - 2, inside) if function == "sum" else self.truth(depth - 2, inside)
        test = f" if {self.truth(0)}" if self._draw.random() < 0.3 else ""
        each = f"{item} for {name} in {source}{test}"
        return f"{function}([{each}])" if self._draw.random() < 0.5 else f"{function}({each})"


def python_says(source: str, answers: Answers) -> object:
    """Python's own value: the oracle. The text comes from the Writer above."""
    names = {name: (lambda *a, n=name: answers(n, *a)) for name in SEEN}
    return eval(
        source,
        {
            "__builtins__": {},
            **names,
            "abs": abs,
            "min": min,
            "max": max,
            "len": len,
            "any": any,
            "all": all,
            "sum": sum,
            "round": lambda value: round(value, 0),
            "range": range,
            "lower": str.lower,
        },
    )


def both(source: str, wanted: Type) -> None:
    answers = Answers(SEEN)
    try:
        expected: object = python_says(source, answers)
    except ArithmeticError as error:
        expected = type(error)
    try:
        compiled = compile_expression(source, vocabulary().accessors, wanted=wanted)
    except GuardError as error:
        assert error.code.value in ("TOO_MANY_STEPS", "TOO_DEEP", "TOO_LONG", "NUMBER"), (source, error)
        return
    try:
        value: object = compiled.evaluate(Answers(SEEN))
    except RuleFault as error:
        value = type(error.__cause__ or error)
    assert same(value, expected), source
    assert isinstance(value, type) or type(value) is compiled.type.kind, source
    assert not isinstance(expected, bool) or type(value) is bool, source


@settings(max_examples=examples(600))
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_a_random_condition_is_worth_what_python_says(seed: int, depth: int) -> None:
    both(Writer(random.Random(seed)).truth(depth), BOOL)


@settings(max_examples=examples(600))
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_a_random_number_is_worth_what_python_says(seed: int, depth: int) -> None:
    both(Writer(random.Random(seed)).number(depth), FLOAT)


def program(draw: random.Random) -> str:
    """Return the body of a condition that stores numbers in few variables by all ways there are."""
    writer, names, lines = Writer(draw), ["a"], ["a = 1.5" if draw.random() < 0.7 else "a = 2"]
    for _ in range(draw.randint(1, 6)):
        name, known = draw.choice("abc"), tuple(names)
        value = writer.number(draw.randint(0, 2), known)
        square = f"{name} = {name} * {name}"
        lines += draw.choice(
            (
                [f"{name} = {value}"],
                [f"{name} = {value}", f"for i in range({draw.randint(1, 12)}):", f"    {square}"],
                [f"{name} = 0", f"for {name} in [{value}, {writer.number(0, known)}]:", f"    {square}"],
                [f"{name} = 0.5", f"for {name} in range(3):", f"    {square}"],
                [f"x = [{value}, 2.5]", "x = [3, 4]", f"{name} = max(v * v for v in x)"],
                [f"{name} = 1.5", f"{name} += {value}", f"if moving():\n        {square}"],
            )
        )
        names.append(name)
    return "\n".join(f"    {line}" for line in [*lines, "return front_distance_m() < a"])


@settings(max_examples=examples(400))
@given(st.integers(0, 2**32))
def test_every_variable_of_a_random_program_holds_what_its_type_says(seed: int) -> None:
    frames: list[Frame] = []
    compilers: list[Compiler] = []

    def frame(call: Caller) -> Frame:
        frames.append(Frame(call))
        return frames[-1]

    def compiler(words: Vocabulary, **options: bool) -> Compiler:
        compilers.append(Compiler(words, **options))
        return compilers[-1]

    source = f"def condition():\n{program(random.Random(seed))}\n\ndef action():\n    bark(1)\n"
    with mock.patch("skill_kernel.guard.compiler.Frame", frame), mock.patch("skill_kernel.guard.compiler.Compiler", compiler):
        try:
            compile_guarded(source, vocabulary()).condition(Answers(SEEN))
        except (GuardError, ArithmeticError, ValueError):
            if not frames:
                return
    for name, type_ in compilers[0].types.items():
        value = frames[0].values.get(name)
        for one in [] if value is None else value if isinstance(value, list) else [value]:
            assert type(one) is type_.kind, source


SOURCES = [rule(case.condition, case.action) for case in HONEST.values()] + [s for s in hostile().values() if len(s) < 1000]
PIECES = [
    "__class__",
    ".",
    "(",
    ")",
    "[",
    "]",
    "lambda: ",
    " for x in ",
    "import os",
    "**",
    "f'",
    "'",
    '"',
    "\\",
    "\n",
    "    ",
    "while True:",
    "eval",
    "not ",
    "-",
    ":=",
    "*",
    "ｅ",
    "\u200b",
    "\x00",
    "return ",
    "def ",
    "yield ",
    "1e999",
    "9" * 30,
    "getattr",
    ",",
    ":",
    "=",
    "@",
]


@settings(max_examples=examples(800))
@given(st.integers(0, 2**32))
def test_a_mutated_rule_is_refused_or_does_nothing_but_call_skills(seed: int) -> None:
    draw = random.Random(seed)
    source = draw.choice(SOURCES)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(source) + 1)
        cut = draw.randint(0, 6) if draw.random() < 0.5 else 0
        other = draw.choice(SOURCES)
        begin = draw.randrange(len(other) + 1)
        new = draw.choice((draw.choice(PIECES), draw.choice(string.printable), other[begin : begin + 12], ""))
        source = source[:at] + new + source[at + cut :]
    behaves(source)


@settings(max_examples=examples(400))
@given(st.text(max_size=300))
def test_any_text_at_all_is_refused_or_harmless(text: str) -> None:
    behaves(text)
    behaves(rule(text.replace("\n", " ")))
    behaves(rule(action=text))


def behaves(source: str) -> None:
    """Check that a GuardError refuses it, or that its condition is a truth value and its action calls known skills only."""
    try:
        guarded = compile_guarded(source, vocabulary())
    except GuardError:
        return
    known = {*vocabulary().skills.names, "stop", "wait"}
    try:
        assert type(guarded.condition(Answers(SEEN))) is bool
        for call in perform(guarded.action(Answers(SEEN))):
            assert call.split("(")[0] in known
    except (ArithmeticError, ValueError, KeyError, RuntimeError):
        return  # numbers that do not work, labels that SEEN or the robot does not know: the rule would be disabled
