# SPDX-License-Identifier: Apache-2.0
"""Node `safety_gate`, which every set-point passes: limits, hold on silence, latched halt; a process of its own."""

from collections.abc import Sequence
from functools import partial

import rclpy
from ghostshell.srv import ControlHalt
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from ghostshell_ros.halt_door import HaltDoor
from ghostshell_ros.nodes.safety_gate.base_ports import BasePorts
from ghostshell_ros.runtime.node import Health, Level, RuntimeNode
from ghostshell_ros.runtime.priority import take_declared_priority
from ghostshell_ros.runtime.signing import Doorkeeper
from ghostshell_ros.wire.events import CLEAR_HINT, EventWriter
from ghostshell_ros.wire.qos import LATCHED, LATCHED_BY_ANY, SENSORS, SET_POINTS
from skill_kernel.codes import CallCode
from skill_kernel.config.sections import CAUSE_CHARS, shown
from skill_kernel.events import Notice, NoticeKind
from skill_kernel.robot import RobotConfig
from skill_kernel.roles import ANYBODY, Caller, HaltLatch, Role
from skill_kernel.safety.base_gate import BaseGate
from skill_kernel.safety.joint_gate import JointGate, Refusal, RefusalKind

ALONE_S = 8.0
"""Time after its start in which a gate that hears another one is the second and ends; later it is the first and stays."""
LISTEN_S = 0.5
"""Time a new gate that hears its robot checks for another running gate before it relays commands."""
LISTEN_LONGER_S = 2.0
"""Time it checks while another publisher of `halted` is seen, whose state is on its way or which has died."""
LISTEN_EVERY_S = 0.05
TWIN_S = 25.0
"""Time for which two of one name may be one: a killed node stays in the graph for up to 20 s (Fast DDS's own lease)."""
UNHEARD_S = 2.5
"""Time after which a sensor that nobody publishes is told. Nodes of one machine find each other in half a second."""
NAMELESS = "_NODE_NAME_UNKNOWN_"
"""Stands for the name of a node just found, which comes a moment later."""


class Publishers:
    """Watch the publishers of a node's topics, by the graph. A second safety gate, of the same name, ends itself."""

    def __init__(self, node: RuntimeNode, topics: Sequence[str]) -> None:
        self._node = node
        self._topics = [node.resolve_topic_name(topic) for topic in topics]
        self._since: dict[str, float] = {}

    def of(self, topic: str) -> list[str]:
        """Return the full name of each publisher's node."""
        found = self._node.get_publishers_info_by_topic(topic)
        return sorted(f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in found)

    def conflict(self, now: float) -> str:
        """Return which topic has a second publisher, and who they are; "" while none has."""
        for topic in self._topics:
            if self._node.count_publishers(topic) < 2:
                self._since.pop(topic, None)
                continue
            names = self.of(topic)
            known = {name for name in names if NAMELESS not in name}
            if now - self._since.setdefault(topic, now) >= (TWIN_S if len(known) < 2 else 0.0):
                return f"{topic} has more than one publisher: {', '.join(names)}; end all but one"
        return ""


