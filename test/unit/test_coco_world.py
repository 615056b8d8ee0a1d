# SPDX-License-Identifier: Apache-2.0
"""The simulated world: CoCo's model against its YAML and URDF, determinism, sensors, face and cameras."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest
from coco_sim import config
from sim_probe import face_size, joint_limits, joint_targets, upright

from ghostshell_ros.drivers.faces import FACES, draw
from ghostshell_ros.sim.world import ROOT, SimWorld, SimWorldError

pytestmark = pytest.mark.component


@pytest.fixture(scope="module")
def shared_world() -> SimWorld:
    return SimWorld(config().model)


@pytest.fixture
def world(shared_world: SimWorld) -> SimWorld:
    shared_world.reset()
    return shared_world


def test_model_yaml_and_urdf_agree_on_joints_and_the_yaml_stays_within_the_models_limits(world: SimWorld) -> None:
    limits = joint_limits(world)
    assert set(limits) == set(config().joints)
    assert len(limits) == 12
    urdf = ElementTree.parse(ROOT / "robots/coco/coco.urdf").getroot()
    ranges = {
        j.get("name"): (float(j.find("limit").get("lower")), float(j.find("limit").get("upper")))
        for j in urdf.findall("joint")
        if j.get("type") == "revolute"
    }
    for name, joint in config().joints.items():
        assert limits[name][0] <= joint.lower < joint.upper <= limits[name][1]
        assert ranges[name] == pytest.approx(limits[name])


def test_urdf_weighs_what_the_model_weighs(world: SimWorld) -> None:
    urdf = ElementTree.parse(ROOT / "robots/coco/coco.urdf").getroot()
    mass = sum(float(m.get("value")) for m in urdf.iter("mass"))
    assert mass == pytest.approx(float(world.model.body_subtreemass[1]), rel=1e-3)
    assert 0.6 < mass < 1.0


def test_it_stands_by_itself_and_the_imu_feels_gravity(world: SimWorld) -> None:
    world.advance(2.0)
    base = world.robot.base()
    assert upright(world)
    assert 0.05 < base.height < 0.09
    assert math.hypot(base.pose.x, base.pose.y) < 0.005
    assert world.robot.sensor("accelerometer") == pytest.approx((0.0, 0.0, 9.81), abs=0.2)
    assert world.robot.sensor("gyro") == pytest.approx((0.0, 0.0, 0.0), abs=0.05)
    assert world.robot.sensor("orientation") == pytest.approx(world.robot.base().orientation, abs=1e-3)


def test_the_same_targets_give_the_same_world_to_the_last_bit() -> None:
    def trace() -> bytes:
        world = SimWorld(config().model)
        for k in range(50):
            world.robot.set_joint_targets({"leg1_knee": 0.5 * math.sin(k / 5), "leg4_coxa": 0.4 * math.cos(k / 7)})
            world.advance(0.02)
        return world.data.qpos.tobytes()

    assert trace() == trace()


def test_time_advances_by_whole_steps(world: SimWorld) -> None:
    world.advance(0.1)
    assert world.time == pytest.approx(0.1)
    world.step(5)
    assert world.time == pytest.approx(0.1 + 5 * world.timestep)


def test_a_bad_target_is_refused_as_a_whole(world: SimWorld) -> None:
    before = joint_targets(world)
    with pytest.raises(SimWorldError, match="no joint 'leg9_knee'"):
        world.robot.set_joint_targets({"leg1_knee": 0.3, "leg9_knee": 0.1})
    with pytest.raises(SimWorldError, match="not a finite number"):
        world.robot.set_joint_targets({"leg1_knee": 0.3, "leg2_knee": float("nan")})
    assert joint_targets(world) == before


def test_a_wild_target_does_not_take_a_joint_past_its_limit(world: SimWorld) -> None:
    world.robot.set_joint_targets({"leg1_coxa": 50.0, "head_yaw": -50.0})
    world.advance(1.0)
    assert world.robot.joint_positions()["leg1_coxa"] < joint_limits(world)["leg1_coxa"][1] + 0.03
    assert world.robot.joint_positions()["head_yaw"] > joint_limits(world)["head_yaw"][0] - 0.03


def test_a_missing_or_broken_model_is_named(tmp_path) -> None:
    with pytest.raises(SimWorldError, match="there is no model"):
        SimWorld("robots/coco/nothing.xml")
    broken = tmp_path / "broken.xml"
    broken.write_text("<mujoco><worldbody><geom/></worldbody></mujoco>")
    with pytest.raises(SimWorldError, match="broken.xml"):
        SimWorld(broken)
    bare = tmp_path / "bare.xml"
    bare.write_text("<mujoco><worldbody/></mujoco>")
    with pytest.raises(SimWorldError, match="base_link"):
        SimWorld(bare)


def test_the_display_has_the_size_of_a_face(world: SimWorld) -> None:
    assert face_size(world) == (320, 240)


def test_the_film_shows_the_face_and_the_cameras_differ(world: SimWorld) -> None:
    try:
        world.set_face(draw("happy"))
        happy = world.render("film", 320, 240)
    except SimWorldError as error:
        pytest.skip(str(error))
    world.set_face(draw("angry"))
    angry = world.render("film", 320, 240)
    changed = np.abs(happy.astype(int) - angry.astype(int)).max(axis=2) > 40
    rows, columns = np.nonzero(changed)
    assert 20 < changed.sum() < changed.size / 10
    assert np.ptp(rows) < 120 and np.ptp(columns) < 120
    assert happy.shape == (240, 320, 3) and happy.dtype == np.uint8
    ahead = world.render("head_camera", 320, 240)
    assert np.abs(ahead.astype(int) - angry.astype(int)).mean() > 5
    with pytest.raises(SimWorldError, match="head_camera"):
        world.render("nowhere")


def test_a_wink_of_the_left_eye_is_on_the_left_of_the_robot(world: SimWorld) -> None:
    """Seen from the front, the robot's left is on the right of the picture."""
    try:
        world.set_face(draw("wink_right"))
        right = world.render("film_front", 320, 240).astype(int)
    except SimWorldError as error:
        pytest.skip(str(error))
    world.set_face(draw("smile"))
    open_ = world.render("film_front", 320, 240).astype(int)
    world.set_face(draw("wink_left"))
    left = world.render("film_front", 320, 240).astype(int)
    brightness = [picture.sum(axis=2) for picture in (open_, left, right)]
    loss_left = np.clip(brightness[2] - brightness[1], 0, None)
    loss_right = np.clip(brightness[1] - brightness[2], 0, None)
    centre = [(np.arange(320) * loss.sum(axis=0)).sum() / loss.sum() for loss in (loss_left, loss_right)]
    assert centre[0] > centre[1] + 3


def test_every_face_can_be_shown(world: SimWorld) -> None:
    for name in FACES:
        world.set_face(draw(name))
