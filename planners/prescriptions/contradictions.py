# SPDX-License-Identifier: Apache-2.0
"""Find, without a model, standing sentences that cannot be followed together: always and never, quiet and speak, the same
condition with tasks that exclude one another."""

import ast
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from planners.language.conditional import plain, split
from planners.language.lexicon import stem
from planners.prescriptions.prescription import Conflict, Kind, Prescription
from planners.prompts.blocks import text_beside
from skill_kernel.config.yaml_text import read_yaml
from skill_kernel.guard.compiler import COMPARISONS
from skill_kernel.guard.reading import GuardError, read_expression

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[\u4e00-\u9fff]")
_WORDING: dict[str, Any] = read_yaml(text_beside(__file__, "contradictions.yaml"), strict=True)
_NOT, _AWAY, _TO_PLACE, _BOUND = (
    re.compile(_WORDING[kind], re.IGNORECASE) for kind in ("forbidding", "keeping_away", "to_place", "bound")
)
_LEFT_OUT = frozenset(_WORDING["left_out"].split())
_MEANING = {stem(word): line.split()[0] for line in _WORDING["same"].splitlines() for word in line.split()}
_EXCLUDED = tuple(
    tuple((re.compile(rf"\b(?:{pattern})\b"), name) for name, pattern in pair.items()) for pair in _WORDING["exclusive"]
)
_UPWARDS = frozenset({"above", "over", "more than", "farther than"})


@dataclass(frozen=True)
class _Meaning:
    """Hold a sentence taken apart. `condition` and `action` are words of meaning, `said` the action as it was written; of one
    that forbids, `forbidden` is what, and `allowed` what stands before that."""

    condition: frozenset[str]
    action: frozenset[str]
    said: str
    forbids: bool
    source: str
    conditional: bool
    bounds: tuple[tuple[bool, float], ...]
    forbidden: str
    allowed: str


def contradictions(new: Prescription, others: Iterable[Prescription]) -> list[Conflict]:
    """Return the others that cannot be followed together with the new one, with the reasons, in their order."""
    return [found for other in others if other.name != new.name and (found := _conflict(new, other)) is not None]


@lru_cache(maxsize=8192)
def _conflict(new: Prescription, other: Prescription) -> Conflict | None:
    """Return why two contradict each other. Cached: when one changes, only its own pairs are compared again."""
    why = _why(_meant(new), _meant(other))
    if not why:
        return None
    more = "; the reflex goes first" if Kind.REFLEX in (new.kind, other.kind) and new.kind is not other.kind else ""
    return Conflict(other.name, f"“{new.sentence}” and “{other.sentence}”: {why}{more}")


@lru_cache(maxsize=1024)
def _meant(one: Prescription) -> _Meaning:
    sentence = plain(one.sentence).lower().rstrip(" .!")
    clause = split(sentence)
    condition, said = (clause.condition, clause.action or clause.condition) if clause is not None else ("", sentence)
    forbids = not one.task and bool(_NOT.search(said))
    said, source = one.task.lower() or said, one.when.strip()
    bounds = tuple((m["how"] in _UPWARDS, float(m["number"])) for m in _BOUND.finditer(condition))
    allowed, *banned = _NOT.split(said, maxsplit=1)
    conditional = clause is not None or bool(source)
    forbidden = "".join(banned)
    return _Meaning(_words(condition), _words(said), said, forbids, source, conditional, bounds, forbidden, allowed)


def _words(text: str) -> frozenset[str]:
    return frozenset(_MEANING.get(stem(w), stem(w)) for w in _WORD.findall(text) if w not in _LEFT_OUT)


