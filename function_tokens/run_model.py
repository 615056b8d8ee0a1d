# SPDX-License-Identifier: Apache-2.0
"""Fold a robot's events and latched state into one picture of its run, which every view reads.

Pure and without ROS. Times are seconds on the clock of the caller: by default the stamps of the events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, CallKind, ModelEvent, ModelKind, Notice, NoticeKind, RunEvent
from skill_kernel.processes.process import LayerUsage, added, skipped
from skill_kernel.processes.questions import ASK

MAX_CALLS, MAX_PROCESSES, MAX_STATES, MAX_QUESTIONS, MAX_HALTS = 4000, 500, 500, 500, 200
"""Numbers that are kept. Ended calls and processes are forgotten first, then the oldest."""

MAX_SEEN = 4096
"""Events that are remembered to tell one that comes twice."""

REFLEX_ID = "reflex-"
"""Beginning of the id of a reflex's process; the reflex's name and a number follow."""

ENDED = ("SUCCESS", "FAILED", "STOPPED")
"""Names of the states in which a process has ended."""

REFLEX = "REFLEX"
"""Source of a reflex's process."""


def merged(before: CallEvent | None, event: CallEvent, at_s: float) -> CallEvent:
    """Return the latest stage of a call, given one more event of it; which call it is, the first event tells.

    Its times are on the clock of the caller, -1 until known. An event older than those before tells at most when it began.
    """
    first, ended = before or event, event.kind is CallKind.ENDED
    start_s = at_s if event.kind is CallKind.STARTED else -1.0 if before is None else before.start_s
    if before is not None and event.kind.value <= before.kind.value:
        return replace(before, start_s=start_s)
    about = {name: getattr(first, name) for name in ("process_id", "stream_id", "parent_id", "function", "channels")}
    start_s = event.start_s if ended and start_s < 0 else start_s
    return replace(event, **about, start_s=start_s, end_s=at_s if ended else -1.0)


def runs(call: CallEvent) -> bool:
    """Return whether the skill of a merged call runs."""
    return call.start_s >= 0 and call.kind is not CallKind.ENDED


@dataclass
class Question:
    """Hold one question of a layer to its model, and the event that told of its answer."""

    layer: str
    begun_s: float
    ended_s: float | None = None
    answer: ModelEvent | None = None


class State(NamedTuple):
    """Hold a state of a process from its beginning on; `why` it is paused."""

    name: str
    begin_s: float
    why: str = ""


@dataclass
class ProcessRun:
    """Hold one process: its states, calls, plan and steps; what each planning layer has asked and used."""

    process_id: str
    begun_s: float
    instruction: str = ""
    source: str = ""
    states: deque[State] = field(default_factory=lambda: deque(maxlen=MAX_STATES))
    calls: dict[str, CallEvent] = field(default_factory=dict)
    usage: tuple[LayerUsage, ...] = ()
    questions: deque[Question] = field(default_factory=lambda: deque(maxlen=MAX_QUESTIONS))
    subtasks: tuple[tuple[str, int], ...] = ()
    running_step: str = ""
    queued_steps: int = 0
    steps_done: int = 0

    @property
    def asking(self) -> dict[str, Question]:
        """Return the newest question of each layer that waits for its answer."""
        return {question.layer: question for question in self.questions if question.ended_s is None}

    @property
    def status(self) -> str:
        """Return the name of its last known state; WAITING before the first."""
        return self.states[-1].name if self.states else "WAITING"

    @property
    def why(self) -> str:
        return self.states[-1].why if self.states else ""

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def enter(self, name: str, at_s: float, why: str = "") -> bool:
        """Enter a state. Return whether it is news."""
        if self.states and (self.status, self.why) == (name, why):
            return False
        self.states.append(State(name, at_s, why))
        return True


