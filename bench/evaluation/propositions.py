# SPDX-License-Identifier: Apache-2.0
"""Judge trials by propositions over what was true, moment by moment: what held, when, of what, and in which order.

Built as PARTNR's evaluation is: propositions, when each is read, and constraints between them. What a relation means is the
world's affair; here it is the first word of a fact, such as `("inside", "apple", "oven")`, `("open", "fridge")`,
`("held", "cup", "atlas")` or `("in_room", "kalos", "office")`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import TypeAlias

Fact: TypeAlias = tuple[str, ...]
"""A relation and the names that it holds of."""
Span: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Moment:
    """Hold all facts of one moment [s]."""

    at: float
    facts: frozenset[Fact]


class When(Enum):
    """Say how the moments at which a proposition is read depend on others."""

    WHILE = "while"
    """At moments at which all the others hold."""
    AFTER = "after"
    """At moments before which all the others were satisfied."""
    BEFORE = "before"
    """At moments before which none of the others was satisfied."""


@dataclass(frozen=True)
class Reading:
    """Read a proposition only while, after or before others, which are named."""

    when: When
    others: tuple[str, ...]


@dataclass(frozen=True)
class Proposition:
    """Claim that a relation holds of one name out of each of `arguments`.

    With `number` above 1 it must hold of so many different names of the first argument at once. `step`: a step on the way,
    which counts for the share that was done and not for success. It is satisfied at the first moment at which it is read and
    holds.
    """

    name: str
    relation: str
    arguments: tuple[tuple[str, ...], ...]
    number: int = 1
    readings: tuple[Reading, ...] = ()
    step: bool = False

    def bindings(self, facts: Iterable[Fact]) -> frozenset[Fact]:
        """Return the names of which it holds; none where they are too few."""
        found = frozenset(
            fact[1:]
            for fact in facts
            if fact[0] == self.relation
            and len(fact) == len(self.arguments) + 1
            and all(name in among for name, among in zip(fact[1:], self.arguments, strict=True))
        )
        return found if len({names[0] for names in found}) >= self.number else frozenset()


@dataclass(frozen=True)
class InOrder:
    """Demand that each is first satisfied later than the one before it."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class AtEnd:
    """Demand that each holds at the last moment."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class SameArgument:
    """Demand that all were satisfied by one and the same name as their argument of this number, or with `different` each by
    another name."""

    names: tuple[str, ...]
    argument: int
    different: bool = False


Constraint: TypeAlias = InOrder | AtEnd | SameArgument


@dataclass(frozen=True)
class Criterion:
    """Hold the propositions of a task and what must be true between them. Raises ValueError for one that means nothing."""

    propositions: tuple[Proposition, ...]
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        by_name = {p.name: p for p in self.propositions}
        if len(by_name) < len(self.propositions) or not by_name:
            raise ValueError("propositions need names, each its own")
        named = [name for c in self.constraints for name in c.names]
        named += [name for p in self.propositions for reading in p.readings for name in reading.others]
        for name in named:
            if name not in by_name:
                raise ValueError(f"there is no proposition '{name}'; there is: {', '.join(by_name)}")
        for p in self.propositions:
            if not p.arguments or p.number < 1 or p.number > len(p.arguments[0]):
                raise ValueError(
                    f"proposition '{p.name}' wants {p.number} of {len(p.arguments[0]) if p.arguments else 0} names"
                )
        for c in self.constraints:
            if not isinstance(c, SameArgument):
                continue
            for name in c.names:
                if by_name[name].number != 1 or not 0 <= c.argument < len(by_name[name].arguments):
                    raise ValueError(f"proposition '{name}' has no one name as its argument {c.argument}")


@dataclass(frozen=True)
class Finding:
    """Tell of one proposition: the spells in which it was read and held [s], of what, and which demand on it was not kept."""

    spells: tuple[Span, ...] = ()
    bindings: frozenset[Fact] = frozenset()
    at_end: bool = False
    broken: str = ""

    @property
    def first(self) -> float | None:
        """Return when it was first satisfied; None for never."""
        return self.spells[0][0] if self.spells else None

    @property
    def met(self) -> bool:
        """Return whether it counts as done."""
        return bool(self.spells) and not self.broken

    @property
    def undone(self) -> bool:
        """Return whether it was so and is so no more, as a thing that was moved there and back; not what never was."""
        return bool(self.spells) and not self.at_end


@dataclass(frozen=True)
class Report:
    """Tell what came of a criterion."""

    findings: Mapping[str, Finding]
    goals: frozenset[str]

    @property
    def complete(self) -> float:
        """Return the share of the propositions that count as done, 0 to 1."""
        return sum(f.met for f in self.findings.values()) / len(self.findings)

    @property
    def success(self) -> bool:
        """Return whether all propositions but steps count as done."""
        return all(self.findings[name].met for name in self.goals)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return what of the goals was not kept; none = success."""
        wanting = ((name, self.findings[name]) for name in self.findings if name in self.goals)
        return tuple(f"{name}: {f.broken or 'never'}" for name, f in wanting if not f.met)


