# SPDX-License-Identifier: Apache-2.0
"""The base gate believes a robot that slips, is pushed or stuck, and halts on sensors and motion that cannot be true."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from flat_world import BEAMS, FlatWorld, box
from hypothesis import given, settings
from hypothesis import strategies as st

from skill_kernel.robot import BaseConfig, RobotConfig
from skill_kernel.safety.base_gate import STILL, BaseGate, Source, Velocity
from skill_kernel.safety.obstacles import scan_points
from skill_kernel.safety.plausibility import AHEAD_S
from skill_kernel.skills.drivers import Scan

pytestmark = pytest.mark.component

BASE = BaseConfig(
    max_forward=0.8,
    max_backward=0.5,
    max_lateral=0.3,
    max_turn=1.5,
    max_acceleration=1.5,
    max_turn_acceleration=5.0,
    cruise_linear=0.4,
    cruise_turn=0.8,
    radius=0.3,
)
TICK_S = 0.02
CLOCK_S = 1e9
"""The robot's clock at the start of a test."""

Pose = tuple[float, float, float]


@dataclass
class Body:
    """A base in a room of 7 by 5 m with a table: it obeys with a lag, more or less far, and measures as real sensors do."""

    slip: float = 1.0
    lag_s: float = 0.1
    noise_m: float = 0.002
    odometry_every: int = 1
    scan_every: int = 5
    lidar: bool = True
    blocked: bool = False
    pushed: Velocity = STILL
    commander: Velocity | None = None
    """Somebody whom the base obeys in the gate's place."""
    odometry: Callable[[Pose], Pose] = lambda pose: pose
    stamp: Callable[[float], float] = lambda now: CLOCK_S + now
    scans: Callable[[np.ndarray], np.ndarray] = lambda ranges: ranges
    obstacles: bool = True
    world: FlatWorld = field(default_factory=lambda: FlatWorld([*box(0, 0, 7, 5), *box(2.2, 1.2, 1.0, 0.6)], radius=0.3))
    gate: BaseGate = field(default_factory=lambda: BaseGate(BASE, source_of=lambda sensor: f" (published by /{sensor}_node)"))
    ticks: int = 0
    moves: Velocity = STILL
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))

    @property
    def now(self) -> float:
        return self.ticks * TICK_S

    def run(self, seconds: float, wish: Velocity | None = None) -> float:
        """Let time pass under a wish; gives how long it took until the gate halted, or all of it."""
        since = self.now
        while self.now - since < seconds - 1e-9 and not self.gate.halted:
            self.ticks += 1
            if wish is not None:
                self.gate.command(self.now, Source.SKILL, wish)
            ordered = self.gate.tick(self.now)
            self._move(self.commander or ordered)
            if self.ticks % self.odometry_every == 0:
                self._measure_pose()
            if self.lidar and self.ticks % self.scan_every == 0:
                self._measure_ranges()
        return self.now - since

    def _move(self, obeyed: Velocity) -> None:
        share = min(TICK_S / self.lag_s, 1.0)
        mixed = [a + share * (self.slip * b - a) for a, b in zip(_parts(self.moves), _parts(obeyed), strict=True)]
        self.moves = Velocity(*mixed)
        place = self.world.x, self.world.y
        if not self.blocked:
            total = [a + b for a, b in zip(_parts(self.moves), _parts(self.pushed), strict=True)]
            self.world.step(*total, TICK_S)
        if self.world.clearance() <= 0.0:
            self.world.x, self.world.y = place  # against a wall: it may still turn

    def _measure_pose(self) -> None:
        now, world, noise = self.now, self.world, self.random.normal(0.0, self.noise_m, 3)
        x, y, yaw = self.odometry((world.x + noise[0], world.y + noise[1], world.yaw + noise[2]))
        if self.gate.believes(now, "odom", self.stamp(now), CLOCK_S + now):
            self.gate.odometry(now, x, y, yaw)

    def _measure_ranges(self) -> None:
        ranges = self.scans(self.world.scan() + self.random.normal(0.0, 2 * self.noise_m, BEAMS))
        seen = scan_points(Scan(-math.pi, math.tau / BEAMS, ranges))
        if self.gate.believes(self.now, "scan", self.stamp(self.now), CLOCK_S + self.now):
            self.gate.scan(self.now, seen if self.obstacles else np.empty((0, 2)), ranges)


