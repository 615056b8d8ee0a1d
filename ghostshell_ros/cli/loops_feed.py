# SPDX-License-Identifier: Apache-2.0
"""From what the planning nodes publish to lines and tables of `LoopsView`."""

from __future__ import annotations

import json
import queue
from typing import Any

from ghostshell.msg import Plan, ProcessArray, ProcessState, ReflexStateArray, SkillEvent, StepQueue

from ghostshell_ros.cli.loops_view import NAMES, LoopsView
from ghostshell_ros.runtime.node_runtime import EVENTS, LATCHED, PLANS, QUEUES, RuntimeNode
from skill_kernel.codes import ModelCode
from skill_kernel.processes.process import ProcessStatus

REFLEX_ID = "reflex-"
"""So the process of each firing of a reflex is named, with the reflex's name and a number after it."""

QUIET = frozenset({"step", "if", "else", "wait", "subtask_complete", "replace_steps", "plan_done", "observe"})
"""Calls that move nothing by themselves."""

SOURCES = {ProcessState.REACTIVE: "a guideline's task", ProcessState.IDLE: "idle behaviour"}

OUTCOMES = {
    SkillEvent.DONE: "DONE",
    SkillEvent.FAILED: "FAILED",
    SkillEvent.OUTCOME_INTERRUPTED: "INTERRUPTED",
    SkillEvent.REFUSED: "REFUSED",
    SkillEvent.DROPPED: "DROPPED",
}


class LoopsClient(RuntimeNode):
    """Hears the loops of one robot; every message goes into `inbox` with its kind: event, processes, plan, queue,
    reflexes."""

    def __init__(self, robot: str, name: str = "ghostshell_watch") -> None:
        super().__init__(name, namespace=robot, use_global_arguments=False)
        self.inbox: queue.Queue[tuple[str, Any]] = queue.Queue()
        for kind, type_, topic, qos in (
            ("event", SkillEvent, "events", EVENTS),
            ("processes", ProcessArray, "processes", LATCHED),
            ("plan", Plan, "plans", PLANS),
            ("queue", StepQueue, "step_queue", QUEUES),
            ("reflexes", ReflexStateArray, "reflex_states", LATCHED),
        ):
            self.create_subscription(type_, topic, lambda m, kind=kind: self.inbox.put((kind, m)), qos)


