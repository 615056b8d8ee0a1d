# SPDX-License-Identifier: Apache-2.0
"""Hebe in the simulated kitchen: it goes with its arms drawn in, takes the better arm, uses fridge, oven and table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from arm_sim import ArmSim, count

from ghostshell_ros.arms.mobile_body import MobileArmBody
from ghostshell_ros.sim.parts import Wheeled
from skill_kernel import SkillReturn
from skill_kernel.skills.arguments import ArgumentError, bind_typed
from skill_kernel.skills.drivers import DriverResult, Pose2D, StopEvent
from skill_kernel.skills.registry import SkillRegistry

pytestmark = pytest.mark.component

OPEN, SHUT = 0.95, 0.0
SPEED_MPS, TURN_RPS, STEP_S = 0.4, 0.8, 0.02
NEAR_M, NEAR_RAD, COMING_S = 0.01, 0.01, 30.0
AROUND_TABLE = (1.35, 1.05)
MANY, ENOUGH = 100, 95
REACH_M = 1.0
"""A start is reachable where the thing is so near to a shoulder; the arm is 1.24 m long, and its hand must stay level."""
ON_TABLE = ("apple", "orange", "hamburger", "cup", "tea", "water")
IN_FRIDGE = ("tea", "water", "apple")
AT = {
    "fridge": "in_front_of_refrigerator",
    "oven": "in_front_of_oven",
    "table": "in_front_of_table",
    "sink": "in_front_of_sink",
}


class HebeSim(ArmSim):
    """Hebe with a base that goes straight to where it is sent, around the table's corner."""

    def __init__(self) -> None:
        self.blocked = ""
        super().__init__("hebe", MobileArmBody, navigate_to=self.navigate)
        self.wheels = Wheeled(self.world, self.robot)

    def navigate(self, *, pose: Mapping[str, Any], stop: StopEvent, **_: Any) -> DriverResult:
        """Roll there."""
        if self.blocked:
            return DriverResult(False, 452, self.blocked)
        at, turned = pose["pose"]["position"], pose["pose"]["orientation"]
        x, y, yaw = float(at["x"]), float(at["y"]), 2 * math.atan2(turned["z"], turned["w"])
        until = self.world.time + COMING_S
        for goal in (AROUND_TABLE, (x, y)) if abs(y - self.robot.base_position[1]) > 0.5 else ((x, y),):
            while (way := self._way(*goal, yaw))[0] > NEAR_M or abs(way[2]) > NEAR_RAD:
                if stop.is_set():
                    return DriverResult(False, cancelled=True)
                assert self.world.time < until, "it comes there"
                distance, side, turn = way
                speed = min(SPEED_MPS, 2 * distance)
                self.wheels.command(
                    speed * math.cos(side), speed * math.sin(side), float(np.clip(2 * turn, -TURN_RPS, TURN_RPS))
                )
                self.advance(STEP_S)
        self.advance(0.3)
        return DriverResult(True)

    def _way(self, x: float, y: float, yaw: float) -> tuple[float, float, float]:
        """Return how far a pose is [m], on which side, and how far it is turned from here [rad]."""
        here = self.robot.base_position
        side = math.atan2(y - here[1], x - here[0]) - here[2]
        return math.hypot(x - here[0], y - here[1]), side, math.remainder(yaw - here[2], math.tau)

    def stand(self, place: str) -> None:
        """Stand before a place at once."""
        self.robot.put(self.scenery.points[AT[place]])
        self.world.advance(0.2)


@lru_cache(maxsize=1)
def _shared() -> HebeSim:
    return HebeSim()


@pytest.fixture
def hebe() -> HebeSim:
    sim = _shared()
    sim.reset()
    sim.blocked = ""
    return sim


@pytest.mark.slow
def test_it_brings_the_tea_from_the_fridge_to_the_table(hebe: HebeSim) -> None:
    body, stop = hebe.body, hebe.stop
    assert isinstance(body, MobileArmBody)
    for deed in (
        lambda: body.go_to(AT["fridge"], stop),
        lambda: body.swing("fridge", OPEN, stop),
        lambda: body.pick("tea", "fridge", stop),
        lambda: body.go_to(AT["table"], stop),
        lambda: body.put("table", stop),
    ):
        done = deed()
        assert done.ok, done.message
    assert hebe.lying()["tea"] == "table" and body.held() == ""


@pytest.mark.parametrize(("y", "arm"), [(-0.2, "left"), pytest.param(0.2, "right", marks=pytest.mark.slow)])
def test_the_nearer_arm_is_taken(hebe: HebeSim, y: float, arm: str) -> None:
    hebe.stand("table")
    hebe.put("hamburger", 0.5, y, 0.725)
    assert hebe.body.pick("hamburger", "table", hebe.stop).ok
    fingers = hebe.robot.joint_positions()
    assert sum(fingers[finger] for finger in hebe.config.arms[arm].fingers) < 0.08
    assert hebe.body.held() == "hamburger"


def test_it_says_why_it_did_not_come(hebe: HebeSim) -> None:
    hebe.blocked = "a chair stands in the way"
    assert isinstance(hebe.body, MobileArmBody)
    result = hebe.body.go_to("in_front_of_oven", hebe.stop)
    assert not result.ok and result.message == "did not come to in_front_of_oven: a chair stands in the way"


@pytest.mark.slow
def test_from_where_it_stands_it_reaches_no_other_place(hebe: HebeSim) -> None:
    hebe.stand("oven")
    result = hebe.body.pick("apple", "table", hebe.stop)
    assert not result.ok and "left arm: " in result.message and "right arm: " in result.message
    assert "unreachable" in result.message and hebe.sent == 0


