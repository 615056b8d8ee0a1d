# SPDX-License-Identifier: Apache-2.0
"""Ask the services of one robot and its `run_task` for the page. On the executor's thread only."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

from ghostshell.action import RunTask
from ghostshell.srv import AnswerQuestion, CompileReflex, ControlHalt, ControlProcess, Prescribe
from rcl_interfaces.srv import GetParameters
from rclpy.parameter import parameter_value_to_python

from ghostshell_ros.nodes.dashboard.feeds import RobotReader
from ghostshell_ros.nodes.dashboard.routine_rules import KIND, RoutineRules
from ghostshell_ros.runtime.data import data_folder
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.runtime.signing import signed
from skill_kernel.codes import Achievement
from skill_kernel.processes.process import ProcessStatus
from skill_kernel.robot import RobotConfig, RobotConfigError
from skill_kernel.roles import Role

Then = Callable[[bool, str], object]

TRIED_S = 4.5
"""Time in which a robot takes a task or answers a service; the page waits a little longer."""
PROBE_S = 0.05
"""Time between two looks for a robot's `run_task` or service, while a task or request waits for it."""
HARMLESS: dict[str, tuple[Any, dict[str, Any]]] = {
    "control_process": (ControlProcess, {"process_id": "none", "command": ControlProcess.Request.PAUSE}),
    "control_halt": (ControlHalt, {"command": ControlHalt.Request.LOOK}),
    "compile_reflex": (CompileReflex, {"command": CompileReflex.Request.LIST, "name": "none"}),
    "prescribe": (Prescribe, {"command": Prescribe.Request.ROUTE, "kind": Prescribe.Request.ANY, "sentence": "stand still"}),
    "answer_question": (AnswerQuestion, {"question_id": "none", "text": "none"}),
}
"""The services by which a robot is told to do something, and what changes nothing: it proves that its answers arrive."""


class RobotServices:
    """Ask one robot or team; what it says of itself goes to its page."""

    def __init__(self, node: RuntimeNode, name: str, reader: RobotReader) -> None:
        self.name = name
        self._node, self._reader = node, reader
        self._clients: dict[str, ServiceClient] = {}
        self._asked = False
        self._tasks: GoalClient | None = None
        self.routines: RoutineRules | None = None
        """None until its file is known, and for a robot of another machine."""

    def connect(self, served: Collection[str]) -> None:
        """Make clients of those of its services that are among the ones of the graph, and prove that their answers arrive.

        Called again and again while somebody looks; its routines are read then, too.
        """
        for name, (kind, harmless) in HARMLESS.items():
            if name not in self._clients and f"/{self.name}/{name}" in served:
                client = self._clients[name] = ServiceClient(self._node, kind, f"/{self.name}/{name}")
                client.prove(partial(kind.Request, **harmless), self.looked if kind is ControlHalt else lambda _: None)
        if self._tasks is None and f"/{self.name}/run_task/_action/send_goal" in served:
            self._tasks = GoalClient(self._node, RunTask, f"/{self.name}/run_task")
            self._probe()
        owner = f"/{self.name}/{'team_planner' if self._reader.page.team else 'process_scheduler'}/get_parameters"
        if not self._asked and owner in served:
            self._asked = True
            client = ServiceClient(self._node, GetParameters, owner)
            client.prove(partial(GetParameters.Request, names=["robot", "hour_tokens"]), partial(self._configured, client))

        if self.routines is not None:
            self._reader.page.rules(KIND, self.routines.rules())

    def ask(self, service: str, request: Any, role: Role, then: Callable[[Any], object]) -> None:
        """Ask a service by the key of a role, once it is known that its answers arrive; `then` hears the answer, or None when
        none comes in TRIED_S."""
        until_s = self._node.steady_now() + TRIED_S

        def send() -> None:
            client, left_s = self._clients.get(service), until_s - self._node.steady_now()
            if left_s <= 0.0:
                then(None)
            elif client is None or not client.proven:  # somebody has only just begun to look
                self._node.call_later(PROBE_S, send)
            else:
                path = f"/{self.name}/{service}"
                sent = signed(self._node, path, request, role) if hasattr(request, "proof") else request
                client.ask(sent, then, deadline_s=left_s, wait_s=left_s)

        send()

    def instruct(self, text: str, sender: str, role: Role, then: Then) -> None:
        """Send a task that goes on whoever looks. `then` hears once that the robot has begun it, or why not."""
        told: list[Then] = [then]
        until_s = self._node.steady_now() + TRIED_S

        def tell(ok: bool, message: str) -> None:
            if told:
                told.pop()(ok, message)

        def ended(end: GoalEnd, result: RunTask.Result | None) -> None:
            if result is None or end in (GoalEnd.REJECTED, GoalEnd.UNKNOWN):
                tell(False, f"{self.name} did not take the task")
            else:
                done = result.status == ProcessStatus.SUCCESS or result.achievement == Achievement.DONE
                tell(done, result.error_msg or ProcessStatus(result.status).name)

        def send() -> None:
            if self._tasks is None or not self._tasks.server_is_ready():
                if self._node.steady_now() > until_s:
                    tell(False, f"{self.name} takes no tasks now: its process_scheduler does not answer")
                else:
                    self._node.call_later(PROBE_S, send)
                return
            goal = signed(
                self._node, f"/{self.name}/run_task", RunTask.Goal(instruction=text, sender=sender, door="page"), role
            )
            sent = self._tasks.send(goal, on_end=ended, on_feedback=lambda f: tell(True, f"process {f.state.process_id}"))

            def late() -> None:
                if told:
                    sent.abandon()
                    tell(False, f"{self.name} did not answer in time, so the task was taken back")

            self._node.call_later(TRIED_S, late)

        send()

    def look_at_halt(self) -> None:
        """Ask for the number of the newest halt, by which a clear says which one it means."""
        if "control_halt" in self._clients:
            request = ControlHalt.Request(command=ControlHalt.Request.LOOK)
            self._clients["control_halt"].ask(request, self.looked, deadline_s=1.0)

    def _probe(self) -> None:
        if self._tasks is not None and not self._tasks.server_is_ready():
            self._node.call_later(4 * PROBE_S, self._probe)

    def looked(self, answer: Any) -> None:
        """Take the number of the newest halt from an answer of the gate; None where none came."""
        if answer is not None:
            self._reader.page.halt(number=answer.number)

    def _configured(self, client: ServiceClient, answer: Any) -> None:
        self._node.destroy_client(client.client)
        robot, tokens = ([parameter_value_to_python(value) for value in answer.values] + [None, None])[:2]
        if tokens:
            for loop in ("s1", "s2", "s3"):
                self._reader.page.budget(loop, f"{tokens:,} tokens/h")
        if robot:
            with suppress(RobotConfigError):  # another machine's file
                config = RobotConfig.load(robot)
                self._reader.about(config)
                self.routines = RoutineRules(config, data_folder())
