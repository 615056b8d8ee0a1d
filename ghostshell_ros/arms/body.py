# SPDX-License-Identifier: Apache-2.0
"""Give the skills of a robot with arms their body: plans of the manipulators, played by the joints' driver, with what is held
kept in mind."""

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

try:
    from ghostshell_ros.arms.arm import Arm, ArmError, PlanningStopped
    from ghostshell_ros.arms.manipulation import Grip, Look, Manipulator, Move, Phase
    from ghostshell_ros.arms.motion import PathMotion, dense
except ImportError as error:
    raise ImportError(f"{error}; arms need more: pip install -r requirements/arms.txt") from error

from ghostshell_ros.arms.scenery import HANDLE, OPENED, SHUT, Scenery, SceneryError
from ghostshell_ros.arms.surroundings import Surroundings, SurroundingsError
from skill_kernel import SkillReturn
from skill_kernel.robot import ArmConfig, RobotConfig, RobotConfigError
from skill_kernel.skills.drivers import Action, DriverResult, Senses, StopEvent, joint_trajectory, outcome

Vector = npt.NDArray[np.float64]

SAMPLE_S = 0.04
"""Time between two set-points of a plan; the driver joins them by straight lines."""
MOVE_S, GRIP_S, SETTLE_S = 0.4, 0.6, 0.4
"""Times in which fingers open or shut on a handle, in which they shut on a thing, and in which they then take hold of it."""
OPENED_M = 0.002
"""Fingers that are so near to open need not be opened."""
SPARE_M = 0.004
"""The fingers at rest, which is open, are so much wider than what they take."""
EMPTY_M = 0.004
"""Fingers that are together no further from shut hold nothing."""
CLOSE_RAD = 0.2
"""Distance from its last set-point within which a joint carries on from it, else from where it was measured."""
NEAR_RAD = 0.05
"""A move waits at its end until the joints are so near, as they lag where a machine is busy."""
MOVED_M = 0.004
"""A thing that is further from where it was when the arm set out is planned for anew."""
MOST_PLANS, MOST_TRIES = 3, 2
"""Plans that are made in all while what is to be taken moves, and tries at a door from which the hand slips."""
SEEN_S, AGAIN_S = 2.0, 0.1
"""Time within which a thing or door is seen where it was brought, and between two looks."""
LOOSE_M = 0.003
"""Fingers that are so much further apart than they were told feel something between them."""


class _Side:
    """One arm of a body: its configuration, its speeds, rest and open fingers [rad/s, rad, m], and what plans for it."""

    arm: Arm
    manipulator: Manipulator

    def __init__(self, name: str, config: ArmConfig, robot: RobotConfig) -> None:
        self.name, self.config = name, config
        unknown = [joint for joint in (*config.joints, *config.fingers) if joint not in robot.joints]
        if unknown:
            raise RobotConfigError(
                f"robot '{robot.name}', arms: '{unknown[0]}' of arm '{name}' is not among its joints; give its range there"
            )
        self.speeds = [robot.joints[joint].max_velocity for joint in config.joints]
        self.rest = np.array([robot.joints[joint].rest for joint in config.joints])
        self.opened = [robot.joints[finger].rest for finger in config.fingers]

    def load(self, robot: RobotConfig, around: Surroundings) -> None:
        """Load the arm. Raises ArmError."""
        self.arm = Arm(robot.model_path(), around, self.config.joints, self.config.hand)
        self.manipulator = Manipulator(self.arm, around, sum(self.opened) - SPARE_M)


Plan: TypeAlias = Callable[[_Side, Vector], list[Phase]]
"""Makes the phases for an arm whose joints are there [rad]. Raises ArmError or SceneryError."""


