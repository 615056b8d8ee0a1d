# SPDX-License-Identifier: Apache-2.0
"""The simulated robot of a run: brought up with all its nodes, arranged, told what to do, waited for with deadlines."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rclpy
from ghostshell.action import RunTask
from ghostshell.srv import ControlProcess
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

from bench.clearing import Clearing
from bench.evaluation.faults import HungError
from bench.evaluation.listener import Listener
from ghostshell_ros import launcher
from ghostshell_ros.runtime.data import keys_folder
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.runtime.signing import signed
from skill_kernel.processes.process import ProcessStatus
from skill_kernel.robot import RobotConfig
from skill_kernel.roles import Act, key_role

UP_S = 90.0
WARM_S = 6.0
"""The models' clients are made on a thread, which slows the first seconds."""
ANSWER_S = 5.0
QUIET_S = 10.0
SETTLE_S = 1.5
"""Until detector, lidar's map and observer know the new place."""


class Robot:
    """Talks to the robot from the caller's thread; `heard` holds what it told."""

    def __init__(self, heard: Listener, exited: list[str]) -> None:
        self.heard = heard
        self._drivers = tuple(RobotConfig.load(heard.robot).drivers)
        self.exited = exited
        """Its processes that have ended."""
        self.cost_aware = True
        self._task = GoalClient(heard, RunTask, "run_task")
        self._control = heard.create_client(ControlProcess, "control_process")
        self._triggers: dict[str, Any] = {name: heard.create_client(Trigger, name) for name in ("sim/reset", "sim/arrange")}
        self._triggers["clear_halt"] = Clearing(heard)
        self._parameters: dict[str, Any] = {}
        self._ready = False
        heard.steady_timer(0.1, self._look)

    def _look(self) -> None:
        services = all(c.service_is_ready() for c in self._triggers.values())
        self._ready = self._task.server_is_ready() and services and self._control.service_is_ready()

    def wait_up(self) -> None:
        """Until it can take a task. Raises HungError."""
        self.wait(
            lambda: (
                self._ready
                and self.heard.kernel_seen
                and self.heard.pose is not None
                and all(self.heard.drivers.get(d) for d in self._drivers)
            ),
            UP_S,
            "the robot is not up",
        )

    def wait(self, come: Callable[[], object], limit_s: float, what: str) -> None:
        """Until a message has brought something. Raises HungError at the deadline, or when one of its processes ended."""
        end = time.monotonic() + limit_s
        with self.heard.changed:
            while not come():
                if self.exited:
                    raise HungError(f"{what}: {'; '.join(self.exited)}")
                if (left := end - time.monotonic()) <= 0:
                    raise HungError(f"{what} within {limit_s:g} s")
                self.heard.changed.wait(min(left, 0.1))

    def arrange(self, arrangement: str, *, anew: bool) -> None:
        """Put the world as it says. Raises HungError."""
        self.set("sim", "arrangement", arrangement)
        answer = self._call(self._triggers["sim/reset" if anew else "sim/arrange"], Trigger.Request(), "the simulator")
        if not answer.success:
            raise HungError(f"the simulator did not arrange {arrangement}: {answer.message}")

    def set(self, node: str, name: str, value: str | bool) -> bool:
        """Set a parameter of one of its nodes; whether the node took it. Raises HungError when there is no such node."""
        kind = ParameterType.PARAMETER_BOOL if isinstance(value, bool) else ParameterType.PARAMETER_STRING
        given = ParameterValue(type=kind, **({"bool_value": value} if isinstance(value, bool) else {"string_value": value}))
        client = self._parameters.get(node)
        if client is None:
            client = self._parameters[node] = self.heard.create_client(SetParameters, f"{node}/set_parameters")
        request = SetParameters.Request(parameters=[Parameter(name=name, value=given)])
        return all(result.successful for result in self._call(client, request, f"{node}'s parameters").results)

    def tell(self, instruction: str, strategy: str) -> tuple[str, Callable[[], str]]:
        """Give a task: its process, and what gives its status once it has ended. Raises HungError when it is not taken."""
        ends: list[tuple[str, int, str, str]] = []
        known: list[str] = []

        def ended(end: GoalEnd, result: RunTask.Result | None) -> None:
            with self.heard.changed:
                if result is None or end in (GoalEnd.REJECTED, GoalEnd.UNKNOWN):
                    ends.append(("FAILED", 526, f"the task was not taken ({end.value})", ""))
                else:
                    ends.append((ProcessStatus(result.status).name, result.error_code, result.error_msg, result.process_id))
                self.heard.changed.notify_all()

        def told(feedback: RunTask.Feedback) -> None:
            with self.heard.changed:
                known.append(feedback.state.process_id)
                self.heard.changed.notify_all()

        goal = RunTask.Goal(instruction=instruction, sender="bench", door="action", strategy=strategy)
        goal = signed(self.heard, "run_task", goal, key_role(Act.INSTRUCT))
        self.heard.call_soon(lambda: self._task.send(goal, on_end=ended, on_feedback=told))
        self.wait(lambda: known or ends, ANSWER_S, f"no process was made of “{instruction}”")
        process_id = known[0] if known else ends[0][3]
        return process_id, lambda: ends[0][0] if ends else ""

    def quiet(self) -> None:
        """End every process and wait until nothing runs and the halt, if there is one, is cleared. Raises HungError."""
        for process_id in list(self.heard.living):
            stop = ControlProcess.Request(process_id=process_id, command=ControlProcess.Request.STOP, cause="the trial is over")
            self._call(self._control, stop, "the process scheduler")
        if self.heard.halted:
            self._call(self._triggers["clear_halt"], Trigger.Request(), "the safety gate")
        self.wait(
            lambda: (
                not self.heard.living
                and not self.heard.running
                and not self.heard.halted
                and all(self.heard.drivers.get(d) for d in self._drivers)
            ),
            QUIET_S,
            "something still runs or is halted",
        )

    def _call(self, client: Any, request: Any, whom: str) -> Any:
        answers: list[Any] = []

        def send() -> None:
            client.call_async(request).add_done_callback(answered)

        def answered(future: Any) -> None:
            with self.heard.changed:
                answers.append(future.result())
                self.heard.changed.notify_all()

        end = time.monotonic() + ANSWER_S
        while not client.service_is_ready():
            if time.monotonic() > end:
                raise HungError(f"{whom} is not there")
            time.sleep(0.02)
        self.heard.call_soon(send)
        self.wait(lambda: answers, ANSWER_S, f"{whom} did not answer")
        return answers[0]


