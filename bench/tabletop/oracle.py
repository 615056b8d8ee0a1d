# SPDX-License-Identifier: Apache-2.0
"""Do each task as it is meant, by the robot's functions alone: what the judge must accept."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bench.evaluation.propositions import Moment, Report, evaluate
from bench.tabletop.table import BLOCK, BOWL, CORNERS, DIRECTIONS, ON_BLOCK_M, RADIUS_M, SIDES, Point, Table, colour, mismatched
from bench.tabletop.tasks import ORDINALS, Trial

STEP_M = 0.1
"""Distance of neighbours in a line, and how far a little is; a lot is twice as far [m]."""
Put = tuple[str, str | Point]


def judged(trial: Trial, *, idle: bool = False) -> Report:
    """Return what the judge says of a trial that was done as it is meant, or with `idle` not at all."""
    table = trial.table.copy()
    moments = [Moment(0.0, frozenset(table.facts()))]
    waiting = [] if idle else list(_puts(trial, table))
    while waiting:
        # Where a block stands that is to go elsewhere, nothing is put yet; one of a circle makes room.
        first, second = next((put for put in waiting if not _taken(table, put, waiting)), (waiting[0][0], _free(table)))
        table.call("put_first_on_second", {"first": first, "second": second})
        waiting = [put for put in waiting if put != (first, second)]
        moments.append(Moment(moments[-1].at + 1.0, frozenset(table.facts())))
    return evaluate(trial.criterion, moments)


def _taken(table: Table, put: Put, waiting: list[Put]) -> bool:
    """Return whether a block that is to go elsewhere stands where something is put."""
    first, second = put
    if isinstance(second, str):
        return False
    return any(other != first and math.dist(table.at(other), second) < ON_BLOCK_M for other, _ in waiting)


def _free(table: Table) -> Point:
    """Return the place on the table that is farthest from everything."""
    places = [table.area.denormalised((x / 10, y / 10)) for x in range(11) for y in range(11)]
    return max(places, key=lambda at: min(math.dist(at, table.at(name)) for name in table.things))


def _puts(trial: Trial, table: Table) -> Iterator[Put]:
    """Yield what is to be put on what."""
    blocks, bowls, given = table.of(BLOCK), table.of(BOWL), trial.binding
    place = _place(table, given["place"]) if "place" in given else (0.0, 0.0)
    match trial.template.id:
        case "block on block":
            yield given["block"], given["other"]
        case "block in bowl":
            yield given["block"], given["bowl"]
        case "blocks in bowl":
            yield from ((block, given["bowl"]) for block in blocks)
        case "matching bowls":
            yield from ((block, f"{colour(block)} {BOWL}") for block in blocks)
        case "mismatched bowls":
            yield from (mismatched(blocks, bowls) or {}).items()
        case "all at place" | "stack at place":
            yield from ((block, place) for block in blocks)
        case "different corners":
            yield from ((block, _place(table, corner)) for block, corner in zip(blocks, CORNERS, strict=False))
        case "block in a direction":
            yield max(blocks, key=lambda b: _along(table.at(b), given["direction"])), place
        case "block at a distance":
            yield _by_distance(table, blocks, table.at(given["bowl"]), given["distance"]), place
        case "block by number":
            ranked = sorted(blocks, key=lambda b: -_along(table.at(b), given["direction"]))
            yield ranked[ORDINALS.index(given["ordinal"])], place
        case "beside a bowl":
            (x, y), (dx, dy) = table.at(given["bowl"]), DIRECTIONS[given["direction"]]
            size = table.area.size[0 if dx else 1]
            far = RADIUS_M + 0.01 if given["magnitude"] == "a little" else size / 3 + 0.01
            yield given["block"], (x + dx * far, y + dy * far)
        case "corner at a distance":
            bowl = table.at(given["bowl"])
            pick = min if given["distance"] == "closest" else max
            yield given["block"], _place(table, pick(CORNERS, key=lambda c: math.dist(_place(table, c), bowl)))
        case "line":
            x, y = table.area.denormalised((0.1, 0.1))
            dx, dy = {"horizontal": (STEP_M, 0.0), "vertical": (0.0, STEP_M), "diagonal": (STEP_M, STEP_M)}[given["line"]]
            yield from ((block, (x + k * dx, y + k * dy)) for k, block in enumerate(blocks))


def _place(table: Table, name: str) -> Point:
    if name in CORNERS:
        return table.area.denormalised(CORNERS[name])
    axis, end = SIDES[name]
    return table.area.denormalised((end, 0.5) if axis == 0 else (0.5, end))


def _along(at: Point, direction: str) -> float:
    dx, dy = DIRECTIONS[direction]
    return at[0] * dx + at[1] * dy


def _by_distance(table: Table, names: list[str], at: Point, distance: str) -> str:
    pick = min if distance == "closest" else max
    return pick(names, key=lambda name: math.dist(table.at(name), at))
