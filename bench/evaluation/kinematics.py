# SPDX-License-Identifier: Apache-2.0
"""Kalos's building without physics: a point that drives, turns and nods on a virtual clock, the things that its camera
would see, and the drivers and senses of its body."""

from __future__ import annotations

import json
import math
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import ghostshell_ros.sim
from bench.evaluation.tasks import Setting
from bench.evaluation.trace import PoseAt
from bench.evaluation.truth import VIEW_RAD, bearing, distance, room_of
from bench.virtual_clock import VirtualClock
from ghostshell_ros.drivers.speech import SpeechTiming
from ghostshell_ros.drivers.tunes import TUNES
from ghostshell_ros.navigation.motion import DriveMotion
from ghostshell_ros.navigation.trip import TripCode
from ghostshell_ros.robots.kalos.body import BLOCKED
from planners.memory import Memory
from skill_kernel.codes import AskCode, MemoryCode
from skill_kernel.observation.model import Pose
from skill_kernel.observation.observer import Observer
from skill_kernel.observation.odometry import Odometry
from skill_kernel.robot import RobotConfig
from skill_kernel.safety.base_gate import Velocity
from skill_kernel.skills.drivers import Detection, DriverResult, MemoryAnswer, Pose2D, Scan, StopEvent

TICK_S = 0.05
"""Time of one step of a motion."""
STALL_S, NO_PATH_S = 2.5, 4.0
"""Times after which a blocked move and a trip without a way end: `stall_s` and `no_path_s` of the base driver."""
RISE_S, STANDS_S, SETTLE_S = 1.6, 0.25, 0.2
"""Times to change the posture, to see that it is as wished, and to follow the last attitude."""
SIGHT_M = {"person": 8.0, "chair": 6.0, "door": 6.0, "ball": 5.0}
"""Distances up to which the detector knows a thing, and `SMALL_M` for all others."""
SMALL_M = 2.5
THING_M = 0.25
RAYS, LASER_M = 36, 10.0
WALL_M = 1.05
DOORWAYS = {"kitchen": (1.5, WALL_M), "office": (5.25, WALL_M), "lounge": (9.5, WALL_M), "lobby": (7.0, -WALL_M)}
"""Middle of each room's doorway to the hallway, as building.xml has them."""
DOOR = (4.63, 1.115, 5.87, 1.165)
ASIDE_M = 0.55
"""Distance from a doorway's middle at which its way begins and ends."""

Box = tuple[float, float, float, float]


class Turns:
    """Let the threads of skills run one at a time, each until it waits, and time pass only while all of them wait."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock, self._here, self._main = clock, threading.local(), threading.Lock()
        self._main.acquire()
        self._waiting: list[threading.Lock] = []
        self._over = False

    def spawn(self, run: Callable[[], None], name: str) -> None:
        """Start a thread; it begins when the clock runs next."""
        baton = self._baton()

        def body() -> None:
            baton.acquire()
            self._here.baton = baton
            try:
                run()
            finally:
                self._main.release()

        threading.Thread(target=body, name=name, daemon=True).start()
        self._later(baton, 0.0)

    def wait(self, seconds: float) -> None:
        """Let time pass, on a skill's thread. Raises SystemExit once the trial is over."""
        if not self._over:
            baton = self._here.baton
            self._later(baton, seconds)
            self._main.release()
            baton.acquire()
        if self._over:
            raise SystemExit

    def close(self) -> None:
        """End the threads that still wait."""
        self._over = True
        while self._waiting:
            self._switch(self._waiting[0])

    def _baton(self) -> threading.Lock:
        baton = threading.Lock()
        baton.acquire()
        return baton

    def _later(self, baton: threading.Lock, seconds: float) -> None:
        self._waiting.append(baton)
        self._clock.call_later(seconds, partial(self._switch, baton))

    def _switch(self, baton: threading.Lock) -> None:
        self._waiting.remove(baton)
        baton.release()
        self._main.acquire()


