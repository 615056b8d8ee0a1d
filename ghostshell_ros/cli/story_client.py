# SPDX-License-Identifier: Apache-2.0
"""What a demonstration says to Kalos and hears of it: tasks, the halt, the person of its world, processes, events, pose."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from ghostshell.action import RunTask
from ghostshell.msg import KernelState, ReflexState, ReflexStateArray
from ghostshell.srv import QueryMemory
from nav_msgs.msg import Odometry
from std_srvs.srv import SetBool, Trigger

from ghostshell_ros.cli.loops_feed import LoopsClient
from ghostshell_ros.runtime.goal_client import GoalClient
from ghostshell_ros.runtime.node_runtime import LATCHED, SENSORS, NodeHost
from ghostshell_ros.wire.values import yaw_of
from skill_kernel.skills.drivers import Pose2D

DRIVERS = ("drive_driver", "navigate_driver", "posture_driver", "speak_driver", "play_sound_driver")
"""Those the story needs."""


class StoryClient(LoopsClient):
    """Says instructions to a robot and hears what becomes of all its processes."""

    def __init__(self, robot: str) -> None:
        super().__init__(robot, "ghostshell_story")
        self.pose: Pose2D | None = None
        self.halted = False
        self.reflexes: dict[str, str] = {}
        """Sentences of those that are watching now, by name."""
        self._kernel_seen = False
        self._task_ready = False
        self._drivers: dict[str, bool] = {}
        self._task = GoalClient(self, RunTask, "run_task")
        self._halt = self.create_client(Trigger, "halt")
        self._person = self.create_client(SetBool, "world/person")
        self._memory = self.create_client(QueryMemory, "/query_memory")
        self.create_subscription(KernelState, "kernel_state", self._on_kernel, LATCHED)
        self.create_subscription(ReflexStateArray, "reflex_states", self._on_reflexes, LATCHED)
        self.create_subscription(DiagnosticArray, "driver_states", self._on_drivers, LATCHED)
        self.create_subscription(Odometry, "odom", self._on_odometry, SENSORS)
        self.steady_timer(0.1, self._look)
        self._lacking = "the robot"

    @property
    def lacking(self) -> str:
        """What the story needs and what is not there yet; empty when it can begin."""
        return self._lacking

    def say(self, instruction: str) -> None:
        """Send a task; it goes on whatever becomes of the ones before."""
        goal = RunTask.Goal(instruction=instruction, sender="demonstration", door="action")
        self.call_soon(lambda: self._task.send(goal, on_end=lambda end, result: None))

    def halt(self) -> None:
        """Latch the safety gate."""
        self.call_soon(lambda: self._halt.call_async(Trigger.Request()))

    def send_person(self, forth: bool) -> None:
        """The simulated person walks into the hallway, or back to where nobody sees them."""
        self.call_soon(lambda: self._person.call_async(SetBool.Request(data=forth)))

    def _look(self) -> None:
        active = {name for name, is_active in self._drivers.items() if is_active}
        needs = {
            "the skill kernel": self._kernel_seen,
            "the process scheduler": self._task.server_is_ready(),
            "the safety gate": self._halt.service_is_ready(),
            **{name: name in active for name in DRIVERS},
            "odometry": self.pose is not None,
            "a reflex that is watching": bool(self.reflexes),
            "the simulation's person": self._person.service_is_ready(),
            "the memory": self._memory.service_is_ready(),
        }
        self._lacking = ", ".join(what for what, there in needs.items() if not there)

    def _on_kernel(self, message: KernelState) -> None:
        self._kernel_seen, self.halted = True, message.halted

    def _on_reflexes(self, message: ReflexStateArray) -> None:
        watching = (r for r in message.reflexes if r.state == ReflexState.APPROVED and r.holds != ReflexState.UNKNOWN)
        self.reflexes = {r.name: r.sentence for r in watching}

    def _on_drivers(self, message: DiagnosticArray) -> None:
        self._drivers = {s.name.rsplit("/", 1)[-1]: s.level == DiagnosticStatus.OK for s in message.status}

    def _on_odometry(self, message: Odometry) -> None:
        pose = message.pose.pose
        self.pose = Pose2D(pose.position.x, pose.position.y, yaw_of(pose.orientation))


def open_story(robot: str) -> tuple[NodeHost, StoryClient]:
    """A client of the robot, spun on a thread of its own; close the host when done."""
    client = StoryClient(robot)
    host = NodeHost([client])
    host.start()
    return host, client