def _parts(velocity: Velocity) -> tuple[float, float, float]:
    return velocity.forward, velocity.lateral, velocity.turn


WALK, TURN, ASIDE = Velocity(0.6), Velocity(turn=1.2), Velocity(0.2, 0.25, 0.4)
wishes = st.sampled_from([None, STILL, WALK, Velocity(-0.5), TURN, Velocity(turn=-1.5), ASIDE, Velocity(0.05, 0.0, 0.1)])
bodies = st.builds(
    Body,
    slip=st.floats(0.2, 1.4),
    lag_s=st.floats(0.02, 0.3),
    noise_m=st.sampled_from([0.0, 0.002, 0.005]),
    odometry_every=st.sampled_from([1, 2, 10]),
    scan_every=st.sampled_from([2, 5, 20]),
    obstacles=st.booleans(),
)


@settings(max_examples=25)
@given(body=bodies, parts=st.lists(st.tuples(st.floats(0.2, 2.5), wishes, st.booleans()), min_size=1, max_size=6))
def test_no_walk_in_a_room_is_taken_for_a_fault(body: Body, parts: list[tuple[float, Velocity | None, bool]]) -> None:
    """Whatever it slips, into walls and stuck, at five odometries a second or fifty."""
    for seconds, wish, blocked in parts:
        body.blocked = blocked
        body.run(seconds, wish)
        assert not body.gate.halted, body.gate.halt_cause


@settings(max_examples=15)
@given(
    body=bodies,
    pushes=st.lists(st.tuples(st.floats(0.1, 1.0), st.floats(-0.8, 0.8), st.floats(-0.8, 0.8), st.floats(-2, 2)), max_size=4),
    wish=wishes,
)
def test_a_push_is_taken_for_a_push(body: Body, pushes: list[tuple[float, float, float, float]], wish: Velocity | None) -> None:
    body.run(1.0, wish)
    for seconds, forward, lateral, turn in pushes:
        body.pushed = Velocity(forward, lateral, turn)
        body.run(seconds, wish)
        body.pushed = STILL
        body.run(1.5, wish)
        assert not body.gate.halted, body.gate.halt_cause


@settings(max_examples=15)
@given(body=bodies, place=st.tuples(st.floats(-3, 1), st.floats(-2, 2), st.floats(-3, 3)), silent_s=st.sampled_from([0.0, 0.5]))
def test_a_robot_at_rest_or_about_to_be_may_be_put_elsewhere(body: Body, place: Pose, silent_s: float) -> None:
    """As the simulator does when it is reset, or started anew after a short silence."""
    body.run(1.0, WALK)
    body.run(0.04, STILL)
    body.ticks += round(silent_s / TICK_S)
    body.world.x, body.world.y, body.world.yaw = place
    body.run(1.0)
    body.run(2.0, ASIDE)
    assert not body.gate.halted, body.gate.halt_cause


def test_changes_of_posture_are_no_motion_past_the_gate() -> None:
    body = Body()
    for _ in range(10):
        body.pushed = Velocity(turn=0.9)
        body.run(0.4)
        body.gate.plausibility.excuse()
    assert not body.gate.halted, body.gate.halt_cause


def _frozen(body: Body) -> None:
    here = body.world.x, body.world.y, body.world.yaw
    body.odometry = lambda _: here


def _frozen_blind(body: Body) -> None:
    body.gate = BaseGate(BASE, source_of=lambda sensor: f" (published by /{sensor}_node)")
    body.lidar = False
    _frozen(body)


def _frozen_scan(body: Body) -> None:
    seen = body.world.scan()
    body.scans = lambda _: seen


def _jumping(body: Body) -> None:
    body.odometry = lambda pose: (pose[0] + 1.5, pose[1], pose[2])


def _turned(body: Body) -> None:
    body.odometry = lambda pose: (pose[0], pose[1], pose[2] + 2.0)


def _future(body: Body) -> None:
    body.stamp = lambda now: CLOCK_S + now + AHEAD_S + 0.1


def _stale(body: Body) -> None:
    stamp = CLOCK_S + body.now
    body.stamp = lambda _: stamp


def _commanded(body: Body) -> None:
    body.commander = Velocity(-0.7)


