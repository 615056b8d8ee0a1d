# SPDX-License-Identifier: Apache-2.0
"""Run statements of a model in a Python interpreter without files, environment or host objects: a process of its own that stops
at each call of a function that it does not know.

The language is the wall (`pydantic-monty`, an interpreter in Rust that has no way out); the empty environment and the resource
limits of its process stand behind it. All methods block, for the time of a statement (`Limits`) at most.
"""

from __future__ import annotations

import ast
import itertools
import re
import resource
import sysconfig
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from planners.prompts.blocks import text_beside

NP_PRELUDE = text_beside(__file__, "np_prelude.txt")
"""Defines `np`, for a console whose statements name it."""
_NAMES_NP = re.compile(r"\b(?:np|array)\b")
PRELUDE_NAMES = frozenset({"array", "len", "math", "np"})
"""Names of it that statements may use."""
MAX_STATEMENT = 8000
"""Characters of a statement."""
MAX_DEPTH = 150
"""Levels of a statement that is looked at: what visits the levels of its tree calls itself three times for each."""
MAX_SHOWN = 2000
"""Characters that are shown of a result, and of what was printed."""
MAX_GIVEN = 65_536
"""Characters and values of the arguments of one call of the host."""
MAX_STATE = 1 << 20
"""Length of what `Sandbox.dump` returns [bytes]: a console that holds more could not always be restored."""
CPU_S = 600
"""Computing time of one process; a console that has used it up goes on in a new one [s]."""
GRACE_S = 3.0
"""So long after its time is up, an interpreter that does not answer is killed [s]."""
_PROCESS = {"AS": 1 << 30, "CPU": CPU_S, "NPROC": 0, "NOFILE": 32, "FSIZE": 0, "CORE": 0}
"""Limits of the interpreter's process, as `resource` names them."""


@dataclass(frozen=True)
class Limits:
    """Bound what statements may use. What a statement waits for does not count as its time."""

    turn_s: float = 0.5
    """Computing time between two calls of the host [s]."""
    statement_s: float = 2.0
    """Computing time of a statement [s]."""
    memory: int = 64 << 20
    """Memory of all values of a console [bytes]."""
    depth: int = 200
    """Calls within calls."""
    stops: int = 500
    """Calls of the host and unknown names of a statement."""


LIMITS = Limits()


class SandboxError(RuntimeError):
    """Report that there is no interpreter; the message says why and what to do."""


@dataclass(frozen=True)
class HostCall:
    """Tell that a statement waits for a function of the host."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Ran:
    """Tell that a statement ended. `shown`: the `repr` of its last expression, "" for None and for no expression."""

    shown: str = ""
    printed: str = ""


@dataclass(frozen=True)
class Raised:
    """Tell that a statement ended by an exception. `undone`: what it had assigned was taken back with it."""

    kind: str
    message: str
    printed: str = ""
    undone: bool = False


Step: TypeAlias = HostCall | Ran | Raised


def _library() -> ModuleType:
    """Return the interpreter's library, which takes a while to import. Raises SandboxError where there is none."""
    try:
        import pydantic_monty
    except ImportError as error:
        why = f"its Python interpreter is not installed ({error}); pip install -r requirements/console.txt"
        raise SandboxError(why) from error
    return pydantic_monty


def _binary() -> Path:
    """Return the interpreter's program, which pip puts beside its other ones; no other of that name is run. Raises
    SandboxError."""
    folders = [Path(sysconfig.get_path("scripts")), Path(sysconfig.get_path("scripts", "posix_user"))]
    for folder in folders:
        if (folder / "monty").is_file():
            return folder / "monty"
    where = " or ".join(map(str, folders))
    raise SandboxError(f"its Python interpreter, the program monty, is not in {where}; pip install -r requirements/console.txt")


