# SPDX-License-Identifier: Apache-2.0
"""Hold the judge of propositions against its definition, spelled out by brute force."""

from __future__ import annotations

import itertools
import random
from functools import cache

import pytest

from bench.evaluation.propositions import (
    AtEnd,
    Constraint,
    Criterion,
    Finding,
    InOrder,
    Moment,
    Proposition,
    Reading,
    SameArgument,
    When,
    evaluate,
)

THINGS, SPACES = ("apple", "cup", "tea"), ("table", "oven")


def moments(*facts: set[tuple[str, ...]]) -> list[Moment]:
    return [Moment(float(at), frozenset(some)) for at, some in enumerate(facts)]


def random_case(r: random.Random) -> tuple[Criterion, list[Moment]]:
    names = [f"p{i}" for i in range(r.randint(1, 4))]
    propositions = []
    for name in names:
        relation = r.choice(("inside", "open"))
        kinds = (THINGS, SPACES) if relation == "inside" else (SPACES,)
        arguments = tuple(tuple(r.sample(kind, r.randint(1, len(kind)))) for kind in kinds)
        others = tuple(r.sample(names, r.randint(1, len(names))))
        readings = (Reading(r.choice(list(When)), others),) if r.random() < 0.6 else ()
        number = r.randint(1, len(arguments[0]))
        propositions.append(Proposition(name, relation, arguments, number, readings, r.random() < 0.3))
    constraints: list[Constraint] = []
    singles = [p.name for p in propositions if p.number == 1]
    for _ in range(r.randint(0, 2)):
        some = tuple(r.sample(names, r.randint(1, len(names))))
        one = tuple(r.sample(singles, r.randint(1, len(singles)))) if singles else ()
        kinds = [InOrder(some), AtEnd(some)] + ([SameArgument(one, 0, r.random() < 0.5)] if one else [])
        constraints.append(r.choice(kinds))
    everything = [("inside", t, s) for t in THINGS for s in SPACES] + [("open", s) for s in SPACES]
    told = [set(r.sample(everything, r.randint(0, 4))) for _ in range(r.randint(1, 5))]
    return Criterion(tuple(propositions), tuple(constraints)), moments(*told)


def brute_force(criterion: Criterion, told: list[Moment]) -> tuple[float, bool, dict[str, float | None]]:
    by_name = {p.name: p for p in criterion.propositions}
    last = len(told) - 1

    def tuples(name: str, t: int) -> list[tuple[str, ...]]:
        p = by_name[name]
        every = [names for names in itertools.product(*p.arguments) if (p.relation, *names) in told[t].facts]
        some = itertools.combinations(sorted({names[0] for names in every}), p.number)
        return every if next(some, None) is not None else []

    @cache
    def counts(name: str, t: int) -> bool:
        def reads(reading: Reading) -> bool:
            if reading.when is When.WHILE:
                return all(tuples(other, t) for other in reading.others)
            before = [any(counts(other, s) for s in range(t)) for other in reading.others]
            return all(before) if reading.when is When.AFTER else not any(before)

        return bool(tuples(name, t)) and all(reads(r) for r in by_name[name].readings)

    first = {name: next((told[t].at for t in range(last + 1) if counts(name, t)), None) for name in by_name}
    faulty: set[str] = set()
    for c in criterion.constraints:
        if isinstance(c, AtEnd):
            faulty |= {n for n in c.names if not tuples(n, last)}
        elif isinstance(c, InOrder):
            for a, b in zip(c.names, c.names[1:], strict=False):
                if first[b] is not None and not (first[a] is not None and first[a] < first[b]):
                    faulty.add(b)
        else:
            known = [n for n in c.names if first[n] is not None]
            ways = [{b[c.argument] for t in range(last + 1) if counts(n, t) for b in tuples(n, t)} for n in known]
            fits = [len(set(way)) == (len(way) if c.different else min(1, len(way))) for way in itertools.product(*ways)]
            if not any(fits):
                faulty |= set(known[1:])
    met = {name for name in by_name if first[name] is not None and name not in faulty}
    goals = {p.name for p in criterion.propositions if not p.step}
    return len(met) / len(by_name), goals <= met, first


def test_is_what_its_definition_says() -> None:
    seen = set()
    for seed in range(1500):
        criterion, told = random_case(random.Random(seed))
        report, (complete, success, first) = evaluate(criterion, told), brute_force(criterion, told)
        assert report.complete == pytest.approx(complete), (seed, criterion, told)
        assert report.success is success and (report.reasons == ()) is success, (seed, criterion, told)
        assert {name: f.first for name, f in report.findings.items()} == first, (seed, criterion, told)
        seen.add((success, 0 < complete < 1))
    assert len(seen) == 4, "the cases tell nothing apart"


def test_moved_there_and_back_is_not_never_moved() -> None:
    on_table, in_oven = ("inside", "apple", "table"), ("inside", "apple", "oven")
    criterion = Criterion(
        (
            Proposition("roasts", "inside", (("apple",), ("oven",))),
            Proposition("returns", "inside", (("apple",), ("table",)), readings=(Reading(When.AFTER, ("roasts",)),)),
            Proposition("lies there", "inside", (("apple",), ("table",))),
        ),
        (AtEnd(("returns",)),),
    )
    moved, stayed = evaluate(criterion, moments({on_table}, {in_oven}, {on_table})), evaluate(criterion, moments({on_table}))
    assert moved.success and moved.findings["roasts"].undone and not moved.findings["returns"].undone
    assert moved.findings["lies there"].spells == ((0.0, 0.0), (2.0, 2.0))
    assert not stayed.success and not stayed.findings["roasts"].undone
    assert stayed.reasons == ("roasts: never", "returns: never") and stayed.complete == pytest.approx(1 / 3)


def test_tells_which_demand_was_not_kept() -> None:
    things = Proposition("two things", "inside", (THINGS, ("oven",)), number=2, step=True)
    door = Proposition("door", "open", (("oven",),))
    shut = Proposition("while shut", "inside", (("apple",), ("oven",)), readings=(Reading(When.BEFORE, ("door",)),))
    criterion = Criterion((things, door, shut), (InOrder(("door", "two things")), AtEnd(("door",))))
    told = moments({("inside", "apple", "oven"), ("inside", "tea", "oven")}, {("open", "oven")}, set())
    report = evaluate(criterion, told)
    assert report.findings["two things"] == Finding(
        ((0.0, 0.0),), frozenset({("apple", "oven"), ("tea", "oven")}), False, "not after 'door'"
    )
    assert report.reasons == ("door: not so at the end",) and report.findings["while shut"].met


@pytest.mark.parametrize(
    ("propositions", "constraints"),
    [
        ((), ()),
        ((Proposition("a", "open", (("oven",),)), Proposition("a", "open", (("oven",),))), ()),
        ((Proposition("a", "open", (("oven",),), number=2),), ()),
        ((Proposition("a", "open", (("oven",),)),), (AtEnd(("b",)),)),
        ((Proposition("a", "open", (("oven",),)),), (SameArgument(("a",), 1),)),
        ((Proposition("a", "inside", (THINGS, SPACES), number=2),), (SameArgument(("a",), 0),)),
    ],
)
def test_refuses_what_means_nothing(propositions: tuple[Proposition, ...], constraints: tuple[Constraint, ...]) -> None:
    with pytest.raises(ValueError):
        Criterion(propositions, constraints)


def test_a_trial_without_moments_cannot_be_judged() -> None:
    with pytest.raises(ValueError):
        evaluate(Criterion((Proposition("a", "open", (("oven",),)),)), [])
