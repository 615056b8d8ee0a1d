# SPDX-License-Identifier: Apache-2.0
"""The guard refuses every attempt to get out of it, quickly and by name, and lets honest rules do what they say."""

from __future__ import annotations

import ast
import contextlib
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from guard_corpus import GROWING, HONEST, SEEN, hostile, rule
from reflex_kit import Answers, perform, vocabulary

from skill_kernel.guard.code import FLOAT, Caller, Frame
from skill_kernel.guard.compiler import Guarded, compile_expression, compile_guarded
from skill_kernel.guard.reading import ALLOWED, GuardCode, GuardError, RuleFault
from skill_kernel.observation.model import StaleFieldError

HOSTILE = hostile()
GUARD = Path(compile_guarded.__code__.co_filename).parent
SLOWEST_S = 0.5
"""Far above what a case takes (a few ms), far below what an escape into computing would."""
LARGEST_BYTES = 4_000_000


def accepted(source: str) -> Guarded:
    return compile_guarded(source, vocabulary())


def refused(source: str) -> GuardError:
    with pytest.raises(GuardError) as caught:
        accepted(source)
    return caught.value


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_and_wrong_code_is_refused_by_name_at_once_and_cheaply(name: str) -> None:
    vocabulary()
    begin = time.perf_counter()
    error = refused(HOSTILE[name])
    assert time.perf_counter() - begin < SLOWEST_S
    assert isinstance(error.code, GuardCode) and error.message
    assert len(str(error)) < 1500


def test_no_hostile_code_takes_much_memory() -> None:
    tracemalloc.start()
    try:
        for name, source in HOSTILE.items():
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            refused(source)
            assert tracemalloc.get_traced_memory()[1] - before < LARGEST_BYTES, name
    finally:
        tracemalloc.stop()


def test_the_corpus_is_as_large_as_it_is_meant_to_be() -> None:
    assert len(HOSTILE) >= 100 and len(HONEST) >= 30


def test_hostile_code_is_refused_also_when_python_has_little_stack_left() -> None:
    limit = sys.getrecursionlimit()
    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    sys.setrecursionlimit(depth + 120)
    try:
        for source in HOSTILE.values():
            with pytest.raises(GuardError):
                accepted(source)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("name", HONEST)
def test_honest_rules_are_accepted_and_do_what_they_say(name: str) -> None:
    case = HONEST[name]
    guarded = accepted(rule(case.condition, case.action))
    answers = Answers(SEEN)
    assert guarded.condition(answers) is case.holds
    assert tuple(perform(guarded.action(answers))) == case.calls


@pytest.mark.parametrize(
    ("code", "source", "says"),
    [
        (GuardCode.NAME, rule("front_distance() < 1"), "did you mean 'front_distance_m'"),
        (GuardCode.NAME, rule(action="move_bak(1)"), "did you mean 'move_back'"),
        (GuardCode.ARGUMENT, rule("visible('persn')"), "did you mean 'person'"),
        (GuardCode.ARGUMENT, rule(action="strafe('lefd')"), "did you mean 'left'"),
        (GuardCode.ARGUMENT, rule(action="move_back(100)"), "at most 50"),
        (GuardCode.ARITY, rule(action="move_back(distance=1)"), "did you mean 'distance_m'"),
        (GuardCode.TYPE, rule("front_distance_m()"), "must be bool, but this is float"),
        (GuardCode.CALL, rule("move_back(0.5)"), "only an action may call it"),
        (GuardCode.CONSTRUCT, rule("heard().upper() == 'A'"), "a dot (attribute access) is not allowed"),
        (GuardCode.CONSTRUCT, rule(action="while True:\n    stop()"), "while is not allowed"),
        (GuardCode.TOO_MANY_STEPS, rule(action="for i in range(101):\n    stop()"), "100 are allowed"),
        (GuardCode.TOO_DEEP, rule("(" * 13 + "moving()" + ")" * 13), "brackets are nested more than 12 deep"),
        (GuardCode.FORM, "def condition():\n    return moving()\n", "the function 'action' is missing"),
    ],
)
def test_an_error_says_what_is_wrong_and_what_to_write(code: GuardCode, source: str, says: str) -> None:
    error = refused(source)
    assert error.code is code and says in str(error)


def test_an_error_names_line_and_column() -> None:
    error = refused(rule(action="stop()\nmove_bak(1)"))
    assert (error.line, error.column) == (6, 5)
    assert str(error).startswith("line 6, column 5: ")


def test_what_the_robots_limits_clamp_is_noted_for_the_person_who_approves() -> None:
    guarded = accepted(rule(action="strafe('left', 9)"))
    assert len(guarded.notes) == 1 and "limited to 2" in guarded.notes[0]
    assert perform(guarded.action(Answers(SEEN))) == ["strafe(direction='left', distance_m=2.0)"]


def test_an_argument_worked_out_while_it_runs_keeps_its_range_too() -> None:
    guarded = accepted(rule(action="move_back(0 - front_distance_m())"))
    with pytest.raises(ValueError, match="at least 0"):
        perform(guarded.action(Answers(SEEN)))
    guarded = accepted(rule(action="rotate(bearing_to('chair'))"))
    with pytest.raises(ValueError, match="finite"):
        perform(guarded.action(Answers(SEEN)))
    guarded = accepted(rule(action="wait(front_distance_m() - 1)"))
    with pytest.raises(ValueError, match="more than 0"):
        perform(guarded.action(Answers(SEEN)))


