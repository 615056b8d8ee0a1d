# SPDX-License-Identifier: Apache-2.0
"""A prescription as it is kept, and where a sentence belongs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from reflexes.rule import RuleName
from reflexes.stop_words import is_stop
from skill_kernel.config.sections import Section

MAX_SENTENCE = 500
COOLDOWN_S = 30.0
MOST_GUIDELINES = 40
"""So many may be enabled: System 3's prompt shows so many, and one that it does not show would never apply."""


class PrescriptionError(ValueError):
    """A prescription that cannot be taken, or a command that cannot be obeyed; the message says what to do."""


class UnknownPrescriptionError(PrescriptionError):
    """There is none of that name."""


class Kind(str, Enum):
    """What a sentence programs (constants of Prescription.msg, in this order)."""

    TASK = "task"
    GUIDELINE = "guideline"
    REFLEX = "reflex"


def _kind(value: Any) -> Any:
    """A Kind from its name; yaml gives text. What is no kind is told with the nearest one."""
    if isinstance(value, Kind):
        return value
    known = [k.value for k in Kind]
    if not isinstance(value, str) or value not in known:
        near = difflib.get_close_matches(str(value)[:40].lower(), known, n=1, cutoff=0.5)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ValueError(f"there is no such kind{hint} (known: {', '.join(known)})")
    return Kind(value)


_FOR_GUIDELINES = ("when", "task", "cooldown_s")


class Prescription(Section):
    """One sentence. `kind` None: the sentence decides. A guideline may have `when`, an expression over the accessors, and
    then also `task`: with both it needs no model. It rests for `cooldown_s` after its process has ended. `shipped`: it comes
    with the robot's configuration, and can be disabled, but not removed."""

    name: RuleName
    sentence: Annotated[str, Field(min_length=1, max_length=MAX_SENTENCE)]
    kind: Annotated[Kind | None, BeforeValidator(lambda v: None if v is None else _kind(v))] = None
    enabled: bool = True
    when: Annotated[str, Field(max_length=500)] = ""
    task: Annotated[str, Field(max_length=MAX_SENTENCE)] = ""
    cooldown_s: Annotated[float, Field(ge=0.0, le=86400.0)] = COOLDOWN_S
    author: Annotated[str, Field(max_length=100)] = ""
    shipped: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Prescription:
        if not self.sentence.strip():
            raise ValueError("the sentence is empty; say what the robot should do")
        given = [key for key in _FOR_GUIDELINES if key in self.model_fields_set]
        if given and self.kind is not Kind.GUIDELINE:
            kind = f"a {self.kind.value}" if self.kind is not None else "no kind"
            raise ValueError(f"key '{given[0]}' belongs to guidelines, and this has {kind}; write kind: guideline")
        if self.task and not self.when:
            raise ValueError("key 'task' needs 'when': a task without a condition is a task of its own (kind: task)")
        if self.task and not self.task.strip():
            raise ValueError("key 'task' is empty; say what the robot should do, or leave the key out")
        if is_stop(self.task):
            raise ValueError(f"key 'task': '{self.task[:40]}' is no task; only a person stops the robot")
        return self


@dataclass(frozen=True)
class Route:
    """Where a sentence belongs: `layer` whose latency fits, and `reason`. `when` and `task` where the sentence itself says
    them in a form that is read without a model."""

    kind: Kind
    layer: str
    reason: str
    when: str = ""
    task: str = ""


@dataclass(frozen=True)
class Conflict:
    """A prescription that another one contradicts, and why."""

    name: str
    why: str

    def text(self) -> str:
        """As a person reads it."""
        return f"{self.name}: {self.why}"


@dataclass(frozen=True)
class Standing:
    """What contradictions are looked for in: a guideline, or a reflex. `when`: source of its condition, "" = as said."""

    name: str
    sentence: str
    kind: Kind = Kind.GUIDELINE
    when: str = ""
    task: str = ""


def listed(names: Iterable[str]) -> str:
    """Names for a message."""
    known = sorted(names)
    return ", ".join(known[:30]) if known else "there are none"