class ArmBody:
    """Do what a robot's arms can do with things, doors and drawers. It holds one thing at a time; one plan runs at a time."""

    def __init__(
        self,
        *,
        robot: RobotConfig,
        move_joints: Action,
        senses: Senses,
        speak: Action | None = None,
        ask_human: Action | None = None,
        moveit: bool = False,
    ) -> None:
        """Load the arms and their surroundings; with `moveit` the driver has MoveIt find their free ways.

        Raises RobotConfigError when they cannot be used.
        """
        if not robot.arms:
            raise RobotConfigError(f"robot '{robot.name}' has no arm; describe it under arms: (docs/own_arm.md)")
        self._arms = [_Side(name, config, robot) for name, config in robot.arms.items()]
        files = {config.surroundings for config in robot.arms.values()}
        if len(files) > 1:
            raise RobotConfigError(f"the arms of robot '{robot.name}' stand in different surroundings; name one for all")
        try:
            file = files.pop()
            self.scenery = Scenery.read(robot.file(file, "surroundings")) if file else Scenery()
            self.around = Surroundings(robot.model_path(), self.scenery)
            for side in self._arms:
                side.load(robot, self.around)
                side.arm.finds_ways = not moveit
        except (SceneryError, SurroundingsError, ArmError) as error:
            raise RobotConfigError(f"robot '{robot.name}', arms: {error}") from error
        self.speak, self.ask_human, self._move, self._senses = speak, ask_human, move_joints, senses
        self._drives = self.around.base.stop > self.around.base.start
        self._busy = threading.Lock()
        self._sent: dict[str, float] = {}
        self.states: Mapping[str, Callable[[], str]] = {"hand": self.held}

    def held(self) -> str:
        """Return the thing that a hand holds, as its fingers still feel it; "" for none."""
        side = self._full()
        return side.manipulator.held if side is not None and self._grips(side) else ""

    # -- what the skills do -------------------------------------------------------------------------------------------

    def pick(self, thing: str, space: str, stop: StopEvent) -> SkillReturn:
        """Take a thing out of a space."""

        def plan(side: _Side, q: Vector) -> list[Phase]:
            where = self._seen_in(thing)
            if where != space:
                raise ArmError(f"{thing} is not in {space}" + (f"; it is in {where}" if where else ""))
            self._open_for(space)
            return side.manipulator.pick(thing, q)

        with self._busy:
            return self._with_empty_hand(plan, stop, f"holds {thing}", thing)

    def put(self, space: str, stop: StopEvent) -> SkillReturn:
        """Put what the hand holds into a space."""
        with self._busy:
            full = self._full()
            if full is None:
                return SkillReturn.failure("the hand is empty; pick something first")
            thing = full.manipulator.held

            def plan(side: _Side, q: Vector) -> list[Phase]:
                self._open_for(space)
                return side.manipulator.put(space, q)

            def missed(*, seen: bool = False) -> str:
                there = (seen or thing in self._senses.things()) and self.around.space_of(thing) == space
                return "" if there else f"{thing} was let go, but nobody sees it in {space}; look where it lies"

            done = self._perform([full], plan, stop, f"put {thing} into {space}", missed)
            return self._out_of_the_way(done, stop, partial(missed, seen=True))

    def swing(self, door: str, share: float, stop: StopEvent) -> SkillReturn:
        """Bring a door or drawer to a share of its way: 0 is shut, 1 open."""
        wished = "open" if share >= OPENED else "shut"

        def missed(*, seen: bool = False) -> str:
            if not (seen or door + HANDLE in self._senses.things()):
                return f"nobody sees {door} now; look how far it is open"
            now = self.around.share_open(door)
            there = now >= OPENED if share >= OPENED else now <= SHUT
            return "" if there else f"{door} is {now:.0%} open; the hand slipped off, or something blocks it"

        def plan(side: _Side, q: Vector) -> list[Phase]:
            return side.manipulator.swing(door, share, q) if missed() else []

        with self._busy:
            done = self._with_empty_hand(plan, stop, f"{door} is {wished}", door + HANDLE, missed)
            return self._out_of_the_way(done, stop, partial(missed, seen=True))

    def draw_in(self, stop: StopEvent) -> SkillReturn:
        """Bring the arms to rest, with what is held."""
        with self._busy:
            return self._draw_in(stop)

    def _draw_in(self, stop: StopEvent) -> SkillReturn:
        for side in self._arms:
            done = self._perform([side], lambda one, q: one.manipulator.draw_in(one.rest, q), stop, "the arms are drawn in")
            if not done.ok:
                break
        return done

    def _out_of_the_way(self, done: SkillReturn, stop: StopEvent, missed: Callable[[], str]) -> SkillReturn:
        """Draw the arms in after a deed that came off, and look whether it has stayed so, as `missed` says.

        Others may want its place, and do not know where the arms are. Where there is no way to rest, the arms stay.
        """
        if not done.ok or stop.is_set():
            return done
        self._draw_in(stop)
        try:
            self._look()
        except ArmError as error:
            return SkillReturn.failure(str(error))
        return SkillReturn.failure(f"after the arms were drawn in: {why}") if (why := missed()) else done

    # -- what is known ------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Take the robot and its surroundings as they are now. Raises ArmError where nobody has measured the arms."""
        measured = self._senses.joint_positions()
        joints = [joint for side in self._arms for joint in (*side.config.joints, *side.config.fingers)]
        missing = [joint for joint in joints if joint not in measured]
        if missing:
            raise ArmError(f"joint '{missing[0]}' has not been measured; check that the robot publishes joint_states")
        self.around.set_joints(measured)
        if self._drives:
            pose = self._senses.pose() or self._senses.odometry()
            if pose is None:
                raise ArmError("nobody tells where the robot stands; check that odom is published")
            self.around.set_base(pose)
        things = self._senses.things()
        self.around.set_doors(self.scenery.shares_open({name: position for name, (position, _) in things.items()}))
        full = self._full()
        self.around.place({name: pose for name, pose in things.items() if full is None or name != full.manipulator.held})
        if full is not None:
            full.arm.be_at(self._start(full))

    def _start(self, side: _Side) -> Vector:
        """Return where a motion of an arm starts [rad]."""
        measured = self._senses.joint_positions()
        near = {j: s for j, s in self._sent.items() if abs(s - measured[j]) < CLOSE_RAD}
        return np.array([near.get(joint, measured[joint]) for joint in side.config.joints])

    def _seen_in(self, thing: str) -> str:
        """Return the space where a thing is seen now, "" for none. Raises ArmError for one that is not seen."""
        seen = self._senses.things()
        if thing not in seen:
            hidden = self.around.space_of(thing)
            door = self.scenery.spaces[hidden].door if hidden else ""
            if door and self.around.share_open(door) < OPENED:
                raise ArmError(f"{thing} is not seen, and {door} is shut; open it first if {thing} is in there")
            raise ArmError(f"{thing} is not there: nobody sees it now")
        return self.scenery.space_of(seen[thing][0], {door: self.around.share_open(door) for door in self.scenery.doors})

    def _open_for(self, space: str) -> None:
        """Raise ArmError unless the door of a space is open."""
        door = self.scenery.space(space).door
        if door and self.around.share_open(door) < OPENED:
            raise ArmError(f"{space} is shut; open it first")

    def _full(self) -> _Side | None:
        """Return the arm whose hand was last known to hold something."""
        return next((side for side in self._arms if side.manipulator.held), None)

    def _grips(self, side: _Side) -> bool:
        """Return whether something keeps the fingers apart."""
        measured = self._senses.joint_positions()
        return sum(measured.get(finger, 0.0) for finger in side.config.fingers) > EMPTY_M

    # -- performing ---------------------------------------------------------------------------------------------------

    def _with_empty_hand(
        self, plan: Plan, stop: StopEvent, done: str, target: str, missed: Callable[[], str] = lambda: ""
    ) -> SkillReturn:
        """Perform a plan as `_perform` does, with any of the arms. Fails where a hand holds something."""
        full = self._full()
        if full is not None:
            if self._grips(full):
                return SkillReturn.failure(f"the hand is full: it holds {full.manipulator.held}; release it first")
            full.manipulator.take("")
        return self._perform(self._arms, plan, stop, done, missed, target)

    def _perform(
        self,
        sides: Sequence[_Side],
        plan: Plan,
        stop: StopEvent,
        done: str,
        missed: Callable[[], str] = lambda: "",
        target: str = "",
    ) -> SkillReturn:
        """Look, plan, and play the plan of the first arm that has one, the one whose hand is nearest to the target first.

        What was held when it is stopped stays held. `missed` says what is not as it is to be at the end, "" where all is; a
        target that was missed is tried once more.
        """

        def far(side: _Side) -> float:
            return float(np.linalg.norm(self.around.position(target) - self.around.position(side.config.hand)))

        for side in self._arms:
            side.arm.stopped = stop.is_set
        try:
            for _ in range(MOST_TRIES):
                self._look()
                for side, phases in self._planned(sorted(sides, key=far) if target else sides, plan):
                    if (failed := self._play_all(side, phases, plan, stop)) is not None:
                        return failed
                for _ in range(math.ceil(SEEN_S / AGAIN_S)):
                    self._look()
                    if not missed():
                        return SkillReturn.success(done)
                    if stop.wait(AGAIN_S):
                        return SkillReturn.interruption(f"stopped {self._holding()}: {missed()}")
                if not target:
                    break
        except (ArmError, SceneryError) as error:
            return SkillReturn.failure(str(error))
        except PlanningStopped as error:
            return SkillReturn.interruption(f"{error}, {self._holding()}")
        return SkillReturn.failure(missed())

    def _play_all(self, side: _Side, phases: Sequence[Phase], plan: Plan, stop: StopEvent) -> SkillReturn | None:
        """Play a plan, and plan anew where what it wants has moved since; return how it failed, None where it has not."""
        waiting, plans = deque(phases), 1
        played: Move | None = None
        while waiting:
            phase = waiting.popleft()
            if isinstance(phase, Look):
                self._look()
                if plans < MOST_PLANS and self._has_moved(phase):
                    waiting, plans = deque(plan(side, self._start(side))), plans + 1
                continue
            result = self._play(side, phase, stop) if isinstance(phase, Move) else self._grip(side, phase, stop)
            if not result.ok:
                return outcome(result, f"stopped on the way, {self._holding()}")
            if isinstance(phase, Move):
                played = phase
                if side.manipulator.held and not self._grips(side):
                    break
            elif phase.around and not self._grips(side):
                side.manipulator.take("")
                self._let_go(side, played, stop)
                return SkillReturn.failure(f"the hand closed on nothing: {phase.around} has slipped out or is elsewhere")
        if side.manipulator.held and not self._grips(side):
            lost = side.manipulator.held
            side.manipulator.take("")
            self._let_go(side, None, stop)
            return SkillReturn.failure(f"{lost} slipped out of the hand")
        return None

    def _holding(self) -> str:
        held = self.held()
        return f"holding {held}" if held else "with an empty hand"

    def _planned(self, sides: Sequence[_Side], plan: Plan) -> list[tuple[_Side, list[Phase]]]:
        """Return the plan of the first arm that has one, after those that draw the other arms in, out of its way.

        Raises ArmError or SceneryError with the reasons of all arms.
        """
        why = dict[str, str]()
        for side in sides:
            try:
                aside = [(other, self._aside(other)) for other in self._arms if other is not side]
                start = self._start(side)
                freed = side.manipulator.free(start)
                phases = plan(side, freed[-1].path[-1] if freed and isinstance(freed[-1], Move) else start)
                return [*aside, (side, freed + phases)] if phases else []
            except ArmError as error:
                why[side.name] = str(error)
                self._look()
        reasons = list(dict.fromkeys(why.values()))
        raise ArmError(reasons[0] if len(reasons) == 1 else "; ".join(f"{name} arm: {text}" for name, text in why.items()))

    def _aside(self, side: _Side) -> list[Phase]:
        """Return how an arm that does nothing now is drawn in, and take it to be there. Raises ArmError."""
        start = self._start(side)
        if np.abs(start - side.rest).max() < CLOSE_RAD or side.manipulator.held:
            return []
        phases = side.manipulator.free(start)
        begin = phases[-1].path[-1] if phases and isinstance(phases[-1], Move) else start
        phases += side.manipulator.draw_in(side.rest, begin)
        side.arm.be_at(side.rest)
        return phases

    def _has_moved(self, look: Look) -> bool:
        return bool(np.linalg.norm(self.around.position(look.name) - look.position) > MOVED_M)

    def _let_go(self, side: _Side, taken: Move | None, stop: StopEvent) -> None:
        """Open the fingers after a slip, and go back the way on which the hand took hold."""
        if self._grip(side, Grip(True), stop).ok and taken is not None:
            self._play(side, Move(taken.path[::-1], taken.pace), stop)

    def _play(self, side: _Side, move: Move, stop: StopEvent) -> DriverResult:
        if len(move.path) == 1:
            return self._send(side.config.joints, [0.0], [move.path[0].tolist()], stop, NEAR_RAD, move.pace.joints)
        path = dense(move.path)
        motion = PathMotion(path, [side.arm.hand(q).position for q in path], side.speeds, move.pace)
        times = [k * SAMPLE_S for k in range(1, math.ceil(motion.duration_s / SAMPLE_S) + 1)]
        if not times:
            return DriverResult(ok=True)
        tolerance = 0.0 if move.pressing else NEAR_RAD
        return self._send(side.config.joints, times, [motion.sample(t).tolist() for t in times], stop, tolerance)

    def _grip(self, side: _Side, grip: Grip, stop: StopEvent) -> DriverResult:
        fingers = side.config.fingers
        before = self._senses.joint_positions()
        goal = side.opened if grip.opens else [0.0] * len(fingers)
        if grip.opens and all(abs(before[f] - to) < OPENED_M for f, to in zip(fingers, goal, strict=True)):
            return DriverResult(ok=True)
        told = all(self._sent.get(f) == to for f, to in zip(fingers, goal, strict=True))
        moved_s = SAMPLE_S if told else GRIP_S if grip.holds else MOVE_S
        settled_s = SETTLE_S if grip.holds and not told else SAMPLE_S
        result = self._send(fingers, [moved_s, moved_s + settled_s], [goal, goal], stop)
        if grip.holds and not result.ok:
            # Stopped half way: it holds what keeps the fingers further apart than they were told to be by then.
            share = min(1.0, result.values.get("completed_s", 0.0) / moved_s)
            after = self._senses.joint_positions()
            wider = (after[f] - before[f] - (to - before[f]) * share for f, to in zip(fingers, goal, strict=True))
            if sum(wider) < LOOSE_M:
                return result
        if grip.holds is not None:
            self.around.set_joints(self._senses.joint_positions())
            side.manipulator.take(grip.holds)
        return result

    def _send(
        self,
        joints: Sequence[str],
        times_s: Sequence[float],
        positions: Sequence[Sequence[float]],
        stop: StopEvent,
        tolerance: float = 0.0,
        planned_speed: float = 0.0,
    ) -> DriverResult:
        trajectory = joint_trajectory(joints, times_s, positions)
        result = self._move(trajectory=trajectory, goal_tolerance=tolerance, planned_speed=planned_speed, stop=stop)
        for joint, position in zip(joints, positions[-1], strict=True):
            self._sent.pop(joint, None)
            if result.ok:
                self._sent[joint] = position
        return result
