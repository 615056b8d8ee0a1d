# SPDX-License-Identifier: Apache-2.0
"""Run the skill kernel as a node: goals of ExecuteSkill become calls of `skill_kernel.kernel.kernel.Kernel`."""

import json
import time
from dataclasses import asdict
from functools import partial
from types import SimpleNamespace
from typing import Any

from ghostshell.action import ExecuteSkill
from ghostshell.msg import CallContent, CallControl, KernelState, ProcessHeartbeat, SkillCall, SkillInfo
from ghostshell.srv import Interrupt, ListSkills, ProcessLease
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from ghostshell_ros.drivers.clients import BodyParts
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.node import Health, Level, RuntimeNode
from ghostshell_ros.runtime.service_client import HaltClient
from ghostshell_ros.wire.codec import filled
from ghostshell_ros.wire.events import CLEAR_HINT, EventWriter
from ghostshell_ros.wire.qos import LATCHED, SENSORS, STREAM
from ghostshell_ros.wire.values import CALL_FIELDS, OUTCOME_NUMBERS, ros_text
from skill_kernel.calls import CallResult, CallSpec, LeaseAnswer, Refused
from skill_kernel.clock import SteadyClock
from skill_kernel.codes import CallCode, LeaseCode, Outcome
from skill_kernel.config.sections import CAUSE_CHARS, shown
from skill_kernel.events import CallEvent, Notice, NoticeKind, ProcessEvent, RunEvent
from skill_kernel.kernel.heartbeats import Heartbeats, Source
from skill_kernel.kernel.kernel import Kernel, KernelSettings, Rank
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.arguments import ArgumentError, parameters_schema, parse_json, signature_text
from skill_kernel.skills.registry import RegistryError, SkillRegistry
from skill_kernel.skills.skill import Skill

STATE_AGAIN_S = (2.0, 5.0, 10.0)
"""Times after the start at which `kernel_state` is published once more. A reader that kept the last state of a killed
kernel was seen to miss its successor's first one for good, although it is latched."""

END_WAIT_S = 0.5
"""Time for which an ending node waits for its skills to stop."""

GATE_HALTED = "the safety gate is halted"
"""Cause of a halt of which the gate has told no reason."""

STATE_DELAY_S = 0.01
"""Time for which a change waits for others, so that `kernel_state` tells of them together."""

LOST_TOLD_S = 0.1
"""Time from the loss of a driver to the halt, in which its call ends with that reason. The gate no longer hears the driver."""


OPERATOR = "teleop"
"""The operator's name among the processes. The gate answers for it."""

CHECKS = 5
"""Number of checks within the heartbeat timeout."""


