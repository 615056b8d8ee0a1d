# SPDX-License-Identifier: Apache-2.0
"""The interpreter of the strategy `console`: what a statement can do, where it waits, and that there is no way out of it."""

from __future__ import annotations

import os
import signal
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from console_escapes import ESCAPES, SECRET

from planners.strategies.console.functions import bound_names
from planners.strategies.console.sandbox import GRACE_S, LIMITS, HostCall, Limits, Raised, Ran, Sandbox, SandboxError, Step

pytestmark = pytest.mark.component

QUICK = Limits(turn_s=0.1, statement_s=0.5, memory=16 << 20)
EVIL = Path("/tmp/evil")


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    sandbox = Sandbox({"walk", "say"}, QUICK)
    yield sandbox
    sandbox.close()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox({"walk", "say"})
    yield sandbox
    sandbox.close()


def to_end(sandbox: Sandbox, source: str, value: object = None) -> Step:
    """Run a statement to its end; each call of the host returns `value`."""
    step = sandbox.run(source)
    while isinstance(step, HostCall):
        step = sandbox.answer(value)
    return step


# -- the way out ------------------------------------------------------------------------------------------------------


def test_the_corpus_is_of_many_ways() -> None:
    sources = [source for kind in ESCAPES.values() for source in kind]
    assert len({*sources}) == len(sources) >= 280


@pytest.mark.parametrize("kind", ESCAPES)
def test_each_escape_ends_as_an_error_within_its_time(
    kind: str, shared: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    (tmp_path / "secret").write_text(SECRET)
    for source in ESCAPES[kind]:
        shared.run("x = None")
        began_s = time.monotonic()
        ended = to_end(shared, source.replace("SECRET_FILE", str(tmp_path / "secret")))
        took_s = time.monotonic() - began_s
        assert isinstance(ended, Raised) and ended.kind and SECRET not in repr(ended), (source[:200], ended)
        assert took_s < QUICK.statement_s + GRACE_S, (source[:200], took_s)
        assert not EVIL.exists(), source
        assert to_end(shared, "1 + 1") == Ran("2"), f"the console does not go on after {source[:200]}"
        if bound_names(source) - {"x", "A", "f"}:
            shared.forget()  # it may have taken the name of a function that the next one means


def test_the_process_has_no_environment_and_no_room(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    sandbox.run("x = 1")
    pid = sandbox._session.worker_pid
    assert Path(f"/proc/{pid}/environ").read_bytes() == b""
    limits = {line[:26].strip(): line[26:47].strip() for line in Path(f"/proc/{pid}/limits").read_text().splitlines()}
    assert limits["Max processes"] == limits["Max file size"] == limits["Max core file size"] == "0"
    assert limits["Max open files"] == "32" and limits["Max address space"] == str(1 << 30)


def test_no_other_program_of_that_name_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "bin" / "monty"
    other.parent.mkdir()
    other.touch(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    monkeypatch.setenv("MONTY_BIN", str(other))
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: str(tmp_path))
    with pytest.raises(SandboxError, match="the program monty, is not in"):
        Sandbox({"walk"})


def test_a_killed_process_costs_one_statement(sandbox: Sandbox) -> None:
    to_end(sandbox, "x = 5")
    os.kill(sandbox._session.worker_pid, signal.SIGKILL)
    ended = to_end(sandbox, "x = 6")
    assert isinstance(ended, Raised) and ended.undone
    assert to_end(sandbox, "x") == Ran("5")


# -- statements -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("1 + 1", "2"),
        ("x = 3", ""),
        ("None", ""),
        ("# a thought", ""),
        ("y = 2\ny", "2"),
        ("for i in range(3):\n    i", ""),
        ("1\n2; None; 3\nx = 4\n5\nx", "1\n2\n3\n4"),
        ("1  # one\n\n# two\n'é'; y = 'ü'", "1\n'é'"),
        ("'ü' + \"'\"", '"ü\'"'),
        ("x = []; x.append(x); x", "[[...]]"),
        ("class A:\n    def __repr__(self):\n        return 'A()'\nA()", "A()"),
        ("repr = 5\n[1]", "[1]"),
        ("(\n    1\n)", "1"),
    ],
)
def test_a_statement_shows_the_expressions_that_it_begins_and_ends_with(sandbox: Sandbox, source: str, shown: str) -> None:
    assert to_end(sandbox, source) == Ran(shown)


def test_what_was_shown_before_an_error_is_shown_once(sandbox: Sandbox) -> None:
    assert to_end(sandbox, "1\n2\n1 / 0") == Raised("ZeroDivisionError", "division by zero", "1\n2")
    assert to_end(sandbox, "3\nx = 4") == Ran("3")
    assert to_end(sandbox, "x = 1 / 0") == Raised("ZeroDivisionError", "division by zero")
    assert to_end(sandbox, "x = (") == Raised("SyntaxError", "unexpected EOF while parsing")


def test_results_and_prints_are_cut(sandbox: Sandbox) -> None:
    ended = to_end(sandbox, "print('a' * 5000)\n'b' * 5000")
    assert isinstance(ended, Ran) and len(ended.shown) == len(ended.printed) == 2000


def test_a_statement_waits_at_each_call_and_variables_stay(sandbox: Sandbox) -> None:
    assert sandbox.run("x = walk(2, speed='slow')['far']\nsay(x)") == HostCall("walk", (2,), {"speed": "slow"})
    assert sandbox.answer({"far": 1.5}) == HostCall("say", (1.5,), {})
    assert sandbox.answer(None) == Ran()
    assert to_end(sandbox, "x") == Ran("1.5")


