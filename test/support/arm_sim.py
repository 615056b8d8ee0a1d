# SPDX-License-Identifier: Apache-2.0
"""A robot with arms in the simulated kitchen without ROS: its body, a driver that plays what it sends, random starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

import mujoco
import numpy as np

from ghostshell_ros.arms.body import ArmBody
from ghostshell_ros.arms.scenery import HANDLE, SHUT, Scenery
from ghostshell_ros.drivers.trajectory import MotionCode, Trajectory
from ghostshell_ros.sim.world import SimWorld
from skill_kernel import SkillReturn
from skill_kernel.codes import CallCode
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import DriverResult, StopEvent

SET_POINT_S, SETTLE_S = 0.02, 0.5
APART_M = 0.09
"""Distance between the middles of two things that are put down at random."""
REACHED = 0.9
"""Random joints are drawn from this part of their range."""
FORCE_N = 25.0
"""Largest force of a finger, as the robots' models bound it."""
Sim = TypeVar("Sim", bound="ArmSim")
Seen = dict[str, tuple[list[float], list[float]]]


class Stop:
    """A stop event on the simulated clock, which is set from `at` on."""

    def __init__(self, world: SimWorld) -> None:
        self._world, self.at = world, math.inf

    def is_set(self) -> bool:
        return self._world.time >= self.at

    def wait(self, timeout: float | None = None) -> bool:
        self._world.advance(timeout or 0.1)
        return self.is_set()


