# SPDX-License-Identifier: Apache-2.0
"""The types guarded code has: truth values, numbers, texts, and lists of these of a known greatest length."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What one value is."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    STR = "str"


@dataclass(frozen=True)
class Type:
    """A value of a kind, or with `length` a list of at most so many."""

    kind: Kind
    length: int | None = None

    @property
    def is_list(self) -> bool:
        return self.length is not None

    @property
    def is_number(self) -> bool:
        return self.length is None and self.kind in (Kind.INT, Kind.FLOAT)

    @property
    def item(self) -> Type:
        """The type of a list's items."""
        return Type(self.kind)

    def __str__(self) -> str:
        return f"list of {self.kind.value}" if self.is_list else self.kind.value

    def takes(self, other: Type) -> bool:
        """Whether a value of the other type fits where this one is wanted; a whole number is a number."""
        if self.is_list != other.is_list:
            return False
        return self.kind is other.kind or (self.kind is Kind.FLOAT and other.kind is Kind.INT)


BOOL, INT, FLOAT, STR = Type(Kind.BOOL), Type(Kind.INT), Type(Kind.FLOAT), Type(Kind.STR)
OF_PYTHON: dict[object, Type] = {bool: BOOL, int: INT, float: FLOAT, str: STR}


def joined(one: Type, other: Type) -> Type | None:
    """The narrowest type both fit into; None when there is none."""
    if one.is_list != other.is_list:
        return None
    length = max(one.length or 0, other.length or 0) if one.is_list else None
    if one.kind is other.kind:
        return Type(one.kind, length)
    if {one.kind, other.kind} == {Kind.INT, Kind.FLOAT}:
        return Type(Kind.FLOAT, length)
    return None
