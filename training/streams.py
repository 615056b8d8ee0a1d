# SPDX-License-Identifier: Apache-2.0
"""Read a stream as a plan: what it calls, in which order, and whether two streams do the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from bench.calls import CallRun
from bench.dry_run import dry_run
from function_tokens.markup import value_text
from training.rewards import Step, reward
from training.robots import Robot

NEUTRAL = frozenset({"wait", "plan_done", "observe"})
"""Calls that only order others, or end the answer."""
EPS_S = 0.05
MAX_ORDERS = 24
"""Ways to pair alike calls that are tried."""


@dataclass(frozen=True)
class Plan:
    """Hold what a stream does on a virtual clock; `valid`: it is well formed and nothing of it is refused."""

    valid: bool
    calls: tuple[CallRun, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return its calls as the reward counts them, with the arguments that differ from their defaults."""
        steps: list[Step] = []
        for n, call in enumerate(self.calls, 1):
            before = [(m, one.end_s) for m, one in enumerate(self.calls, 1) if m != n and _before(one, call)]
            dep = max(before, key=lambda pair: pair[1] or 0.0, default=(0, None))[0]
            steps.append(Step(call.function, frozenset(_shown(call)), n, dep))
        return tuple(steps)


def read(stream: str, robot: Robot) -> Plan:
    """Return what a stream does on a robot."""
    run = dry_run(stream, robot.mapper, mode="strict")
    calls = [call for call in run.calls if call.function not in NEUTRAL and call.outcome != "REFUSED"]
    valid = run.error is None and not run.refused and not run.failed and bool(run.calls)
    return Plan(valid, tuple(_without_defaults(call, robot) for call in calls))


def stream_reward(stream: str, reference: str, robot: Robot) -> float:
    """Return the reward of a stream beside its reference, -3 to 4."""
    plan = read(stream, robot)
    return reward(plan.valid, plan.steps, read(reference, robot).steps)


def same(stream: str, reference: str, robot: Robot, also: Mapping[str, Sequence[Mapping[str, Any]]] | None = None) -> bool:
    """Return whether a stream is valid and does what the reference does: the same calls, each before, after or beside the
    others as there, and inside the same ones. `also` tells by the tag of a reference's call what does as well in its place."""
    got, wanted = read(stream, robot), read(reference, robot)
    if not got.valid or len(got.calls) != len(wanted.calls):
        return False
    instead = {tag: [dict(one) for one in ways] for tag, ways in (also or {}).items()}
    allowed = [_allowed(call, robot, instead) for call in wanted.calls]
    fits = [[n for n, call in enumerate(got.calls) if any(_is(call, way) for way in ways)] for ways in allowed]
    return any(_ordered_alike(wanted.calls, got.calls, pairing) for pairing in _pairings(fits))


def _pairings(fits: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return ways to give every call of the reference one of the other stream that fits, those in order first."""
    found: list[tuple[int, ...]] = []
    if len(fits) <= 5:
        orders = permutations(range(len(fits)))
        found = [order for order in orders if all(n in fit for n, fit in zip(order, fits, strict=True))][:MAX_ORDERS]
    elif all(n in fit for n, fit in enumerate(fits)):
        found = [tuple(range(len(fits)))]
    return found


def _ordered_alike(wanted: Sequence[CallRun], got: Sequence[CallRun], pairing: Sequence[int]) -> bool:
    placed = [got[n] for n in pairing]
    number = {call.call_id: n for n, call in enumerate(wanted)}
    theirs = {call.call_id: n for n, call in enumerate(placed)}
    for n, (one, other) in enumerate(zip(wanted, placed, strict=True)):
        if number.get(one.parent_id) != theirs.get(other.parent_id):
            return False
        for m in range(n):
            if (_before(wanted[m], one), _before(one, wanted[m])) != (_before(placed[m], other), _before(other, placed[m])):
                return False
    return True


def _before(one: CallRun, other: CallRun) -> bool:
    if one.end_s is None or other.start_s is None:
        return False
    return one.end_s <= other.start_s + EPS_S and one.call_id != other.parent_id


def _allowed(call: CallRun, robot: Robot, instead: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return what may stand for a call: itself, and what its tag allows in its place."""
    ways: list[dict[str, Any]] = [{"call": call.function, **call.arguments}]
    for tag, others in instead.items():
        plan = read(tag, robot)
        if plan.calls and _is(call, {"call": plan.calls[0].function, **plan.calls[0].arguments}):
            ways += [_without(one | {"call": one.get("call", call.function)}, robot) for one in others]
    return ways


def _without(way: dict[str, Any], robot: Robot) -> dict[str, Any]:
    """Return what may stand for a call without the arguments that are defaults."""
    defaults = _defaults(way["call"], robot)
    return {name: v for name, v in way.items() if name not in defaults or v == "any" or not _fits(defaults[name], v)}


def _is(call: CallRun, way: Mapping[str, Any]) -> bool:
    if call.function != way["call"]:
        return False
    wanted = {name: value for name, value in way.items() if name != "call"}
    if call.arguments.keys() - wanted.keys():
        return False
    return all(_fits(call.arguments.get(name), value) for name, value in wanted.items())


def _fits(value: Any, wanted: Any) -> bool:
    if wanted == "any":
        return True
    if isinstance(wanted, str) and re.fullmatch("(above|below) [0-9]+", wanted):
        if not isinstance(value, (int, float)):
            return False
        sign = 1 if wanted.startswith("above") else -1
        return (value - float(wanted.split()[1])) * sign > 0
    if value is None:
        return False
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return abs(value - float(wanted)) < 1e-6
        except (TypeError, ValueError):
            return False
    return bool(_plain(value) == _plain(wanted))


def _plain(value: Any) -> str:
    """Return a value as text, without case, marks and spaces at its ends."""
    return " ".join(re.sub(r"[^\w\s]", "", value_text(value)).lower().split())


def _without_defaults(call: CallRun, robot: Robot) -> CallRun:
    defaults = _defaults(call.function, robot)
    kept = {name: value for name, value in call.arguments.items() if name not in defaults or value != defaults[name]}
    return replace(call, arguments=kept)


def _defaults(function: str, robot: Robot) -> dict[str, Any]:
    skill = robot.skills.get(function)
    parameters = skill.signature.parameters.items() if skill is not None else ()
    return {name: p.default for name, p in parameters if p.default is not p.empty}


def _shown(call: CallRun) -> list[tuple[str, str]]:
    return [(name, _plain(value)) for name, value in call.arguments.items()]