class SkillKernelNode(RuntimeNode):
    """Run one robot's skills, each on a thread of its own; everything of ROS happens on the executor's thread.

    A call that cannot run is accepted and ends at once with the reason. What nobody answers for any more, by
    `scheduler_heartbeat` and `process_heartbeat`, is stopped. The robot is halted when a skill does not stop and when a
    driver is lost: a driver that is started anew stays inactive until the halt is cleared. `~/reload_skills` takes the
    skill modules anew from disk, or says why not. Skills' times and deadlines are in steady time.
    """

    def __init__(self) -> None:
        super().__init__("skill_kernel")
        robot = RobotConfig.load(self.declare("robot", "coco", "robot's name in config/robots, or a YAML file's path"))
        registry = self._registry = SkillRegistry.from_modules(robot.skills, text_skill=robot.text_skill)
        self._steady_clock = SteadyClock()
        self._goals: dict[str, Goal] = {}
        self._state_due = False
        self._gate_halted, self._gate_cause = False, GATE_HALTED
        self._events = EventWriter(self, CallEvent, ProcessEvent, Notice)
        self._state = self.create_publisher(KernelState, "kernel_state", LATCHED)
        moveit = self.declare("moveit", False, "leave the ways of arms to MoveIt, as the drivers must, too")
        margin_s = self.declare("stop_margin_s", 0.5, "time beyond a skill's stop time until a halt [s]", 0.05, 10.0)
        self._kernel = Kernel(
            registry,
            robot,
            BodyParts(self, robot, on_lost=lambda why: self.call_soon(self._driver_lost, why), moveit=moveit).body(
                robot.load_body()
            ),
            self._steady_clock,
            on_result=self._on_result,
            on_event=lambda event: self.call_soon(self._write_event, event),
            on_change=self._on_change,
            on_halt=lambda cause: self.call_soon(self._halt_gate, cause),
            settings=KernelSettings(stop_margin_s=margin_s),
        )
        self._halt = HaltClient(self, lambda: self._gate_halted)
        self.create_subscription(String, "halt_cause", self._on_halt_cause, LATCHED)
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED)
        self.create_subscription(CallContent, "call_content", self._on_content, STREAM)
        self.create_subscription(CallControl, "call_control", self._on_control, STREAM)
        self.create_service(ListSkills, "list_skills", self._on_list_skills)
        self.create_service(Interrupt, "~/interrupt", self._on_interrupt)
        self.create_service(Trigger, "~/reload_skills", self._on_reload)
        self._server = GoalServer(self, ExecuteSkill, "execute_skill", on_goal=self._on_goal, on_cancel=self._on_cancel)
        period_s = self.declare("feedback_period_s", 0.2, "time between feedbacks of a call [s]", 0.02, 5.0)
        self._feedback = self.steady_timer(period_s, self._send_feedback)
        self._timeout_s = self.declare(
            "heartbeat_timeout_s", 0.5, "a process nobody answers for so long loses its calls and subsystems [s]", 0.1, 60.0
        )
        self._beats = Heartbeats(CHECKS)
        for source in Source:
            self.create_subscription(ProcessHeartbeat, source.value, partial(self._hear, source), SENSORS)
        self.create_service(ProcessLease, "~/process_lease", self._on_lease)
        self.steady_timer(self._timeout_s / CHECKS, self._check)
        self._base_subsystems = robot.base.subsystems if robot.base is not None else ()
        if self._base_subsystems:
            self.create_subscription(Bool, "teleop_active", self._on_teleop, LATCHED)
        self._publish_state()
        for delay_s in STATE_AGAIN_S:
            self.call_later(delay_s, self._publish_state)

    def process_of(self, message: Any) -> str:
        """Return also the process of a call, for messages that name the call alone."""
        goal = self._goals.get(getattr(message, "call_id", ""))
        return goal.request.call.process_id if goal is not None else super().process_of(message)

    def health(self) -> Health:
        """Return how much runs; a halt is an error."""
        state = self._kernel.state()
        values = {"running calls": len(state.running), "processes": len(state.processes)}
        if state.halted:
            return Health(f"halted: {state.halt_cause}", Level.ERROR, values)
        return Health(values=values)

    def close(self) -> None:
        """Stop what runs, as far as that ends soon."""
        self._kernel.halt("the skill kernel is ending")
        deadline = time.monotonic() + END_WAIT_S
        while self._kernel.state().running and time.monotonic() < deadline:
            time.sleep(0.01)
        self._steady_clock.close()

    # -- calls ---------------------------------------------------------------------------------------------------

    def _on_goal(self, goal: Goal) -> None:
        call: SkillCall = goal.request.call
        call_id = call.call_id or goal.goal_id.hex()
        if call_id in self._goals:
            self._refuse(goal, Refused(CallCode.INVALID_ARGUMENT, f"call id {call_id} runs already; each call needs its own"))
            return
        try:
            arguments = parse_json(call.function, call.args_json)
        except ArgumentError as error:
            self._refuse(goal, Refused(error.code, error.message))
            return
        same = {name: getattr(call, name) for name in CALL_FIELDS} | {"call_id": call_id}
        spec = CallSpec(arguments=arguments, channels=tuple(call.channels), **same)
        goal.state = SimpleNamespace(phase="running", since_s=self._steady_clock.now())
        self._goals[call_id] = goal
        if self._feedback.is_canceled():
            self._feedback.reset()
        answer = self._kernel.execute(spec)
        if answer is None:
            goal.feedback(ExecuteSkill.Feedback(phase="running"))
        else:
            del self._goals[call_id]
            self._refuse(goal, answer)

    def _refuse(self, goal: Goal, refused: Refused) -> None:
        """End a goal as refused, or as interrupted where its epoch is old, because an interrupt made it old."""
        outcome = Outcome.INTERRUPTED if refused.code is CallCode.STALE_EPOCH else Outcome.REFUSED
        goal.abort(_result(CallResult(outcome, refused.code, refused.message)))

    def _on_result(self, call_id: str, result: CallResult) -> None:
        """End the goal of a call. Called from any thread."""
        goal = self._goals.pop(call_id, None)
        if goal is None:
            return
        end = {Outcome.DONE: goal.succeed, Outcome.INTERRUPTED: goal.canceled}.get(result.outcome, goal.abort)
        end(_result(result))

    def _on_cancel(self, goal: Goal) -> None:
        self._kernel.interrupt(goal.request.call.call_id or goal.goal_id.hex(), "the goal was cancelled")

    def _on_content(self, message: CallContent) -> None:
        self._kernel.content(message.call_id, message.seq, message.text, message.last)

    def _on_control(self, message: CallControl) -> None:
        goal = self._goals.get(message.call_id)
        if message.command == CallControl.RESET:
            phase = "resetting"
            self._kernel.reset(message.call_id)
        elif message.command == CallControl.INTERRUPT:
            phase = "stopping"
            self._kernel.interrupt(message.call_id, shown(message.cause, CAUSE_CHARS) or "call_control")
        else:
            self.get_logger().error(f"call_control command {message.command} for call {message.call_id} is unknown")
            return
        if goal is not None:
            goal.state.phase = phase

    def _send_feedback(self) -> None:
        if not self._goals:
            self._feedback.cancel()
        now = self._steady_clock.now()
        for goal in list(self._goals.values()):
            goal.feedback(ExecuteSkill.Feedback(phase=goal.state.phase, elapsed_s=now - goal.state.since_s))

    def _on_interrupt(self, request: Interrupt.Request, response: Interrupt.Response) -> Interrupt.Response:
        cause = shown(request.cause, CAUSE_CHARS) or "interrupt"
        done = self._kernel.interrupt_process(request.process_id, request.channels, cause, epoch=request.epoch)
        response.epoch, response.stopped = done.epoch, list(done.stopped)
        if done.uncertain:
            response.error_code = Interrupt.Request.INTERRUPT_STOP_UNCERTAIN
            response.error_msg = (
                f"calls {', '.join(done.uncertain)} did not stop in time; look at the robot, then clear the halt"
            )
        return response

    # -- halt ----------------------------------------------------------------------------------------------------

    def _on_halt_cause(self, message: String) -> None:
        self._gate_cause = message.data or GATE_HALTED

    def _on_halted(self, message: Bool) -> None:
        self._gate_halted = message.data
        if message.data:
            self._halt.confirmed()
            self._kernel.halt(self._gate_cause)
        elif not self._halt.asking:
            self._kernel.clear()

    def _driver_lost(self, why: str) -> None:
        """Halt the robot, also without a lifecycle_manager: what is started again must not go on by itself."""
        if not self._gate_halted:
            text = f"{why}{'' if why.endswith('?') else '.'} Look at the robot, then {CLEAR_HINT}"
            self._events.write(Notice(error_code=CallCode.DRIVER_LOST, error_msg=text))
        self.call_later(LOST_TOLD_S, lambda: self._halt_gate(why))

    def _halt_gate(self, cause: str) -> None:
        self.get_logger().error(cause)
        self._halt.halt(f"{self.get_name()}: {cause}")

    # -- processes -------------------------------------------------------------------------------------------------------

    def _on_teleop(self, message: Bool) -> None:
        """Pause who uses the base while an operator has it."""
        if message.data:
            self._kernel.preempt(Rank.TELEOP, self._base_subsystems, "an operator has the base", OPERATOR)
        else:
            self._kernel.end_process(OPERATOR, "the operator gave the base back")

    def _hear(self, source: Source, message: ProcessHeartbeat) -> None:
        self._beats.hear(source, message.process_ids)

    def _on_lease(self, request: ProcessLease.Request, response: ProcessLease.Response) -> ProcessLease.Response:
        answer = asdict(self._answer(request))
        code, message = answer.pop("code"), answer.pop("message")
        filled(response, {**answer, "success": not code, "error_code": code, "error_msg": message})
        return response

    def _answer(self, request: ProcessLease.Request) -> LeaseAnswer:
        process_id, cause = request.process_id, shown(request.cause, CAUSE_CHARS)
        if request.command == request.PAUSE and cause:
            return self._kernel.pause_process(process_id, cause)
        if request.command == request.RESUME and cause:
            return self._kernel.resume_process(process_id, cause)
        if request.command == request.END:
            return self._kernel.end_process(process_id, cause or "its process has ended")
        if request.command == request.PREEMPT and request.rank in set(Rank) and request.subsystems:
            return self._kernel.preempt(Rank(request.rank), request.subsystems, cause or "preempted", process_id)
        why = (
            f"command {request.command} with cause '{cause}', rank {request.rank} and subsystems {shown(request.subsystems)} "
            "means nothing; PAUSE and RESUME need a cause, PREEMPT a rank of 0 to 3 and subsystems, all of them a process"
        )
        return LeaseAnswer(LeaseCode.INVALID_REQUEST, why)

    def _check(self) -> None:
        state = self._kernel.state()
        kept = {p.process_id for p in state.processes} - {OPERATOR}
        silence = self._beats.check([*state.calling, *(p for p in kept if p not in state.calling)], state.calling)
        for process_id in silence.ended:
            if process_id in kept or process_id in state.calling:
                why = f"nobody has answered for process {process_id} for {self._timeout_s} s"
                self._tell(process_id, f"{why}; it was ended")
                self._kernel.end_process(process_id, why)
        for process_id in silence.orphaned:
            if process_id in state.calling:
                why = f"the channel scheduler has been silent about process {process_id} for {self._timeout_s} s"
                self._tell(process_id, f"{why}; its calls were stopped")
                self._kernel.interrupt_process(process_id, (), why)
        for process_id in silence.unclaimed:
            self._kernel.release_idle(process_id)

    def _tell(self, process_id: str, why: str) -> None:
        self._events.write(Notice(process_id=process_id, error_code=CallCode.INTERRUPTED_BY, error_msg=why))

    # -- what others see -----------------------------------------------------------------------------------------

    def _on_change(self) -> None:
        """Publish the state soon, once for changes that come together. Called from any thread."""
        if not self._state_due:
            self._state_due = True
            self.call_soon(self.call_later, STATE_DELAY_S, self._publish_state)

    def _publish_state(self) -> None:
        self._state_due = False
        state = asdict(self._kernel.state())
        del state["calling"]
        self._state.publish(filled(KernelState(stamp=self.get_clock().now().to_msg()), state))

    def _write_event(self, event: RunEvent) -> None:
        """Write what the gate does not tell itself."""
        if not isinstance(event, Notice) or (event.kind is not NoticeKind.HALT_CLEARED and event.text != self._gate_cause):
            self._events.write(event)

    def _on_list_skills(self, _: ListSkills.Request, response: ListSkills.Response) -> ListSkills.Response:
        response.skills_version = self._registry.version
        measured_s = self._kernel.stop_measured_s
        response.skills = [_info(skill, measured_s.get(skill.name, -1.0)) for skill in self._registry]
        filled(response, {"subsystems": [asdict(s) for s in self._kernel.state().subsystems]})
        return response

    def _on_reload(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        before = self._registry.version
        try:
            self._kernel.reload()
        except RegistryError as error:
            response.message = f"the present skills stay: {error}"
            self.get_logger().error(response.message)
        else:
            changed = "changed" if self._registry.version != before else "the same names and signatures"
            response.success, response.message = True, f"{len(self._registry)} skills read anew, {changed}"
            self.get_logger().info(response.message)
        return response


def _result(result: CallResult) -> ExecuteSkill.Result:
    """Return a call's result as a message."""
    return ExecuteSkill.Result(
        outcome=OUTCOME_NUMBERS[result.outcome],
        error_code=int(result.code),
        error_msg=ros_text(result.error),
        message=ros_text(result.message),
        value_json=ros_text(result.value),
        start_s=result.start_s,
        end_s=result.end_s,
    )


def _info(skill: Skill, stop_measured_s: float) -> SkillInfo:
    """Return a skill for ListSkills, with its longest stop so far."""
    bounded = skill.stop_s is not None or skill.interruptible
    return SkillInfo(
        signature=signature_text(skill),
        subsystems=list(skill.subsystems),
        parameters_json=json.dumps(parameters_schema(skill)),
        takes_content=skill.content is not None,
        stop_measured_s=stop_measured_s,
        stop_s=skill.stop_bound_s({}) if bounded else -1.0,
        **{
            same: getattr(skill, same)
            for same in ("name", "description", "interruptible", "pausable", "composite", "idempotent", "on_failure")
        },
    )
