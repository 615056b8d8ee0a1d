# SPDX-License-Identifier: Apache-2.0
"""Follow the plan as System 1 sees it, write its steps to the robot, and keep what has become of them (TypeGo 6)."""

import json
import re
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planners.plan import FALLBACK, WHOLE, Plan, Subtask, SubtaskStatus
from planners.prompts.prompt import CallReport
from planners.strategy import PlannerIO, StreamHandle, Task
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallEvent

STEP = "step"
COMPLETE = "subtask_complete"
REPLACE = "replace_steps"
SILENT = frozenset({"if", "else", "elif", "wait", REPLACE})
"""Built-ins whose end says nothing that their contents do not say."""
IDLE_WORDS = frozenset({"text", "sleep", STEP, COMPLETE}) | SILENT
"""Calls that mend no failure."""
BAD = frozenset({Outcome.FAILED, Outcome.REFUSED})
"""Outcomes that are a failure. An interrupted call is one only when its step fails of it; else somebody wanted it so."""
KEPT_DONE = 60


@dataclass(eq=False)
class Item:
    """Hold a step that was written, or the mark behind the last step of a subtask (`mark`). `subtask`: whose it is, "" for the
    first action. `handles`: global events that were known when it was written."""

    stream_id: str
    subtask: str
    mark: bool = False
    source: str = ""
    begun: bool = False
    call_id: str = ""
    handles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StepEnd:
    """Tell that a step or mark has ended; `cause` is the call in it that failed, `moved`: it did more than speak and wait."""

    item: Item
    outcome: Outcome | None
    cause: CallReport | None = None
    moved: bool = False


