# SPDX-License-Identifier: Apache-2.0
"""Run CLEA's trials in the simulator over real nodes: the same worlds, tasks and judge, with physics, messages and real time.

Both robots are brought up anew for each run. The kitchen is arranged as the trial's seed says; what disturbs them happens when
an action has ended, because nobody knows before when it will.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from ghostshell.msg import KernelState
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from std_msgs.msg import String
from std_srvs.srv import Trigger
from vision_msgs.msg import Detection3DArray

from bench.clea.kitchen import ROBOTS, SURFACES, Kitchen, scenery
from bench.clea.pictures import Cameras
from bench.clea.trials import DEADLINE_S, Setting, Trial, setting
from bench.clea.virtual import VARIANTS, Run
from bench.clearing import Clearing
from bench.evaluation.faults import HungError
from bench.evaluation.models import simulated
from bench.evaluation.propositions import Fact, Moment
from bench.evaluation.settings import settings
from bench.evaluation.trace import Recorder, Trace
from ghostshell_ros import launcher
from ghostshell_ros.arms.scenery import HANDLE, OPENED, SHUT
from ghostshell_ros.cli.follow import NotThereError, RobotClient, wait_ready
from ghostshell_ros.cli.robot_client import spun
from ghostshell_ros.runtime.data import config_folder, keys_folder
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import LATCHED, SENSORS
from skill_kernel.events import CallEvent, CallKind, Notice, RunEvent
from skill_kernel.processes.process import ProcessStatus

TEAM = "kitchen"
UP_S, ANSWER_S, SETTLE_S, LOOK_S = 180.0, 20.0, 3.0, 0.2
"""Limits on the start and on an answer, the wait until things lie still, and the time between two looks at the truth."""

APART_M, EDGE_M, DROP_M = 0.12, 0.04, 0.01
"""Distance of two things of a space at most, of the outer ones from its edge, and what they fall at the start [m]."""

TALL = ("milk", "water")
"""Things that no drawer closes over."""


class KitchenClient(RobotClient):
    """Give the team its task, hear what is true, and disturb it."""

    def __init__(self, world: Setting) -> None:
        super().__init__(TEAM)
        self.result = Run(Trace(), [])
        self.kitchen = world.kitchen()
        """The kitchen as it is held to be: what a disturbance goes by."""
        self._disturbance, self._awaited = world.disturbance, world.disturbance.kind != "nothing"
        self._recorder = Recorder(self.result.trace)
        self._places: dict[str, tuple[float, float, float]] = {}
        self._hands: dict[str, str] = {}
        self._sights: dict[str, frozenset[str]] = {}
        self._actions = self._picks = 0
        self._watches = False
        self._clear = {robot: Clearing(self, robot) for robot in ROBOTS}
        self._stopped: dict[str, str] = {}
        """Robots that are halted, and why."""
        self._set = self.create_client(SetParameters, "sim/set_parameters")
        self._ask = {name: self.create_client(Trigger, f"sim/{name}") for name in ("reset", "arrange")}
        for name in (*scenery().things, *(door + HANDLE for door in scenery().doors)):
            self.create_subscription(PoseStamped, f"ground_truth/{name}", partial(self._placed, name), SENSORS)
        for robot in ROBOTS:
            self.create_subscription(KernelState, f"/{robot}/kernel_state", partial(self._state, robot), LATCHED)
            self.create_subscription(String, f"/{robot}/hand", partial(self._held, robot), LATCHED)
            self.create_subscription(Detection3DArray, f"/{robot}/things", partial(self._sees, robot), SENSORS)
        read_events(self, self._event)
        self.steady_timer(LOOK_S, self._look)

    # -- the truth ----------------------------------------------------------------------------------------------------

    def _placed(self, name: str, message: PoseStamped) -> None:
        at = message.pose.position
        self._places[name] = at.x, at.y, at.z

    def _state(self, robot: str, message: KernelState) -> None:
        self._stopped.pop(robot, None)
        if message.halted:
            self._stopped[robot] = message.halt_cause

    def _held(self, robot: str, message: String) -> None:
        self._hands[robot] = message.data
        slips = self._awaited and self._disturbance.kind == "slip" and self._picks >= self._disturbance.action
        if slips and message.data and self._watches:
            self._awaited = False
            self._happen({message.data: "slip"}, f"the {message.data} slipped")

    def _sees(self, robot: str, message: Detection3DArray) -> None:
        self._sights[robot] = frozenset(r.hypothesis.class_id for one in message.detections for r in one.results)

    def _facts(self) -> Iterator[Fact]:
        shares = scenery().shares_open(self._places)
        for door, share in shares.items():
            self.kitchen.doors[door] = share >= OPENED
            if share >= OPENED or share <= SHUT:
                yield "open" if share >= OPENED else "shut", door
        for thing in scenery().things:
            holder = next((robot for robot, held in self._hands.items() if held == thing), "")
            where = holder or (scenery().space_of(self._places[thing], shares) if thing in self._places else "")
            self.kitchen.things[thing] = where
            if where:
                yield "held" if holder else "on_top" if where in SURFACES else "inside", thing, where
        yield from (("seen", thing, robot) for robot, names in self._sights.items() for thing in names)

    def _look(self) -> None:
        if not self._watches:
            return
        facts, moments = frozenset(self._facts()), self.result.moments
        if not moments or moments[-1].facts != facts:
            moments.append(Moment(self.now_s(), facts))

    # -- what happens -------------------------------------------------------------------------------------------------

    def _event(self, event: RunEvent) -> None:
        if not self._watches:
            return
        if isinstance(event, CallEvent):
            robot = next((name for name in event.channels if name in ROBOTS), "")
            event = replace(event, args_json=json.dumps({"robot": robot, **event.arguments}))
            if event.kind is CallKind.STARTED:
                self._actions += 1
                self._picks += event.function == "pick_from"
            elif event.kind is CallKind.ENDED and self._awaited and self._actions >= self._disturbance.action:
                self._disturb()
        elif isinstance(event, Notice):
            self.result.notices.append((event.stamp_s, event.layer, event.told))
        self._recorder.take(event)

    def _disturb(self) -> None:
        what = self._disturbance
        if not what.can(self.kitchen):
            return
        self._awaited = False
        if what.kind == "moved":
            to = next(space for space in what.to if space != self.kitchen.things[what.thing])
            self._happen({what.thing: [*self._free(to)]}, f"somebody moved the {what.thing} to {to}")
        else:
            door = next(door for door, is_open in self.kitchen.doors.items() if is_open)
            self._happen({door: "shut"}, f"the {door} fell shut")

    def _free(self, space: str) -> tuple[float, float, float, float]:
        """Return a free spot of a space: x, y [m], yaw and height [m]."""
        known = scenery().spaces[space]
        x, y, z = known.position
        spots = [(x + dx * known.half[0], y + dy * known.half[1]) for dx in (0.0, 0.6, -0.6) for dy in (0.0, 0.6, -0.6)]
        others = [at[:2] for name, at in self._places.items() if not name.endswith(HANDLE)]
        best = max(spots, key=lambda spot: min(((spot[0] - a) ** 2 + (spot[1] - b) ** 2 for a, b in others), default=1.0))
        return float(best[0]), float(best[1]), 0.0, float(z - known.half[2] + 0.07)

    def _happen(self, wishes: Mapping[str, Any], told: str) -> None:
        self.result.happened.append((self.now_s(), told))
        self._wish(wishes).add_done_callback(lambda _: self._ask["arrange"].call_async(Trigger.Request()))

    def _wish(self, wishes: Mapping[str, Any]) -> Any:
        value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=json.dumps(wishes))
        return self._set.call_async(SetParameters.Request(parameters=[Parameter(name="arrangement", value=value)]))

    # -- from the command's thread ------------------------------------------------------------------------------------

    def arrange(self, wishes: Mapping[str, Any]) -> None:
        """Put the kitchen back to its start, but for what is wished. Raises HungError."""
        _answered(lambda: self._wish(wishes), "the simulator takes no arrangement")
        answer = _answered(
            lambda: self._ask["reset"].call_async(Trigger.Request()), "the simulator did not arrange the kitchen"
        )
        if not answer.success:
            raise HungError(f"the simulator did not arrange the kitchen: {answer.message}")

    def clear(self) -> None:
        """Clear halts that a slow start, or a reset, has brought. Raises HungError."""
        end = time.monotonic() + ANSWER_S
        while self._stopped:
            if time.monotonic() > end:
                raise HungError(f"a robot stays halted: {self._stopped}")
            for robot in tuple(self._stopped):
                _answered(self._clear[robot].call_async, f"the safety gate of {robot} is silent")
            time.sleep(SETTLE_S)

    def follow(self, instruction: str) -> Run:
        """Give the task and wait for its end. Raises HungError where the machine was too slow for the robots."""
        trace = self.result.trace
        trace.asked, self._watches = self.now_s(), True
        sent = self.send(instruction, DEADLINE_S)
        until = time.monotonic() + DEADLINE_S + ANSWER_S
        while sent.end is None and time.monotonic() < until:
            time.sleep(LOOK_S)
        trace.end, trace.process_id = self.now_s(), sent.process_id
        if (end := sent.end) is not None and trace.total < DEADLINE_S:
            trace.status, trace.code, trace.message = ProcessStatus(end.status).name, end.error_code, end.error_msg
        time.sleep(2 * LOOK_S)
        self._watches = False
        if self._stopped:
            raise HungError(f"a robot was halted: {self._stopped}")
        return self.result


def _answered(ask: Callable[[], Any], fault: str) -> Any:
    """Return the answer of a service. Raises HungError."""
    end, asked = time.monotonic() + ANSWER_S, ask()
    while not asked.done():
        if time.monotonic() > end:
            raise HungError(fault)
        time.sleep(0.05)
    return asked.result()


def perform(trial: Trial, seed: int, variant: str, model: str, cameras: Cameras, log: Path) -> Run:
    """Run a trial once. `model`: "" for the simulated one, else its name in models.yaml. Raises HungError."""
    world = setting(trial, seed)
    things = {t: "sink" if t in TALL and scenery().spaces[space].moves else space for t, space in world.things.items()}
    world = replace(world, things=things)
    wishes: dict[str, Any] = dict.fromkeys(scenery().doors, "shut")
    wishes |= _spots(Kitchen(dict(world.things)), cameras)
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ghostshell-clea-", ignore_cleanup_errors=True)))
        entries: Mapping[str, Mapping[str, Any]] = {}
        if not model:
            models = stack.enter_context(simulated(0.0, 1.0, seed, log.with_name("model.log")))
            model, entries = models.model, models.entries
        folder = settings(config_folder(), data / "config", entries, {"team_planner": VARIANTS[variant]})
        stack.enter_context(_launched({"model": model, "config_dir": str(folder)}, data, log))
        client = stack.enter_context(spun(lambda: KitchenClient(world)))
        try:
            wait_ready(client, UP_S)
        except NotThereError as error:
            raise HungError(str(error)) from error
        client.arrange(wishes)
        time.sleep(SETTLE_S)
        client.clear()
        return client.follow(trial.instruction)


def _spots(kitchen: Kitchen, cameras: Cameras) -> dict[str, list[float]]:
    """Return where things lie at the start: as far from one another as their space has room, so that hands fit between them."""
    found: dict[str, list[float]] = {}
    for space, known in scenery().spaces.items():
        things = [thing for thing, where in kitchen.things.items() if where == space]
        rows = [things[::2], things[1::2]] if space in SURFACES else [things]
        along = 0 if known.half[0] >= known.half[1] else 1
        for row, across in zip(rows, (0.5, -0.5) if len(rows) > 1 else (0.0,), strict=True):
            apart = min(APART_M, 2 * (float(known.half[along]) - EDGE_M) / max(1, len(row) - 1))
            for k, thing in enumerate(row):
                offset = np.zeros(3)
                offset[along], offset[1 - along] = (k - (len(row) - 1) / 2) * apart, across * known.half[1 - along]
                x, y, _ = (known.position + known.turn @ offset).tolist()
                found[thing] = [x, y, 0.0, cameras.places(kitchen)[thing][2] + DROP_M]
    return found


@contextmanager
def _launched(arguments: Mapping[str, str], data: Path, log: Path) -> Iterator[None]:
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GHOSTSHELL_DATA": str(data), "GHOSTSHELL_KEYS": str(keys_folder())}
    with log.open("a", encoding="utf-8") as file:
        specs = launcher.describe(TEAM, dict(arguments), environment)
        with launcher.LaunchRun(specs, listener=lambda event: print(event, file=file, flush=True)) as run:
            run.start()
            yield