def test_a_refused_call_raises_and_can_be_caught(sandbox: Sandbox) -> None:
    sandbox.run("walk(1)")
    assert sandbox.refuse("RuntimeError", "a wall") == Raised("RuntimeError", "a wall")
    sandbox.run("try:\n    walk(1)\nexcept RuntimeError as error:\n    print(error)")
    assert sandbox.refuse("RuntimeError", "a wall") == Ran(printed="a wall\n")


def test_halves_of_characters_come_in_as_question_marks(sandbox: Sandbox) -> None:
    sandbox.run("x = walk('a\ud800')")
    assert sandbox.answer({"\ud800": ["\udfff"]}) == Ran()
    assert to_end(sandbox, "x") == Ran("{'?': ['?']}")
    sandbox.run("walk(1)")
    assert sandbox.refuse("RuntimeError", "a \ud800 wall") == Raised("RuntimeError", "a ? wall")


def test_a_function_may_be_handed_on_and_a_wait_is_the_hosts(sandbox: Sandbox) -> None:
    assert sandbox.run("f = walk\nf(1)") == HostCall("walk", (1,), {})
    sandbox.answer(None)
    assert sandbox.run("import time\ntime.sleep(600)") == HostCall("sleep", (600.0,), {})
    assert sandbox.answer(None) == Ran()


def test_what_is_broken_off_is_undone_whatever_it_catches(sandbox: Sandbox) -> None:
    to_end(sandbox, "x = 1")
    sandbox.run("x = 2\ntry:\n    walk(1)\nexcept BaseException:\n    x = 3")
    assert sandbox.break_off("halted") == Raised("KeyboardInterrupt", "halted", undone=True)
    assert to_end(sandbox, "x") == Ran("1")


def test_calls_without_end_are_ended(sandbox: Sandbox) -> None:
    calls, step = 0, sandbox.run("while True:\n    try:\n        walk(1)\n    except BaseException:\n        pass")
    while isinstance(step, HostCall):
        calls, step = calls + 1, sandbox.refuse("RuntimeError", "no")
    assert calls == LIMITS.stops and isinstance(step, Raised) and step.undone


def test_a_console_that_would_hold_too_much_is_as_it_was_before(sandbox: Sandbox) -> None:
    to_end(sandbox, "x = 1")
    ended = to_end(sandbox, "x = 'a' * (2 << 20)")
    assert isinstance(ended, Raised) and ended.undone and "keep less" in ended.message
    assert to_end(sandbox, "x") == Ran("1")


# -- states -----------------------------------------------------------------------------------------------------------


def test_a_statement_in_mid_call_goes_on_in_another_process(sandbox: Sandbox) -> None:
    to_end(sandbox, "x = 1")
    kept = sandbox.kept
    sandbox.run("y = walk(x)\nx + y")
    state = sandbox.dump()
    other = Sandbox({"walk"})
    assert other.restore(state, kept) == HostCall("walk", (1,), {})
    assert other.answer(41) == Ran("42")
    assert other.restore(state, kept) == HostCall("walk", (1,), {})
    assert other.break_off("halted").undone
    assert to_end(other, "x") == Ran("1")
    other.close()


def test_a_console_at_rest_goes_on_and_a_spoiled_state_says_so(sandbox: Sandbox) -> None:
    to_end(sandbox, "x = 1")
    other = Sandbox({"walk"})
    assert other.restore(sandbox.dump()) is None
    assert to_end(other, "x") == Ran("1")
    for spoiled in (b"", b"nonsense", sandbox.dump()[:-9]):
        with pytest.raises(SandboxError, match="cannot be read"):
            other.restore(spoiled)
    other.close()


NP = {
    "a + 1": "array([2, 3])",
    "[1, 1] + a": "array([2, 3])",
    "1 - a / 2": "array([0.5, 0.0])",
    "m - a": "array([[0, 0], [2, 2]])",
    "m.mean(axis=0)": "array([2.0, 3.0])",
    "m[np.argsort(-m[:, 0])]": "array([[3, 4], [1, 2]])",
    "np.argmin(np.linalg.norm(m - a, axis=1))": "0",
    "np.linspace([0, 0], [1, 1], 3)": "array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])",
    "np.arange(0, 1, 0.5)": "array([0.0, 0.5])",
    "np.clip(a * 3, 0, 4)": "array([3, 4])",
    "np.round(np.deg2rad(180), 2)": "3.14",
    "x, y = a; (y, len(m), m.shape, max(a), a.tolist())": "(2, 2, (2, 2), 2, [1, 2])",
}


@pytest.mark.parametrize("code", NP)
def test_np_has_what_tasks_on_a_table_use(shared: Sandbox, code: str) -> None:
    assert shared.run("a, m = np.array([1, 2]), np.array([[1, 2], [3, 4]])") == Ran()
    assert shared.run(code) == Ran(NP[code])


def test_the_host_is_given_lists_for_arrays_and_np_outlives_a_process(sandbox: Sandbox) -> None:
    call = sandbox.run("a = np.array([1, 2])\nwalk(a, [a, (a,)], by={'x': np.array([a])})")
    assert call == HostCall("walk", ([1, 2], [[1, 2], ([1, 2],)]), {"by": {"x": [[1, 2]]}})
    state, kept = sandbox.dump(), sandbox.kept
    sandbox.restore(state, kept)
    assert sandbox.answer(None) == Ran() and sandbox.run("np.sum(a)") == Ran("3")
    sandbox.forget()
    assert sandbox.run("np.sum([1, 2])") == Ran("3")
    assert isinstance(sandbox.run("class array:\n    v = 1\nwalk(array())"), Raised)