class StepBook:
    """Keep the steps of one process in the order in which they were written, its streams and its calls.

    Streams of one turn all end with the first failure: the turn counts up with each failure and each replaced queue.
    """

    def __init__(self, io: PlannerIO, done: Sequence[CallReport], deciding: Collection[str] = ()) -> None:
        """Begin with what was `done`; the result of a call of `deciding` decides what comes next."""
        self._io = io
        self._deciding = re.compile(rf"<(?:{'|'.join(map(re.escape, deciding))})[\s/>]" if deciding else "(?!)")
        self._items: list[Item] = []
        self._calls: dict[str, CallEvent] = {}
        self.turn = 0
        """The turn of a stream that begins now."""
        self.streams: list[str] = []
        """Streams that have not been reported over."""
        self.done: deque[CallReport] = deque(done, maxlen=KEPT_DONE)
        self.since_mark: list[CallReport] = list(done)
        """Calls that have ended since the last mark was DONE: what has been done of the subtask after it."""
        self.ended = self.failures = 0
        """Calls that have ended so far, and those of them that failed, were refused or are lost."""
        self._cut: set[str] = set()
        """Streams of which a call should have begun and did not: no mark of theirs counts."""
        self.fault = ""
        """The last failure, until a later step has done something."""
        self._fault_in: Item | None = None
        self._moved = False
        self._cause: CallReport | None = None
        self._acted = False
        """Whether the last call that ended did something in a step."""

    # -- what is written ----------------------------------------------------------------------------------------------

    def next_turn(self) -> None:
        """Take note that something has happened that what was written before did not know."""
        self.turn += 1

    def open(self, turn: int) -> StreamHandle:
        stream = self._io.open(turn)
        self.streams.append(stream.stream_id)
        return stream

    def add(self, item: Item) -> None:
        self._items.append(item)

    def send(self, content: str = "", *, subtask: str = "", mark: bool = False, replace_queue: bool = False) -> None:
        """Write a whole stream: a step with this content, if any, and the mark of its subtask."""
        if replace_queue:
            self.next_turn()
            self.drop_queue()
        stream = self.open(self.turn)
        step = f"<{STEP}>{content}</{STEP}>" if content else ""
        if step:
            self.add(Item(stream.stream_id, subtask, source=step))
        if mark:
            self.add(Item(stream.stream_id, subtask, mark=True))
        stream.text(f"{f'<{REPLACE}/>' if replace_queue else ''}{step}{f'<{COMPLETE}/>' if mark else ''}")
        stream.end()

    def drop_queue(self) -> None:
        """Forget what has not begun: it is replaced."""
        self._items = [item for item in self._items if item.begun]

    def clear(self) -> None:
        """Forget everything: it was interrupted."""
        self._items.clear()
        self._calls.clear()
        self.streams.clear()
        self._cut.clear()
        self.fault, self._fault_in, self._cause, self._moved = "", None, None, False

    @property
    def queued(self) -> list[Item]:
        """Return the steps that have not begun, oldest first."""
        return [item for item in self._items if not item.mark and not item.begun]

    def has_room(self) -> bool:
        """Return whether one more step may wait; none may behind a call whose result decides what comes next."""
        undecided = any(self._deciding.search(item.source) for item in self._items)
        return not undecided and len(self.queued) < int(self._io.settings["queue_steps"])

    @property
    def idle(self) -> bool:
        """Return whether nothing runs and nothing waits."""
        return not self._items and not self._calls

    def marked(self, subtask: str) -> bool:
        """Return whether the mark of a subtask waits for the steps before it."""
        return any(item.mark and item.subtask == subtask for item in self._items)

    def shown_queue(self) -> list[str]:
        """Return the queue as prompts show it."""
        waiting = [item for item in self._items if not item.begun]
        return [f"<{COMPLETE}/>" if item.mark else item.source or f"<{STEP}>…" for item in waiting]

    @property
    def did_last(self) -> bool:
        """Return whether the last call since the last mark was DONE, and no failure stands."""
        return bool(self.since_mark) and self.since_mark[-1].outcome == Outcome.DONE.value and not self.fault

    @property
    def running_source(self) -> str:
        """Return the step that runs as it was written; "" when none does."""
        step = self._running()
        return step.source if step is not None else ""

    @property
    def running_calls(self) -> Collection[CallEvent]:
        """Return the calls that have begun and not ended, those that hold others among them."""
        return self._calls.values()

    @property
    def between(self) -> bool:
        """Return whether a step runs and, after one that has ended, none of its calls: the next begins, or it ends, at once."""
        calls = {call.function for call in self._calls.values()} - {STEP, *SILENT}
        return self._running() is not None and not calls and self._acted

    def shown_running(self) -> list[str | dict[str, Any]]:
        """Return what runs as prompts show it: the step, then those of its calls that have begun."""
        step, hidden = self._running(), {STEP, COMPLETE, *SILENT}
        calls = [{"function": c.function, "arguments": c.arguments} for c in self._calls.values() if c.function not in hidden]
        return [*([step.source or f"<{STEP}>…"] if step is not None else []), *calls]

    # -- what is reported ---------------------------------------------------------------------------------------------

    def call_started(self, call: CallEvent) -> bool:
        """Take note that a call has begun; return whether a step begins with it."""
        self._calls[call.call_id] = call
        item = self._next(call.stream_id, mark=False) if call.function == STEP and not call.parent_id else None
        if item is not None:
            item.begun, item.call_id = True, call.call_id
        return item is not None

    def call_ended(self, call: CallEvent) -> StepEnd | None:
        """Take note of a call's outcome; return the end of a step or of a mark, if it is one."""
        self._calls.pop(call.call_id, None)
        self.ended += 1
        self._acted = call.function not in {STEP, COMPLETE, *SILENT}
        report = CallReport.of(call)
        report = replace(report, message=report.message[:400])
        if call.function == STEP and not call.parent_id:
            return self._step_ended(call, report)
        if call.function == COMPLETE:
            return self._mark_ended(call, report)
        self.failures += call.outcome in BAD or call.lost
        if call.lost and call.outcome is Outcome.DROPPED:
            self._cut.add(call.stream_id)
        if call.function in SILENT or call.outcome is Outcome.DROPPED:
            return None
        self._report(report)
        if all(item.stream_id != call.stream_id for item in self._items):
            return None  # heard of too late: nothing of its stream is left
        if call.outcome in BAD:
            self._cause = report
            self.fault = f"'{call.function}' {report.outcome}: {report.message}"
            self._fault_in = self._running()
        elif call.outcome is Outcome.INTERRUPTED:
            self._cause = self._cause or report
        elif call.outcome is Outcome.DONE and call.function not in IDLE_WORDS:
            self._moved = True
            if self._running() is not self._fault_in:
                self.fault = ""
        return None

    def stream_over(self, stream_id: str) -> None:
        """Forget a stream: the scheduler has nothing more of it, and what was never heard of it is lost."""
        self.streams.remove(stream_id)
        self._cut.discard(stream_id)
        self._items = [item for item in self._items if item.stream_id != stream_id]
        self._calls = {i: c for i, c in self._calls.items() if c.stream_id != stream_id}

    def _step_ended(self, call: CallEvent, report: CallReport) -> StepEnd | None:
        item = next((i for i in self._items if i.call_id == call.call_id), None) or self._next(call.stream_id, mark=False)
        if item is None:
            return None
        self._items.remove(item)
        if call.outcome is Outcome.DROPPED:
            return StepEnd(item, call.outcome)
        cause, self._cause = self._cause, None
        moved, self._moved = self._moved, False
        if call.outcome in BAD:
            if cause is None or call.error_code == CallCode.CONDITION_UNKNOWN:
                cause = report
                self._report(report)
            self.fault = f"{'a step' if cause is report else repr(cause.function)} {cause.outcome}: {cause.message}"
        return StepEnd(item, call.outcome, cause, moved)

    def _mark_ended(self, call: CallEvent, report: CallReport) -> StepEnd | None:
        outcome = Outcome.DROPPED if call.stream_id in self._cut else call.outcome
        if outcome is Outcome.DONE:
            self.done.append(report)
            self.since_mark.clear()
        if call.parent_id:
            step = self._running()
            return StepEnd(Item(call.stream_id, step.subtask, mark=True), outcome) if step is not None else None
        item = self._next(call.stream_id, mark=True)
        if item is None:
            return None
        self._items.remove(item)
        return StepEnd(item, outcome)

    def _report(self, report: CallReport) -> None:
        self.done.append(report)
        self.since_mark.append(report)

    def _running(self) -> Item | None:
        return next((item for item in self._items if item.begun and not item.mark), None)

    def _next(self, stream_id: str, *, mark: bool) -> Item | None:
        """Assign a call to its step; calls of a stream come in the order in which they were written."""
        return next((i for i in self._items if i.stream_id == stream_id and i.mark == mark and not i.begun), None)


