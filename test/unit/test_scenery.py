# SPDX-License-Identifier: Apache-2.0
"""What stands around an arm, read from an MJCF without MuJoCo, and what is seen of it in the last seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

from ghostshell_ros.arms.scenery import HANDLE, SPACE, Scenery, SceneryError
from ghostshell_ros.perception.sights import SEEN_S, Sights

pytestmark = pytest.mark.component

ROOT = Path(__file__).resolve().parents[2]
KITCHEN = Scenery.read(ROOT / "ghostshell_ros/sim/worlds/kitchen.xml")
MODEL = mujoco.MjModel.from_xml_path(KITCHEN.file)
TURNED = """<mujoco><worldbody><body pos="1 2 0" quat="0 0 0 2">
  <joint name="door" axis="0 0 1" range="0 90"/><geom size="1"/><site name="door_handle" pos="1 0 0"/>
  <site name="door_space" size="1 1 1"/></body></worldbody></mujoco>"""


def at_start() -> mujoco.MjData:
    data = mujoco.MjData(MODEL)
    mujoco.mj_kinematics(MODEL, data)
    return data


def test_spaces_and_handles_are_where_mujoco_has_them() -> None:
    data = at_start()
    for name, space in KITCHEN.spaces.items():
        site = data.site(name + SPACE)
        assert np.allclose(space.position, site.xpos) and np.allclose(space.turn.ravel(), site.xmat)
    for name, door in KITCHEN.doors.items():
        assert np.allclose(door.handle, data.site(name + HANDLE).xpos)
    for name, point in KITCHEN.points.items():
        assert np.allclose((point.x, point.y), data.site(name).xpos[:2])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.85, 1.0])
def test_a_door_is_as_far_open_as_its_handle_is_seen(share: float) -> None:
    data = at_start()
    for name, door in KITCHEN.doors.items():
        data.joint(name).qpos[0] = share * door.most
    mujoco.mj_kinematics(MODEL, data)
    seen = {name + HANDLE: data.site(name + HANDLE).xpos for name in KITCHEN.doors}
    assert KITCHEN.shares_open(seen) == pytest.approx(dict.fromkeys(KITCHEN.doors, share), abs=1e-6)
    assert set(KITCHEN.doors_seen(seen).values()) == {"shut" if share == 0.0 else "ajar" if share == 0.3 else "open"}


def test_what_lies_in_a_drawer_goes_along_with_it() -> None:
    data = at_start()
    drawer = KITCHEN.doors["drawer_middle"]
    vitamins = data.body("vitamins").xpos
    opened = {
        "vitamins": vitamins + drawer.most * drawer.axis,
        "drawer_middle" + HANDLE: drawer.handle + drawer.most * drawer.axis,
    }
    assert KITCHEN.things_seen({"vitamins": vitamins}) == {"vitamins": "drawer_middle"}
    assert KITCHEN.things_seen(opened) == {"vitamins": "drawer_middle"}
    assert KITCHEN.things_seen({"vitamins": opened["vitamins"]}) == {"vitamins": ""}
    assert KITCHEN.things_seen({"apple": (0.0, 3.0, 0.0), "ball": (0.0, 0.0, 0.0)}) == {"apple": ""}


def test_the_compilers_degrees_and_a_turned_body_count(tmp_path: Path) -> None:
    file = tmp_path / "turned.xml"
    file.write_text(TURNED, encoding="utf-8")
    door = Scenery.read(file).doors["door"]
    assert door.handle == pytest.approx((0.0, 2.0, 0.0)) and door.most == pytest.approx(np.pi / 2)
    assert door.share_open((1.0 - np.cos(0.5), 2.0 - np.sin(0.5), 0.0)) == pytest.approx(0.5 / door.most)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (('size="1 1 1"', ""), "'door_space' has no size"),
        (('size="1 1 1"', 'type="cylinder" size="1"'), "'door_space' has a size of 1 numbers; give 2"),
        (('size="1 1 1"', 'size="1 1"'), "'door_space' has a size of 2 numbers; give 3"),
        (('range="0 90"', ""), "'door' has no range"),
        (('range="0 90"', 'range="90"'), "'door' has a range of 1 numbers; give 2"),
        (('range="0 90"', 'range="-90 0"'), "door 'door' opens to 0; its range ends above 0, so turn its axis round"),
        (('quat="0 0 0 2"', 'euler="0 0 1"'), "write quat or xyaxes"),
        (("</worldbody>", ""), "cannot be read"),
    ],
)
def test_what_a_file_lacks_is_said(tmp_path: Path, wrong: tuple[str, str], says: str) -> None:
    file = tmp_path / "wrong.xml"
    file.write_text(TURNED.replace(*wrong), encoding="utf-8")
    with pytest.raises(SceneryError, match=says):
        Scenery.read(file)


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(SceneryError, match="drawer_top"):
        KITCHEN.door("window")
    with pytest.raises(SceneryError, match="trash_can"):
        KITCHEN.space("cellar")


def test_the_skills_are_read_without_what_arms_need() -> None:
    heavy = ("mujoco", "mink", "ompl", "ruckig")
    code = f"import sys, ghostshell_ros.robots.atlas.skills; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_what_was_not_seen_for_some_seconds_is_not_told() -> None:
    sights, here = Sights(), ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))
    sights.take([("cup", here), ("tea", here)], 0.0)
    sights.take([("tea", here)], 1.0)
    assert set(sights.seen(SEEN_S)) == {"cup", "tea"}
    assert set(sights.seen(SEEN_S + 0.5)) == {"tea"}
    assert not sights.seen(SEEN_S + 1.5)
