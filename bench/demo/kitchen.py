# SPDX-License-Identifier: Apache-2.0
"""The kitchen's demonstration: two robots find, roast and table an apple, which somebody drops into the bin on the way."""

from __future__ import annotations

import json
from pathlib import Path

from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.task import Future
from std_srvs.srv import Trigger

from bench.demo.film import FilmReel
from bench.demo.processes import ProcessView, draw_processes
from ghostshell_ros.cli.follow import RobotClient
from ghostshell_ros.wire.events import read_events
from planners.prompts.blocks import Layer
from skill_kernel.events import CallEvent, CallKind, Notice, RunEvent

TASK = "Find the apple, roast it in the oven and bring it to the table."
COMES, TAKEN = ("go_to", "in_front_of_table"), {"apple": [0.36, -0.44, 0.0, 0.75]}
"""The call of who comes for the apple, and where it lies from then on: in the bin, which only the other robot reaches."""


class KitchenClient(RobotClient):
    """Give the team its task and, with `takes`, play the person who drops the apple into the bin, once."""

    def __init__(self, team: str, *, film: bool, takes: bool) -> None:
        super().__init__(team)
        self._takes = takes
        self.reel = FilmReel(self, every_s=0.6) if film else None
        self.taken_s: float | None = None
        """ROS time at which the apple was taken away [s]."""
        self.fault = ""
        self.rejected: list[tuple[float, str]] = []
        """Plans that the critic stopped: ROS time [s] and its sentence."""
        self._set = self.create_client(SetParameters, "sim/set_parameters")
        self._arrange = self.create_client(Trigger, "sim/arrange")
        read_events(self, self._event)

    def _event(self, event: RunEvent) -> None:
        if isinstance(event, Notice) and event.layer == Layer.CRITIC.value:
            self.rejected.append((event.stamp_s, event.told))
        elif isinstance(event, CallEvent) and event.kind is CallKind.STARTED and self._takes and not self.taken_s:
            self._called(event)

    def _called(self, call: CallEvent) -> None:
        """Take the apple away when somebody comes for it."""
        if (call.function, call.arguments.get("point")) != COMES:
            return
        self.taken_s = self.now_s()
        value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=json.dumps(TAKEN))
        request = SetParameters.Request(parameters=[Parameter(name="arrangement", value=value)])

        def arranged(future: Future) -> None:
            answer = future.result()
            self.fault = "" if answer.success else f"the simulator did not take the apple away: {answer.message}"

        self._set.call_async(request).add_done_callback(
            lambda _: self._arrange.call_async(Trigger.Request()).add_done_callback(arranged)
        )

    def draw(self, path: Path) -> None:
        """Write a PNG of what both robots did, what was thought, and where the critic said no."""
        model = self.view.model
        view = ProcessView(
            model, origin_s=min((p.states[0].begin_s for p in model.processes.values() if p.states), default=0.0)
        )
        view.since(self.now_s())
        view.marks = [(at, "the critic says no") for at, _ in self.rejected]
        if self.taken_s is not None:
            view.marks.append((self.taken_s, "somebody drops the apple into the bin"))
        draw_processes(view, path, title="two robots in a kitchen, strategy closed_loop", note="measured in simulation")
