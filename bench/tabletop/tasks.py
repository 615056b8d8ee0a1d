# SPDX-License-Identifier: Apache-2.0
"""Define the tabletop's tasks: the templates and attributes of Code as Policies, the scenes in which they are asked, and when
they count as done.

Templates, attributes and limits are those of Code as Policies (incremental learning, section 4.1). What lies where is drawn
from template, attributes and a seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.evaluation.propositions import AtEnd, Constraint, Criterion, Moment, Proposition, SameArgument, evaluate
from bench.tabletop.table import BLOCK, BOWL, CORNERS, DIRECTIONS, LITTLE, RADIUS_M, Table, colour, mismatched

MOST = 4
"""Blocks, and bowls, of a scene at most."""
APART_M = 0.15
"""Distance of any two things at the start at least [m]."""
CLEAR_M = 0.02
"""What is nearer, or further to one side, is so by this much at least, so that nobody can doubt which one is meant [m]."""
TRIES = 20_000
"""Scenes that are drawn until one fits."""
DIAGONALLY = "diagonal"
Binding = Mapping[str, str]


@dataclass(frozen=True)
class Attributes:
    """Hold the values that the slots of templates may have."""

    colours: tuple[str, ...]
    places: tuple[str, ...]
    directions: tuple[str, ...]
    distances: tuple[str, ...]
    magnitudes: tuple[str, ...]
    ordinals: tuple[str, ...]
    lines: tuple[str, ...]


ATTRIBUTES: Mapping[str, Attributes] = {
    "seen": Attributes(
        ("blue", "red", "green", "orange", "yellow"),
        ("left side", "top left corner", "top side", "top right corner"),
        ("top", "left"),
        ("closest",),
        ("a little",),
        ("first", "second"),
        ("horizontal", "vertical"),
    ),
    "unseen": Attributes(
        ("pink", "cyan", "brown", "gray", "purple"),
        ("bottom right corner", "bottom side", "bottom left corner"),
        ("bottom", "right"),
        ("farthest",),
        ("a lot",),
        ("third", "fourth"),
        (DIAGONALLY,),
    ),
}
ORDINALS = ("first", "second", "third", "fourth")


@dataclass(frozen=True)
class Goal:
    """Say which values a template's slots have in a scene, and when it is done."""

    binding: Binding
    criterion: Criterion


@dataclass(frozen=True)
class Template:
    """Describe a task with slots. `make` fills them for a scene, None where the scene does not do. `blocks`, `bowls`: how many
    it has at least. `alike`: a bowl of each block's colour is there."""

    id: str
    text: str
    seen: bool
    make: Callable[[random.Random, Attributes, Table], Goal | None]
    blocks: int = 1
    bowls: int = 1
    alike: bool = False


@dataclass(frozen=True)
class Trial:
    """Hold one task in one scene."""

    template: Template
    attributes: str
    seed: int
    binding: Binding
    table: Table
    criterion: Criterion

    @property
    def instruction(self) -> str:
        """Return what is said."""
        return self.template.text.format_map(self.binding)


def trial(template: str, attributes: str, seed: int, other: Sequence[Binding] = ()) -> Trial:
    """Return the trial of a seed; its slots are filled in another way than in `other` where there is one."""
    task, r = TEMPLATES[template], random.Random(f"tabletop {template} {attributes} {seed}")
    fallback: Trial | None = None
    for attempt in range(TRIES):
        table = _scene(r, task, ATTRIBUTES[attributes])
        goal = task.make(r, ATTRIBUTES[attributes], table) if table is not None else None
        if table is None or goal is None or evaluate(goal.criterion, [Moment(0.0, frozenset(table.facts()))]).success:
            continue
        found = Trial(task, attributes, seed, goal.binding, table, goal.criterion)
        if goal.binding not in other:
            return found
        fallback = fallback or found
        if attempt > TRIES // 100:
            return fallback
    raise ValueError(f"no scene fits '{template}' with attributes {attributes} and seed {seed}")


def _scene(r: random.Random, task: Template, attributes: Attributes) -> Table | None:
    """Return blocks and bowls somewhere on the table, each of another colour than its like; None where they have no room."""
    blocks = r.sample(attributes.colours, r.randint(task.blocks, MOST))
    bowls = r.sample(attributes.colours, r.randint(max(task.bowls, len(blocks) if task.alike else 0), MOST))
    if task.alike:
        bowls = [*blocks, *[one for one in bowls if one not in blocks]][: len(bowls)]
        r.shuffle(bowls)
    table = Table({})
    for name in [*(f"{one} {BLOCK}" for one in blocks), *(f"{one} {BOWL}" for one in bowls)]:
        for _ in range(50):
            x, y = table.area.denormalised((r.random(), r.random()))
            if all(math.dist((x, y), table.at(there)) > APART_M for there in table.things):
                table.things[name] = x, y, 0.0
                break
        else:
            return None
    return table


