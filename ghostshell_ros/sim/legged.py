# SPDX-License-Identifier: Apache-2.0
"""Puts the gait controller between a simulated four-legged robot's sensors and its servos."""

from __future__ import annotations

import numpy as np

from ghostshell_ros.sim.gait import JOINTS, Gait, GaitConfig, Measurement
from ghostshell_ros.sim.world import SimWorld, SimWorldError


class Legged:
    """Walks the robot of a world; `gait` takes the wishes. Attached to the world for good."""

    def __init__(self, world: SimWorld, config: GaitConfig | None = None) -> None:
        """Prepare the gait. Raises SimWorldError when the robot has other joints than the gait controls."""
        missing = sorted(set(JOINTS) - set(world.joint_names))
        if missing:
            known = ", ".join(world.joint_names)
            raise SimWorldError(f"the gait needs the joint '{missing[0]}', which the model lacks; it has {known}")
        self.gait = Gait(config)
        self._world = world
        world.attach(self._update, self._reset)

    def _reset(self) -> None:
        self.gait.reset()
        joints = dict(zip(JOINTS, self.gait.standing().tolist(), strict=True))
        self._world.place(joints, self.gait.standing_height() + 0.005)

    def _update(self, dt: float) -> None:
        world = self._world
        imu = world.imu()
        measured = Measurement(
            np.array(imu.orientation), np.array(imu.angular_velocity), np.array(world.base().linear_velocity)
        )
        world.set_joint_targets(dict(zip(JOINTS, self.gait.update(dt, measured).tolist(), strict=True)))