def evaluate(criterion: Criterion, moments: Sequence[Moment]) -> Report:
    """Return what came of a criterion in a trial, whose moments are in order. A proposition that a broken constraint lays a
    fault to counts as not done. Raises ValueError without moments."""
    if not moments:
        raise ValueError("a trial without moments cannot be judged")
    findings = _read(criterion.propositions, moments)
    for constraint in criterion.constraints:
        for name, fault in _faults(constraint, findings):
            finding = findings[name]
            findings[name] = Finding(finding.spells, finding.bindings, finding.at_end, finding.broken or fault)
    return Report(findings, frozenset(p.name for p in criterion.propositions if not p.step))


def _read(propositions: Sequence[Proposition], moments: Sequence[Moment]) -> dict[str, Finding]:
    spells: dict[str, list[Span]] = {p.name: [] for p in propositions}
    found: dict[str, set[Fact]] = {p.name: set() for p in propositions}
    held: frozenset[str] = frozenset()
    now: dict[str, frozenset[Fact]] = {}
    for moment in moments:
        now = {p.name: p.bindings(moment.facts) for p in propositions}
        satisfied = {name for name, own in spells.items() if own}
        read = {p.name for p in propositions if now[p.name] and all(_reads(r, now, satisfied) for r in p.readings)}
        for name in read:
            found[name] |= now[name]
            if name in held:
                spells[name][-1] = spells[name][-1][0], moment.at
            else:
                spells[name].append((moment.at, moment.at))
        held = frozenset(read)
    return {name: Finding(tuple(spells[name]), frozenset(found[name]), bool(now[name])) for name in spells}


def _reads(reading: Reading, now: Mapping[str, frozenset[Fact]], satisfied: set[str]) -> bool:
    if reading.when is When.WHILE:
        return all(now[name] for name in reading.others)
    if reading.when is When.AFTER:
        return satisfied.issuperset(reading.others)
    return satisfied.isdisjoint(reading.others)


def _faults(constraint: Constraint, findings: Mapping[str, Finding]) -> Iterator[tuple[str, str]]:
    """Yield the propositions at fault, of those that were ever satisfied, and what is wrong."""
    if isinstance(constraint, AtEnd):
        yield from ((name, "not so at the end") for name in constraint.names if findings[name].undone)
    elif isinstance(constraint, InOrder):
        for before, after in pairwise(constraint.names):
            first, second = findings[before].first, findings[after].first
            if second is not None and (first is None or first >= second):
                yield after, f"not after '{before}'"
    else:
        names = [name for name in constraint.names if findings[name].spells]
        choices = [{binding[constraint.argument] for binding in findings[name].bindings} for name in names]
        if not _chosen(choices, constraint.different):
            kind = "different names" if constraint.different else "one and the same name"
            yield from ((name, f"not of {kind} as '{names[0]}'") for name in names[1:])


def _chosen(choices: Sequence[set[str]], different: bool) -> bool:
    """Return whether one name can be chosen of each, all the same or all different."""
    if not different:
        return not choices or bool(set.intersection(*choices))
    if not choices:
        return True
    return any(_chosen([rest - {name} for rest in choices[1:]], True) for name in choices[0])
