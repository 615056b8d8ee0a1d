# SPDX-License-Identifier: Apache-2.0
"""An arm picks, puts, opens and closes in the simulated kitchen, says before it moves what it cannot do, and throws nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import mujoco
import numpy as np
import pytest
from arm_sim import ArmSim, count

from ghostshell_ros.arms.arm import WAY_CLEAR_M, Arm, ArmError
from ghostshell_ros.arms.scenery import Scenery
from ghostshell_ros.arms.surroundings import Surroundings
from skill_kernel import SkillReturn

pytestmark = pytest.mark.component

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("apple", "orange", "hamburger", "green_medication", "red_medication", "cup", "vitamins")
DRAWERS = ("drawer_top", "drawer_middle")
OPEN, SHUT = 0.95, 0.0
FEW, MANY, ENOUGH = 1, 100, 95


@lru_cache(maxsize=1)
def _shared() -> ArmSim:
    return ArmSim("atlas")


@pytest.fixture
def atlas() -> ArmSim:
    sim = _shared()
    sim.reset()
    return sim


# -- what it does -------------------------------------------------------------------------------------------------------------


def pick(sim: ArmSim, rng: np.random.Generator) -> tuple[SkillReturn, bool]:
    thing = rng.choice(sim.scatter(rng, "table", SMALL, {}))
    stood = sim.data.body(thing).xpos[2]
    result = sim.body.pick(thing, "table", sim.stop)
    return result, sim.data.body(thing).xpos[2] > stood + 0.02 and sim.body.held() == thing


def place(sim: ArmSim, rng: np.random.Generator) -> tuple[SkillReturn, bool]:
    space = str(rng.choice(("table", "trash_can", *DRAWERS)))
    thing = rng.choice(sim.scatter(rng, "table", SMALL, {space: OPEN} if space in DRAWERS else {}))
    picked = sim.body.pick(thing, "table", sim.stop)
    if not picked.ok:
        return picked, False
    result = sim.body.put(space, sim.stop)
    sim.advance(0.5)
    return result, sim.lying()[thing] == space and sim.speed(thing) < 0.01 and sim.body.held() == ""


def open_(sim: ArmSim, rng: np.random.Generator) -> tuple[SkillReturn, bool]:
    drawer = str(rng.choice(DRAWERS))
    sim.scatter(rng, "table", SMALL, {})
    result = sim.body.swing(drawer, OPEN, sim.stop)
    return result, sim.shares()[drawer] > 0.8


def close(sim: ArmSim, rng: np.random.Generator) -> tuple[SkillReturn, bool]:
    drawer = str(rng.choice(DRAWERS))
    sim.scatter(rng, "table", SMALL, {drawer: rng.uniform(0.5, 1.0)})
    result = sim.body.swing(drawer, SHUT, sim.stop)
    return result, sim.shares()[drawer] < 0.05


@pytest.mark.parametrize("deed", [pytest.param(place, marks=pytest.mark.slow), close])
def test_it_does_what_it_says(atlas: ArmSim, deed: Callable[[ArmSim, np.random.Generator], tuple[SkillReturn, bool]]) -> None:
    assert count(atlas, deed, FEW) == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("deed", [pick, place, open_, close])
def test_it_does_so_from_nearly_everywhere(
    atlas: ArmSim, deed: Callable[[ArmSim, np.random.Generator], tuple[SkillReturn, bool]]
) -> None:
    failures = count(atlas, deed, MANY)
    print(f"{deed.__name__}: {MANY - len(failures)} of {MANY}", *failures, sep="\n")
    assert MANY - len(failures) >= ENOUGH


@pytest.mark.slow
def test_all_of_it_in_a_row(atlas: ArmSim) -> None:
    body, stop = atlas.body, atlas.stop
    for done in (
        body.swing("drawer_top", OPEN, stop),
        body.pick("apple", "table", stop),
        body.put("drawer_top", stop),
        body.swing("drawer_top", SHUT, stop),
        body.swing("drawer_middle", OPEN, stop),
        body.pick("vitamins", "drawer_middle", stop),
        body.put("trash_can", stop),
    ):
        assert done.ok, done.message
    lying = atlas.lying()
    assert lying["apple"] == "drawer_top" and lying["vitamins"] == "trash_can"


def test_a_hand_that_has_put_something_down_leaves_the_table_to_others(atlas: ArmSim) -> None:
    for done in (atlas.body.pick("apple", "table", atlas.stop), atlas.body.put("table", atlas.stop)):
        assert done.ok, done.message
    (side,) = atlas.body._arms
    measured = atlas.robot.joint_positions()
    off = [abs(measured[joint] - rest) for joint, rest in zip(side.config.joints, side.rest, strict=True)]
    assert max(off) < 0.1, off


@pytest.mark.slow
def test_a_hand_that_leaves_a_drawer_with_something_pulls_nothing_along(atlas: ArmSim) -> None:
    at = atlas.scenery.spaces["drawer_top"].position
    atlas.put("apple", float(at[0]), float(at[1]) + 0.06, float(at[2]))
    atlas.set_door("drawer_top", 0.8)
    atlas.advance(0.5)
    taken = atlas.body.pick("apple", "drawer_top", atlas.stop)
    assert taken.ok, taken.message
    assert abs(atlas.shares()["drawer_top"] - 0.8) < 0.1


# -- what it refuses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deed", "says"),
    [
        (lambda body, stop: body.pick("tea", "fridge", stop), "tea is not seen, and fridge is shut; open it first"),
        (lambda body, stop: body.pick("apple", "trash_can", stop), "apple is not in trash_can; it is in table"),
        (lambda body, stop: body.pick("orange", "table", stop), "orange is not there: nobody sees it"),
        (lambda body, stop: body.pick("hamburger", "sink", stop), "unreachable"),
        (lambda body, stop: body.put("table", stop), "the hand is empty"),
        (lambda body, stop: body.swing("oven", OPEN, stop), "cannot open oven: .* unreachable"),
    ],
)
def test_what_it_cannot_do_it_says_before_it_moves(atlas: ArmSim, deed: Callable[..., SkillReturn], says: str) -> None:
    atlas.hidden.add("orange")
    atlas.put("hamburger", 0.4, 2.25, 0.70)
    result = deed(atlas.body, atlas.stop)
    assert not result.ok and not result.interrupted
    assert re.search(says, result.message), result.message
    assert atlas.sent == 0


def test_a_full_hand_is_no_hand_for_doors_and_things(atlas: ArmSim) -> None:
    assert atlas.body.pick("apple", "table", atlas.stop).ok
    sent = atlas.sent
    for refused in (atlas.body.pick("orange", "table", atlas.stop), atlas.body.swing("drawer_top", OPEN, atlas.stop)):
        assert not refused.ok and refused.message == "the hand is full: it holds apple; release it first"
    refused = atlas.body.put("drawer_top", atlas.stop)
    assert not refused.ok and refused.message == "drawer_top is shut; open it first"
    assert atlas.sent == sent and atlas.body.states["hand"]() == "apple"


# -- what goes wrong on the way -----------------------------------------------------------------------------------------------


def after(sim: ArmSim, sent: int, then: Callable[[], object]) -> None:
    """Do something once so many trajectories have been played."""
    move = sim.move

    def watched(**goal: object) -> object:
        result = move(**goal)
        if sim.sent == sent:
            then()
        return result

    sim.body._move = watched


@pytest.fixture
def moved(atlas: ArmSim) -> Iterator[ArmSim]:
    yield atlas
    atlas.body._move = atlas.move


def test_what_was_moved_meanwhile_is_taken_where_it_is(moved: ArmSim) -> None:
    after(moved, 1, lambda: moved.put("apple", 0.42, 0.20, 0.735))
    assert moved.body.pick("apple", "table", moved.stop).ok
    assert moved.body.held() == "apple"


def test_a_thing_that_is_gone_has_slipped_and_the_next_one_is_taken(moved: ArmSim) -> None:
    after(moved, 2, lambda: moved.put("apple", 0.42, 0.24, 0.735))
    result = moved.body.pick("apple", "table", moved.stop)
    assert not result.ok and result.message.startswith("the hand closed on nothing: apple has slipped out")
    assert moved.body.held() == ""
    assert moved.body.pick("apple", "table", moved.stop).ok


def test_a_thing_that_falls_on_the_way_is_told(moved: ArmSim) -> None:
    assert moved.body.pick("cup", "table", moved.stop).ok
    moved.put("cup", 0.5, 0.2, 0.745)
    moved.advance(1.0)
    assert moved.body.states["hand"]() == ""
    result = moved.body.put("table", moved.stop)
    assert not result.ok and "cup has slipped out" in result.message
    assert moved.body.pick("cup", "table", moved.stop).ok


def test_a_drawer_that_is_stuck_is_told(atlas: ArmSim) -> None:
    joint = int(atlas.world.model.joint("drawer_top").dofadr[0])
    before = float(atlas.world.model.dof_frictionloss[joint])
    atlas.world.model.dof_frictionloss[joint] = 1e4
    try:
        result = atlas.body.swing("drawer_top", OPEN, atlas.stop)
    finally:
        atlas.world.model.dof_frictionloss[joint] = before
    assert not result.ok and re.match(r"drawer_top is \d% open; the hand slipped off", result.message)


def test_a_thing_nobody_sees_where_it_was_put_is_not_said_to_be_there(moved: ArmSim) -> None:
    assert moved.body.pick("apple", "table", moved.stop).ok
    after(moved, moved.sent + 4, lambda: moved.put("apple", 2.0, 0.0, 0.04))
    result = moved.body.put("table", moved.stop)
    assert not result.ok and result.message == "apple was let go, but nobody sees it in table; look where it lies"


def test_a_thing_that_nobody_sees_once_it_was_let_go_is_not_said_to_be_there(moved: ArmSim) -> None:
    def lose() -> None:
        moved.put("apple", 2.0, 0.0, 0.04)
        moved.hidden.add("apple")

    assert moved.body.pick("apple", "table", moved.stop).ok
    after(moved, moved.sent + 4, lose)
    result = moved.body.put("table", moved.stop)
    assert not result.ok and result.message == "apple was let go, but nobody sees it in table; look where it lies"


def test_a_drawer_that_was_seen_open_and_is_not_seen_now_is_not_said_to_be_open(moved: ArmSim) -> None:
    moved.set_door("drawer_top", 1.0)
    moved.body._look()
    moved.set_door("drawer_top", 0.0)
    moved.hidden.add("drawer_top_handle")
    result = moved.body.swing("drawer_top", OPEN, moved.stop)
    assert not result.ok, result


def test_a_drawer_that_moves_while_the_arm_draws_in_is_told(moved: ArmSim) -> None:
    after(moved, 7, lambda: moved.set_door("drawer_top", 0.3))
    result = moved.body.swing("drawer_top", OPEN, moved.stop)
    assert not result.ok and result.message.startswith("after the arms were drawn in: drawer_top is 30% open")


# -- stops --------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def duration_s(sim: ArmSim) -> float:
    """Return how long it takes to pick the cup, and begin anew."""
    begun = sim.world.time
    assert sim.body.pick("cup", "table", sim.stop).ok
    taken = sim.world.time - begun
    sim.reset()
    return taken


SHARES = (0.2, 0.3, 0.42, 0.5, 0.56, 0.59, 0.62, 0.67, 0.72, 0.9)
"""Parts of a pick at which it ends: on the way, before, while and after the fingers close, and lifting."""
SOON = ((0.62, "stopped"),)
EVERY = [
    pytest.param(share, end, marks=() if (share, end) in SOON else pytest.mark.slow)
    for share in SHARES
    for end in ("stopped", "lost")
]


@pytest.mark.parametrize(("share", "end"), EVERY)
def test_a_stop_throws_nothing_and_the_state_is_told(atlas: ArmSim, share: float, end: str) -> None:
    at = share * duration_s(atlas)
    if end == "stopped":
        atlas.stop.at = atlas.world.time + at
    else:
        atlas.lost_at = atlas.world.time + at
    result = atlas.body.pick("cup", "table", atlas.stop)
    assert not result.ok and result.interrupted == (end == "stopped")
    held, speed = atlas.body.held(), 0.0
    assert ("holding cup" if held else "with an empty hand") in result.message
    joints = atlas.robot.joint_positions()
    for _ in range(100):
        atlas.advance(0.02)
        speed = max(speed, atlas.speed("cup"))
    after_it = atlas.robot.joint_positions()
    assert max(abs(after_it[joint] - at) for joint, at in joints.items()) < 0.15, "it holds still"
    assert speed < 0.6, "nothing is thrown"
    lifted = atlas.data.body("cup").xpos[2] > 0.75
    assert held == "cup" or not lifted, "what is off the table is known to be held"
    atlas.stop.at = atlas.lost_at = float("inf")
    done = atlas.body.put("table", atlas.stop) if held else atlas.body.pick("cup", "table", atlas.stop)
    assert done.ok, done.message


def test_a_stop_while_it_plans_comes_at_once(atlas: ArmSim) -> None:
    atlas.stop.at = atlas.world.time
    result = atlas.body.pick("cup", "table", atlas.stop)
    assert result.interrupted and result.message == "stopped while its way was planned, with an empty hand"
    assert atlas.sent == 0


def test_a_box_near_the_hand_is_in_its_way_where_the_contacts_of_mujoco_leave_it_out(atlas: ArmSim) -> None:
    (side,), around, rng = atlas.body._arms, atlas.body.around, np.random.default_rng(0)
    atlas.body._look()
    start, at, box = atlas.body._start(side), np.array(side.arm.here().position), "green_medication"
    boxes = [body.geomadr[0] for body in map(around.model.body, ("finger_left", "finger_right", box))]
    near, told, found = 0, 0, 0
    for _ in range(600):
        around.place({box: ((at + rng.uniform(-0.08, 0.08, 3)).tolist(), rng.normal(size=4).tolist())})
        distances = [mujoco.mj_geomDistance(around.model, around.data, finger, boxes[2], 1.0, None) for finger in boxes[:2]]
        with side.arm._keeping(WAY_CLEAR_M[0]):
            if 0.0 < min(distances) < WAY_CLEAR_M[0]:
                near += 1
                found += side.arm.touched(start) == box
                told += any(around.model.body(box).id in around.model.geom_bodyid[pair] for pair in around.data.contact.geom)
    assert found == near > told


def test_a_thing_that_nobody_has_seen_is_in_nobodys_way(atlas: ArmSim) -> None:
    """The file has it somewhere, and it may be elsewhere."""
    arm, around = atlas.body._arms[0].arm, Surroundings(atlas.config.model_path(), atlas.scenery)
    assert around.unseen
    atlas.put("apple", *arm.hand(arm.lower).back(0.08).position)
    atlas.body._look()
    assert "apple" in arm.touches(arm.lower)
    apple = int(atlas.body.around.model.body("apple").id)
    atlas.body.around.unseen.add(apple)
    assert "apple" not in arm.touches(arm.lower)
    atlas.body._look()
    assert "apple" in arm.touches(arm.lower) and not atlas.body.around.unseen


def test_a_stop_while_it_looks_at_what_it_did_is_an_interruption(atlas: ArmSim) -> None:
    atlas.stop.at = atlas.world.time + 0.3
    done = atlas.body._perform(atlas.body._arms, lambda side, q: [], atlas.stop, "it is there", lambda: "it is not there")
    assert done.interrupted and done.message == "stopped with an empty hand: it is not there"


# -- what is missing ----------------------------------------------------------------------------------------------------------


def test_fingers_that_nobody_measures_are_told_before_it_moves(atlas: ArmSim, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = atlas.robot.joint_positions
    arm_only = lambda: {joint: at for joint, at in measured().items() if joint not in atlas.fingers}  # noqa: E731
    monkeypatch.setattr(atlas.body._senses, "joint_positions", arm_only)
    result = atlas.body.pick("apple", "table", atlas.stop)
    assert not result.ok and f"joint '{atlas.fingers[0]}' has not been measured" in result.message, result
    assert atlas.sent == 0


def test_a_joint_without_a_range_is_told_with_its_name(tmp_path: Path) -> None:
    picker = ROOT / "examples" / "picker" / "picker_robot"
    model = tmp_path / "picker.xml"
    model.write_text((picker / "picker.xml").read_text().replace(' range="-2.9 2.9"', ""))
    around = Surroundings(model, Scenery.read(picker / "workbench.xml"))
    with pytest.raises(ArmError, match="joint 'turn' has no range in the arm's model"):
        Arm(model, around, ("turn", "shoulder", "elbow", "wrist", "roll"), "grip")


def test_a_missing_package_is_told_with_what_to_install() -> None:
    load = "from skill_kernel.robot import RobotConfig; RobotConfig.load('atlas').load_body()"
    code = f"import sys; sys.modules['ompl'] = None; {load}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert "RobotConfigError" in done.stderr and "pip install -r requirements/arms.txt" in done.stderr
