# SPDX-License-Identifier: Apache-2.0
"""A prescription: one sentence with its settings, where it belongs, and the file it is kept in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from planners.language.stop_words import is_stop
from reflexes.rule import MAX_SENTENCE, RuleName, name_of
from skill_kernel.config import yaml_text
from skill_kernel.config.sections import Section, shown
from skill_kernel.config.yaml_text import RecordError
from skill_kernel.guard.compiler import compile_expression
from skill_kernel.guard.reading import GuardError
from skill_kernel.observation.accessors import Accessor

COOLDOWN_S = 30.0
MAX_GUIDELINES = 40
"""Most guidelines enabled at a time: System 3's prompt shows no more, and one that it does not show would never apply."""


class UnknownPrescriptionError(RecordError):
    """Report that there is no prescription of that name."""


class Kind(str, Enum):
    """Name the layers that a sentence can program (constants of Prescription.msg, in this order)."""

    TASK = "task"
    GUIDELINE = "guideline"
    REFLEX = "reflex"


_FOR_GUIDELINES = ("when", "task", "cooldown_s")


class Prescription(Section):
    """Hold one sentence. `kind` None: the sentence decides. A guideline may have `when`, an expression over the accessors, and
    then also `task`: with both it needs no model. It rests for `cooldown_s` after its process has ended. `shipped`: it comes
    with the robot's configuration, and can be disabled, but not removed."""

    name: RuleName
    sentence: Annotated[str, Field(min_length=1, max_length=MAX_SENTENCE)]
    kind: Kind | None = None
    enabled: bool = True
    when: Annotated[str, Field(max_length=MAX_SENTENCE)] = ""
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
            raise ValueError(f"key 'task': '{shown(self.task)}' is no task; only a person stops the robot")
        return self


@dataclass(frozen=True)
class Route:
    """Place of a sentence: the `layer` whose latency fits, and the `reason`. `when` and `task` where the sentence itself says
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


@dataclass(frozen=True)
class Kept:
    """A prescription with where it belongs and what contradicts it."""

    prescription: Prescription
    route: Route
    conflicts: tuple[Conflict, ...] = ()

    @property
    def name(self) -> str:
        return self.prescription.name


@dataclass(frozen=True)
class PrescriptionFile:
    """Hold the contents of a file. `disabled` and `enabled` name shipped ones that a person switched off or on."""

    prescriptions: tuple[Prescription, ...] = ()
    disabled: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()


def load(path: Path, accessors: Mapping[str, Accessor], *, shipped: bool = False) -> PrescriptionFile:
    """Read a file. Raises RecordError with the file, the entry and what is wrong with it."""
    lists = yaml_text.read_lists(path, ["prescriptions"] if shipped else ["prescriptions", "disabled", "enabled"])
    disabled, enabled = lists.get("disabled", []), lists.get("enabled", [])
    if not all(isinstance(name, str) for name in [*disabled, *enabled]):
        raise RecordError(f"{path}: keys disabled and enabled must be lists of names")
    found: dict[str, tuple[int, Prescription]] = {}
    for number, entry in enumerate(lists["prescriptions"], 1):
        one = _entry(f"{path}: entry {number}", entry, accessors, frozenset(found), shipped)
        if one.name in found:
            why = f"entries {found[one.name][0]} and {number} are both named '{one.name}'; give one of them another name"
            raise RecordError(f"{path}: {why}")
        found[one.name] = (number, one)
    return PrescriptionFile(tuple(one for _, one in found.values()), frozenset(disabled), frozenset(enabled))


def _entry(where: str, entry: Any, accessors: Mapping[str, Accessor], taken: frozenset[str], shipped: bool) -> Prescription:
    fields = {"sentence": entry} if isinstance(entry, str) else entry
    if not isinstance(fields, dict):
        raise RecordError(f"{where} must be a sentence, or keys such as name and sentence")
    sentence = fields.get("sentence")
    if said := fields.get("name") or sentence:
        where = f"{where} ({shown(said, 40)})"
    if "shipped" in fields:
        raise RecordError(f"{where}: key 'shipped' is unknown; it follows from where the file lies")
    if "name" not in fields and isinstance(sentence, str):
        fields = {**fields, "name": name_of(sentence, taken)}
    return checked({**fields, "shipped": shipped}, accessors, where)


def checked(fields: Mapping[str, Any], accessors: Mapping[str, Accessor], where: str = "") -> Prescription:
    """Return a prescription whose condition fits the robot. Raises RecordError that begins with `where`."""
    one = yaml_text.checked(Prescription, fields, where)
    try:
        if one.when:
            compile_expression(one.when, accessors)
    except GuardError as error:
        raise RecordError(f"{where}{': ' if where else ''}key 'when': {error}") from error
    return one


def save(path: Path, prescriptions: Iterable[Prescription], *, disabled: Iterable[str], enabled: Iterable[str]) -> None:
    """Write a file whole; it is on the disk when the call returns. Raises RecordError when the disk refuses."""
    entries = [p.model_dump(mode="json", exclude_unset=True, exclude={"shipped"}) for p in prescriptions]
    switched = {key: sorted(names) for key, names in (("disabled", disabled), ("enabled", enabled)) if names}
    yaml_text.write_whole(path, {"prescriptions": entries, **switched})
