# SPDX-License-Identifier: Apache-2.0
"""Show the run of a robot for an operator: model queries, motion, queue and cost."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ghostshell.msg import Plan, ProcessArray, ProcessState, Question, QuestionArray, ReflexStateArray, StepQueue, Subtask

from function_tokens.run_model import REFLEX_ID, ProcessRun, RunModel, call_label, reflex_name, runs
from function_tokens.scheduling.queues import MOST_SHOWN
from ghostshell_ros.runtime.node import OF_A_COMMAND, RuntimeNode
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import LATCHED, PLANS, QUEUES
from ghostshell_ros.wire.values import seconds
from skill_kernel.codes import Outcome
from skill_kernel.config.sections import shown
from skill_kernel.events import (
    CallEvent,
    CallKind,
    ModelEvent,
    ModelKind,
    Notice,
    NoticeKind,
    ProcessEvent,
    ProcessKind,
    RunEvent,
    StreamKind,
)
from skill_kernel.processes.process import ProcessSource, ProcessStatus, usage_of
from skill_kernel.processes.questions import ASK, or_

if TYPE_CHECKING:
    from rich.table import Table

UNLISTED = frozenset({"step", "if", "else", "wait", "subtask_complete", "replace_steps", "plan_done", "observe"})
"""Built-ins not shown as motion."""

SOURCES = {ProcessState.REACTIVE: "a guideline's task", ProcessState.IDLE: "idle behaviour"}
NAMES = {
    "s3": "S3 processes",
    "s2": "S2 plan",
    "s1p": "S1 first action",
    "s1": "S1 actions",
    "stream": "model",
    "judge": "judge of conditions",
}
SHOWN = 90
QUIET_S, AGAIN_S = 1.0, 5.0
"""Without a terminal, what is waited for is printed after this long without a line, and at this interval from then on."""
QUEUE_SLOTS = 3
REPEAT_S = 5.0
"""An error of a process that comes again this soon is the same one: model, stream and process each report it."""
ERRORS = (
    NoticeKind.MESSAGE,
    NoticeKind.HALTED,
    NoticeKind.UNPROVEN,
    StreamKind.REPAIR,
    StreamKind.ENDED,
    ProcessKind.PLAN_ENDED,
)
"""Kinds of events whose error is shown."""
PLAN_NEWS = {
    ProcessKind.SUBTASK_DONE: "subtask done: {0.plan_item}",
    ProcessKind.CLAIMED: "System 2 looks whether something is missing",
    ProcessKind.PLAN_EVENT: "plan event occurred: {0.plan_item}",
    ProcessKind.GUIDELINE_FIRED: "guideline {0.guideline} began a task",
}


class RunListener(RuntimeNode):
    """Subscribe to one robot's run; put each message into `inbox` with its kind: event, processes, plan, queue, reflexes,
    questions."""

    def __init__(self, robot: str, name: str = "ghostshell_watch") -> None:
        super().__init__(name, namespace=robot, **OF_A_COMMAND)
        self.inbox: queue.Queue[tuple[str, Any]] = queue.Queue()
        read_events(self, lambda event: self.heard("event", event))
        for kind, type_, topic, qos in (
            ("processes", ProcessArray, "processes", LATCHED),
            ("plan", Plan, "plans", PLANS),
            ("queue", StepQueue, "step_queue", QUEUES),
            ("reflexes", ReflexStateArray, "reflex_states", LATCHED),
            ("questions", QuestionArray, "questions", LATCHED),
        ):
            self.create_subscription(type_, topic, lambda m, kind=kind: self.heard(kind, m), qos)

    def heard(self, kind: str, message: Any) -> None:
        """Take a message. On the executor's thread."""
        self.inbox.put((kind, message))


