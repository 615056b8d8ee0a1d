# SPDX-License-Identifier: Apache-2.0
"""Moves, map, paths and trips in a flat world on a virtual clock, the velocity gate in between as on the robot."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from flat_world import BEAMS, RANGE_MAX, FlatWorld, box

from ghostshell_ros.navigation.motion import BAD_GOAL, DriveMotion, StallWatch, composed, seen_from
from ghostshell_ros.navigation.planner import OccupancyGrid, distance_to, plan
from ghostshell_ros.navigation.trip import Destination, Trip, TripCode
from skill_kernel.robot import BaseConfig
from skill_kernel.safety.base_gate import BaseGate, Source, Velocity
from skill_kernel.safety.obstacles import scan_points
from skill_kernel.skills.drivers import DriverRefusal, Pose2D, Scan

LEGGED = BaseConfig(
    max_forward=0.8,
    max_backward=0.4,
    max_lateral=0.3,
    max_turn=1.5,
    max_acceleration=1.5,
    max_turn_acceleration=4.0,
    cruise_linear=0.5,
    cruise_turn=1.0,
    radius=0.25,
    stop_distance=0.12,
    slow_distance=0.5,
)
WHEELED = LEGGED.model_copy(update={"max_lateral": 0.0})
DT = 0.05
STEP = 2 * math.pi / BEAMS


class Bench:
    """World, gate and virtual clock; `walk` does one period of control."""

    def __init__(self, world: FlatWorld, base: BaseConfig = LEGGED) -> None:
        self.world = world
        self.gate = BaseGate(base)
        self.now = 0.0
        self.closest = math.inf
        self.points = np.zeros((0, 2))

    @property
    def pose(self) -> Pose2D:
        return Pose2D(self.world.x, self.world.y, math.remainder(self.world.yaw, 2 * math.pi))

    def walk(self, wish: Velocity) -> None:
        ranges = self.world.scan()
        self.points = scan_points(Scan(-math.pi, STEP, ranges))
        self.gate.scan(self.now, self.points)
        self.gate.command(self.now, Source.SKILL, wish)
        for k in range(1, 4):
            out = self.gate.tick(self.now + k * DT / 3)
            self.world.step(out.forward, out.lateral, out.turn, DT / 3)
        self.now += DT
        self.closest = min(self.closest, self.world.clearance())


def driven(bench: Bench, motion: DriveMotion, limit_s: float = 30.0) -> Pose2D:
    while (wish := motion.step(bench.pose)) is not None:
        assert bench.now < limit_s, f"still on its way after {limit_s} s: {motion.moved}"
        bench.walk(wish)
    return motion.moved


@pytest.mark.parametrize("base", [LEGGED, WHEELED], ids=["legged", "wheeled"])
@pytest.mark.parametrize(
    ("distance", "lateral", "turn"),
    [(1.5, 0, 0), (-0.6, 0, 0), (0, 0, 1.57), (0, 0, -6.9), (1.0, 0, 0.8), (0, 0.5, 0), (0.6, -0.4, -1.0), (0.01, 0, 0)],
)
def test_a_move_ends_where_it_should(base: BaseConfig, distance: float, lateral: float, turn: float) -> None:
    bench = Bench(FlatWorld([(-9, -9, -9, 9)], holonomic=base is LEGGED), base)
    bench.world.x, bench.world.y, bench.world.yaw = 1.0, -2.0, 2.0
    if lateral and base is WHEELED:
        with pytest.raises(DriverRefusal, match="sideways"):
            DriveMotion(base, distance=distance, lateral=lateral, turn=turn)
        return
    start = bench.pose
    moved = driven(bench, DriveMotion(base, distance=distance, lateral=lateral, turn=turn))
    assert (moved.x, moved.y, moved.yaw) == pytest.approx((distance, lateral, turn), abs=0.06)
    really = seen_from(start, bench.pose)
    assert (really.x, really.y) == pytest.approx((distance, lateral), abs=0.06)


def test_a_move_keeps_to_the_speed_it_was_given() -> None:
    bench = Bench(FlatWorld([(-9, -9, -9, 9)]))
    motion = DriveMotion(LEGGED, distance=1.0, max_linear=0.2)
    fastest = 0.0
    while (wish := motion.step(bench.pose)) is not None:
        bench.walk(wish)
        fastest = max(fastest, bench.gate.output.speed)
    assert fastest == pytest.approx(0.2) and 4.5 < bench.now < 8.0


@pytest.mark.parametrize("wrong", [{"distance": math.nan}, {"turn": math.inf}, {"distance": 1.0, "max_linear": -0.1}])
def test_a_move_that_cannot_be_meant_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(DriverRefusal) as refused:
        DriveMotion(LEGGED, **wrong)
    assert refused.value.code == BAD_GOAL


def test_poses_compose_and_come_apart() -> None:
    a, b = Pose2D(1.0, 2.0, 3.0), Pose2D(0.3, -0.2, 1.0)
    back = seen_from(a, composed(a, b))
    assert (back.x, back.y, back.yaw) == pytest.approx((b.x, b.y, b.yaw))


def test_a_stall_is_noticed_in_time_and_not_while_it_gets_on() -> None:
    watch = StallWatch(2.0, 0.1)
    assert not any(watch.stalled(k * 0.1, 5.0 - 0.01 * k) for k in range(100))
    assert not watch.stalled(11.0, 3.9)
    assert watch.stalled(13.1, 3.9)


def test_a_scan_marks_what_it_hits_and_frees_what_it_passes() -> None:
    world = FlatWorld([(2.0, -3.0, 2.0, 3.0)])
    grid = OccupancyGrid(size=200)
    for _ in range(3):
        grid.add_scan(Pose2D(0, 0, 0), -math.pi, STEP, world.scan(), range_max=RANGE_MAX)
    assert grid.evidence[grid.cell(2.0, 0.0)] > 0
    assert grid.evidence[grid.cell(1.5, 0.0)] < 0
    assert grid.evidence[grid.cell(2.5, 0.0)] == 0
    world.walls = [(3.0, -3.0, 3.0, 3.0)]
    for _ in range(10):
        grid.add_scan(Pose2D(0, 0, 0), -math.pi, STEP, world.scan(), range_max=RANGE_MAX)
    assert grid.evidence[grid.cell(2.0, 0.0)] < 0, "what has gone is forgotten"
    shown = grid.occupancy()
    assert shown[grid.cell(3.0, 0.0)] > 65 and 0 <= shown[grid.cell(1.0, 0.0)] < 35 and shown[grid.cell(3.5, 0.0)] == -1


def test_the_grid_follows_the_robot_and_keeps_what_it_knows() -> None:
    grid = OccupancyGrid(size=100)
    grid.evidence[grid.cell(1.0, 0.5)] = 77
    grid.follow(1.3, -0.2)
    assert grid.evidence[grid.cell(1.0, 0.5)] == 77 and grid.evidence.astype(bool).sum() == 1
    assert grid.inside(*grid.cell(3.7, 0.0)) and not grid.inside(*grid.cell(-2.4, 0.0))
    grid.follow(500.0, 0.0)
    assert not grid.evidence.any()


def test_distances_are_those_of_brute_force() -> None:
    rng = np.random.default_rng(7)
    occupied = rng.random((40, 30)) < 0.02
    where = np.argwhere(occupied)
    cells = np.argwhere(np.ones_like(occupied))
    true = np.sqrt(((cells[:, None] - where[None]) ** 2).sum(2)).min(1).reshape(occupied.shape)
    assert distance_to(occupied, 6) == pytest.approx(np.minimum(true, 6.0))


def test_a_path_goes_through_the_door_and_not_through_the_wall() -> None:
    grid = OccupancyGrid(size=200)
    grid.evidence[:] = -50
    wall = grid.cell(1.0, 0.0)[1]
    grid.evidence[:, wall] = 100
    door = slice(grid.cell(0, 2.0)[0], grid.cell(0, 2.9)[0])
    grid.evidence[door, wall] = -50
    found = plan(grid, 0.25, (0.0, 0.0), (2.0, 0.0))
    assert found is not None and 4.5 < found.length < 7.0
    crossing = [
        a[1] + (1.025 - a[0]) / (b[0] - a[0]) * (b[1] - a[1])
        for a, b in zip(found.places, found.places[1:], strict=False)
        if (a[0] - 1.025) * (b[0] - 1.025) < 0
    ]
    assert all(2.28 < y < 2.62 for y in crossing) and len(crossing) == 1
    grid.evidence[door, wall] = 100
    assert plan(grid, 0.25, (0.0, 0.0), (2.0, 0.0)) is None


def test_a_known_way_is_preferred_to_one_of_unseen_cells_which_stays_passable() -> None:
    grid = OccupancyGrid(size=200)
    assert plan(grid, 0.25, (0.0, 0.0), (3.0, 0.0)) is not None
    for x in np.arange(-1, 4, 0.05):
        for y in np.arange(0.5, 1.1, 0.05):
            grid.evidence[grid.cell(float(x), float(y))] = -50
    found = plan(grid, 0.25, (0.0, 0.3), (3.0, 0.3))
    assert found is not None and max(y for _, y in found.places) > 0.5


def test_a_goal_in_an_obstacles_reach_is_moved_as_far_as_allowed() -> None:
    grid = OccupancyGrid(size=200)
    grid.evidence[:] = -50
    grid.evidence[grid.cell(2.0, 0.0)] = 100
    assert plan(grid, 0.25, (0.0, 0.0), (1.9, 0.0)) is None
    moved = plan(grid, 0.25, (0.0, 0.0), (1.9, 0.0), goal_reach=0.4)
    assert moved is not None and math.dist(moved.places[-1], (2.0, 0.0)) > 0.25


ROOMS = [*box(2.5, 0.0, 9.0, 6.0), (2.0, -3.0, 2.0, 1.5), (2.0, 2.4, 2.0, 3.0), (4.5, -1.6, 4.5, 3.0)]
"""Two walls across a hall, one with a door of 0.9 m, the other open at its end."""


def travelled(
    bench: Bench,
    trip: Trip,
    base: BaseConfig,
    grid: OccupancyGrid,
    *,
    limit_s: float = 120.0,
    event: Callable[[Bench], None] = lambda _: None,
) -> None:
    """Go until it has arrived. Raises DriverRefusal where it gives up."""
    tick = 0
    while True:
        assert bench.now < limit_s, f"not ended after {limit_s} s at {bench.pose}"
        event(bench)
        if tick % 4 == 0:
            grid.follow(bench.pose.x, bench.pose.y)
            grid.add_scan(bench.pose, -math.pi, STEP, bench.world.scan(), range_max=RANGE_MAX)
        if trip.wants_plan(bench.now):
            here = (bench.pose.x, bench.pose.y)
            trip.planned(bench.now, plan(grid, base.radius, here, trip.goal, goal_reach=0.4))
        wish = trip.step(bench.now, bench.pose, grid, bench.points)
        if wish is None:
            return
        bench.walk(wish)
        tick += 1


@pytest.mark.parametrize("base", [LEGGED, WHEELED], ids=["legged", "wheeled"])
def test_a_trip_through_two_rooms_arrives_without_touching_anything(base: BaseConfig) -> None:
    bench = Bench(FlatWorld(ROOMS, holonomic=base is LEGGED), base)
    trip = Trip(base, Destination(6.0, 1.5, 1.0, 0.15), 0.0)
    travelled(bench, trip, base, OccupancyGrid(size=300))
    assert math.dist((bench.pose.x, bench.pose.y), (6.0, 1.5)) < 0.2
    assert bench.pose.yaw == pytest.approx(1.0, abs=0.1)
    assert bench.closest > 0.0
    assert bench.now < 50.0


@pytest.mark.slow
def test_a_door_that_closes_on_the_way_ends_in_blocked_in_bounded_time() -> None:
    bench = Bench(FlatWorld(ROOMS))
    closed_at = []

    def close(b: Bench) -> None:
        if b.pose.y > 0.8 and not closed_at:
            b.world.walls.append((2.0, 1.5, 2.0, 2.4))
            closed_at.append(b.now)

    trip = Trip(LEGGED, Destination(6.0, 1.5, None, 0.15), 0.0)
    with pytest.raises(DriverRefusal, match="block") as refused:
        travelled(bench, trip, LEGGED, OccupancyGrid(size=300), event=close)
    assert refused.value.code == TripCode.BLOCKED
    assert bench.now - closed_at[0] < 20.0 and bench.closest > 0.0


def test_a_box_put_into_the_way_is_gone_around() -> None:
    bench = Bench(FlatWorld(box(2.5, 0.0, 9.0, 6.0)))
    put: list[bool] = []

    def put_box(b: Bench) -> None:
        if b.pose.x > 0.7 and not put:
            b.world.walls += box(2.2, 0.0, 0.4, 1.2)
            put.append(True)

    trip = Trip(LEGGED, Destination(5.0, 0.0, None, 0.15), 0.0)
    travelled(bench, trip, LEGGED, OccupancyGrid(size=300), event=put_box)
    assert put and bench.closest > 0.0


@pytest.mark.parametrize(("straight", "most_s"), [(2.0, 6.0), (0.0, 10.0)])
def test_a_base_that_may_goes_a_short_free_way_without_turning_first(straight: float, most_s: float) -> None:
    base = LEGGED.model_copy(update={"straight": straight, "max_lateral": 0.4})
    bench, lookings = Bench(FlatWorld(box(0.0, 0.0, 9.0, 6.0)), base), list[float]()
    trip = Trip(base, Destination(-1.2, 0.3, 1.57, 0.1), 0.0)
    travelled(bench, trip, base, OccupancyGrid(size=300), event=lambda b: lookings.append(b.pose.yaw))
    assert math.dist((bench.pose.x, bench.pose.y), (-1.2, 0.3)) < 0.12 and bench.pose.yaw == pytest.approx(1.57, abs=0.1)
    assert bench.now < most_s and (max(lookings) < 1.7) == bool(straight), "it turns to its way only where it must"


def test_what_stands_on_a_straight_way_is_gone_around() -> None:
    base = LEGGED.model_copy(update={"straight": 3.0})
    bench = Bench(FlatWorld([*box(0.0, 0.0, 9.0, 6.0), *box(-1.2, 0.0, 0.3, 0.8)]), base)
    trip = Trip(base, Destination(-2.4, 0.0, 0.0, 0.15), 0.0)
    travelled(bench, trip, base, OccupancyGrid(size=300))
    assert math.dist((bench.pose.x, bench.pose.y), (-2.4, 0.0)) < 0.2 and bench.closest > 0.0


def test_a_goal_behind_walls_all_around_has_no_path() -> None:
    bench = Bench(FlatWorld([*box(0.0, 0.0, 4.0, 4.0)]))
    trip = Trip(LEGGED, Destination(5.0, 0.0, None, 0.15), 0.0)
    with pytest.raises(DriverRefusal) as refused:
        travelled(bench, trip, LEGGED, OccupancyGrid(size=200), limit_s=30.0)
    assert refused.value.code == TripCode.NO_PATH
    assert bench.now < 10.0