class SafetyGate(RuntimeNode):
    """Relay or refuse every set-point, on steady time. A robot has joints, a base, or both; a halt is for all of them.

    Joints: wished positions of `joint_command_in` become `joint_command` while a commander is heard; else the servos hold.

    Base: `cmd_vel`, `cmd_vel_in`, `cmd_vel_reflex` and `cmd_vel_teleop`, of rising rank, become `cmd_vel_gated` at every
    tick, zero when nobody commands, and after a second of that ten times a second. Postures and attitudes are held back
    while halted. An operator who falls silent before `release_teleop` halts the robot.

    `halted` is first published when joints and base have been measured, and `events` says why it halted: also because
    somebody else publishes what it sends or relies on, motion was not ordered, or a sensor cannot be true. Two gates of one
    robot would fight over its body: the one started later ends, and has relayed nothing by then.

    Programs of the same machine halt it through a local socket, too (ghostshell_ros/halt_door.py).
    """

    def __init__(self) -> None:
        super().__init__("safety_gate")
        robot = RobotConfig.load(self.declare("robot", "coco", "robot's name in config/robots, or a YAML file's path"))
        rate = self.declare("rate_hz", 50.0, "set-points a second [Hz]", 20.0, 500.0)
        command_timeout = self.declare(
            "command_timeout_s", 0.2, "silence after which a joint holds and a base stands [s]", 0.02, 2.0
        )
        measurement_timeout = self.declare(
            "measurement_timeout_s", 1.0, "silence of joint_states, odom or scan that halts [s], 0 = never", 0.0, 10.0
        )
        deadman = self.declare("deadman_s", 0.5, "an operator's silence that halts [s]", 0.1, 5.0)
        self._gate = JointGate(robot.joints, timeout_s=command_timeout, measurement_timeout_s=measurement_timeout)
        self._period_s = 1.0 / rate
        self._logged: set[tuple[RefusalKind, str]] = set()
        self._halted_published: bool | None = None
        self._halted_echoes = 0
        self._since = self.steady_now()
        self._alone, self._listened = False, 0
        self._measured = not robot.joints
        self._events = EventWriter(self, Notice)
        self._base: BasePorts | None = None
        topics = ["joint_command"] if robot.joints else []
        topics += ["cmd_vel_gated", "posture", "attitude", "odom", "scan"] if robot.base is not None else []
        self._sole = Publishers(self, topics)
        if robot.base is not None:
            self._base = BasePorts(
                self,
                robot.base,
                BaseGate(
                    robot.base,
                    timeout_s=command_timeout,
                    deadman_s=deadman,
                    sensor_timeout_s=measurement_timeout,
                    source_of=lambda sensor: f" (published by {', '.join(self._sole.of(sensor)) or 'nobody'})",
                ),
                rate_hz=rate,
                events=self._events,
                on_tick=self._publish_halted,
                on_refused=self._log_once,
            )

        self._cause = self.create_publisher(String, "halt_cause", LATCHED)
        self._halted = self.create_publisher(Bool, "halted", LATCHED)
        # A gate that died is still seen in the graph for a while; only one that lives delivers its latched state.
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED_BY_ANY)
        self._command = self.create_publisher(JointState, "joint_command", SET_POINTS) if robot.joints else None
        if robot.joints:
            self.create_subscription(JointState, "joint_command_in", self._on_command, SET_POINTS)
            self.create_subscription(JointState, "joint_states", self._on_joint_states, SENSORS)
        self._latch = HaltLatch()
        self.create_service(Trigger, "halt", self._on_halt)
        self.create_service(Trigger, "clear_halt", self._on_clear)
        for name, clears in (("control_halt", True), ("request_halt", False)):
            self.create_service(ControlHalt, name, partial(self._on_control, Doorkeeper(self, name), clears))
        self._local_door = self._open_door()
        self._timer = self.steady_timer(self._period_s, self._tick)
        self._timer.cancel()
        # A halt must not wait for what plans and draws.
        take_declared_priority(self, 10, -10)
        self._listening = self.steady_timer(LISTEN_EVERY_S, self._listen)
        sensors = ["joint_states"] if robot.joints else []
        sensors += ["odom", *(["scan"] if robot.base.scan else [])] if robot.base is not None else []
        self.call_later(UNHEARD_S, lambda: self._tell_of_silence(sensors))
        # The sensor is watched while the robot stands still, too, when no set-points are due.
        self._watch = self.steady_timer(0.1, self._look_around)

    def _on_joint_states(self, message: JointState) -> None:
        self._measured = self._gate.measure(self.steady_now(), message.name, message.position) or self._measured

    def _listen(self) -> None:
        """Count the turns in which the robot was heard: discovery takes its time, and a stalled process hears nothing."""
        self._listened += self._known()
        for_s = LISTEN_LONGER_S if self.count_publishers("halted") > 1 else LISTEN_S
        if self._listened * LISTEN_EVERY_S >= for_s:
            self._alone = True
            self._listening.cancel()
            if self._base is not None:
                self._base.relaying = True

    def _tell_of_silence(self, sensors: Sequence[str]) -> None:
        """Say which of the robot's own nodes was not started. A simulator takes its time, and says itself why it fails."""
        silent = [sensor for sensor in sensors if not self.count_publishers(sensor)]
        if silent and ("sim", self.get_namespace()) not in self.get_node_names_and_namespaces():
            topics = " and ".join(map(self.resolve_topic_name, silent))
            self.get_logger().error(
                f"nobody publishes {topics}, so nothing can move: start the robot's own node that does, in this namespace "
                f"(--ros-args -r __ns:={self.get_namespace()}), or correct the names of its topics"
            )

    def _on_command(self, message: JointState) -> None:
        if not self._alone:
            return
        now = self.steady_now()
        idle = self._timer.is_canceled()
        if idle:
            # The time until now was spent standing still and must not count as time to move in.
            self._gate.tick(now)
        refusal = self._gate.command(now, message.name, message.position)
        if refusal is not None:
            self._log_once(refusal)
        elif idle:
            self._timer.reset()

    def _tick(self) -> None:
        now = self.steady_now()
        self._publish(now)
        if not self._gate.moving(now):
            self._timer.cancel()

    def _publish(self, now: float) -> None:
        set_points = self._gate.tick(now)
        self._publish_halted()
        if set_points and self._command is not None:
            message = JointState(name=list(set_points), position=list(set_points.values()))
            message.header.stamp = self.get_clock().now().to_msg()
            self._command.publish(message)

    def _look_around(self) -> None:
        now = self.steady_now()
        if self._base is not None:
            self._base.look_around()
        if conflict := self._sole.conflict(now):
            self._halt(conflict)
        if conflict or self._timer.is_canceled():
            self._gate.tick(now)
            self._publish_halted()

    def _open_door(self) -> HaltDoor | None:
        """Open the door for halts by programs of this machine; None where that is not possible."""
        domain, robot = str(self.context.get_domain_id()), self.get_namespace().strip("/")
        try:
            return HaltDoor(
                domain, robot, lambda who, cause, answer: self.call_soon(lambda: answer(self._halt_for(ANYBODY, cause, who)))
            )
        except OSError as error:
            self.get_logger().warning(f"ghostshell halt reaches this robot by ROS alone, which takes seconds: {error}")
            return None

    def _on_halt(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success, response.message = True, self._halt_for(ANYBODY)
        return response

    def _on_clear(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success, response.message = self._clear_for(ANYBODY)
        return response

    def _on_control(
        self, door: Doorkeeper, clears: bool, request: ControlHalt.Request, response: ControlHalt.Response
    ) -> ControlHalt.Response:
        caller = door.caller(request)
        response.success = True
        if request.command == request.HALT:
            response.message = self._halt_for(caller, request.cause)
        elif request.command == request.CLEAR and clears:
            response.success, response.message = self._clear_for(caller, request.number)
        else:
            response.message = self._halt_cause()
        response.error_code = request.NONE if response.success else request.NOT_PERMITTED
        response.halted, response.number = bool(self._halt_cause()), self._latch.number
        response.holder = self._latch.holder.value
        return response

    def _halt_for(self, caller: Caller, why: str = "", who: str = "") -> str:
        """Halt; `who` is known where it is not by a role. The first of several causes stays."""
        said = f": “{shown(why, CAUSE_CHARS)}”" if why.strip() else ""
        by = who or (caller.who if caller.role is not Role.ANONYMOUS else "")
        cause = f"halt was called {f'by {by}' if by else 'without a proof of role'}{said}"
        if self._halt_cause():
            self.get_logger().warning(f"halted already; {cause}")
        self._latch.halt(caller.role)
        self._halt(cause)
        self._publish(self.steady_now())
        name = self.get_namespace().strip("/")
        how = f"ghostshell clear --robot {name}" if name else "ghostshell clear"
        how += " --as safety" if self._latch.holder is Role.SAFETY else ""
        return f"halted; when it is safe to move again: {how}"

    def _clear_for(self, caller: Caller, number: int = 0) -> tuple[bool, str]:
        """Clear the halt if the caller may; return whether nothing is halted now, and what to say."""
        cause = self._halt_cause()
        if not cause:
            return True, "was not halted"
        if refusal := self._latch.refusal(caller, number):
            return False, f"still halted ({cause}): {refusal}"
        if conflict := self._sole.conflict(self.steady_now()):
            return False, f"still halted: {conflict}"
        sensors = [self._gate.silent, self._base.gate.silent if self._base is not None else ""]
        if silent := ", ".join(filter(None, sensors)):
            return False, f"still halted: nothing is heard of {silent}; start what publishes it, then clear the halt"
        self._latch.cleared()
        self._gate.clear_halt()
        if self._base is not None:
            self._base.clear_halt()
        self._logged.clear()
        self._publish_halted()
        return True, f"cleared ({cause})"

    def _on_halted(self, _: Bool) -> None:
        """Each own message comes back once; what comes on top is another gate's."""
        self._halted_echoes -= 1
        if self._halted_echoes >= 0:
            return
        self._halted_echoes = 0
        if self.steady_now() - self._since > ALONE_S:
            self.get_logger().error("a second safety gate was started in this namespace; it has to end itself")
            self._halted_published = None
            self._publish_halted()  # whatever the other one said
            return
        self.get_logger().fatal(
            f"another safety gate already serves '{self.get_namespace()}': this robot is launched twice; end one of the "
            "two, or launch the second with robot_name:=another_name"
        )
        rclpy.try_shutdown(context=self.context)

    def _halt(self, cause: str) -> None:
        """Halt joints and base; the base first and at once."""
        if self._base is not None:
            self._base.halt(cause)
        self._gate.halt(cause)

    def caught(self, error: Exception, process_id: str = "") -> str:
        """Halt besides: what the gate failed to do may be what holds the robot."""
        why = super().caught(error, process_id)
        self._halt(why)
        self._publish_halted()
        return why

    def _halt_cause(self) -> str:
        return self._gate.halt_cause or (self._base.gate.halt_cause if self._base is not None else "")

    def _publish_halted(self) -> None:
        """Tell a change; that it is not halted the gate says only when it hears joints and base and knows that it is alone."""
        cause = self._halt_cause()
        halted = bool(cause)
        if halted == self._halted_published or not (halted or (self._alone and self._known())):
            return
        if halted:
            if not self._latch.stands:
                self._latch.halt()
            self._halt(cause)
        self._halted_published = halted
        self._halted_echoes += 1
        self._cause.publish(String(data=cause))  # first: who hears that it is halted then knows why
        self._halted.publish(Bool(data=halted))
        if halted:
            self.get_logger().warning(f"halted: {cause}")
            why = f"halted: {cause}; {CLEAR_HINT}"
            self._events.write(Notice(kind=NoticeKind.HALTED, error_code=CallCode.HALTED, error_msg=why))

    def health(self) -> Health:
        cause = self._halt_cause()
        values: dict[str, object] = {"halted": bool(cause)}
        if self._base is not None:
            values |= {"commander": self._base.gate.commander, "refused": sum(self._base.gate.refused.values())}
        if not self._known():
            return Health("waiting to hear joints or base", Level.WARN, values)
        if not self._alone:
            return Health("listening for another gate", Level.WARN, values)
        return Health(f"halted: {cause}", Level.WARN, values) if cause else Health("not halted", Level.OK, values)

    def close(self) -> None:
        """Stop the base: one without a timeout of its own would keep its last velocity."""
        if self._local_door is not None:
            self._local_door.close()
        if self._base is not None and self.context.ok():
            self._base.rest()

    def _known(self) -> bool:
        return self._measured and (self._base is None or (self._base.ready and not self._base.gate.unheard))

    def _log_once(self, refusal: Refusal) -> None:
        """Log each kind and joint once: a refused command comes many times a second."""
        joint = refusal.joint if refusal.kind is not RefusalKind.UNKNOWN_JOINT else ""
        if (refusal.kind, joint) not in self._logged:
            self._logged.add((refusal.kind, joint))
            self.get_logger().error(f"refused: {refusal.message}")