class RunView:
    """Keep a view of `model`: `hear` returns new lines, `table` the current state.

    Leave out processes that `shows` does not name, that began before `begun_s`, or that had ended before the first message
    on processes. A plan waits until its process is known, because plans of ended tasks are latched too. Whoever sent the
    tasks that are `own` knows their instructions and is told of their ends; their lines have a number only while several run.
    """

    def __init__(
        self,
        begun_s: float = 0.0,
        *,
        shows: Callable[[str], bool] = lambda process_id: True,
        own: Callable[[str], bool] = lambda process_id: False,
    ) -> None:
        self.model = RunModel()
        self._begun_s, self._shows, self._own = begun_s, shows, own
        self._past: set[str] | None = None
        self._known: set[str] = set()
        self._plans: dict[str, Plan] = {}
        self._steps: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._numbered_lines: set[str] = set()
        self._errors: dict[tuple[str, str], float] = {}
        self._holders: dict[str, str] = {}
        """Processes that keep a part of the body from others, by those."""
        self._begun_texts: dict[str, str] = {}
        """Texts as they were when they began, by their calls."""
        self.questions: dict[str, float] = {}
        """Open questions by their ids, with the time since when they are shown."""

    def number(self, process_id: str) -> int:
        """Return the display number of a process, in order of first appearance."""
        return self._numbers.setdefault(process_id, len(self._numbers) + 1)

    def process_of(self, number: str) -> str:
        """Return the process that is shown with this number, "" for none."""
        return next((process_id for process_id, shown in self._numbers.items() if str(shown) == number), "")

    def hear(self, kind: str, message: Any, now_s: float) -> list[str]:
        """Take a message of the listener's inbox. Return the new lines."""
        if kind == "processes":
            return self._processes(message, now_s)
        if kind == "reflexes":
            self.model.reflexes = {r.name: r.sentence for r in message.reflexes}
            return []
        if kind == "questions":
            return self._questions(message, now_s)
        process_id = message.process_id
        if not self._shows(process_id) or process_id in (self._past or ()):
            return []
        if kind == "plan" and process_id not in self._known:
            self._plans[process_id] = message
            return []
        if kind == "plan":
            return self._numbered(process_id, self.plan(message, now_s))
        if kind == "queue":
            return self._numbered(process_id, self.steps(message, now_s))
        return self.event(message, now_s)

    def _processes(self, message: ProcessArray, now_s: float) -> list[str]:
        lines = []
        if self._past is None:
            self._past = {p.process_id for p in message.processes if p.status >= ProcessState.SUCCESS}
        self._past.update(p.process_id for p in message.processes if seconds(p.created) < self._begun_s)
        for p in message.processes:
            if p.process_id in self._past or not self._shows(p.process_id):
                self._plans.pop(p.process_id, None)
                continue
            fresh = p.process_id not in self._known
            status, why = ProcessStatus(p.status).name, ", ".join(p.pause_causes)
            holder = self.model.processes.get(self._holders.get(p.process_id, ""))
            if p.status == ProcessState.WAITING and holder is not None:
                why = f"for “{shown(holder.instruction, SHOWN)}”"
            if fresh:
                self._known.add(p.process_id)
                self.number(p.process_id)
                if not self._own(p.process_id):
                    lines += self._numbered(p.process_id, f"{SOURCES.get(p.source, 'task')}: {p.instruction}")
            task = {"instruction": p.instruction, "source": ProcessSource(p.source).name}
            news = self.model.see_process(p.process_id, now_s, status=status, why=why, **task)
            if p.process_id in self._plans:
                lines += self._numbered(p.process_id, self.plan(self._plans.pop(p.process_id), now_s))
            told_elsewhere = self._own(p.process_id) and p.status >= ProcessState.SUCCESS
            if news and not told_elsewhere and (not fresh or (status, why) != ("IN_PROGRESS", "")):
                error = self._once(p.process_id, p.message, now_s) if p.status >= ProcessState.SUCCESS else ""
                note = f": {error}" if error else ""
                lines += self._numbered(p.process_id, f"{status}{f' ({why})' if why else ''}{note}")
        return lines

    def _questions(self, message: QuestionArray, now_s: float) -> list[str]:
        """Return a line for each new question; how one ended is told by the call that asked it."""
        asked = [q for q in message.questions if self._shows(q.process_id) and q.process_id not in (self._past or ())]
        fresh = [q for q in asked if q.id not in self.questions]
        self.questions = {q.id: self.questions.get(q.id, now_s) for q in asked}
        return [line for q in fresh for line in self._numbered(q.process_id, question_line(q))]

    def asked(self, before_s: float) -> str:
        """Return the id of the only open question if it was shown before a time, "" for none."""
        only = self.questions if len(self.questions) == 1 else {}
        return next((question_id for question_id, shown_s in only.items() if shown_s < before_s), "")

    def plan(self, plan: Plan, now_s: float) -> str:
        """Take a plan of System 2. Return the line where it differs from the one before."""
        if not plan.complete and not plan.given_up:
            return ""
        subtasks = [(s.description, s.status) for s in plan.subtasks]
        events = [f"{e.condition} → {e.response}" for e in plan.events]
        changed = self.model.see_plan(plan.process_id, now_s, subtasks)
        if plan.given_up:
            return f"S2 gives the task up: {plan.reason}"
        if not changed:
            return ""
        listed = " → ".join(f"{'✓ ' if status == Subtask.DONE else ''}{text}" for text, status in subtasks)
        return f"S2 plans: {listed}{''.join(f'; watches for: {event}' for event in events)}"

    def steps(self, queue: StepQueue, now_s: float) -> str:
        """Return a line when another step starts. One that is still being read is shown in the table alone."""
        process = self.model.process(queue.process_id, now_s)
        waiting = len(queue.queued) + queue.more
        process.running_step, process.queued_steps, process.steps_done = queue.running, waiting, queue.done
        if queue.reading and not queue.queued:
            return ""
        before, self._steps[queue.process_id] = self._steps.get(queue.process_id, ""), queue.running
        news = queue.running not in ("", before)
        return f"step: {queue.running}   queue {_bar(process)}" if news else ""

    def event(self, event: RunEvent, now_s: float) -> list[str]:
        """Take an event. Return the new lines."""
        if isinstance(event, CallEvent) and event.kind is CallKind.CONTENTION:
            self._holders[event.process_id] = event.holder_id
        if not self.model.take(event, now_s):
            return []
        if event.process_id.startswith(REFLEX_ID):
            return self._reflex_call(event) if isinstance(event, CallEvent) else []
        if isinstance(event, ModelEvent):
            line = self._model(event, now_s)
        elif isinstance(event, CallEvent):
            line = self._call(event)
        elif isinstance(event, ProcessEvent) and event.kind in PLAN_NEWS:
            line = PLAN_NEWS[event.kind].format(event)
        elif event.kind is NoticeKind.ROUTINE_SAVED:
            line = f"routine '{event.routine}' saved"
        else:
            error = event.told if isinstance(event, Notice) else event.error_msg
            line = self._once(event.process_id, error, now_s) if event.kind in ERRORS else ""
        return self._numbered(event.process_id, line)

    def _once(self, process_id: str, error: str, now_s: float) -> str:
        """Return an error, or "" if this process had the same one less than REPEAT_S ago."""
        self._errors = {key: at_s for key, at_s in self._errors.items() if now_s - at_s < REPEAT_S}
        if (process_id, error) in self._errors:
            return ""
        self._errors[process_id, error] = now_s
        return error

    def _model(self, event: ModelEvent, now_s: float) -> str:
        name = NAMES.get(event.layer, event.layer)
        if event.kind is ModelKind.DEGRADED:
            return f"{name} goes on without its model ({event.fallback}): {event.error_msg}"
        if event.kind is not ModelKind.ANSWERED:
            return ""
        asked = self.model.processes[event.process_id].questions
        took_s = next((now_s - question.begun_s for question in asked if question.answer is event), 0.0)
        if event.unwanted:
            return f"{name} took its question back after {took_s:.1f} s"
        cached = f", {event.cached_tokens} of them cached" if event.cached_tokens else ""
        told_at_its_end = event.failed and self._own(event.process_id) and took_s < QUIET_S
        if not (event.prompt_tokens or event.completion_tokens) and (not event.failed or told_at_its_end):
            return ""  # no language model
        outcome = f"thought for {took_s:.1f} s"
        if event.failed:
            error = self._once(event.process_id, event.error_msg, now_s)
            outcome = f"failed after {took_s:.1f} s{f': {error}' if error else ''}"
        return f"{name} {outcome} ({event.prompt_tokens} tokens in{cached}, {event.completion_tokens} out)"

    def _call(self, event: CallEvent) -> str:
        if event.function in UNLISTED:
            return ""
        label = call_label(event.function, event.arguments)
        if event.kind is CallKind.STARTED:
            if event.function == "text":
                self._begun_texts[event.call_id] = label
            # Whom a team asks what is shown as a question.
            return "" if event.function == ASK and "person" in event.arguments else f"  {label} [{'+'.join(event.channels)}]"
        if event.kind is not CallKind.ENDED:
            return ""
        begun = self._begun_texts.pop(event.call_id, label)
        if event.function == "text" and event.outcome is Outcome.DONE:
            return f"  {label}" if event.arguments and label != begun else ""  # the model had not yet written all of it
        return f"  {event.function} {event.outcome_name or '?'}{': ' if event.told else ''}{event.told}"

    def _reflex_call(self, event: CallEvent) -> list[str]:
        name = reflex_name(event.process_id)
        if event.kind is CallKind.STARTED:
            return [f"S0 {name}: {call_label(event.function, event.arguments)}"]
        if event.kind is CallKind.ENDED:
            return [f"S0 {name}: {event.function} {event.outcome_name or '?'}"]
        return []

    def _numbered(self, process_id: str, line: str) -> list[str]:
        if not line:
            return []
        if self._own(process_id) and (not process_id or len(self._living()) < 2):
            return [line]
        self._numbered_lines.add(process_id)
        return [f"{self.number(process_id)}  {line}" if process_id else f"–  {line}"]

    def ended(self, process_id: str, line: str) -> str:
        """Return a line on the end of a process, with its number where its lines had one, or where others live."""
        apart = process_id in self._numbered_lines or any(other != process_id for other, _ in self._living())
        return f"{self.number(process_id)}  {line}" if process_id and apart else line

    def lose(self, now_s: float, process_id: str = "") -> None:
        """Take it that a process, or each, lives no more, whatever the robot told last: it is silent, or has gone."""
        for living_id, process in self._living():
            if process_id in ("", living_id):
                process.enter(ProcessStatus.FAILED.name, now_s, "the robot does not tell")

    def _living(self) -> list[tuple[str, ProcessRun]]:
        """Return the processes of people, guidelines and models that have not ended."""
        found = self.model.processes.items()
        return [(i, p) for i, p in found if p.instruction and not p.ended and not i.startswith(REFLEX_ID)]

    def has_told(self, process_id: str, error: str) -> bool:
        """Return whether an error of a process was among the last lines."""
        return (process_id, error) in self._errors

    def waiting(self, now_s: float) -> str:
        """Return in a line what each living process does now, and for how long; "" when none lives."""
        doing = []
        for process_id, process in self._living():
            thinks = [f"{NAMES.get(x, x)} thinks for {now_s - q.begun_s:.0f} s" for x, q in process.asking.items()]
            moves = [f"{call_label(c.function, c.arguments)} for {now_s - c.start_s:.0f} s" for c in _moving(process)]
            what = f"{process.status.lower()} for {now_s - process.states[-1].begin_s:.0f} s" if process.states else "begins"
            who = "" if len(self._living()) == 1 else f"{self.number(process_id)}  "
            doing.append(who + (", ".join(moves + thinks) or f"{what}{f' ({process.why})' if process.why else ''}"))
        return "; ".join(doing)

    def rows(self, now_s: float) -> list[tuple[str, str, str]]:
        """Return a row for the reflexes and for each loop of each living process: its name, its state and its cost."""
        acting = [c for c in self.model.calls.values() if runs(c) and c.process_id.startswith(REFLEX_ID)]
        reflexes = ", ".join(f"{reflex_name(c.process_id)}: {call_label(c.function, c.arguments)}" for c in acting)
        rows = [("S0 reflexes", reflexes or "watch", "no model")]
        for process_id, process in self._living():
            why = f" ({process.why})" if process.why else ""
            state = f"{process.status}{why} {now_s - process.begun_s:.1f} s: {process.instruction}"
            rows.append((f"process {self.number(process_id)}", state, _cost(process)))
            known = {usage.layer for usage in process.usage} | process.asking.keys()
            for name in (x for x in NAMES if x in known):
                rows.append((f"  {NAMES[name]}", _doing(process, name, now_s), _layer_cost(process, name)))
            moves = [
                f"{now_s - c.start_s:.1f} s {call_label(c.function, c.arguments)} [{'+'.join(c.channels)}]"
                for c in _moving(process)
            ]
            steps = f"{counted(process.steps_done, 'step')} done" if process.steps_done else ""
            rows.append(("  body", ", ".join(moves) or "nothing moves", steps))
        return rows

    def table(self, now_s: float) -> Table:
        """Return the rows for a terminal."""
        from rich.markup import escape
        from rich.table import Table

        table = Table("loop", "now", "cost", expand=True)
        for name, now, cost in self.rows(now_s):
            table.add_row(escape(name), escape(shown(now, SHOWN)), escape(cost))
        return table