# -- when it is done ----------------------------------------------------------------------------------------------------------


def _criterion(propositions: Iterable[Proposition], *constraints: Constraint) -> Criterion:
    """Return that all of it is so at the end."""
    found = tuple(propositions)
    return Criterion(found, (AtEnd(tuple(p.name for p in found)), *constraints))


def _each_at(blocks: Iterable[str], *places: str) -> list[Proposition]:
    return [Proposition(f"the {block} is at {' or '.join(places)}", "at", ((block,), places)) for block in blocks]


def _one_at(binding: Binding, blocks: Sequence[str]) -> Goal | None:
    """Return that one of these blocks is at the place of the binding; None where there is none, or any would do."""
    if not blocks:
        return None
    place = binding["place"]
    claim = Proposition(f"{' or '.join(blocks)} is at {place}", "at", (tuple(blocks), (place,)))
    return Goal(binding, _criterion([claim]))


def _each_on(pairs: Mapping[str, Sequence[str]]) -> list[Proposition]:
    return [Proposition(f"the {a} is on {' or '.join(b)}", "on", ((a,), tuple(b))) for a, b in pairs.items()]


# -- templates ----------------------------------------------------------------------------------------------------------------


def _block_on_block(r: random.Random, _: Attributes, table: Table) -> Goal:
    first, second = r.sample(table.of(BLOCK), 2)
    return Goal({"block": first, "other": second}, _criterion(_each_on({first: [second]})))


def _block_in_bowl(r: random.Random, _: Attributes, table: Table) -> Goal:
    block, bowl = r.choice(table.of(BLOCK)), r.choice(table.of(BOWL))
    return Goal({"block": block, "bowl": bowl}, _criterion(_each_on({block: [bowl]})))


def _all_at_place(r: random.Random, attributes: Attributes, table: Table) -> Goal:
    place = r.choice(attributes.places)
    return Goal({"place": place}, _criterion(_each_at(table.of(BLOCK), place)))


def _all_in_bowl(r: random.Random, _: Attributes, table: Table) -> Goal:
    bowl = r.choice(table.of(BOWL))
    return Goal({"bowl": bowl}, _criterion(_each_on({block: [bowl] for block in table.of(BLOCK)})))


def _matching(_r: random.Random, _: Attributes, table: Table) -> Goal:
    return Goal({}, _criterion(_each_on({block: [f"{colour(block)} {BOWL}"] for block in table.of(BLOCK)})))


def _directed(r: random.Random, attributes: Attributes, table: Table) -> Goal | None:
    direction, bowl = r.choice(attributes.directions), r.choice(table.of(BOWL))
    ahead = {block: _along(table, block, direction) - _along(table, bowl, direction) for block in table.of(BLOCK)}
    if any(abs(far) < CLEAR_M for far in ahead.values()):
        return None
    binding = {"direction": direction, "bowl": bowl, "place": r.choice(attributes.places)}
    return _one_at(binding, [block for block, far in ahead.items() if far > 0])


def _distant(r: random.Random, attributes: Attributes, table: Table) -> Goal | None:
    distance, bowl = r.choice(attributes.distances), r.choice(table.of(BOWL))
    block = _extreme(distance, {b: math.dist(table.at(b), table.at(bowl)) for b in table.of(BLOCK)})
    binding = {"distance": distance, "bowl": bowl, "place": r.choice(attributes.places)}
    return _one_at(binding, [block]) if block else None


def _ordinal(r: random.Random, attributes: Attributes, table: Table) -> Goal | None:
    direction, ordinal = r.choice(attributes.directions), r.choice(attributes.ordinals)
    where = {block: _along(table, block, direction) for block in table.of(BLOCK)}
    ranked, number = sorted(where, key=where.__getitem__, reverse=True), ORDINALS.index(ordinal)
    if number >= len(ranked) or any(where[a] - where[b] < CLEAR_M for a, b in pairwise(ranked)):
        return None
    binding = {"ordinal": ordinal, "direction": direction, "place": r.choice(attributes.places)}
    return _one_at(binding, [ranked[number]])


def _different_corners(_r: random.Random, _: Attributes, table: Table) -> Goal:
    claims = _each_at(table.of(BLOCK), *CORNERS)
    return Goal({}, _criterion(claims, SameArgument(tuple(p.name for p in claims), 1, different=True)))