class VirtualEvent:
    """A skill's stop event whose `wait` lets virtual time pass."""

    def __init__(self, event: threading.Event, turns: Turns) -> None:
        self._event, self._turns = event, turns

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        if not self._event.is_set():
            self._turns.wait(60.0 if timeout is None else timeout)
        return self._event.is_set()


class Patience:
    """The condition on which a paused call waits: it lets virtual time pass. Only one thread runs at a time."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def __enter__(self) -> Patience:
        return self

    def __exit__(self, *_: object) -> None:
        """Nobody else waits for it."""

    def wait(self) -> None:
        self._turns.wait(TICK_S)

    def notify_all(self) -> None:
        """Whoever waits looks again soon."""


@lru_cache(maxsize=1)
def _building() -> tuple[tuple[Box, ...], tuple[Box, ...], tuple[tuple[str, float, float], ...]]:
    """Return walls, furniture and things (name, x, y) of building.xml."""
    folder = Path(ghostshell_ros.sim.__file__).with_name("worlds")
    world = ET.parse(folder / "building.xml").getroot().find("worldbody")
    assert world is not None
    parts = [ET.parse(folder / part.get("file", "")).getroot() for part in world.findall("include")]
    walls, furniture, things = list[Box](), list[Box](), list[tuple[str, float, float]]()
    for geom in (geom for part in (*parts, world) for geom in part.findall("geom")):
        kind = geom.get("class")
        if kind in ("wall", "furniture"):
            x, y, _ = map(float, geom.get("pos", "0 0 0").split())
            size = list(map(float, geom.get("size", "0").split()))
            wide, deep = (size[0], size[1]) if geom.get("type", "box") == "box" else (size[0], size[0])
            (walls if kind == "wall" else furniture).append((x - wide, y - deep, x + wide, y + deep))
    for body in world.findall("body"):
        if (name := body.get("name", "")) != "office_door":
            x, y, _ = map(float, body.get("pos", "0 0 0").split())
            things.append((name, x, y))
    return tuple(walls), tuple(furniture), tuple(things)


class Building:
    """Keep where everything is. `poses`, `postures`, `sounds` and `places` tell a trace what was true."""

    def __init__(self, clock: VirtualClock, robot: RobotConfig, setting: Setting) -> None:
        self._clock, self.robot = clock, robot
        walls, furniture, things = _building()
        self.things = {name: (x, y) for name, x, y in things}
        self.door_shut = setting.door_shut
        self._walls = (*walls, DOOR) if self.door_shut else walls
        self._solid = (*self._walls, *furniture)
        self._boxes = np.array(self._solid)
        self.x, self.y, self.yaw = setting.robot
        self.pitch, self.posture, self.velocity = 0.0, "stand", Velocity()
        self.poses: list[PoseAt] = []
        self.objects: dict[str, list[tuple[float, float, float]]] = {}
        self.postures = [(clock.now(), "stand")]
        self.sounds: list[float] = []
        for name, wish in json.loads(setting.arrangement()).items():
            if name not in ("robot", "office_door"):
                self.put(name, wish[0], wish[1])
        self.note()

    @property
    def pose(self) -> Pose2D:
        return Pose2D(self.x, self.y, self.yaw)

    def put(self, name: str, x: float, y: float) -> None:
        """Put a thing elsewhere."""
        self.things[name] = (x, y)
        self.objects.setdefault(name, []).append((self._clock.now(), x, y))

    def note(self) -> None:
        """Keep the true pose as it is now."""
        now = self._clock.now()
        if not self.poses or self.poses[-1].at < now:
            self.poses.append(PoseAt(now, self.x, self.y, math.remainder(self.yaw, math.tau), self.pitch))

    def take_posture(self, posture: str) -> None:
        if posture != self.posture:
            self.posture = posture
            self.postures.append((self._clock.now(), posture))

    def advance(self, wish: Velocity, seconds: float) -> bool:
        """Move the robot by a velocity; return whether nothing is in the way."""
        cos, sin = math.cos(self.yaw), math.sin(self.yaw)
        x = self.x + (wish.forward * cos - wish.lateral * sin) * seconds
        y = self.y + (wish.forward * sin + wish.lateral * cos) * seconds
        base = self.robot.base
        assert base is not None
        near = base.radius + base.stop_distance
        free = wish.speed == 0.0 or (after := self._clearance(x, y)) >= near or after >= self._clearance(self.x, self.y)
        if free:
            self.x, self.y = x, y
        self.yaw = math.remainder(self.yaw + wish.turn * seconds, math.tau)
        self.velocity = wish if free else Velocity(turn=wish.turn)
        return free

    def _clearance(self, x: float, y: float) -> float:
        """Return the distance of a place to what is solid; the ball lies below the laser."""
        low, high = self._boxes[:, :2], self._boxes[:, 2:]
        apart = np.maximum(np.maximum(low - (x, y), (x, y) - high), 0.0)
        solid = float(np.hypot(apart[:, 0], apart[:, 1]).min())
        tall = (math.dist((x, y), at) - THING_M for name, at in self.things.items() if label_of(name) in ("chair", "person"))
        return min(solid, *tall)

    def sees(self) -> list[Detection]:
        """Return what the camera shows, by the direction and the distance that are true; what is nearer is surer."""
        here = PoseAt(0.0, self.x, self.y, self.yaw)
        things = dict(self.things)
        if self.door_shut:
            things["door"] = ((DOOR[0] + DOOR[2]) / 2, DOOR[1])
        found = []
        for name, (x, y) in things.items():
            label, far, off = label_of(name), distance(here, x, y), bearing(here, x, y)
            if far <= SIGHT_M.get(label, SMALL_M) and abs(off) <= VIEW_RAD and not self._hidden(x, y):
                found.append(Detection(label, 0.95 - 0.05 * far, off, far))
        return found

    def _hidden(self, x: float, y: float) -> bool:
        """Return whether a wall stands between the robot and a place."""
        return any(_crosses((self.x, self.y), (x, y), box) for box in self._walls)

    def scan(self) -> Scan:
        """Return what the laser measures where it is mounted: walls, furniture, and what stands."""
        base = self.robot.base
        assert base is not None
        angles = self.yaw + np.arange(RAYS) * math.tau / RAYS
        way = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, None, :]
        way = np.where(np.abs(way) < 1e-9, 1e-9, way)
        tall = [
            (x - THING_M, y - THING_M, x + THING_M, y + THING_M)
            for n, (x, y) in self.things.items()
            if label_of(n) in ("chair", "person")
        ]
        boxes = np.concatenate([self._boxes, np.array(tall)])[None]
        cos, sin, (ahead, aside, _) = math.cos(self.yaw), math.sin(self.yaw), base.laser
        at = np.array([self.x + cos * ahead - sin * aside, self.y + sin * ahead + cos * aside])
        one, two = (boxes[..., :2] - at) / way, (boxes[..., 2:] - at) / way
        enters, leaves = np.minimum(one, two).max(axis=2), np.maximum(one, two).min(axis=2)
        ranges = np.where((leaves >= enters) & (enters > 0.0), enters, np.inf).min(axis=1)
        return Scan(0.0, math.tau / RAYS, np.where(ranges < LASER_M, ranges, np.inf).tolist(), 0.05, LASER_M)

    def way(self, x: float, y: float) -> list[tuple[float, float]] | None:
        """Return the corners of the way to a place through the doorways; None where a door is shut."""
        here, there = room_of(self.robot, PoseAt(0.0, self.x, self.y, 0.0)), room_of(self.robot, PoseAt(0.0, x, y, 0.0))
        corners: list[tuple[float, float]] = []
        if here != there:
            for room, outward in ((here, True), (there, False)):
                if room in DOORWAYS:
                    if room == "office" and self.door_shut:
                        return None
                    at, wall = DOORWAYS[room]
                    inside, outside = wall + math.copysign(ASIDE_M, wall), wall - math.copysign(ASIDE_M, wall)
                    corners += [(at, inside), (at, outside)] if outward else [(at, outside), (at, inside)]
        return [*corners, (x, y)]


def label_of(name: str) -> str:
    """Return the detector's label of a thing."""
    return name.partition("_")[0]


