# SPDX-License-Identifier: Apache-2.0
"""The URDF of a robot says the same as the MuJoCo model it was made from."""

from __future__ import annotations

import random
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest
from sim_probe import joint_limits

from ghostshell_ros.sim.urdf import robot_bodies, urdf
from ghostshell_ros.sim.world import SimWorld, SimWorldError
from skill_kernel.robot import RobotConfig


def numbers(text: str) -> np.ndarray:
    return np.array([float(part) for part in text.split()])


def turn(axis: np.ndarray, angle: float) -> np.ndarray:
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def origin(joint: ElementTree.Element) -> tuple[np.ndarray, np.ndarray]:
    found = joint.find("origin")
    assert found is not None
    roll, pitch, yaw = numbers(found.attrib["rpy"])
    x, y, z = np.eye(3)
    return numbers(found.attrib["xyz"]), turn(z, yaw) @ turn(y, pitch) @ turn(x, roll)


@pytest.mark.parametrize("name", ["coco", "kalos"])
def test_each_link_is_where_the_model_has_it_for_any_angles(name: str) -> None:
    config = RobotConfig.load(name)
    world = SimWorld(config.model_path(), world="")
    model, data, base = world.model, world.data, world.base_id
    robot = ElementTree.fromstring(urdf(model, base, name))
    joints = {joint.attrib["name"]: joint for joint in robot.findall("joint")}
    assert set(joints) == set(world.joint_names) and len(robot.findall("link")) == len(joints) + 1
    rng = random.Random(3)
    angles = {}
    for joint, (low, high) in joint_limits(world).items():
        limit = joints[joint].find("limit")
        assert limit is not None and float(limit.attrib["lower"]) == pytest.approx(low, abs=1e-5)
        assert float(limit.attrib["upper"]) == pytest.approx(high, abs=1e-5) and joints[joint].attrib["type"] == "revolute"
        angles[joint] = rng.uniform(low, high)
    world.place(angles, 0.4)
    places = {"base_link": (data.xpos[base], data.xmat[base].reshape(3, 3))}
    for joint, element in joints.items():
        parent, child, axis = (element.find(tag) for tag in ("parent", "child", "axis"))
        assert parent is not None and child is not None and axis is not None
        (at, turned), (moved, rotated) = places[parent.attrib["link"]], origin(element)
        rotation = turned @ rotated @ turn(numbers(axis.attrib["xyz"]), angles[joint])
        link = child.attrib["link"]
        places[link] = at + turned @ moved, rotation
        assert places[link][0] == pytest.approx(data.body(link).xpos, abs=1e-4)
        assert rotation == pytest.approx(data.body(link).xmat.reshape(3, 3), abs=1e-4)
    mass = sum(float(part.attrib["value"]) for part in robot.iter("mass"))
    assert mass == pytest.approx(sum(model.body_mass[body] for body in robot_bodies(model, base)), rel=1e-4)


def test_its_shapes_have_the_sizes_of_the_model() -> None:
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body name="base_link"><freejoint/>
        <geom type="capsule" size="0.1 0.2" pos="1 0 0" euler="0 90 0" rgba="1 0 0 1"/>
        <geom type="box" size="0.1 0.2 0.3" group="3" mass="0"/>
        <body name="wheel"><joint name="turn" axis="0 1 0"/><geom type="sphere" size="0.05" contype="0" conaffinity="0"/></body>
        </body></worldbody></mujoco>"""
    )
    robot = ElementTree.fromstring(urdf(model, 1, "cart"))
    base, wheel = robot.findall("link")
    cylinder, *caps = base.findall("visual")
    assert [part.attrib for part in cylinder.iter("cylinder")] == [{"radius": "0.1", "length": "0.4"}]
    assert sorted(origin(cap)[0][0] for cap in caps) == pytest.approx([0.8, 1.2])
    assert [part.attrib["rgba"] for part in cylinder.iter("color")] == ["1 0 0 1"]
    assert [part.attrib["size"] for part in base.iter("box")] == ["0.2 0.4 0.6"], "what is only felt is not seen"
    assert not wheel.findall("collision") and robot.find("joint[@name='turn']").attrib["type"] == "continuous"


def test_a_joint_that_no_link_can_have_is_refused_with_its_body() -> None:
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body name="base_link"><freejoint/><geom size="0.1"/>
        <body name="arm"><joint pos="0 0 0.1"/><geom size="0.1"/></body></body></worldbody></mujoco>"""
    )
    with pytest.raises(SimWorldError, match="'arm'"):
        urdf(model, 1, "bent")
