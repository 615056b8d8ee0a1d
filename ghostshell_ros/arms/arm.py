# SPDX-License-Identifier: Apache-2.0
"""Find joint paths of an arm: inverse kinematics by mink, collisions by MuJoCo, ways around by OMPL's RRT-Connect. Needs
requirements/arms.txt."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path

import mink
import mujoco
import numpy as np
import numpy.typing as npt
from ompl import base, geometric, util

from ghostshell_ros.arms.surroundings import HandPose, Surroundings

Vector = npt.NDArray[np.float64]
Joints = Sequence[float] | Vector

REACHED_M, REACHED_RAD = 0.002, 0.02
"""Distance from the wished pose of the hand within which it is reached."""
SPARE_RAD = 0.02
"""Plans end so far within the joints' ranges, because what an arm touches pushes on."""
SEEDS, WIDE = 8, 4
"""Starts that the inverse kinematics tries: where the arm is, then others drawn further and further away, from the second of
these numbers on anywhere."""
FAR_STARTS, FAR_M = 3, 0.2
"""After so many starts that end further away than this, the hand cannot come there."""
IK_STEPS, IK_DT = 120, 0.1
STALLED_STEPS, STALLED = 10, 0.9
"""A descent ends where so many steps leave more than this share of how far it was off."""
CHECK_RAD = 0.03
"""A path is checked for collisions in steps of this length."""
LINE_M, LINE_RAD = 0.01, 0.05
"""A straight way of the hand is solved in steps of this length."""
JUMP_RAD = 0.35
"""Two neighbours of a straight way are no further apart in any joint: else the arm would have to swing over."""
CLEAR_M = 0.006
"""The arm keeps this distance from what stands around."""
WAY_CLEAR_M = (0.03, 0.015, CLEAR_M)
"""The same on its free ways, on which the servos lag: the first with which a way is found."""
NARROW_RAD = 0.3
"""So near to the ends of a free way, where it is slow, `CLEAR_M` does."""
PLAN_S, SIMPLIFY_S, WAYS = (0.3, 0.3, 1.0), 0.12, 4
"""Processor times that RRT-Connect may take with each of these distances, and that the shortening of a path takes; so many are
compared."""
DETOUR_RAD = 1.5
"""Detour beyond the straight way that a hasty planner accepts."""
GOOD = 1.25
"""A way is good enough when it is so much longer than the straight one."""
ROUNDED = 4
"""Times that the bends of a path are halved where nothing is in the way: at a sharp one the arm stops."""


class ArmError(Exception):
    """Say why the arm cannot go there; the message names what is in the way, or how far the goal is out of reach."""


class NoWay(ArmError):
    """Say that no way to a free place was found in time."""


class PlanningStopped(Exception):
    """Say that the plan was stopped while it was made."""