def _crosses(a: tuple[float, float], b: tuple[float, float], box: Box) -> bool:
    """Return whether a line meets a box."""
    enters, leaves = 0.0, 1.0
    for start, end, low, high in zip(a, b, box[:2], box[2:], strict=True):
        step = end - start
        if abs(step) < 1e-9:
            if not low <= start <= high:
                return False
            continue
        near, far = sorted(((low - start) / step, (high - start) / step))
        enters, leaves = max(enters, near), min(leaves, far)
    return enters <= leaves


class Drivers:
    """The actions and senses of Kalos's body in a building; every action is called on a skill's thread."""

    def __init__(self, building: Building, turns: Turns, clock: VirtualClock, memory: Memory | None = None) -> None:
        self._building, self._turns, self._clock, self._memory = building, turns, clock, memory
        self._speaking = False

    def drive(
        self, *, stop: StopEvent, distance: float = 0.0, lateral: float = 0.0, turn: float = 0.0, **_: Any
    ) -> DriverResult:
        base = self._building.robot.base
        assert base is not None
        motion = DriveMotion(base, distance=distance, lateral=lateral, turn=turn)
        end = self._move(motion, stop)
        moved = {"distance": motion.moved.x, "lateral": motion.moved.y, "turn": motion.moved.yaw}
        return DriverResult(end.ok, end.error_code, end.error_msg, end.cancelled, moved)

    def navigate_to(
        self, *, stop: StopEvent, waypoint: str = "", pose: Mapping[str, Any] | None = None, **_: Any
    ) -> DriverResult:
        building, base = self._building, self._building.robot.base
        assert base is not None
        if pose is None:
            spot = building.robot.waypoints[waypoint]
            x, y, yaw = spot.x, spot.y, spot.yaw
        else:
            at, turned = pose["pose"]["position"], pose["pose"]["orientation"]
            x, y, yaw = at["x"], at["y"], 2.0 * math.atan2(turned["z"], turned["w"])
        end = self._go(building.way(x, y), (x, y), stop)
        if end.ok:
            end = self._move(DriveMotion(base, turn=math.remainder(yaw - building.yaw, math.tau)), stop)
        left = math.dist((x, y), (building.x, building.y))
        return DriverResult(end.ok, end.error_code, end.error_msg, end.cancelled, {"distance_left": left})

    def _go(self, corners: Sequence[tuple[float, float]] | None, goal: tuple[float, float], stop: StopEvent) -> DriverResult:
        building, base = self._building, self._building.robot.base
        assert base is not None
        if corners is None:
            waited = self._last(NO_PATH_S, stop)
            text = f"no way to ({goal[0]:.2f}, {goal[1]:.2f}) in what is known of the map: is the goal free and a door open?"
            return waited if waited.cancelled else DriverResult(False, int(TripCode.NO_PATH), text)
        for x, y in corners:
            turn = bearing(PoseAt(0.0, building.x, building.y, building.yaw), x, y)
            if math.dist((x, y), (building.x, building.y)) > 0.1:
                for motion in (
                    lambda t=turn: {"turn": t},
                    lambda x=x, y=y: {"distance": math.dist((x, y), (building.x, building.y))},
                ):
                    end = self._move(DriveMotion(base, **motion()), stop)
                    if not end.ok:
                        if end.error_code:
                            text = f"the way to ({goal[0]:.2f}, {goal[1]:.2f}) was blocked and no other was found in time"
                            return DriverResult(False, int(TripCode.BLOCKED), text)
                        return end
        return DriverResult(True)

    def _move(self, motion: DriveMotion, stop: StopEvent) -> DriverResult:
        building, blocked_s = self._building, 0.0
        result = DriverResult(True)
        while (wish := motion.step(building.pose)) is not None:
            building.take_posture("moving")
            if stop.is_set():
                result = DriverResult(False, cancelled=True)
                break
            self._turns.wait(TICK_S)
            blocked_s = 0.0 if building.advance(wish, TICK_S) else blocked_s + TICK_S
            building.note()
            if blocked_s > STALL_S:
                result = DriverResult(False, BLOCKED, "something in front blocks the way")
                break
        building.velocity = Velocity()
        building.take_posture("stand")
        return result

    def set_posture(
        self, *, stop: StopEvent, posture: str = "", pitch: float = 0.0, duration: float = 0.0, **_: Any
    ) -> DriverResult:
        building = self._building
        if posture:
            if building.posture == posture:
                return self._last(STANDS_S, stop)
            building.take_posture("moving")
            result = self._last(RISE_S, stop)
            building.pitch = 0.0
            building.take_posture(posture if result.ok else "stand")
            return result
        begun, start = self._clock.now(), building.pitch
        while (passed := self._clock.now() - begun) < duration:
            if stop.is_set():
                return DriverResult(False, cancelled=True)
            self._turns.wait(min(TICK_S, duration - passed) + 1e-9)
            building.pitch = start + (pitch - start) * min(1.0, (self._clock.now() - begun) / duration)
            building.note()
        return self._last(SETTLE_S, stop)

    def speak(self, *, text: str, stop: StopEvent, **_: Any) -> DriverResult:
        if self._speaking:
            return DriverResult(False, 421, "another text is being said")
        self._speaking, timing, begun = True, SpeechTiming(text), self._clock.now()
        result = self._last(timing.duration_s, stop)
        self._speaking = False
        said = timing.spoken_chars(self._clock.now() - begun)
        return DriverResult(result.ok, cancelled=result.cancelled, values={"spoken_chars": said})

    def play_sound(self, *, name: str, stop: StopEvent, **_: Any) -> DriverResult:
        result = self._last(TUNES[name].duration_s, stop)
        if result.ok:
            self._building.sounds.append(self._clock.now())
        return result

    def memory(self, question: str, *, stop: StopEvent, timeout_s: float = 5.0) -> MemoryAnswer:
        if self._memory is None:
            why = "there is no memory on the virtual clock"
            return MemoryAnswer(False, error_code=int(MemoryCode.MEMORY_UNAVAILABLE), error_msg=why)
        found = self._memory.ask(question, robot=self._building.robot.name)
        return MemoryAnswer(True, found.text, sources=tuple(record.text for record in found.sources))

    def ask_human(self, *, timeout_s: float, stop: StopEvent, **_: Any) -> DriverResult:
        """Nobody is there who would answer."""
        waited = self._last(timeout_s, stop)
        why = f"nobody answered within {timeout_s:g} s"
        return waited if waited.cancelled else DriverResult(False, int(AskCode.NO_ANSWER), why)

    def _last(self, seconds: float, stop: StopEvent) -> DriverResult:
        end = self._clock.now() + seconds
        while (left := end - self._clock.now()) > 1e-9:
            if stop.is_set():
                return DriverResult(False, cancelled=True)
            self._turns.wait(min(0.2, left))
        return DriverResult(True)

    # -- senses -------------------------------------------------------------------------------------------------------

    def odometry(self) -> Pose2D:
        return self._building.pose

    def pose(self) -> Pose2D:
        return self._building.pose

    def scan(self) -> Scan:
        return self._building.scan()

    def joint_positions(self) -> Mapping[str, float]:
        return {}

    def image(self) -> Any:
        return np.zeros((24, 32, 3), np.uint8)

    def sights(self) -> Sequence[str]:
        return ()

    def things(self) -> Mapping[str, tuple[Sequence[float], Sequence[float]]]:
        return {}

    def detections(self) -> Sequence[Detection]:
        return self._building.sees()


def observe(building: Building, observer: Observer, now: float, subsystems: Mapping[str, str]) -> None:
    """Tell the observer what each sensor says now."""
    velocity = building.velocity
    observer.odometry("odom", Odometry(now, building.x, building.y, building.yaw, velocity.speed, velocity.turn))
    observer.odom_in_map(Pose(0.0, 0.0, 0.0))
    observer.scan("obstacles", building.scan(), now)
    observer.sightings("object_detections", building.sees(), now)
    for name, value in (("posture", building.posture), ("battery", 0.8), ("charging", 2), ("subsystems", subsystems)):
        observer.take(name, value, now)