class LoopsFeed:
    """Feeds a view; `hear` answers with the lines that are news. What began before `begun_s`, or had ended when it was first
    heard of, is left out."""

    def __init__(self, view: LoopsView, begun_s: float = 0.0) -> None:
        self.view = view
        self._begun_s = begun_s
        self._past: set[str] | None = None

    def hear(self, kind: str, message: Any, now_s: float) -> list[str]:
        """Take in one message of the client's inbox."""
        if kind == "processes":
            return self._processes(message)
        if kind == "plan":
            return self._told(message.process_id, self._plan(message))
        if kind == "queue":
            reading = bool(message.reading)
            line = self.view.queue(message.process_id, message.running, message.queued, message.done, reading=reading)
            return self._told(message.process_id, line)
        return self._event(message, now_s) if kind == "event" else []

    def _processes(self, message: ProcessArray) -> list[str]:
        lines = []
        if self._past is None:
            self._past = {p.process_id for p in message.processes if p.status >= ProcessState.SUCCESS}
        for p in message.processes:
            if _seconds(p.created) < self._begun_s or p.process_id in self._past:
                continue
            known = p.process_id in self.view.processes and self.view.of(p.process_id).instruction
            loops = self.view.of(p.process_id)
            status, why = ProcessStatus(p.status).name, ", ".join(p.pause_causes)
            if not known:
                lines += self._told(p.process_id, f"{SOURCES.get(p.source, 'task')}: {p.instruction}")
            if (loops.status, loops.why) != (status, why):
                ended = p.status >= ProcessState.SUCCESS
                note = f": {p.message}" if ended and p.message else ""
                lines += self._told(p.process_id, f"{status}{f' ({why})' if why else ''}{note}")
            loops.instruction, loops.status, loops.why = p.instruction, status, why
        return lines

    def _plan(self, plan: Plan) -> str:
        subtasks = [(s.description, s.status) for s in plan.subtasks]
        events = [f"{e.condition} → {e.response}" for e in plan.events]
        if not plan.complete and not plan.given_up:
            return ""
        return self.view.plan(plan.process_id, subtasks, events, reason=plan.reason, given_up=plan.given_up)

    def _event(self, event: SkillEvent, now_s: float) -> list[str]:
        view, process_id, line = self.view, event.process_id, ""
        if process_id.startswith(REFLEX_ID):
            return self._reflex(event)
        if event.type == SkillEvent.MODEL_ASKED:
            view.asked(now_s, process_id, event.function)
        elif event.type == SkillEvent.MODEL_ANSWERED:
            line = view.answered(
                now_s,
                process_id,
                event.function,
                prompt_tokens=event.prompt_tokens,
                cached_tokens=event.cached_tokens,
                completion_tokens=event.completion_tokens,
                cost_usd=event.cost_usd,
                error=event.error_msg if event.error_code not in (0, ModelCode.MODEL_CANCELLED) else "",
                unwanted=event.error_code == ModelCode.MODEL_CANCELLED,
            )
        elif event.type == SkillEvent.MODEL_SKIPPED:
            view.skipped(process_id, event.function)
        elif event.type == SkillEvent.DEGRADED:
            line = f"{NAMES.get(event.function, event.function)} goes on without its model ({event.text}): {event.error_msg}"
        elif event.type == SkillEvent.SUBTASK_DONE:
            line = f"subtask done: {event.text}"
        elif event.type == SkillEvent.GLOBAL_EVENT:
            line = f"an event of the plan has come: {event.text}"
        elif event.type == SkillEvent.GUIDELINE_FIRED:
            line = f"guideline {event.text} began a task"
        elif event.type == SkillEvent.CALL_STARTED and event.function not in QUIET:
            view.of(process_id).calls[event.call_id] = f"{call_label(event)} [{'+'.join(event.channels)}]"
            line = f"  {call_label(event)} [{'+'.join(event.channels)}]"
        elif event.type == SkillEvent.CALL_ENDED and event.function not in QUIET:
            view.of(process_id).calls.pop(event.call_id, None)
            line = f"  {event.function} {OUTCOMES.get(event.outcome, '?')} {event.error_msg or event.text}".rstrip()
        elif event.type == SkillEvent.NOTICE:
            line = event.error_msg or event.text
        return self._told(process_id, line)

    def _reflex(self, event: SkillEvent) -> list[str]:
        name = event.process_id.removeprefix(REFLEX_ID).rpartition("-")[0]
        if event.type == SkillEvent.CALL_STARTED:
            self.view.reflex = f"{name}: {call_label(event)}"
            return [f"S0 {self.view.reflex}"]
        if event.type == SkillEvent.CALL_ENDED:
            self.view.reflex = ""
            return [f"S0 {name}: {event.function} {OUTCOMES.get(event.outcome, '?')}"]
        return []

    def _told(self, process_id: str, line: str) -> list[str]:
        if not line:
            return []
        return [f"{self.view.number(process_id)}  {line}" if process_id else f"–  {line}"]


def call_label(event: SkillEvent) -> str:
    """A call as a person writes it."""
    try:
        arguments = json.loads(event.args_json or "{}")
    except json.JSONDecodeError:
        arguments = {}
    if event.function == "text":
        return f"“{arguments.get('text', '')}”"
    return f"{event.function}({', '.join(f'{v:g}' if isinstance(v, float) else str(v) for v in arguments.values())})"


def _seconds(stamp: Any) -> float:
    return float(stamp.sec + stamp.nanosec * 1e-9)