class ArmSim:
    """Play what a body sends as the joints' driver and the gate do: straight lines between set-points, the last one held."""

    def __init__(self, name: str, body: type[ArmBody] = ArmBody, **actions: Any) -> None:
        self.config = RobotConfig.load(name)
        arms = list(self.config.arms.values())
        surroundings = self.config.file(arms[0].surroundings, "surroundings")
        self.world = SimWorld(self.config.model_path(), world=str(surroundings))
        self.robot, self.data = self.world.robot, self.world.data
        self.robot.home = {joint: config.rest for joint, config in self.config.joints.items()}
        self.world.reset()
        self._start = self.world.state()
        self.stop = Stop(self.world)
        self.fingers = [finger for arm in arms for finger in arm.fingers]
        self.scenery = Scenery.read(surroundings)
        self.most_force, self.most_beyond = 0.0, 0.0
        """Largest force of a finger [N], and how far a joint was beyond its range [rad or m]."""
        here = lambda: self.robot.base().pose  # noqa: E731
        senses: Any = SimpleNamespace(joint_positions=self.robot.joint_positions, things=self.seen, odometry=here, pose=here)
        self.body = body(robot=self.config, move_joints=self.move, senses=senses, **actions)
        self.reset()

    def reset(self) -> None:
        """Begin anew as at the start, with empty hands and nothing known."""
        self.world.set_state(self._start)
        self.sent = 0
        """Trajectories that were played."""
        self.stop.at = self.lost_at = math.inf
        """Times at which a stop comes and at which the driver dies [s]."""
        self.hidden = set[str]()
        """Things that nobody sees, beside those behind shut doors."""
        self.body.around.place(self._things())
        self.body._sent.clear()
        for side in self.body._arms:
            side.manipulator.take("")

    # -- what the body uses ---------------------------------------------------------------------------------------------

    def move(self, *, trajectory: Mapping[str, Any], stop: StopEvent, goal_tolerance: float = 0.0, **_: Any) -> DriverResult:
        """Play a trajectory, which must keep to the joints' ranges and speeds."""
        self.sent += 1
        joints, points = trajectory["joint_names"], trajectory["points"]
        start = [float(self.data.ctrl[self.world.model.actuator(joint).id]) for joint in joints]
        times, rows = [0.0, *(p["time_from_start"] for p in points)], [start, *(p["positions"] for p in points)]
        played = Trajectory.checked(self.config.joints, joints, times, rows)
        played.check_limits(self.config.joints)
        begun = self.world.time
        while (done := self.world.time - begun) < played.duration_s:
            if stop.is_set():
                return DriverResult(False, cancelled=True, values={"completed_s": done})
            if self.world.time >= self.lost_at:
                code, why = int(CallCode.DRIVER_LOST), "the driver is gone"
                return DriverResult(False, code, why, values={"completed_s": done})
            wished = played.sample(done + SET_POINT_S, start)
            self.robot.set_joint_targets(dict(zip(joints, wished, strict=True)))
            self.advance(SET_POINT_S)
        for _ in range(round(SETTLE_S / SET_POINT_S)):
            at = self.robot.joint_positions()
            if not goal_tolerance or all(abs(at[j] - wish) <= goal_tolerance for j, wish in zip(joints, rows[-1], strict=True)):
                return DriverResult(True)
            self.advance(SET_POINT_S)
        return DriverResult(False, int(MotionCode.NOT_REACHED), "a joint is not at its goal: is it blocked?")

    def seen(self) -> Seen:
        """Return what a camera sees that looks into all that is open, and all handles."""
        handles: Seen = {
            name + HANDLE: (self.data.site(name + HANDLE).xpos.tolist(), [1.0, 0.0, 0.0, 0.0]) for name in self.scenery.doors
        }
        things = self._things()
        shut = {name for name, share in self.shares().items() if share <= SHUT}
        hidden = {name for name, space in self.lying().items() if space in shut} | self.hidden
        return {name: pose for name, pose in {**handles, **things}.items() if name not in hidden}

    def _things(self) -> Seen:
        return {n: (self.data.body(n).xpos.tolist(), self.data.body(n).xquat.tolist()) for n in self.scenery.things}

    # -- what is true ---------------------------------------------------------------------------------------------------

    def shares(self) -> dict[str, float]:
        """Return how far the doors are open."""
        return {name: float(self.data.joint(name).qpos[0]) / door.most for name, door in self.scenery.doors.items()}

    def lying(self) -> dict[str, str]:
        """Return the space of each thing."""
        shares = self.shares()
        return {name: self.scenery.space_of(self.data.body(name).xpos, shares) for name in self.scenery.things}

    def speed(self, thing: str) -> float:
        """Return how fast a thing is [m/s]."""
        return float(np.linalg.norm(self.data.qvel[self._dof(thing) : self._dof(thing) + 3]))

    def _dof(self, thing: str) -> int:
        return int(self.world.model.jnt_dofadr[self.world.model.body(thing).jntadr[0]])

    def advance(self, seconds: float) -> None:
        """Let time pass, and note the largest force and the joint furthest beyond its range."""
        self.world.advance(seconds)
        efforts = self.robot.joint_efforts()
        self.most_force = max(self.most_force, *(abs(efforts[finger]) for finger in self.fingers))
        for joint, at in self.robot.joint_positions().items():
            limits = self.config.joints[joint]
            self.most_beyond = max(self.most_beyond, at - limits.upper, limits.lower - at)

    # -- how things begin -----------------------------------------------------------------------------------------------

    def put(self, thing: str, x: float, y: float, z: float, yaw: float = 0.0) -> None:
        """Put a thing elsewhere at once, at rest."""
        adr = int(self.world.model.jnt_qposadr[self.world.model.body(thing).jntadr[0]])
        self.data.qpos[adr : adr + 7] = [x, y, z, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]
        self.data.qvel[self._dof(thing) : self._dof(thing) + 6] = 0.0
        mujoco.mj_forward(self.world.model, self.data)

    def set_door(self, door: str, share: float) -> None:
        """Bring a door to a share of its way at once, with what lies in a drawer."""
        inside = [thing for thing, space in self.lying().items() if space == door and self.scenery.spaces[space].moves]
        known = self.scenery.doors[door]
        way = share * known.most - float(self.data.joint(door).qpos[0])
        self.data.joint(door).qpos[0] += way
        for thing in inside:
            self.put(thing, *(self.data.body(thing).xpos + known.axis * way))
        mujoco.mj_forward(self.world.model, self.data)

    def scatter(
        self, rng: np.random.Generator, space: str, things: tuple[str, ...], doors: Mapping[str, float], arms: bool = True
    ) -> list[str]:
        """Begin anew with doors so far open, things at random in a space and the arms anywhere they touch nothing, or at rest.

        Returns the things for which there was room; the others are out of the way.
        """
        self.reset()
        for door, share in doors.items():
            self.set_door(door, share)
        at, spots = self.data.site(f"{space}_space").xpos.copy(), list[tuple[float, float]]()
        half, placed = self.scenery.spaces[space].half, list[str]()
        for k, thing in enumerate(things):
            self.put(thing, 2.0, -2.0 + 0.2 * k, 0.1)
        for thing in things:
            for _ in range(50):
                x, y = at[:2] + rng.uniform(-half[:2], half[:2])
                if all(math.hypot(x - a, y - b) > APART_M for a, b in spots):
                    height = self.body.around.half_size(thing)[2] + 0.002
                    self.put(thing, x, y, at[2] - half[2] + height, rng.uniform(-math.pi, math.pi))
                    spots.append((x, y))
                    placed.append(thing)
                    break
        self.world.advance(0.5)
        self.body._look()
        for side in self.body._arms if arms else ():
            drawn = (rng.uniform(side.arm.lower * REACHED, side.arm.upper * REACHED) for _ in range(200))
            joints = next((q for q in drawn if not side.arm.touched(q)), side.rest)
            side.arm.be_at(joints)
            self.robot.place(dict(zip(side.config.joints, map(float, joints), strict=True)))
        self.world.advance(0.3)
        lying = self.lying()
        return [thing for thing in placed if lying[thing] == space]


def count(sim: Sim, deed: Callable[[Sim, np.random.Generator], tuple[SkillReturn, bool]], times: int) -> list[str]:
    """Return why it failed, for each time that it did. What it says is true each time, and it keeps all limits."""
    failures = []
    sim.most_force = sim.most_beyond = 0.0
    for seed in range(times):
        result, true = deed(sim, np.random.default_rng(seed))
        assert result.ok == true or not result.ok, f"seed {seed}: it says '{result.message}', which is not so"
        if not result.ok:
            failures.append(f"seed {seed}: {result.message}")
    assert sim.most_force <= FORCE_N + 1e-6
    assert sim.most_beyond < 0.01
    return failures
