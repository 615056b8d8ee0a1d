# SPDX-License-Identifier: Apache-2.0
"""Pictures of the simulated world come from a process of its own: of the state that was sent, and never in the way."""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sim_probe import joint_limits

from ghostshell_ros.drivers.faces import draw
from ghostshell_ros.sim.pictures import NICE, PictureProcess, PictureThread, Shot
from ghostshell_ros.sim.world import Image, SimWorld, SimWorldError
from skill_kernel.robot import RobotConfig

pytestmark = pytest.mark.component

MODEL = RobotConfig.load("coco").model_path()
SIZE = (64, 48)
WAIT_S = 60.0


@pytest.fixture(scope="module")
def world() -> Iterator[SimWorld]:
    world = SimWorld(MODEL)
    yield world
    world.close()


@contextmanager
def started() -> Iterator[PictureProcess]:
    process = PictureProcess({"": MODEL}, "desk")
    try:
        yield process
    finally:
        process.close()


@pytest.fixture(scope="module")
def process() -> Iterator[PictureProcess]:
    with started() as process:
        yield process


def request(world: SimWorld, camera: str = "film", face: Image | None = None) -> tuple[Any, ...]:
    return camera, SIZE, world.state(), {"": face} if face is not None else None


def far_from(one: Image, other: Image) -> float:
    return float(np.abs(one.astype(float) - other).mean())


def test_a_picture_shows_the_state_that_was_sent(world: SimWorld, process: PictureProcess) -> None:
    world.reset()
    at_rest = process.draw(*request(world))
    world.robot.set_joint_targets({joint: high for joint, (_, high) in joint_limits(world).items()})
    world.advance(1.0)
    moved = process.draw(*request(world))
    world.reset()
    assert at_rest.shape == (*reversed(SIZE), 3)
    assert far_from(at_rest, process.draw(*request(world))) < 0.5 < far_from(at_rest, moved)


def test_a_face_stays_until_the_next_one(world: SimWorld, process: PictureProcess) -> None:
    world.reset()
    process.draw(*request(world))  # the first one shows the display before its picture was loaded
    before = process.draw(*request(world))
    happy = process.draw(*request(world, face=draw("happy")))
    assert far_from(before, happy) > 0.01
    assert far_from(happy, process.draw(*request(world))) == 0.0


def test_an_unknown_camera_is_told_and_the_process_goes_on(world: SimWorld, process: PictureProcess) -> None:
    with pytest.raises(SimWorldError, match="no camera 'behind'"):
        process.draw(*request(world, "behind"))
    assert process.draw(*request(world)).size


def test_a_process_that_was_killed_is_an_error_and_no_wait(world: SimWorld) -> None:
    with started() as process:
        process.draw(*request(world))
        os.kill(process.process.pid, signal.SIGKILL)
        with pytest.raises(SimWorldError, match="has ended"):
            for _ in range(2):
                process.draw(*request(world))


def test_it_runs_in_a_session_of_its_own_behind_the_one_that_steps(world: SimWorld, process: PictureProcess) -> None:
    process.draw(*request(world))
    assert os.getsid(process.process.pid) != os.getsid(0)
    assert os.getpriority(os.PRIO_PROCESS, process.process.pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE)


class Taken:
    """A thread of pictures whose snapshots are numbered, and what it delivered."""

    def __init__(self, world: SimWorld, model: Path = MODEL, wanted: Callable[[], bool] = lambda: True) -> None:
        self.pictures: queue.Queue[tuple[int, Image]] = queue.Queue()
        self.faults: queue.Queue[str] = queue.Queue()
        self.snapshots = 0

        def snapshot() -> tuple[Any, Any, int]:
            self.snapshots += 1
            return world.state(), world.appearance(), self.snapshots

        shot: Shot[int] = Shot("film", SIZE, 0.01, wanted, lambda p, stamp: self.pictures.put((stamp, p)))
        self.thread = PictureThread({"": model}, snapshot, [shot], self.faults.put)
        self.thread.start()


def test_each_picture_bears_the_stamp_of_what_it_shows_and_none_is_queued(world: SimWorld) -> None:
    taken = Taken(world)
    try:
        stamps = [taken.pictures.get(timeout=WAIT_S)[0] for _ in range(5)]
    finally:
        taken.thread.close()
    assert stamps == [1, 2, 3, 4, 5]
    assert taken.snapshots <= taken.pictures.qsize() + len(stamps) + 1


def test_a_face_that_is_set_is_on_every_picture_from_the_next_one_on(world: SimWorld) -> None:
    world.reset()
    taken = Taken(world)
    try:
        _, before = [taken.pictures.get(timeout=WAIT_S) for _ in range(2)][1]
        taken.thread.set_face(draw("happy"))
        later = [taken.pictures.get(timeout=WAIT_S)[1] for _ in range(6)]
    finally:
        taken.thread.close()
    changes = [far_from(before, picture) > 0.01 for picture in later]
    assert changes[-1] and changes == sorted(changes), "it came, and stayed"


def test_what_stands_still_is_not_drawn_again_and_what_moves_is(world: SimWorld) -> None:
    world.reset()
    taken = Taken(world)
    try:
        _, one, other = [taken.pictures.get(timeout=WAIT_S)[1] for _ in range(3)]
        assert one is other
        world.robot.set_joint_targets({joint: high for joint, (_, high) in joint_limits(world).items()})
        world.advance(1.0)
        while not taken.pictures.empty():
            taken.pictures.get()
        moved = [taken.pictures.get(timeout=WAIT_S)[1] for _ in range(2)][1]
    finally:
        taken.thread.close()
        world.reset()
    assert far_from(one, moved) > 0.5


def test_what_nobody_wants_is_not_drawn(world: SimWorld) -> None:
    asked = queue.Queue[bool]()

    def wanted() -> bool:
        asked.put(True)
        return False

    taken = Taken(world, wanted=wanted)
    try:
        for _ in range(5):
            asked.get(timeout=WAIT_S)
    finally:
        taken.thread.close()
    assert taken.snapshots == 0


def test_a_thread_whose_process_cannot_draw_says_so_once(world: SimWorld, tmp_path: Path) -> None:
    taken = Taken(world, tmp_path / "none.xml")
    try:
        assert "has ended" in taken.faults.get(timeout=WAIT_S)
    finally:
        taken.thread.close()
    assert taken.faults.empty()
