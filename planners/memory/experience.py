# SPDX-License-Identifier: Apache-2.0
"""What a robot was taught, as records: interaction examples (incremental learning 3.4) and routines."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from planners.memory.records import Kind, Provenance, Record, Tier, Visibility


@dataclass(frozen=True)
class Correction:
    """What a person said was wrong, and the code that was right then."""

    feedback: str
    code: str


@dataclass(frozen=True)
class InteractionExample:
    """One interaction to learn from: the instruction, the code that should be written for it, how it came to that, and
    whether a person approved. `learned_from` is the process, "" for one that was given beforehand."""

    instruction: str
    code: str
    corrections: tuple[Correction, ...] = ()
    approved_by: str = ""
    learned_from: str = ""


@dataclass(frozen=True)
class TaughtRoutine:
    """A routine by its name: what it is for, and its body as a stream of function tokens."""

    name: str
    description: str
    body: str


def example_record(
    example: InteractionExample, time_s: float, provenance: Provenance, visibility: Visibility = Visibility.SHARED
) -> Record:
    """The record of an example; it is found by its instruction, and one with the same instruction replaces it."""
    said = " ".join(example.instruction.split())
    return Record(
        Tier.M3,
        Kind.EXAMPLE,
        time_s,
        said,
        asdict(example),
        provenance,
        visibility=visibility,
        key=f"example:{said.casefold()[:500]}",
    )


def example_of(record: Record) -> InteractionExample:
    """The example of a record of that kind. Raises ValueError for another."""
    _check(record, Kind.EXAMPLE)
    told = dict(record.data)
    corrections = tuple(Correction(**c) for c in told.pop("corrections", ()))
    return InteractionExample(**told, corrections=corrections)


def routine_record(
    routine: TaughtRoutine, time_s: float, provenance: Provenance, visibility: Visibility = Visibility.SHARED
) -> Record:
    """The record of a routine; one of the same name replaces it."""
    return Record(
        Tier.M3,
        Kind.ROUTINE,
        time_s,
        f"{routine.name}: {routine.description}",
        asdict(routine),
        provenance,
        visibility=visibility,
        key=f"routine:{routine.name.casefold()}",
    )


def routine_of(record: Record) -> TaughtRoutine:
    """The routine of a record of that kind. Raises ValueError for another."""
    _check(record, Kind.ROUTINE)
    return TaughtRoutine(**record.data)


def _check(record: Record, kind: Kind) -> None:
    if record.kind != kind.value:
        raise ValueError(f"record {record.id} is of kind {record.kind}, not {kind.value}")
