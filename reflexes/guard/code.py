# SPDX-License-Identifier: Apache-2.0
"""Compiled pieces: closures over a frame, with the type, the greatest cost and, where it is known, the value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from reflexes.guard.errors import GuardCode, at, shown
from reflexes.guard.types import Kind, Type
from reflexes.guard.vocabulary import Vocabulary

Value = Any
"""bool, int, float, str, or a list of one of these."""


class Caller(Protocol):
    """Answers accessors, as `View.call` does."""

    def __call__(self, name: str, /, *arguments: Any) -> Value: ...


class Frame:
    """The state of one evaluation: who answers accessors, and the local variables by number."""

    __slots__ = ("call", "values")

    def __init__(self, call: Caller, slots: int) -> None:
        self.call = call
        self.values: list[Value] = [None] * slots


@dataclass(frozen=True)
class SkillRequest:
    """What an action asks for next: a skill of the robot, or one of S0's own actions, with typed arguments."""

    name: str
    arguments: dict[str, Any]


Evaluate = Callable[[Frame], Value]
UNKNOWN = object()


@dataclass(frozen=True)
class Code:
    """A compiled expression. `steps` bounds what one evaluation costs; `constant` is its value when that is known."""

    type: Type
    run: Evaluate
    steps: int
    constant: Value = UNKNOWN


class Signal(Enum):
    """Where a block goes on."""

    NEXT = 0
    BREAK = 1
    CONTINUE = 2
    RETURN = 3


Steps = Generator[SkillRequest, bool, Signal]
Perform = Callable[[Frame], Steps]


@dataclass(frozen=True)
class Block:
    """Compiled statements. `ends` tells that none of what follows is ever reached."""

    perform: Perform
    steps: int
    calls: int
    ends: bool = False


class Scope:
    """Local variables of one function: each has one type, and is known only where it has surely been assigned."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._slots: dict[str, tuple[int, Type]] = {}
        self.known: set[str] = set()

    @property
    def size(self) -> int:
        return len(self._slots)

    def reserve(self) -> None:
        """Keep number 0 for what the function returns; no name reaches it."""
        self._slots[""] = (0, Type(Kind.BOOL))

    def find(self, name: str) -> tuple[int, Type] | None:
        """Number and type of a variable that has a value here."""
        return self._slots[name] if name in self.known else None

    def assign(self, node: ast.AST, name: str, type_: Type) -> int:
        """The number of a variable that gets a value of this type. Raises GuardError when the name is taken."""
        if meaning := self._vocabulary.taken(name):
            raise at(node, GuardCode.NAME, f"'{shown(name)}' is {meaning}; give the variable another name")
        number, before = self._slots.get(name, (len(self._slots), type_))
        if not before.takes(type_) or (before.length or 0) < (type_.length or 0):
            hint = "; begin with 0.0" if before == Type(Kind.INT) and type_ == Type(Kind.FLOAT) else ""
            raise at(node, GuardCode.TYPE, f"variable '{name}' is {before} already, it cannot become {type_}{hint}")
        self._slots.setdefault(name, (number, type_))
        self.known.add(name)
        return number