MAX_SAID = 160


class Goals:
    """Keep the newest plan of a process. What was done stays done, whatever a plan says of it."""

    def __init__(self, task: Task, book: StepBook) -> None:
        self._task, self._book = task, book
        self.plan = Plan(revision=-1)
        """The newest plan; without subtasks while there is none."""
        self.done: set[str] = set()
        self._whole = True
        """False once System 2 has found something missing in what was held for the whole task."""

    def take(self, plan: Plan) -> bool:
        """Take a plan that was published; return whether it is newer than the one that is known."""
        old = self.plan
        if old.made_by != FALLBACK and plan.revision <= old.revision:
            return False
        if old.subtasks and not (plan.subtasks or plan.over):  # it has nothing to say but why nobody plans
            plan = replace(plan, subtasks=old.subtasks, complete=old.complete)
        self.plan = plan
        self.done |= {s.id for s in plan.subtasks if s.status is SubtaskStatus.DONE}
        if plan.complete and not (plan.subtasks or plan.over or self.done):
            self.fall_back()
        return True

    def fall_back(self) -> None:
        """Make the instruction itself the one subtask."""
        self.plan = Plan(0, True, (Subtask(WHOLE, self._task.instruction),), made_by=FALLBACK)

    def current(self) -> Subtask | None:
        """Return the first subtask that is neither done nor said to be done by what is queued."""
        if self._whole and not self._left(WHOLE):
            return None
        return next((s for s in self.plan.subtasks if self._left(s.id)), None)

    def following(self, subtask_id: str) -> str:
        """Return the id of the next one that is not done, "" when none is known."""
        ids = [s.id for s in self.plan.subtasks]
        behind = ids[ids.index(subtask_id) + 1 :] if subtask_id in ids else []
        return next((i for i in behind if self._left(i)), "")

    def _left(self, subtask_id: str) -> bool:
        return subtask_id not in self.done and not self._book.marked(subtask_id)

    @property
    def over(self) -> bool:
        """Return whether nothing is left to do."""
        return (self._whole and WHOLE in self.done) or (self.plan.complete and self.current() is None)

    def reopen(self) -> None:
        """Go on with what System 2 has found missing, though the whole task was held for done."""
        self._whole = False

    def marked(self, subtask_id: str) -> Subtask | None:
        """Return the subtask whose mark was reached; None when it was done before."""
        if not subtask_id or subtask_id in self.done:
            return None
        return next((s for s in self.plan.subtasks if s.id == subtask_id), Subtask(subtask_id, self._task.instruction))