class Sandbox:
    """Hold the variables of one console. `functions` are the names that statements may call; others are undefined.

    After a statement that used up its time or memory, or that ended its process, the console goes on as it was before it.
    """

    def __init__(self, functions: Collection[str], limits: Limits = LIMITS) -> None:
        self.functions, self._limits = functions, limits
        self._monty = _library()
        self._pool = self._monty.Monty(
            binary_path=_binary(),
            min_processes=1,
            max_processes=1,
            request_timeout=limits.statement_s + GRACE_S,
            max_checkouts_per_worker=1,
        )
        self._entered = False
        self._session: Any = None
        self._waiting: Any = None
        """The snapshot that a host call waits in."""
        self._kept: bytes = b""
        """The state after the last statement."""
        self._printed: Any = None
        self._stops = 0

    def run(self, source: str) -> Step:
        """Run a statement until it ends or calls the host. Raises SandboxError when no interpreter can be started."""
        if len(source) > MAX_STATEMENT:
            why = f"the statement has {len(source)} characters, more than {MAX_STATEMENT}; write several"
            return Raised("ValueError", why)
        session, source = self._open(), _encodable(source)
        if _NAMES_NP.search(source):
            self._give_np(session)
        self._printed, self._stops = self._monty.CollectString(max_bytes=1 << 20), 0
        return self._advance(lambda: session.feed_start(_showing(source), print_callback=self._printed))

    def answer(self, value: Any) -> Step:
        """Let the host call return a value: None, a bool, number, text, or a list or dict of them."""
        return self._resume({"return_value": _encodable(value)})

    def refuse(self, kind: str, message: str) -> Step:
        """Let the host call raise a builtin exception of this name."""
        return self._resume({"exc_type": kind, "message": _encodable(message)})

    def break_off(self, why: str) -> Raised:
        """End the statement whatever it catches; the console goes on as it was before it."""
        return self._undo("KeyboardInterrupt", why)

    def forget(self) -> None:
        """Forget all variables."""
        self._close_session()
        self._kept = b""

    def dump(self) -> bytes:
        """Return the state, also of a statement that waits for the host; `restore` goes on from it, in any process."""
        state: bytes = self._waiting.dump() if self._waiting is not None else self._open().dump()
        return state

    def restore(self, state: bytes, kept: bytes = b"") -> HostCall | None:
        """Go on from a state of `dump`; `kept` is the one before the statement that waits, if one does. Return what it waits
        for. Raises SandboxError for a state that cannot be read."""
        self.forget()
        session = self._begin()
        self._printed, self._stops = self._monty.CollectString(max_bytes=1 << 20), 0
        try:
            if not kept:
                session.load_session(state)
                self._kept = state
                return None
            step = self._advance(lambda: session.load_snapshot(state, print_callback=self._printed))
        except (self._monty.MontyError, RuntimeError, ValueError) as error:
            raise SandboxError(f"the state of a console cannot be read: {error}") from error
        self._kept = kept
        if not isinstance(step, HostCall):
            raise SandboxError(f"the state of a console cannot be read: {step}")
        return step

    @property
    def kept(self) -> bytes:
        """Return the state after the last statement; b"" before anything was run."""
        return self._kept

    def close(self) -> None:
        """End the process."""
        self._close_session()
        if self._entered:
            self._entered = False
            self._pool.__exit__(None, None, None)

    # -- the interpreter ----------------------------------------------------------------------------------------------

    def _open(self) -> Any:
        """Return the session, a new one with what is kept where there is none."""
        if self._session is None:
            session = self._begin()
            if not self._kept:
                self._kept = session.dump()
                return session
            try:
                session.load_session(self._kept)
            except (self._monty.MontyError, RuntimeError):
                # It cannot hold what it held; without its variables it can go on.
                self.forget()
                return self._open()
        return self._session

    def _begin(self) -> Any:
        try:
            if not self._entered:
                self._pool.__enter__()
                self._entered = True
            session = self._pool.checkout(
                limits={
                    "max_turn_duration_secs": self._limits.turn_s,
                    "max_feed_duration_secs": self._limits.statement_s,
                    "max_memory": self._limits.memory,
                    "max_recursion_depth": self._limits.depth,
                    "max_suspensions": 1 << 30,  # of a whole session; `Limits.stops` bounds a statement
                },
                os_policy={"sleep": "call_host"},
            )
            session.__enter__()
        except (self._monty.MontyError, OSError, RuntimeError) as error:
            raise SandboxError(f"the Python interpreter does not start: {error}") from error
        if (pid := session.worker_pid) is not None:
            for name, value in _PROCESS.items():
                resource.prlimit(pid, getattr(resource, f"RLIMIT_{name}"), (value, value))
        self._session = session
        return session

    def _give_np(self, session: Any) -> None:
        """Let a console that has no `np` have it; to keep it in each console would make every call slower."""
        try:
            session.feed_run("np")
        except self._monty.MontyError:
            session.feed_run(NP_PRELUDE)

    def _close_session(self) -> None:
        session, self._session, self._waiting = self._session, None, None
        if session is not None:
            with suppress(self._monty.MontyError, RuntimeError):
                session.__exit__(None, None, None)

    def _undo(self, kind: str, message: str) -> Raised:
        printed = self._output()
        self._close_session()
        return Raised(kind, message, printed, undone=True)

    def _resume(self, result: dict[str, Any]) -> Step:
        waiting, self._waiting = self._waiting, None
        return self._advance(lambda: waiting.resume(result))

    def _advance(self, go_on: Callable[[], Any]) -> Step:
        """Let the statement go on until it ends or calls a function that there is."""
        try:
            snapshot = go_on()
            while not isinstance(snapshot, self._monty.MontyComplete):
                self._stops += 1
                if self._stops > self._limits.stops:
                    return self._undo("RuntimeError", f"the statement made more than {self._limits.stops} calls")
                if isinstance(snapshot, self._monty.FutureSnapshot):
                    return self._undo("RuntimeError", "calls cannot run at the same time here: call one after the other")
                if not self._is_call(snapshot):
                    snapshot = self._refused(snapshot)
                elif fault := _fault_of(snapshot.args, snapshot.kwargs):
                    why = f"{snapshot.function_name}() {fault}"
                    snapshot = snapshot.resume({"exc_type": "TypeError", "message": why})
                else:
                    self._waiting = snapshot
                    name = _SLEEPS.get(snapshot.function_name, snapshot.function_name)
                    return HostCall(name, tuple(map(_plain, snapshot.args)), _plain(snapshot.kwargs))
            shown = snapshot.output
            return self._ended(Ran(shown[:MAX_SHOWN] if isinstance(shown, str) else "", self._output()))
        except self._monty.MontyCrashedError as error:
            return self._undo("MemoryError" if not error.timed_out else "TimeoutError", "the statement ended its interpreter")
        except (self._monty.MontyRuntimeError, self._monty.MontySyntaxError) as error:
            kind, _, message = error.display("type-msg").partition(": ")
            if kind in _SPENT:
                return self._undo(kind, message[:MAX_SHOWN])
            return self._ended(Raised(kind, message[:MAX_SHOWN], self._output() + self._shown_before()))
        except (self._monty.MontyError, RuntimeError, ValueError, TypeError) as error:
            return self._undo("RuntimeError", str(error)[:MAX_SHOWN])

    def _shown_before(self) -> str:
        """Return what a statement would have shown, had it not ended by an exception."""
        with suppress(self._monty.MontyError, RuntimeError):
            return str(self._session.feed_run(_ALL_SHOWN))[:MAX_SHOWN]
        return ""

    def _ended(self, ended: Ran | Raised) -> Ran | Raised:
        """Keep the state that a statement leaves, unless it is too long to be restored."""
        state = self._session.dump()
        if len(state) > MAX_STATE:
            return self._undo("MemoryError", f"the variables take {len(state)} bytes, more than {MAX_STATE}; keep less")
        self._kept = state
        return ended

    def _is_call(self, snapshot: Any) -> bool:
        """Return whether a statement waits for a function of the host, and not for a name or for an operating system."""
        if not isinstance(snapshot, self._monty.FunctionSnapshot) or snapshot.object_id is not None:
            return False
        if snapshot.is_os_function:
            return snapshot.function_name in _SLEEPS
        return snapshot.function_name in self.functions

    def _refused(self, snapshot: Any) -> Any:
        """Go on without what the statement asked for; a function that there is may be handed on as a value."""
        if isinstance(snapshot, self._monty.NameLookupSnapshot):
            name = snapshot.variable_name
            return snapshot.resume(value=_named(name)) if name in self.functions else snapshot.resume()
        if snapshot.is_os_function:
            return snapshot.resume_not_handled()
        return snapshot.resume({"exc_type": "NameError", "message": f"name '{snapshot.function_name}' is not defined"})

    def _output(self) -> str:
        return self._printed.output[:MAX_SHOWN] if self._printed is not None else ""


