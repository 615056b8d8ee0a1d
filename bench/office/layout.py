# SPDX-License-Identifier: Apache-2.0
"""Draw an office from a seed: who works where, who owns what, where it lies, and the lockers' codes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import lru_cache

from bench.office.vocabulary import FACILITY_AT, HEIGHT_M, HOMES, LEADS, PEOPLE, PLACES, PROFILES, TEAM, TOO_THIN_CM
from bench.office.world import Facility, Item, Layout, Person, Where
from bench.things import ITEMS, PAPERS

KINDS_EACH, TWICE = 18, 8
"""Kinds of items in an office, and how many of them two people own."""
DOCK = "lobby"
"""Places of the robots at the start."""


@lru_cache(maxsize=64)
def office(seed: int) -> Layout:
    """Return the office of a seed, with the paper's team."""
    return drawn(seed, PEOPLE, TEAM)


def drawn(seed: int, people: tuple[str, ...], team: Mapping[str, str]) -> Layout:
    """Return an office of a seed with these people, and these robots by name and profile."""
    chance = random.Random(f"office {seed}")
    leads = frozenset(chance.sample(people, LEADS))
    known = {name: Person(chance.choice(HOMES), name in leads) for name in people}
    kinds = chance.sample(sorted(ITEMS), KINDS_EACH)
    items: dict[str, Item] = {}
    for kind in (*kinds, *kinds[:TWICE]):
        others = [item.owner for item in items.values() if item.kind == kind]
        owner = chance.choice([name for name in people if name not in others])
        items[f"{owner.lower()}_{kind}"] = Item(kind, owner)
    facilities = dict(_facilities())
    codes = {name: f"{chance.randrange(10000):04d}" for name, kind in team.items() if PROFILES[kind].locker}
    codes["smart_locker"] = f"{chance.randrange(10000):04d}"
    robots = {name: PROFILES[kind] for name, kind in team.items()}
    at_first = {name: _placed(item, known, chance) for name, item in items.items()}
    return Layout(known, items, facilities, robots, at_first, dict.fromkeys(robots, DOCK), codes)


def _facilities() -> Iterator[tuple[str, Facility]]:
    for kind, places in FACILITY_AT.items():
        for number, place in enumerate(places, start=1):
            yield (f"{kind}_{number}" if len(places) > 1 else kind), Facility(kind, place)


def _placed(item: Item, people: Mapping[str, Person], chance: random.Random) -> Where:
    """Return where an item is at first. Paper is a file or with its owner: no robot takes it up."""
    drawn = chance.random()
    if item.kind in PAPERS:
        return Where("file") if drawn < 0.5 else Where("had", item.owner)
    if drawn < 0.35 or min(ITEMS[item.kind].size_cm) < TOO_THIN_CM:
        return Where("had", item.owner)
    if drawn < 0.65:
        return Where("lies", people[item.owner].place)
    if item.kind in ("keys", "phone", "hard_disk", "usb_drive", "camera", "glasses") and drawn < 0.75:
        return Where("inside", "smart_locker")
    if item.kind in ("lunch_box", "cake", "water_bottle") and drawn < 0.8:
        return Where("inside", "fridge")
    return Where("lies", chance.choice(sorted(PLACES)), chance.choice(sorted(HEIGHT_M)))
