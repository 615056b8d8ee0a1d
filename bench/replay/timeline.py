# SPDX-License-Identifier: Apache-2.0
"""Order the inputs of one robot's parser and scheduler in a recorded run, each with what had happened before."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from bench.reading import read_blocks
from bench.replay.calls import SCHEDULER, CallBook, Key, Output, RecordedCall
from bench.replay.recorded import RunFile
from ghostshell_ros.wire.events import TOPICS as EVENT_TOPICS
from ghostshell_ros.wire.events import from_message
from planners.judging import judgement_reader
from planners.models.model_call import AnswerError
from planners.prompts.blocks import Layer
from skill_kernel.events import CallEvent, CallKind, ProcessKind, RunEvent, StreamEvent, StreamKind

WANTED = ("llm_chunks", *EVENT_TOPICS.values(), "kernel_state", "observation", "prompts", "answers")
"""Topics that a replay needs."""

ASKED_S = 0.5
"""A question to the judge that comes so much earlier or later is the same question."""

SETTLED_S = 0.05
"""Two calls that are handed over within this time may begin in either order."""

LEAD_S, TAIL_S = 1.0, 0.5
"""A replay begins so long before the first chunk and gives nothing more so long after the last output."""


class What(Enum):
    """Kinds of input."""

    CHUNK = "chunk"
    OBSERVATION = "observation"
    KERNEL_STATE = "kernel_state"
    INTERRUPT = "interrupt"
    RESULT = "result"


@dataclass(frozen=True)
class Input:
    """Something to give at `at_s`, once the first `after` outputs of the recording have been seen again."""

    at_s: float
    after: int
    what: What
    payload: Any


@dataclass(frozen=True)
class Judgement:
    """The judge's answer to a condition; `holds` is None when it could not tell."""

    asked_s: float
    at_s: float
    condition: str
    holds: bool | None
    reason: str


@dataclass
class Timeline:
    """A robot's recorded run. `inputs` in order; `results_s`: when the kernel gave each call's result; `contended`: calls that
    it kept back for another process; `uses`: the serial subsystems of each call; `partial`: streams whose beginning is
    missing, which are left out."""

    robot: str
    book: CallBook
    inputs: list[Input] = field(default_factory=list)
    results_s: dict[Key, float] = field(default_factory=dict)
    contended: set[Key] = field(default_factory=set)
    uses: dict[Key, frozenset[str]] = field(default_factory=dict)
    judgements: list[Judgement] = field(default_factory=list)
    partial: set[str] = field(default_factory=set)

    def kept_back(self, call: RecordedCall, now_s: float) -> bool:
        """Return whether the kernel would not have begun this call at this time: another one used what it needs."""
        if call.key in self.contended:
            return True
        at_s, uses = now_s + SETTLED_S, self.uses.get(call.key, frozenset())
        return any(
            other.key != call.key
            and other.started_s is not None
            and other.started_s <= at_s
            and at_s <= self.results_s.get(other.key, float("inf"))
            and uses & self.uses.get(other.key, frozenset())
            for other in self.book.calls.values()
        )

    def judged(self, condition: str, now_s: float) -> Judgement | None:
        """Return what the judge answered when it was asked at this time."""
        same = [j for j in self.judgements if j.condition == _plain(condition) and abs(j.asked_s - now_s) <= ASKED_S]
        return min(same, key=lambda j: abs(j.asked_s - now_s), default=None)

    @property
    def outputs(self) -> list[tuple[float, Output]]:
        """Return what the scheduler told, in its order."""
        return self.book.outputs


def robots_of(run: RunFile) -> list[str]:
    """Namespaces of the robots in a file."""
    mark = f"/{EVENT_TOPICS[StreamEvent]}"
    return sorted({topic.removesuffix(mark) for topic in run.counts if topic.endswith(mark)})


def timeline(run: RunFile, robot: str) -> Timeline:
    """Return the inputs of one robot's parser and scheduler."""
    by_topic: dict[str, list[Any]] = {name: [] for name in WANTED}
    for message in run.messages:
        name = message.topic.removeprefix(f"{robot}/")
        if name in by_topic:
            by_topic[name].append(message)
    events = _in_order(by_topic)
    made = Timeline(robot, CallBook())
    first = {c.value.stream_id: c.value.seq for c in reversed(by_topic["llm_chunks"])}
    made.partial = {stream for stream, seq in first.items() if seq}
    scheduled = [e for e in events if e.node == SCHEDULER and isinstance(e, CallEvent | StreamEvent)]
    begun = {e.stream_id for e in scheduled if e.kind is StreamKind.STARTED}
    made.partial |= {e.stream_id for e in scheduled} - begun - {""}
    interrupts = _events(made, events, set(first))
    told_s = [at_s for at_s, _ in made.outputs]
    for name, what in (("llm_chunks", What.CHUNK), ("observation", What.OBSERVATION), ("kernel_state", What.KERNEL_STATE)):
        for message in by_topic[name]:
            at_s = stamp_s(message.value.stamp)
            if what is not What.CHUNK or message.value.stream_id not in made.partial:
                made.inputs.append(Input(at_s, bisect_left(told_s, at_s), what, message))
    made.inputs += _in_turn(interrupts + _results(made, [m.value for m in by_topic["kernel_state"]]))
    _trim(made)
    made.judgements = _judgements([m.value for m in by_topic["prompts"]], [m.value for m in by_topic["answers"]])
    return made