SAME_FAILURES = 2
"""Equal failures in a row before the layer above is asked."""


class Failures:
    """Count the failures and answers of one process, within the bounds that the settings give."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._by_subtask: Counter[str] = Counter()
        self._answers = self._all_answers = 0
        self._last: tuple[str, str] | None = None
        self._same = 0
        self.too_many = False
        """True when nothing more is to be tried."""

    def failed(self, end: StepEnd) -> None:
        """Count a step that has failed."""
        subtask, call = end.item.subtask, end.cause
        self._by_subtask[subtask] += 1
        what = "" if call is None else f"{call.function} {json.dumps(dict(call.arguments), sort_keys=True, default=str)}"
        self._same = self._same + 1 if (subtask, what) == self._last else 1
        self._last = (subtask, what)
        most, most_here = self._settings["max_failures"], self._settings["max_subtask_failures"]
        self.too_many = self._by_subtask.total() >= most or self._by_subtask[subtask] >= most_here

    @property
    def repeated(self) -> bool:
        """Return whether the same has failed so often that another plan is wanted."""
        return self._same >= SAME_FAILURES

    def succeeded(self, *, moved: bool) -> None:
        """Take note that a step is done: the next failure is the first in a row. `moved`: it did more than speak and wait."""
        self._last, self._same = None, 0
        if moved:
            self._answers = 0

    def answered(self) -> None:
        """Count an answer that has added steps."""
        self._answers += 1
        self._all_answers += 1

    def exhausted(self) -> str:
        """Return why no further answer may be asked for; "" while one may."""
        here, all_answers = self._settings["max_subtask_answers"], self._settings["max_answers"]
        if self._answers >= here:
            return f"no progress in {here} answers of the model"
        if self._all_answers >= all_answers:
            return f"not finished after {all_answers} answers of the model; give a smaller task"
        return ""


def stop_sentence(instruction: str, why: str = "") -> str:
    """Return what the robot says when it ends without having done it, in the language of the instruction."""
    if re.search(r"[\u4e00-\u9fff]", instruction):
        return "我停在这里，因为我的语言模型没有给出可用的回答。" if not why else f"我没能做到：{short(why)}"
    return "I stop here, because my model gives me no usable answer." if not why else f"I could not do it: {short(why)}"


def short(text: str) -> str:
    """Return what can be said aloud in some ten seconds."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SAID else f"{text[:MAX_SAID].rsplit(' ', 1)[0]} …"