_SPENT = frozenset({"TimeoutError", "MemoryError"})
"""Exceptions after which an interpreter is not to be used again."""
SLEEP = "sleep"
_SLEEPS = {"time.sleep": SLEEP, "asyncio.sleep": SLEEP}
"""Waits of the standard library: the host waits, so that it can be paused and broken off."""


def _named(name: str) -> Callable[[], None]:
    """Return something that the interpreter takes for a function of the host of this name. It is never called."""

    def function() -> None: ...

    function.__name__ = function.__qualname__ = name
    return function


def _encodable(value: Any) -> Any:
    """Return a value without halves of characters, which JSON may hold and the interpreter's protocol cannot."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, (list, tuple)) else value


def _fault_of(*values: Any) -> str:
    """Return why values cannot be given to the host; "" for what JSON can hold and is not too long (`MAX_GIVEN`)."""
    left, todo = MAX_GIVEN, list(values)
    while todo:
        value = todo.pop()
        left -= 1 + (len(value) if isinstance(value, (str, bytes)) else 0)
        if left < 0:
            return f"takes at most {MAX_GIVEN} characters and values"
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                return "takes dicts whose keys are texts"
            todo += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            todo += value[: left + 1]
        elif isinstance(value, int) and value.bit_length() > 64:
            return "takes no integer of more than 64 bits"
        elif (numbers := _numbers(value)) is not None:
            todo.append(numbers)
        elif value is not None and not isinstance(value, (bool, int, float, str)):
            return f"takes numbers, texts, lists and dicts, not {type(value).__name__}"
    return ""


def _numbers(value: Any) -> list[Any] | None:
    """Return what an array of the prelude holds; None for anything else."""
    held = value.attributes.get("v") if getattr(value, "name", "") == "array" and hasattr(value, "attributes") else None
    return held if isinstance(held, list) else None


def _plain(value: Any) -> Any:
    """Return a value with lists for arrays. It has passed `_fault_of`."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if (numbers := _numbers(value)) is not None:
        return list(map(_plain, numbers))
    return type(value)(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def parsed(source: str) -> ast.Module | None:
    """Return the syntax tree of a statement; None for what is no Python, or too long or too deep to be looked at."""
    if len(source) > MAX_STATEMENT:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return tree if not level else None


def _showing(source: str) -> str:
    """Return a statement whose value is what a console shows of it: the shortened `repr` of each expression that it begins with
    and of the one that it ends with (section 3.3). That is made inside the interpreter, where time and memory are limited."""
    tree = parsed(source)
    body = tree.body if tree is not None else []
    first = list(itertools.takewhile(lambda node: isinstance(node, ast.Expr), body))
    last = body[-1:] if body and isinstance(body[-1], ast.Expr) and len(first) < len(body) else []
    if not first and not last:
        return source
    text, starts = source.encode(), list(itertools.accumulate(map(len, source.encode().splitlines(keepends=True)), initial=0))
    begin = starts[first[-1].end_lineno - 1] + first[-1].end_col_offset if first else 0  # type: ignore[operator]
    end = starts[last[0].lineno - 1] + last[0].col_offset if last else len(text)
    between = text[begin:end].decode().lstrip(" \t\n;\\").rstrip(" \t\n;\\")
    lines = [f"{_SHOWN} = []", *map(partial(_shown, source), first), between, *map(partial(_shown, source), last), _ALL_SHOWN]
    return "\n".join(lines)


def _shown(source: str, node: ast.stmt) -> str:
    expression = ast.get_source_segment(source, node) or "None"
    return f"_ = (\n{expression}\n)\nif _ is not None:\n    {_SHOWN}.append(f'{{_!r}}'[:{MAX_SHOWN}])"


_SHOWN = "_shown"
_ALL_SHOWN = f"'\\n'.join(({_SHOWN}, {_SHOWN} := [])[0])"
"""Gives what has been shown so far, once."""