def _why(one: _Meaning, other: _Meaning) -> str:
    if not _together(one, other):
        return ""
    at = " when the same is so" if one.conditional and other.conditional else ""
    if one.forbids != other.forbids:
        wants, forbids = (other, one) if one.forbids else (one, other)
        banned = _words(forbids.forbidden) or forbids.action
        if (shared := banned & wants.action) and _about(banned, wants.action):
            return f"one forbids what the other asks for{at} ({', '.join(sorted(shared))})"
        away = _AWAY.search(forbids.said)
        opposed = _opposed(wants.said, forbids.said if away else forbids.allowed)
        if opposed is not None and (not away or banned & (wants.action | wants.condition)):
            return f"{opposed[0]} and {opposed[1]} exclude one another{at}"
    elif not one.forbids:
        if (pair := _opposed(one.said, other.said)) is not None:
            return f"{pair[0]} and {pair[1]} exclude one another{at}"
        places = [m["place"] for m in (_TO_PLACE.search(x.said) for x in (one, other)) if m is not None]
        if len(places) == 2 and places[0] != places[1] and one.conditional and other.conditional:
            return f"it cannot go to {places[0]} and to {places[1]}{at}"
    return ""


def _together(one: _Meaning, other: _Meaning) -> bool:
    """Return whether there are moments at which both apply."""
    if one.source and other.source:
        return may_meet(one.source, other.source)
    for up, number in one.bounds:
        for other_up, other_number in other.bounds:
            if up != other_up and (number >= other_number if up else number <= other_number):
                return False
    if not one.condition or not other.condition:
        return True
    return one.condition <= other.condition or other.condition <= one.condition


def _about(banned: frozenset[str], wanted: frozenset[str]) -> bool:
    """Return whether a ban is wide enough to hit a wish: all that one names the other names too, or they share two words."""
    return banned <= wanted or wanted <= banned or len(banned & wanted) >= 2


def _opposed(one: str, other: str) -> tuple[str, str] | None:
    for (first, x), (second, y) in _EXCLUDED:
        this, that = (bool(first.search(a) and second.search(b)) for a, b in ((one, other), (other, one)))
        if this is not that:
            return (x, y) if this else (y, x)
    return None


_TURNED = {operator.lt: operator.gt, operator.le: operator.ge, operator.gt: operator.lt, operator.ge: operator.le}


@lru_cache(maxsize=4096)
def may_meet(one: str, other: str) -> bool:
    """Return whether two conditions may hold at one time: they are the same or read the same accessor, and neither excludes
    the other. Told from their source alone."""
    try:
        first, second = (read_expression(source) for source in (one, other))
    except GuardError:
        return one == other
    if ast.dump(first) == ast.dump(second):
        return True
    calls = [{ast.dump(node) for node in ast.walk(tree) if isinstance(node, ast.Call)} for tree in (first, second)]
    return bool(calls[0] & calls[1]) and not any(_exclude(a, b) for a, b in product(_parts(first), _parts(second)))


def _parts(tree: ast.expr) -> list[ast.expr]:
    """Return the conditions that all have to hold."""
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        return [part for value in tree.values for part in _parts(value)]
    return [tree]


def _exclude(one: ast.expr, other: ast.expr) -> bool:
    for yes, no in ((one, other), (other, one)):
        if isinstance(no, ast.UnaryOp) and isinstance(no.op, ast.Not) and ast.dump(no.operand) == ast.dump(yes):
            return True
    a, b = _comparison(one), _comparison(other)
    if a is None or b is None or a[0] != b[0]:
        return False
    (_, first, x), (_, second, y) = a, b
    if isinstance(x, (int, float)) and isinstance(y, (int, float)):
        points: list[Any] = [x - 1, x, (x + y) / 2, y, y + 1, y - 1, x + 1]
    elif {first, second} <= {operator.eq, operator.ne}:
        points = [x, y, object()]
    else:
        return False
    return not any(first(point, x) and second(point, y) for point in points)


def _comparison(part: ast.expr) -> tuple[str, Callable[[Any, Any], bool], Any] | None:
    """Return the compared expression, the comparison and the constant."""
    if not (isinstance(part, ast.Compare) and len(part.ops) == 1) or isinstance(part.ops[0], (ast.In, ast.NotIn)):
        return None
    left, (_, how), right = part.left, COMPARISONS[type(part.ops[0])], part.comparators[0]
    if isinstance(left, ast.Constant):
        left, how, right = right, _TURNED.get(how, how), left
    return (ast.dump(left), how, right.value) if isinstance(right, ast.Constant) else None