class Arm:
    """One arm in its surroundings. `joints` are its joints in order, `site` lies between its finger tips.

    One thread at a time may use it and its surroundings. It has one planner for life: each one that OMPL's binding makes is
    kept until the process ends.
    """

    def __init__(self, model: str | Path, surroundings: Surroundings, joints: Sequence[str], site: str, seed: int = 0) -> None:
        """Load the robot's model. Raises ArmError where it, or a name, is wrong."""
        self._around, self._world, self._data = surroundings, surroundings.model, surroundings.data
        try:
            self._own = mujoco.MjModel.from_xml_string(f'<mujoco><include file="{model}"/></mujoco>')
            self._adr, self._world_adr = (np.array([m.joint(j).qposadr[0] for j in joints]) for m in (self._own, self._world))
            for joint in joints:
                if not self._own.jnt_limited[self._own.joint(joint).id]:
                    raise ArmError(f"joint '{joint}' has no range in the arm's model; give it one")
                self._own.joint(joint).range += (SPARE_RAD, -SPARE_RAD)
            limits = np.array([self._own.joint(j).range for j in joints])
            self._own.site(site)
        except (ValueError, KeyError) as error:
            raise ArmError(f"the arm's model cannot be used: {error}") from error
        self.joints, self._site = tuple(joints), site
        self.lower, self.upper = limits[:, 0], limits[:, 1]
        self._configured = mink.Configuration(self._own)
        root = self._own.body("base_link").id
        dofs = [int(self._own.body_dofadr[root]) + k for k in range(int(self._own.body_dofnum[root]))]
        self._base = int(self._own.jnt_qposadr[self._own.body_jntadr[root]]) if dofs else 0
        """Index in the own model's `qpos` at which the pose of a base that drives begins."""
        self._still = [mink.DofFreezingTask(self._own, dof_indices=dofs)] if dofs else None
        self._robot = self._bodies_below("base_link")
        self._limbs = self._bodies_below(self._world.body(int(self._world.joint(joints[0]).bodyid[0])).name)
        self._moving = self._limbs
        """The bodies that move with the joints, and what is held."""
        self._hand = self._bodies_below(self._world.body(int(self._world.site(site).bodyid[0])).name)
        own = np.isin(self._world.geom_bodyid, list(self._robot))
        self._world.geom_contype[:], self._world.geom_conaffinity[:] = own, 1  # what stands around touches only the robot
        self._world.geom_margin[:] = 0.0
        self._world.geom_margin[own] = WAY_CLEAR_M[0]
        self._hand_boxes = self._boxes_of(self._hand)
        self._near = self._hand_boxes
        """The boxes of the hand, and of what it holds."""
        self._others = self._boxes_of(set(range(self._world.nbody)) - self._robot)
        self._other_sizes = self._world.geom_size[self._others][:, None]
        self._clear = CLEAR_M
        self._narrow: tuple[Vector, ...] = ()
        """Joints near which it keeps no more than `CLEAR_M`."""
        self._touchable = frozenset[int]()
        self._held: tuple[int, Vector, Vector] | None = None
        """The thing in the hand: its body, and its place and turn as the hand has it."""
        self.stopped: Callable[[], bool] = lambda: False
        """Returns whether planning is to end, with PlanningStopped; asked every few milliseconds."""
        self.hasty = False
        """True for a planner that accepts no long way, and none without the most room around."""
        self.finds_ways = True
        """False where MoveIt does: then a way is its end alone."""
        self._random = np.random.default_rng(seed)
        self._set_up_ompl(seed)

    def _set_up_ompl(self, seed: int) -> None:
        """Make the planner of ways around, whose states are the joints [rad]."""
        util.setLogLevel(util.LogLevel.LOG_NONE)
        util.RNG.setSeed(seed + 1)
        space = base.RealVectorStateSpace(len(self.joints))
        bounds = base.RealVectorBounds(len(self.joints))
        for i, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            bounds.setLow(i, float(low))
            bounds.setHigh(i, float(high))
        space.setBounds(bounds)
        self._setup, self._ends = geometric.SimpleSetup(space), (space.allocState(), space.allocState())
        self._setup.setStateValidityChecker(lambda state: not self.touched([state[i] for i in range(len(self.joints))]))
        info = self._setup.getSpaceInformation()
        info.setStateValidityCheckingResolution(CHECK_RAD / space.getMaximumExtent())
        self._setup.setPlanner(geometric.RRTConnect(info))

    # -- what it touches ----------------------------------------------------------------------------------------------

    def hold(self, name: str) -> None:
        """Take a thing as held where it is now: it moves with the hand, and may touch nothing but it. "" for an empty hand."""
        if self._held is not None:
            del self._around.held[self._held[0]]
            self._collides(self._held[0], False)
        self._held, self._near, self._moving = None, self._hand_boxes, self._limbs
        if not name:
            return
        body = int(self._world.body(name).id)
        mujoco.mj_kinematics(self._world, self._data)
        site = self._data.site(self._site)
        turn = site.xmat.reshape(3, 3).T
        self._held = (body, turn @ (self._data.xpos[body] - site.xpos), turn @ self._data.xmat[body].reshape(3, 3))
        self._around.held[body] = self._hand
        self._near = np.concatenate([self._hand_boxes, self._boxes_of({body})])
        self._moving = self._limbs | {body}
        self._collides(body, True)

    def _collides(self, body: int, held: bool) -> None:
        begin = int(self._world.body_geomadr[body])
        geoms = slice(begin, begin + int(self._world.body_geomnum[body]))
        self._world.geom_contype[geoms] = held
        self._world.geom_margin[geoms] = WAY_CLEAR_M[0] if held else 0.0

    def _carry(self) -> None:
        """Put what is held where the hand is."""
        assert self._held is not None
        body, offset, rotation = self._held
        adr = int(self._world.jnt_qposadr[self._world.body_jntadr[body]])
        site = self._data.site(self._site)
        turn = site.xmat.reshape(3, 3)
        self._data.qpos[adr : adr + 3] = site.xpos + turn @ offset
        mujoco.mju_mat2Quat(self._data.qpos[adr + 3 : adr + 7], (turn @ rotation).ravel())
        mujoco.mj_kinematics(self._world, self._data)

    def be_at(self, q: Joints) -> None:
        """Take the arm's joints to be there, with what is held in its hand."""
        self._data.qpos[self._world_adr] = q
        mujoco.mj_kinematics(self._world, self._data)
        if self._held is not None:
            self._carry()

    def touched(self, q: Joints) -> str:
        """Return something that the arm, or what it holds, would touch there; "" for nothing."""
        return next(self._contacts(q), "")

    def touches(self, q: Joints) -> list[str]:
        """Return all that the arm, or what it holds, would touch there."""
        return list(dict.fromkeys(self._contacts(q)))

    def _contacts(self, q: Joints) -> Iterator[str]:
        self.be_at(q)
        mujoco.mj_collision(self._world, self._data)
        count = self._data.ncon
        narrow = bool(self._narrow) and float(np.abs(np.array(self._narrow) - q).max(axis=1).min()) < NARROW_RAD
        clear = CLEAR_M if narrow else self._clear
        clear_held = clear if clear > CLEAR_M else 0.0
        contacts = self._data.contact
        told = zip(contacts.geom[:count].copy(), contacts.dist[:count].copy(), strict=True)
        for geoms, distance in chain(told, self._near_boxes(clear)):
            pair = {int(body) for body in self._world.geom_bodyid[geoms]}
            if not pair & self._moving or pair & self._around.unseen:
                continue
            held = pair & self._around.held.keys()
            if self._touchable & pair or any(pair - {body} <= self._around.held[body] for body in held):
                continue
            others = pair - self._robot - held
            if not others:
                if distance < 0.0:
                    yield "itself"
            elif distance < (clear if pair & self._robot else clear_held):
                yield self._world.body(others.pop()).name or "something"

    def _boxes_of(self, bodies: Collection[int]) -> npt.NDArray[np.intp]:
        """Return the geoms of some bodies that are boxes."""
        boxes = self._world.geom_type == mujoco.mjtGeom.mjGEOM_BOX
        return np.flatnonzero(boxes & np.isin(self._world.geom_bodyid, list(bodies)))

    def _near_boxes(self, clear: float) -> Iterator[tuple[list[int], float]]:
        """Yield the boxes of the hand, and of what it holds, with those around that are nearer than `clear` [m], and how far.

        MuJoCo's contacts tell of all boxes that touch, but leave out some that are a few millimetres apart.
        """
        world, data, others, hand = self._world, self._data, self._others, self._near
        ways = data.geom_xpos[hand] - data.geom_xpos[others][:, None]
        beside = np.abs(ways @ data.geom_xmat[others].reshape(-1, 3, 3)) - self._other_sizes
        near = beside.max(axis=2) < world.geom_rbound[hand] + clear
        for other, own in np.argwhere(near).tolist() if near.any() else ():
            geoms = [int(hand[own]), int(others[other])]
            distance = mujoco.mj_geomDistance(world, data, *geoms, clear, None)
            if distance < clear:
                yield geoms, distance

    def _bodies_below(self, root: str) -> frozenset[int]:
        top = self._world.body(root).id
        found = {top}
        for body in range(top + 1, self._world.nbody):
            if int(self._world.body_parentid[body]) in found:
                found.add(body)
        return frozenset(found)

    # -- ways ---------------------------------------------------------------------------------------------------------

    def hand(self, q: Joints) -> HandPose:
        """Return where the hand is with the arm there."""
        pose = self._configuration(q).get_transform_frame_to_world(self._site, "site")
        x, y, z = pose.translation().tolist()
        return HandPose((x, y, z), tuple(pose.rotation().wxyz.tolist()))

    @property
    def shoulder(self) -> Vector:
        """Return where the arm begins [m]."""
        return self._data.xpos[int(self._world.joint(self.joints[0]).bodyid[0])].copy()

    def here(self) -> HandPose:
        """Return where the hand is now."""
        site, quaternion = self._data.site(self._site), np.empty(4)
        mujoco.mju_mat2Quat(quaternion, site.xmat)
        return HandPose.at(site.xpos, quaternion)

    def solutions(self, pose: HandPose, start: Joints) -> Iterator[Vector]:
        """Yield joints that bring the hand to a pose and touch nothing, near `start` first. Raises ArmError for none."""
        near, best, hit, found = np.asarray(start, dtype=float), math.inf, "", 0
        for attempt in range(SEEDS):
            drawn = self._random.uniform(self.lower, self.upper)
            seed = near + (drawn - near) * min(1.0, attempt / WIDE)
            q, off_m, off_rad = self._descend(_se3(pose), seed)
            best = min(best, off_m)
            if off_m <= REACHED_M and off_rad <= REACHED_RAD:
                hit = self.touched(q)
                if not hit:
                    found += 1
                    yield q
            if attempt + 1 == FAR_STARTS and best > FAR_M:
                break
        if not found and hit:
            raise ArmError(f"the hand is blocked by {hit} there")
        if not found:
            at = ", ".join(f"{v:.2f}" for v in pose.position)
            raise ArmError(f"the place ({at}) m is unreachable that way; the hand comes within {best:.2f} m")

    def way(self, start: Joints, goal: Vector) -> list[Vector]:
        """Return a path of joints that touches nothing, with as much room around as `WAY_CLEAR_M` gives.

        Where MoveIt finds the ways it is the goal alone. Raises NoWay where none is found, and ArmError where an end touches
        something.
        """
        begin = np.asarray(start, dtype=float)
        if hit := self.touched(begin):
            raise ArmError(f"the arm touches {hit} already")
        if hit := self.touched(goal):
            raise ArmError(f"the arm is blocked by {hit} there")
        if not self.finds_ways:
            return [goal]
        hit = ""
        rooms = list(zip(WAY_CLEAR_M, PLAN_S, strict=True))
        for clear, most_s in rooms[:1] if self.hasty else rooms:
            with self._keeping(clear, begin, goal):
                hit = self._blocked([begin, goal])
                if not hit:
                    return [begin, goal]
                if path := self._around_it(begin, goal, most_s):
                    return path
        raise NoWay(f"no free way was found; the straight one is blocked by {hit}")

    def _around_it(self, begin: Vector, goal: Vector, most_s: float) -> list[Vector]:
        """Return the shortest of `WAYS` paths by RRT-Connect, as the first one found may swing far out; empty for none in time,
        and for a long one in haste."""
        setup, best, shortest = self._setup, list[Vector](), math.inf
        width, until, straight = len(self.joints), time.thread_time() + most_s, float(np.abs(goal - begin).max())
        for _ in range(WAYS):
            setup.clear()
            for state, joints in zip(self._ends, (begin, goal), strict=True):
                for i, value in enumerate(np.clip(joints, self.lower, self.upper)):
                    state[i] = float(value)
            setup.setStartAndGoalStates(*self._ends)
            setup.solve(self._until(until))
            self._check_stop()
            if not setup.haveExactSolutionPath():
                break
            setup.simplifySolution(self._until(time.thread_time() + SIMPLIFY_S))
            self._check_stop()
            found = setup.getSolutionPath()
            setup.getPathSimplifier().smoothBSpline(found, ROUNDED)
            path = [np.array([found.getState(k)[i] for i in range(width)]) for k in range(found.getStateCount())]
            length = float(np.abs(np.diff(path, axis=0)).max(axis=1).sum())
            if length < shortest:
                best, shortest = path, length
            if shortest <= GOOD * straight:
                break
        return best if not self.hasty or shortest <= straight + DETOUR_RAD else []

    def _until(self, thread_s: float) -> base.PlannerTerminationCondition:
        """Return when OMPL is to end: at a stop, or at a processor time, which a busy machine does not shorten."""
        return base.PlannerTerminationCondition(lambda: self.stopped() or time.thread_time() >= thread_s)

    def line(self, start: Joints, poses: Sequence[HandPose], touch: Collection[str] = ()) -> list[Vector]:
        """Return joints along a straight way of the hand from where it is through all poses, touching nothing but `touch`.

        Raises ArmError, also where the arm would have to swing over on the way.
        """
        path = [np.asarray(start, dtype=float)]
        here = self.hand(start)
        with self._touching(touch):
            for pose in poses:
                a, b = _se3(here), _se3(pose)
                turn = (a.rotation().inverse() @ b.rotation()).log()
                way = b.translation() - a.translation()
                steps = max(1, math.ceil(max(np.linalg.norm(way) / LINE_M, np.linalg.norm(turn) / LINE_RAD)))
                for k in range(1, steps + 1):
                    part = k / steps
                    rotation = a.rotation() @ mink.SO3.exp(turn * part)
                    step = mink.SE3.from_rotation_and_translation(rotation, a.translation() + way * part)
                    q, off_m, off_rad = self._descend(step, path[-1])
                    if off_m > REACHED_M or off_rad > REACHED_RAD:
                        raise ArmError(f"the straight way of the hand is unreachable from its step {k} of {steps} on")
                    if np.abs(q - path[-1]).max() > JUMP_RAD:
                        raise ArmError("the arm would have to swing over on the straight way of its hand")
                    if hit := self.touched(q):
                        raise ArmError(f"the straight way of the hand is blocked by {hit}")
                    path.append(q)
                here = pose
        return path

    def _blocked(self, path: Sequence[Vector]) -> str:
        """Return what is in the way of a path; "" for nothing."""
        for a, b in pairwise(path):
            steps = max(1, math.ceil(np.abs(b - a).max() / CHECK_RAD))
            for k in range(steps + 1):
                if hit := self.touched(a + (b - a) * k / steps):
                    return hit
        return ""

    def _check_stop(self) -> None:
        """Raise PlanningStopped at a stop."""
        if self.stopped():
            raise PlanningStopped("stopped while its way was planned")

    @contextmanager
    def _keeping(self, clear: float, *narrow: Vector) -> Iterator[None]:
        """Keep another distance from what stands around [m], but not near these joints."""
        self._clear, self._narrow = clear, narrow
        try:
            yield
        finally:
            self._clear, self._narrow = CLEAR_M, ()

    @contextmanager
    def _touching(self, names: Collection[str]) -> Iterator[None]:
        """Allow contact with bodies of these names, and what hangs on them."""
        known = [name for name in names if mujoco.mj_name2id(self._world, mujoco.mjtObj.mjOBJ_BODY, name) >= 0]
        before = self._touchable
        self._touchable = before | {body for name in known for body in self._bodies_below(name)}
        try:
            yield
        finally:
            self._touchable = before

    # -- inverse kinematics -------------------------------------------------------------------------------------------

    def _configuration(self, q: Joints) -> mink.Configuration:
        """Return the robot as mink has it, where its base stands now, with the arm's joints there."""
        whole = self._own.qpos0.copy()
        stands = self._data.qpos[self._around.base]
        whole[self._base : self._base + len(stands)] = stands
        whole[self._adr] = q
        self._configured.update(whole)
        return self._configured

    def _descend(self, target: mink.SE3, seed: Vector) -> tuple[Vector, float, float]:
        """Return the joints that the descent from a seed ends at, and how far the hand is then from the target [m, rad]."""
        self._check_stop()
        configuration = self._configuration(np.clip(seed, self.lower, self.upper))
        task = mink.FrameTask(self._site, "site", position_cost=1.0, orientation_cost=0.3, lm_damping=1e-2)
        task.set_target(target)
        posture = mink.PostureTask(self._own, cost=1e-3)
        posture.set_target(configuration.q)
        limits = [mink.ConfigurationLimit(self._own)]
        off_m = off_rad = before = math.inf
        for step in range(IK_STEPS):
            error = task.compute_error(configuration)
            off_m, off_rad = float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:]))
            if off_m <= REACHED_M / 4 and off_rad <= REACHED_RAD / 4:
                break
            if step % STALLED_STEPS == 0:
                if off_m + off_rad > STALLED * before:
                    break
                before = off_m + off_rad
            velocity = mink.solve_ik(
                configuration, [task, posture], IK_DT, "daqp", damping=1e-3, limits=limits, constraints=self._still
            )
            configuration.integrate_inplace(velocity, IK_DT)
        return configuration.q[self._adr].copy(), off_m, off_rad


def _se3(pose: HandPose) -> mink.SE3:
    """Return a pose as mink has it."""
    return mink.SE3.from_rotation_and_translation(mink.SO3(np.array(pose.orientation)), np.array(pose.position))