def _mismatched(_r: random.Random, _: Attributes, table: Table) -> Goal | None:
    blocks, bowls = table.of(BLOCK), table.of(BOWL)
    if mismatched(blocks, bowls) is None or not any(f"{colour(block)} {BOWL}" in bowls for block in blocks):
        return None
    return Goal({}, _criterion(_each_on({a: [b for b in bowls if colour(b) != colour(a)] for a in blocks})))


def _stacked(r: random.Random, attributes: Attributes, table: Table) -> Goal:
    place, blocks = r.choice(attributes.places), tuple(table.of(BLOCK))
    stack = Proposition("all blocks but one are on a block", "on", (blocks, blocks), number=len(blocks) - 1)
    return Goal({"place": place}, _criterion([stack, *_each_at(blocks, place)]))


def _beside(r: random.Random, attributes: Attributes, table: Table) -> Goal | None:
    much, direction = r.choice(attributes.magnitudes), r.choice(attributes.directions)
    block, bowl = r.choice(table.of(BLOCK)), r.choice(table.of(BOWL))
    axis = 0 if DIRECTIONS[direction][0] else 1
    edge = table.area.denormalised((1.0, 1.0) if direction in ("top", "right") else (0.0, 0.0))[axis]
    needs = RADIUS_M + CLEAR_M if much == "a little" else LITTLE * table.area.size[axis] + CLEAR_M
    if abs(edge - table.at(bowl)[axis]) < needs:
        return None
    claim = Proposition(f"the {block} is {much} to the {direction}", "beside", ((block,), (bowl,), (direction,), (much,)))
    return Goal({"block": block, "magnitude": much, "direction": direction, "bowl": bowl}, _criterion([claim]))


def _distant_corner(r: random.Random, attributes: Attributes, table: Table) -> Goal | None:
    distance, block, bowl = r.choice(attributes.distances), r.choice(table.of(BLOCK)), r.choice(table.of(BOWL))
    corners = {name: math.dist(table.area.denormalised(at), table.at(bowl)) for name, at in CORNERS.items()}
    corner = _extreme(distance, corners)
    binding = {"block": block, "distance": distance, "bowl": bowl}
    return Goal(binding, _criterion(_each_at([block], corner))) if corner else None


def _lined(r: random.Random, attributes: Attributes, table: Table) -> Goal:
    line = r.choice(attributes.lines)
    return Goal({"line": line}, _criterion([Proposition(f"the blocks are in a {line} line", "lined", ((line,),))]))


def _along(table: Table, name: str, direction: str) -> float:
    """Return how far a thing is in a direction [m]."""
    (x, y), (dx, dy) = table.at(name), DIRECTIONS[direction]
    return x * dx + y * dy


def _extreme(distance: str, away: Mapping[str, float]) -> str:
    """Return what is closest, or farthest, and clearly so; "" for nothing."""
    ranked = sorted(away, key=away.__getitem__, reverse=distance == "farthest")
    clear = len(ranked) < 2 or abs(away[ranked[0]] - away[ranked[1]]) > CLEAR_M
    return ranked[0] if clear else ""


TEMPLATES: Mapping[str, Template] = {
    one.id: one
    for one in (
        Template("block on block", "put the {block} on the {other}", True, _block_on_block, blocks=2),
        Template("block in bowl", "pick up the {block} and place it on the {bowl}", True, _block_in_bowl),
        Template("all at place", "put all the blocks on the {place}", True, _all_at_place),
        Template("blocks in bowl", "put the blocks in the {bowl}", True, _all_in_bowl),
        Template("matching bowls", "put all the blocks in the bowls with matching colors", True, _matching, alike=True),
        Template(
            "block in a direction",
            "pick up the block to the {direction} of the {bowl} and place it on the {place}",
            True,
            _directed,
        ),
        Template(
            "block at a distance",
            "pick up the block {distance} to the {bowl} and place it on the {place}",
            True,
            _distant,
            blocks=2,
        ),
        Template(
            "block by number",
            "pick up the {ordinal} block from the {direction} and place it on the {place}",
            True,
            _ordinal,
            blocks=2,
        ),
        Template("different corners", "put all the blocks in different corners", False, _different_corners, blocks=2),
        Template(
            "mismatched bowls", "put the blocks in the bowls with mismatched colors", False, _mismatched, blocks=2, bowls=2
        ),
        Template("stack at place", "stack all the blocks on the {place}", False, _stacked, blocks=2),
        Template(
            "beside a bowl", "pick up the {block} and place it {magnitude} to the {direction} of the {bowl}", False, _beside
        ),
        Template(
            "corner at a distance",
            "pick up the {block} and place it in the corner {distance} to the {bowl}",
            False,
            _distant_corner,
        ),
        Template("line", "put all the blocks in a {line} line", False, _lined, blocks=3),
    )
}
