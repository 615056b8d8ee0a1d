# SPDX-License-Identifier: Apache-2.0
"""The URDF of a robot says the same as the MuJoCo model beside it."""

from __future__ import annotations

import random
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest
from sim_probe import joint_limits

from ghostshell_ros.sim.world import SimWorld
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
    roll, pitch, yaw = numbers(found.attrib.get("rpy", "0 0 0"))
    x, y, z = np.eye(3)
    return numbers(found.attrib["xyz"]), turn(z, yaw) @ turn(y, pitch) @ turn(x, roll)


def slides(model: mujoco.MjModel, joint: str) -> bool:
    return bool(model.joint(joint).type[0] == mujoco.mjtJoint.mjJNT_SLIDE)


@pytest.mark.parametrize("name", ["coco", "kalos", "atlas", "hebe"])
def test_each_link_is_where_the_model_has_it_for_any_angles(name: str) -> None:
    config = RobotConfig.load(name)
    world = SimWorld(config.model_path(), world="")
    model, data, base = world.model, world.data, world.robot.base_id
    robot = ElementTree.parse(config.model_path().with_suffix(".urdf")).getroot()
    joints = {joint.attrib["name"]: joint for joint in robot.findall("joint") if joint.attrib["type"] != "fixed"}
    assert set(joints) == set(world.robot.joint_names)
    rng = random.Random(3)
    angles = {}
    for joint, (low, high) in joint_limits(world).items():
        limit = joints[joint].find("limit")
        assert limit is not None and float(limit.attrib["lower"]) == pytest.approx(low, abs=1e-5)
        assert float(limit.attrib["upper"]) == pytest.approx(high, abs=1e-5)
        assert joints[joint].attrib["type"] == ("prismatic" if slides(model, joint) else "revolute")
        angles[joint] = rng.uniform(low, high)
    world.robot.place(angles, 0.4)
    places = {"base_link": (data.xpos[base], data.xmat[base].reshape(3, 3))}
    for joint, element in joints.items():
        parent, child, axis = (element.find(tag) for tag in ("parent", "child", "axis"))
        assert parent is not None and child is not None and axis is not None
        (at, turned), (moved, rotated) = places[parent.attrib["link"]], origin(element)
        way, link = numbers(axis.attrib["xyz"]), child.attrib["link"]
        rotation = turned @ rotated @ (np.eye(3) if slides(model, joint) else turn(way, angles[joint]))
        slid = rotated @ way * angles[joint] if slides(model, joint) else np.zeros(3)
        places[link] = at + turned @ (moved + slid), rotation
        assert places[link][0] == pytest.approx(data.body(link).xpos, abs=1e-4)
        assert rotation == pytest.approx(data.body(link).xmat.reshape(3, 3), abs=1e-4)
    mass = sum(float(part.attrib["value"]) for part in robot.iter("mass"))
    assert mass == pytest.approx(model.body_subtreemass[base], rel=1e-3)