@pytest.mark.parametrize(
    ("fault", "within_s", "said"),
    [
        (_frozen, 2.5, "odom is frozen"),
        (_frozen_blind, 5.0, "odom is frozen"),
        (_frozen_scan, 2.0, "scan is frozen"),
        (_jumping, 2.0, "odom jumped by 1.5 m"),
        (_turned, 2.0, "odom jumped by 0.0 m and 11"),
        (_future, 1.1, "is stamped 0.6 s in the future"),
        (_stale, 1.7, "repeats one measurement"),
        (_commanded, 3.1, "motion that the gate did not order"),
    ],
)
@pytest.mark.parametrize("wish", [Velocity(0.3), Velocity(0.25, 0.0, 0.3)])
def test_each_fault_halts_soon_and_says_what_was_seen_and_who_publishes_it(
    fault: Callable[[Body], None], within_s: float, said: str, wish: Velocity
) -> None:
    body = Body()
    body.world.x = -2.0
    assert body.run(1.5, wish) == pytest.approx(1.5), body.gate.halt_cause
    fault(body)
    took = body.run(within_s + 0.5, wish)
    assert said in body.gate.halt_cause and "_node)" in body.gate.halt_cause, body.gate.halt_cause
    assert took <= within_s and body.gate.output == STILL
    assert body.gate.command(body.now, Source.TELEOP, wish) is not None


@pytest.mark.parametrize("commander", [Velocity(0.2), Velocity(lateral=-0.3), Velocity(turn=0.5)])
def test_who_commands_a_robot_at_rest_past_the_gate_is_found_by_the_motion(commander: Velocity) -> None:
    body = Body()
    body.run(1.0)
    body.commander = commander
    assert body.run(5.0) < 3.1 and "did not order" in body.gate.halt_cause
    body.gate.clear_halt()
    assert body.run(5.0) < 3.1 and "did not order" in body.gate.halt_cause, "also after it was cleared"


@pytest.mark.slow
def test_no_real_stream_of_the_simulator_is_taken_for_a_fault() -> None:
    """Kalos stands, walks, turns, walks into a wall that it does not see, is pushed, sits and is reset, for a minute."""
    pytest.importorskip("mujoco")
    from kalos_sim import kalos

    sim, random = kalos(), np.random.default_rng(5)
    config = RobotConfig.load("kalos").base
    assert config is not None
    gate, ticks = BaseGate(config), 0

    def go(seconds: float, wish: Pose | None = None, push: tuple[float, float] = (0.0, 0.0), posture: str = "stand") -> None:
        nonlocal ticks
        for _ in range(round(seconds / TICK_S)):
            ticks += 1
            now = ticks * TICK_S
            if wish is not None:
                gate.command(now, Source.SKILL, Velocity(*wish))
            sim.gait.command(*_parts(gate.tick(now)))
            sim.gait.set_posture(posture)
            sim.world.data.xfrc_applied[sim.world.robot.base_id, :2] = push
            sim.world.advance(TICK_S)
            pose, noise = sim.world.robot.base().pose, random.normal(0.0, 0.002, 3)
            gate.odometry(now, pose.x + noise[0], pose.y + noise[1], pose.yaw + noise[2])
            if ticks % 5 == 0:
                gate.scan(now, np.empty((0, 2)), sim.lidar.scan().astype(np.float64))
            assert not gate.halted, f"{wish}, {push}, {posture}: {gate.halt_cause}"

    try:
        for seconds, wish in ((3, None), (4, (0.5, 0, 0)), (1, None), (4, (-0.35, 0, 0)), (4, (0, 0, 1.2)), (3, (0, 0.25, 0))):
            go(seconds, wish)
        for angle_s in (1.2, 1.0):
            go(angle_s, (0.0, 0.0, 1.0))
            go(7.0, (0.5, 0.0, 0.0))
        for push in ((0.0, 60.0), (100.0, 0.0)):
            go(0.4, None, push)
            go(3.0)
        go(2.0, (0.3, 0.0, 0.0), (0.0, 40.0))
        for posture in ("sit", "lie", "stand"):
            go(3.0, posture=posture)
        go(1.0, (0.4, 0.0, 0.0))
        go(0.2)
        sim.world.reset()
        go(2.0)
        go(3.0, (0.4, 0.0, 0.3))
    finally:
        sim.world.data.xfrc_applied[:] = 0.0