@pytest.mark.parametrize(
    ("skill", "arguments"),
    [
        ("open", {"what": "drawer_top"}),
        ("release_to", {"space": "trash_can"}),
        ("pick_from", {"object": "apple", "space": "drawer_middle"}),
        ("go_to", {"point": "in_front_of_drawer"}),
    ],
)
def test_what_it_may_not_use_is_no_argument(hebe: HebeSim, skill: str, arguments: dict[str, str]) -> None:
    known = SkillRegistry.from_modules(hebe.config.skills, text_skill=hebe.config.text_skill).get(skill)
    assert known is not None
    with pytest.raises(ArgumentError):
        bind_typed(known, arguments, {})


def test_what_one_arm_touches_does_not_stop_the_other(hebe: HebeSim) -> None:
    hebe.stand("table")
    left, right = hebe.body._arms
    rng = np.random.default_rng(1)
    hebe.body._look()
    drawn = (rng.uniform(right.arm.lower, right.arm.upper) for _ in range(500))
    touching = next(q for q in drawn if right.arm.touches(q) == ["table"])
    right.arm.be_at(touching)
    assert right.arm.touched(touching) == "table" and left.arm.touched(left.rest) == ""


def test_what_one_hand_holds_may_not_touch_the_other_hand(hebe: HebeSim) -> None:
    left, right = hebe.body._arms
    here = [hebe.robot.joint_positions()[joint] for joint in left.config.joints]
    hebe.body._look()
    for side, touched in ((left, ""), (right, "itself")):
        hebe.body.around.place({"cup": (hebe.data.site(side.config.hand).xpos.tolist(), [1.0, 0.0, 0.0, 0.0])})
        left.manipulator.take("cup")
        assert left.arm.touched(here) == touched
        left.manipulator.take("")


# -- rates -------------------------------------------------------------------------------------------------------------------


def pick(sim: HebeSim, rng: np.random.Generator) -> tuple[SkillReturn, bool]:
    space = str(rng.choice(("table", "fridge")))
    thing = _scattered(sim, rng, space)
    result = sim.body.pick(thing, space, sim.stop)
    hands = [sim.data.site(arm.hand).xpos for arm in sim.config.arms.values()]
    near = min(float(np.linalg.norm(sim.data.body(thing).xpos - hand)) for hand in hands)
    return result, sim.body.held() == thing and near < 0.06


def place(sim: HebeSim, rng: np.random.Generator) -> tuple[SkillReturn, bool]:
    thing = _scattered(sim, rng, "table")
    picked = sim.body.pick(thing, "table", sim.stop)
    space = str(rng.choice(("table", "fridge", "oven", "sink")))
    if space in sim.scenery.doors:
        sim.set_door(space, OPEN)
    gone = sim.body.go_to(AT[space], sim.stop) if picked.ok else picked
    if not gone.ok:
        return gone, False
    result = sim.body.put(space, sim.stop)
    sim.advance(0.5)
    return result, sim.lying()[thing] == space and sim.speed(thing) < 0.01 and sim.body.held() == ""


def open_(sim: HebeSim, rng: np.random.Generator) -> tuple[SkillReturn, bool]:
    door = str(rng.choice(("fridge", "oven")))
    _scattered(sim, rng, "fridge")
    sim.set_door("fridge", 0.0)
    _stand_about(sim, rng, door)
    result = sim.body.swing(door, OPEN, sim.stop)
    return result, sim.shares()[door] > 0.8


def close(sim: HebeSim, rng: np.random.Generator) -> tuple[SkillReturn, bool]:
    door = str(rng.choice(("fridge", "oven")))
    _scattered(sim, rng, "fridge")
    sim.set_door(door, rng.uniform(0.8, 1.0))
    _stand_about(sim, rng, door)
    result = sim.body.swing(door, SHUT, sim.stop)
    return result, sim.shares()[door] < 0.05


def _scattered(sim: HebeSim, rng: np.random.Generator, space: str) -> str:
    """Begin anew before a space with things at random in it; return one of them."""
    doors = {space: OPEN} if space in sim.scenery.doors else {}
    placed = sim.scatter(rng, space, IN_FRIDGE if space == "fridge" else ON_TABLE, doors, arms=False)
    _stand_about(sim, rng, space)
    shoulders = [sim.data.body(f"{arm}_link1").xpos for arm in sim.config.arms]
    reached = [t for t in placed if min(np.linalg.norm(sim.data.body(t).xpos - s) for s in shoulders) < REACH_M]
    return str(rng.choice(reached)) if reached else _scattered(sim, rng, space)


def _stand_about(sim: HebeSim, rng: np.random.Generator, place: str) -> None:
    """Stand before a place, as exactly as its driver comes there."""
    x, y, yaw = sim.scenery.points[AT[place]].x, sim.scenery.points[AT[place]].y, sim.scenery.points[AT[place]].yaw
    sim.robot.put(Pose2D(x + rng.uniform(-0.05, 0.05), y + rng.uniform(-0.05, 0.05), yaw + rng.uniform(-0.06, 0.06)))
    sim.world.advance(0.2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("deed", [pick, place, open_, close])
def test_it_does_so_from_nearly_everywhere(
    hebe: HebeSim, deed: Callable[[HebeSim, np.random.Generator], tuple[SkillReturn, bool]]
) -> None:
    failures = count(hebe, deed, MANY)
    print(f"{deed.__name__}: {MANY - len(failures)} of {MANY}", *failures, sep="\n")
    assert MANY - len(failures) >= ENOUGH