@contextmanager
def brought_up(
    arguments: Mapping[str, str], data: Path, log: Path, listener: Callable[[], Listener] = lambda: Listener("kalos")
) -> Iterator[Robot]:
    """Bring up the listener's robot with all its nodes, its data in `data`, what they say in `log`. Raises HungError when it
    does not come up."""
    log.parent.mkdir(parents=True, exist_ok=True)
    exited: list[str] = []
    guard = threading.Lock()
    with log.open("a", encoding="utf-8") as file:

        def listen(event: launcher.Event) -> None:
            with guard:
                if file.closed:
                    return
                print(event, file=file, flush=True)
                if event.returncode is not None:
                    exited.append(f"{event.name} ended with status {event.returncode}; {log} says why")

        environment = {**os.environ, "GHOSTSHELL_DATA": str(data), "GHOSTSHELL_KEYS": str(keys_folder())}
        own = not rclpy.ok()
        if own:
            rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        try:
            heard = listener()
            specs = launcher.describe(heard.robot, {"default_robot": "false", "page": "false", **arguments}, environment)
            robot = Robot(heard, exited)
            with launcher.LaunchRun(specs, listener=listen) as run, NodeHost([heard]) as host:
                run.start()
                host.start()
                robot.wait_up()
                time.sleep(WARM_S)
                yield robot
                exited.clear()
        finally:
            if own:
                rclpy.try_shutdown()
