# SPDX-License-Identifier: Apache-2.0
"""Look at a simulated world beyond the senses of its robot, for tests."""

from __future__ import annotations

import math

from ghostshell_ros.sim.stage import Stage
from ghostshell_ros.sim.world import SimWorld

FELL_AT_RAD = math.radians(50.0)


def joint_limits(world: SimWorld) -> dict[str, tuple[float, float]]:
    """Return the lower and upper limit of each controlled joint in rad, as the model has them."""
    return {name: tuple(map(float, world.model.joint(name).range)) for name in world.robot.joint_names}


def joint_targets(world: SimWorld) -> dict[str, float]:
    """Return the targets that are set, in rad by joint."""
    return dict(zip(world.robot.joint_names, map(float, world.data.ctrl), strict=True))


def tilt(world: SimWorld) -> float:
    """Return the angle between the base's z axis and the vertical in rad."""
    return math.acos(max(-1.0, min(1.0, float(world.data.xmat[world.robot.base_id][8]))))


def upright(world: SimWorld) -> bool:
    """Return whether the robot has not fallen."""
    return tilt(world) < FELL_AT_RAD


def face_size(world: SimWorld) -> tuple[int, int]:
    """Return width and height in px of the robot's display."""
    (texture,) = (i for i in range(world.model.ntex) if world.model.texture(i).name.endswith("_face"))
    return int(world.model.tex_width[texture]), int(world.model.tex_height[texture])


def arrived(stage: Stage, name: str) -> bool:
    """Return whether an actor is where it was sent."""
    return stage._movers[name].at == stage._movers[name].goal