class RunScreen:
    """Print the lines of a view. On a terminal keep its table below them, else print now and then what is waited for.

    `listener` gives messages and the time.
    """

    def __init__(self, view: RunView, listener: RunListener, *, table: bool = True) -> None:
        from rich.console import Console
        from rich.live import Live

        self.view, self._now_s, self._console = view, listener.now_s, Console(emoji=False)
        self._begun_s = self._printed_s = self._now_s()
        self._waits_s = QUIET_S if table and not self._console.is_terminal else float("inf")
        self._live = (
            Live(console=self._console, auto_refresh=False, transient=True) if table and self._console.is_terminal else None
        )

    def __enter__(self) -> RunScreen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def begin(self) -> None:
        """Count the time of the lines, and of the wait for the next one, from now on."""
        self._begun_s = self._printed_s = self._now_s()

    def hear(self, kind: str, message: Any) -> None:
        """Print the new lines of a message of the listener's inbox."""
        now_s = self._now_s()
        for line in self.view.hear(kind, message, now_s):
            self.say(f"{now_s - self._begun_s:8.2f} s  {line}")

    def say(self, text: str) -> None:
        self._printed_s = self._now_s()
        self._console.print(text, soft_wrap=not self._console.is_terminal, markup=False, highlight=False)

    def refresh(self, waiting: str = "") -> None:
        """Show the current state, or what is waited for, below the lines."""
        now_s = self._now_s()
        if self._live is not None:
            shows = self.view.table(now_s) if self.view.waiting(now_s) else f"{waiting} {now_s - self._begun_s:.1f} s"
            self._live.update(shows, refresh=True)
        elif now_s - self._printed_s > self._waits_s:
            self._waits_s = AGAIN_S
            if text := self.view.waiting(now_s) or waiting:
                self.say(f"{now_s - self._begun_s:8.2f} s  … {text}")