def _in_turn(inputs: list[Input]) -> list[Input]:
    """Put in order what the scheduler told of, whatever the stamps say: some are of the telling."""
    made = []
    latest_s = float("inf")
    for given in sorted(inputs, key=lambda i: i.after, reverse=True):
        latest_s = min(latest_s, given.at_s)
        made.append(replace(given, at_s=latest_s))
    return made


def _trim(made: Timeline) -> None:
    """Leave out what was before the first chunk (but interrupts and the newest state) and after the last output."""
    begin_s = min((i.at_s for i in made.inputs if i.what is What.CHUNK), default=0.0) - LEAD_S
    end_s = max([t for t, _ in made.outputs] + [begin_s]) + TAIL_S
    made.book.outputs = [(max(at_s, begin_s), output) for at_s, output in made.book.outputs]
    newest: dict[What, Input] = {}
    kept = []
    for given in sorted(made.inputs, key=lambda i: (i.at_s, i.after)):
        if given.at_s < begin_s and given.what is What.INTERRUPT:
            kept.append(replace(given, at_s=begin_s))
        elif given.at_s < begin_s:
            newest[given.what] = replace(given, at_s=begin_s, after=0)
        elif given.at_s <= end_s or given.what in (What.RESULT, What.INTERRUPT, What.CHUNK):
            kept.append(given)
    made.inputs = [*newest.values(), *kept]


def stamp_s(stamp: Any) -> float:
    """Return the seconds of a stamp."""
    return float(stamp.sec + stamp.nanosec * 1e-9)


def _in_order(by_topic: dict[str, list[Any]]) -> list[RunEvent]:
    """Return the events of all topics in the order in which each node wrote them."""
    events = [from_message(kind, m.value) for kind, name in EVENT_TOPICS.items() for m in by_topic[name]]
    return sorted(events, key=lambda e: (e.stamp_s, e.session, e.seq))


def _events(made: Timeline, events: list[RunEvent], streams: set[str]) -> list[Input]:
    """Fill the book with what the known streams did; the interrupts among the events."""
    interrupts, contended = [], []
    for event in events:
        if isinstance(event, CallEvent) and event.kind is CallKind.CONTENTION:
            contended.append(event.call_id)
        stream = event.stream_id
        if stream and (stream not in streams or stream in made.partial):
            continue
        if event.node == SCHEDULER and event.kind is ProcessKind.INTERRUPTED:
            interrupts.append(Input(event.stamp_s, len(made.outputs), What.INTERRUPT, event))
        made.book.hear(event)
    made.contended = {made.book.by_id[call_id] for call_id in contended if call_id in made.book.by_id}
    return interrupts


def _results(made: Timeline, states: list[Any]) -> list[Input]:
    """Return when the kernel ended each call: with the call's end, or before it where an open element outlived its body."""
    gone_s: dict[str, float] = {}
    running: set[str] = set()
    uses: dict[str, set[str]] = {}
    for state in states:
        for subsystem in state.subsystems:
            for call_id in subsystem.call_ids if not subsystem.parallel else ():
                uses.setdefault(call_id, set()).add(subsystem.name)
        now = set(state.running)
        gone_s.update({call_id: stamp_s(state.stamp) for call_id in running - now})
        running = now
    ids = {key: call_id for call_id, key in made.book.by_id.items()}
    serial = {s.name for state in states for s in state.subsystems if not s.parallel}
    for key, known in made.book.calls.items():
        made.uses[key] = frozenset(uses.get(ids[key], serial & set(known.channels)))
    results = []
    for number, (_, output) in enumerate(made.outputs):
        call = made.book.calls.get(output.key)
        if output.kind is not CallKind.ENDED or call is None or call.ended_s is None:
            continue
        left_s = gone_s.get(ids[call.key], call.ended_s)
        early = left_s < call.ended_s - 0.1
        at_s = left_s if early else call.ended_s
        after = bisect_left([t for t, _ in made.outputs], at_s) if early else number
        made.results_s[call.key] = at_s
        results.append(Input(at_s, after, What.RESULT, call))
    return results


def _judgements(prompts: list[Any], answers: list[Any]) -> list[Judgement]:
    """Conditions the judge was asked, with its answers; one that was not understood counts only by the next, its repair."""
    asked: dict[str, tuple[float, str]] = {}
    for prompt in prompts:
        if prompt.layer == Layer.JUDGE.value:
            text = "\n".join(str(m.get("text", "")) for m in json.loads(prompt.messages_json or "[]"))
            conditions = read_blocks(text).get("CONDITION", [])
            asked[prompt.sha256] = (stamp_s(prompt.stamp), _plain(str(conditions[0])) if conditions else "")
    found = []
    for answer in answers:
        if answer.layer != Layer.JUDGE.value or answer.sha256 not in asked:
            continue
        asked_s, condition = asked[answer.sha256]
        holds, reason = None, answer.error_msg
        if not answer.error_code:
            reader = judgement_reader()
            try:
                reader.feed("".join(answer.pieces))
                holds, reason = (judged := reader.close()).holds, judged.reason
            except AnswerError:
                continue
        found.append(Judgement(asked_s, stamp_s(answer.stamp), condition, holds, reason))
    return found


def _plain(condition: str) -> str:
    return " ".join(condition.split())