def test_it_tells_what_it_reads_calls_and_holds() -> None:
    guarded = accepted(rule("visible('person') and moving()", "stop()\nspeak('hi')\nif visible('ball'):\n    bark(1)"))
    assert guarded.accessors == ("visible", "moving")
    assert guarded.skills == ("stop", "speak", "bark")
    assert guarded.subsystems == ("movement", "sound")
    assert "stop" not in accepted(rule()).skills


def test_what_an_accessor_raises_reaches_the_caller() -> None:
    def silent(name: str, /, *_: object) -> object:
        raise StaleFieldError("obstacles", 3.0, "field 'obstacles' is stale")

    with pytest.raises(StaleFieldError):
        accepted(rule()).condition(silent)


def test_the_second_part_of_and_and_or_is_asked_only_when_it_counts() -> None:
    answers = Answers(SEEN)
    assert accepted(rule("charging() and visible('person')")).condition(answers) is False
    assert accepted(rule("moving() or visible('person')")).condition(answers) is True
    assert accepted(rule("any(visible(x) for x in ['person', 'ball'])")).condition(answers) is True
    assert [asked[1:] for asked in answers.asked if asked[0] == "visible"] == [("person",)]


def test_a_chained_comparison_asks_its_middle_once() -> None:
    answers = Answers(SEEN)
    assert accepted(rule("0 < front_distance_m() < 0.2")).condition(answers)
    assert answers.asked == [("front_distance_m",)]


@pytest.mark.parametrize("name", GROWING)
def test_no_number_grows_without_bound_by_whichever_way_it_came(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[Frame] = []

    def kept(call: Caller) -> Frame:
        frames.append(Frame(call))
        return frames[-1]

    monkeypatch.setattr("skill_kernel.guard.compiler.Frame", kept)
    with contextlib.suppress(RuleFault):
        accepted(GROWING[name]).condition(Answers(SEEN))
    (frame,) = frames
    for value in frame.values.values():
        for number in value if isinstance(value, list) else [value]:
            assert isinstance(number, (float, bool, str))


def test_an_accessor_that_gives_another_type_than_it_says_does_no_harm() -> None:
    huge = Answers({**SEEN, "people_visible": 10**400, "front_distance_m": 10**20, "x_m": "far"})
    with pytest.raises(RuleFault, match="too large"):
        compile_expression("people_visible()", vocabulary().accessors, wanted=FLOAT).evaluate(huge)
    number = compile_expression("front_distance_m()", vocabulary().accessors, wanted=FLOAT)
    assert type(number.evaluate(huge)) is float
    with pytest.raises(RuleFault, match="a str came"):
        compile_expression("x_m()", vocabulary().accessors, wanted=FLOAT).evaluate(huge)


def test_whole_numbers_cannot_grow_without_bound() -> None:
    guarded = accepted(rule(action="x = 7\nfor i in range(90):\n    x *= x\nwait(x)"))
    with pytest.raises(ValueError, match="finite"):
        perform(guarded.action(Answers(SEEN)))


def test_a_division_by_what_turns_out_zero_raises_and_nothing_else_happens() -> None:
    with pytest.raises(ArithmeticError):
        accepted(rule("1 / (front_distance_m() - 0.1) > 1")).condition(Answers(SEEN))


def test_two_evaluations_share_no_variables() -> None:
    guarded = accepted(rule(action="x = 0\nfor i in range(2):\n    x += 1\n    wait(x)"))
    one, two = guarded.action(Answers(SEEN)), guarded.action(Answers(SEEN))
    first = [next(one), next(two), one.send(True), two.send(True)]
    assert [request.arguments["seconds"] for request in first] == [1, 1, 2, 2]


def test_the_steps_of_accepted_code_are_bounded_before_it_runs() -> None:
    accepted(rule("any(front_distance_m() < x for x in range(50))", "for i in range(30):\n    bark(1)"))
    for much in (
        rule("any(any(moving() for a in range(30)) for b in range(30))"),
        rule(action="x = 0\nfor i in range(80):\n    for j in range(80):\n        x = i + j\nstop()"),
        rule(action="for i in range(41):\n    bark(1)"),
    ):
        assert refused(much).code is GuardCode.TOO_MANY_STEPS


def test_a_bare_expression_is_compiled_for_a_branch() -> None:
    expression = compile_expression(" front_distance_m() < 1 and visible('person') ", vocabulary().accessors)
    assert expression.evaluate(Answers(SEEN)) is True and expression.accessors == ("front_distance_m", "visible")
    for wrong in ("front_distance_m()", "move_back(1)", "x := 1", "import os", "", "a\nb", "heard().x == 1", "(" * 99):
        with pytest.raises(GuardError):
            compile_expression(wrong, vocabulary().accessors)


def test_no_dangerous_node_is_on_the_allow_list() -> None:
    dangerous = set("Attribute Subscript Lambda Import ImportFrom While Try Pow JoinedStr Starred NamedExpr".split())
    assert not {node.__name__ for node in ALLOWED} & dangerous
    assert all(issubclass(node, ast.AST) for node in ALLOWED)


def test_the_guard_itself_uses_nothing_that_runs_text() -> None:
    banned = {"eval", "exec", "compile", "__import__", "setattr", "globals", "locals", "vars"}
    for file in GUARD.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in banned, f"{file.name}:{node.lineno}"
                if node.func.id == "getattr":
                    assert isinstance(node.args[1], ast.Constant), f"{file.name}:{node.lineno}"