def question_line(question: Question) -> str:
    """Return an open question in a line, with how it is answered."""
    choices = f" ({or_(question.choices)}{', or other words' if question.any_words else ''})" if question.choices else ""
    whom, why = (f" {question.person}" if question.person else ""), (f" Why: {question.why}" if question.why else "")
    return f"asks{whom}: {question.text}{choices}{why}; answer it: ghostshell answer {question.id} …"


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number} {what}{'s' * (number != 1)}"


def _moving(process: ProcessRun) -> list[CallEvent]:
    """Return the calls that act; those of a paused process have not ended, and stand still."""
    if process.status == ProcessStatus.PAUSED.name:
        return []
    return [c for c in process.calls.values() if runs(c) and c.function not in UNLISTED]


def _doing(process: ProcessRun, name: str, now_s: float) -> str:
    question = process.asking.get(name)
    thinks = f"thinks for {now_s - question.begun_s:.1f} s" if question is not None else "waits"
    if name == "s2" and process.subtasks:
        done = sum(status == Subtask.DONE for _, status in process.subtasks)
        current = next((text for text, status in process.subtasks if status != Subtask.DONE), "all done")
        return f"{thinks}; subtask {min(done + 1, len(process.subtasks))} of {len(process.subtasks)}: {current}"
    if name == "s1":
        return f"{thinks}; queue {_bar(process)} {process.running_step and 'step: ' + process.running_step}".rstrip()
    return thinks


def _bar(process: ProcessRun) -> str:
    """Return a bar of the queue, occupied slots filled."""
    filled = min(process.queued_steps, MOST_SHOWN)
    more = f" and {process.queued_steps - filled} more" if process.queued_steps > filled else ""
    return "▮" * filled + "▯" * max(0, QUEUE_SLOTS - filled) + more


def _cost(process: ProcessRun) -> str:
    tokens = sum(x.prompt_tokens + x.completion_tokens for x in process.usage)
    priced = [x.cost_usd for x in process.usage if x.cost_usd >= 0]
    return f"{tokens} tokens{f', ${sum(priced):.4f}' if priced else ''}" if tokens else ""


def _layer_cost(process: ProcessRun, name: str) -> str:
    usage = usage_of(process.usage, name)
    skipped = f", {usage.skipped} saved" if usage.skipped else ""
    tokens = usage.prompt_tokens + usage.completion_tokens
    return f"{counted(usage.calls + (name in process.asking), 'call')}{skipped}{f', {tokens} tokens' if tokens else ''}"