class RunModel:
    """Hold what is thought, queued, running, done, paused and spent.

    An event that comes twice, late, out of turn or for the first time in the middle of a run is taken as far as it goes.
    Of more than so many calls and processes those that ended first are forgotten.
    """

    def __init__(self, calls: int = MAX_CALLS, processes: int = MAX_PROCESSES) -> None:
        self._most_calls, self._most_processes = calls, processes
        self.processes: dict[str, ProcessRun] = {}
        self.calls: dict[str, CallEvent] = {}
        self.halts: deque[float] = deque(maxlen=MAX_HALTS)
        self.reflexes: dict[str, str] = {}
        """The sentences of the robot's reflexes by name: what their processes are told to do."""
        self._seen: dict[tuple[str, int, int], None] = {}

    def process(self, process_id: str, at_s: float) -> ProcessRun:
        """Return the process of that id, known from now on."""
        if process_id not in self.processes:
            self.processes[process_id] = ProcessRun(process_id, at_s)
            while len(self.processes) > self._most_processes:
                gone = next((i for i, p in self.processes.items() if p.ended), next(iter(self.processes)))
                for call_id in self.processes.pop(gone).calls:
                    del self.calls[call_id]
        return self.processes[process_id]

    def take(self, event: RunEvent, at_s: float | None = None) -> bool:
        """Take an event. Return whether it is news."""
        if event.seq and not self._first(event):
            return False
        at_s = event.stamp_s if at_s is None else at_s
        if isinstance(event, CallEvent):
            return event.kind is not CallKind.CONTENTION and self._call(event, at_s)
        if isinstance(event, ModelEvent):
            self._model(event, at_s)
        elif isinstance(event, Notice):
            self._notice(event, at_s)
        return True

    def see_process(self, process_id: str, at_s: float, *, instruction: str, source: str, status: str, why: str = "") -> bool:
        """Take the latched state of a process. Return whether the state is news."""
        process = self.process(process_id, at_s)
        process.instruction, process.source = instruction or process.instruction, source or process.source
        return process.enter(status, at_s, why)

    def see_plan(self, process_id: str, at_s: float, subtasks: Iterable[tuple[str, int]]) -> bool:
        """Take a revision of a plan: its subtasks with their status. Return whether the subtasks are others."""
        process, new = self.process(process_id, at_s), tuple(subtasks)
        changed = [text for text, _ in new] != [text for text, _ in process.subtasks]
        process.subtasks = new
        return changed

    def _first(self, event: RunEvent) -> bool:
        key = (event.node, event.session, event.seq)
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        return True

    def _call(self, event: CallEvent, at_s: float) -> bool:
        before = self.calls.get(event.call_id)
        if before is None:
            self._reflex(event, at_s)
        call = self.calls[event.call_id] = merged(before, event, at_s)
        self.process(call.process_id, at_s).calls[event.call_id] = call
        if before is None:
            self._forget_calls()
        return before is None or call.kind is not before.kind

    def _forget_calls(self) -> None:
        while len(self.calls) > self._most_calls:
            gone = next((c for c in self.calls.values() if c.kind is CallKind.ENDED), next(iter(self.calls.values())))
            del self.calls[gone.call_id]
            del self.processes[gone.process_id].calls[gone.call_id]

    def _model(self, event: ModelEvent, at_s: float) -> None:
        process = self.process(event.process_id, at_s)
        if event.kind is ModelKind.ASKED:
            process.questions.append(Question(event.layer, at_s))
        elif event.kind is ModelKind.SKIPPED:
            process.usage = skipped(process.usage, event.layer)
        elif event.kind is ModelKind.ANSWERED:
            waiting = [q for q in process.questions if q.layer == event.layer and q.ended_s is None]
            if waiting:
                question = min(waiting, key=lambda q: abs(q.begun_s - event.start_s))
                question.ended_s, question.answer = at_s, event
            process.usage = added(process.usage, event)

    def _notice(self, event: Notice, at_s: float) -> None:
        if event.kind is NoticeKind.HALTED:
            self.halts.append(at_s)
        self._reflex(event, at_s)

    def _reflex(self, event: CallEvent | Notice, at_s: float) -> None:
        """Begin a reflex's process with its first event and end it with the next notice: no scheduler tells of it."""
        if not event.process_id.startswith(REFLEX_ID):
            return
        if event.process_id not in self.processes:
            process = self.process(event.process_id, at_s)
            name = reflex_name(event.process_id)
            process.source, process.instruction = REFLEX, self.reflexes.get(name, name)
            process.enter("IN_PROGRESS", at_s)
        elif isinstance(event, Notice):
            calls = self.processes[event.process_id].calls.values()
            done = bool(calls) and all(call.outcome is Outcome.DONE for call in calls)
            self.processes[event.process_id].enter("SUCCESS" if done else "FAILED", at_s)


def reflex_name(process_id: str) -> str:
    """Return the name of the reflex whose process that is."""
    return process_id.removeprefix(REFLEX_ID).rpartition("-")[0]


def call_label(function: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as a person writes it, the arguments by value alone."""
    if function == "text":
        return f"“{arguments.get('text', '')}”"
    if function == ASK and "person" in arguments:
        return f"ask({arguments['person']}, “{arguments.get('text', '')}”)"
    shown = (f"{value:g}" if isinstance(value, float) else str(value) for value in arguments.values())
    return f"{function}({', '.join(shown)})"
