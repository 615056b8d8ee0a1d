# SPDX-License-Identifier: Apache-2.0
"""Plan one process at once, then look again when something has happened, and never twice for the same: System 2 (TypeGo 6).
Pure and on an injected clock: events come in by method and plans go out by `publish`, on one thread."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from function_tokens.routines import Routine
from planners.models.base import Message, ModelRequest
from planners.models.model_call import CallEnd, Model, ModelCall
from planners.plan import FALLBACK, WHOLE, Plan, Subtask, SubtaskStatus
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport, place
from planners.strategies.layered.prompts import background_of, plan_message
from planners.strategies.layered.task_answer import TaskAnswer, TaskReader, ending_with, revised, revised_events, with_done
from planners.strategies.layered.task_reviews import Progress, Reasons, differences, labels, watched
from planners.strategy import Parameter, Report, Task
from skill_kernel.clock import Clock, Timer
from skill_kernel.config.sections import shown
from skill_kernel.events import ModelEvent, ModelKind

PARAMETERS = (
    Parameter("cost_aware", True, "look again only when something has happened; else every review_s", live=True),
    Parameter("deadline_s", 12.0, "an answer may take so long, its repair included [s]", 0.1, 3600.0),
    Parameter("max_output_tokens", 1000, "length of one answer at most [tokens]", 16, 100_000),
    Parameter("review_s", 2.0, "it looks again so often when it is not cost_aware [s]", 0.2, 3600.0),
    Parameter("max_revisions", 30, "changes of one process's plan at most", 0, 1000),
    Parameter("max_subtasks", 12, "subtasks of one plan at most", 1, 50),
    Parameter("max_repeats", 3, "failures of one and the same plan before the task is given up", 1, 100),
    Parameter("max_failures", 8, "failures without any progress before the task is given up", 1, 1000),
)
"""The settings of System 2."""


@dataclass
class Asked:
    """Hold the grounds of a question. `weight` counts what had happened until then that a verdict must know of; `claim` is the
    step with which the other layer holds the task for done, None where it does not."""

    first: bool
    claim: str | None
    failed: bool
    weight: int
    done: frozenset[str]
    why: tuple[str, ...]
    facts: Mapping[str, Any] | None
    tries: int = 0
    streamed: list[Subtask] = field(default_factory=list)


BEGIN_S = 0.1
"""Time in which the other layer may begin a plain command and ask for no plan."""
URGENT_S, SETTLE_S, GAP_S = 0.2, 0.8, 0.8
"""Times from a result, an event or a resume, from a change of what is watched, and from the last answer, to the next question
at the earliest; together no more than `review_s`."""
SHOWN_CALLS = 20
RETRY_S, RETRY_MAX_S = 2.0, 30.0
"""A model that gave no usable answer is asked again after the first, then after twice as long, up to the second."""
MAX_DISAGREED = 4
"""A task that is held for done is sent on so often at most: one of the two layers may be wrong for ever."""
STALE_S = 3.0
"""So long after the last call an agreement still counts; a mark that comes later is looked at anew."""
FORBIDDEN_S = 10.0
"""Time after which a question that the budget forbade is tried again."""


class TaskPlanner:
    """Plan one process from its beginning to its end.

    `system` gives the static front of its prompt; `fields` are those that may be watched, `things` the labels that the robot
    can see. `adopted` is above 0 for a
    process that was planned before by somebody else: revisions and ids begin above it, and nothing replaces the plan that
    the other layer may still have until a model has answered.
    """

    def __init__(
        self,
        task: Task,
        *,
        system: Callable[[], str],
        fields: frozenset[str],
        model: Model,
        made_by: str,
        publish: Callable[[Plan], None],
        report: Callable[[Report], None],
        clock: Clock,
        settings: Mapping[str, Any],
        things: Collection[str] = (),
        routines: Callable[[], Iterable[Routine]] = tuple,
        adopted: int = 0,
    ) -> None:
        self._task, self._things, self._routines = task, things, routines
        self._system, self._fields, self._made_by = system, fields, made_by
        self._model, self._publish_plan, self._report = model, publish, report
        self._clock, self._settings = clock, settings
        self._adopted, self._ids = bool(adopted), adopted
        self.plan = Plan(revision=adopted, complete=False)
        """The newest plan; without subtasks while there is none."""
        self._progress = Progress(settings["max_repeats"], settings["max_failures"])
        self._calls: deque[CallReport] = deque(task.done, maxlen=SHOWN_CALLS)
        self._running: dict[str, CallReport] = {}
        self._facts: Mapping[str, Any] | None = None
        self._start: Mapping[str, Any] = {}
        self._memory: Sequence[str] = ()
        self._shown: set[str] = set()
        """Labels of things that were in sight when it was asked."""
        self._reasons = Reasons()
        self._asked: Asked | None = None
        self._call: ModelCall[TaskAnswer] | None = None
        self._timer: Timer | None = None
        self._not_before_s = clock.now()
        self._weight = self._revised = self._faults = 0
        self._failed = self._awaited = self._paused = self._over = self._doubted = False
        self._claim: str | None = None
        self._disagreed = 0
        """Times that it found something missing in a task that was held for done."""
        self._agreed = False
        """True when it holds the task for done as soon as the other layer has marked all of it."""
        self._quiet_s = clock.now()
        """Since when nothing has run and it has agreed to nothing new."""
        self._put_off = ""

    def begin(self, *, paused: bool = False) -> None:
        """Ask at once."""
        self._paused = paused
        why = "System 2 was started anew and does not know its former plan" if self._adopted else "the task begins"
        self._happened(why, BEGIN_S)

    def recollected(self, lines: Sequence[str]) -> None:
        """Show these lines of the memory in all that is asked from now on."""
        self._memory = lines

    # -- what happens -------------------------------------------------------------------------------------------------

    def observed(self, facts: Mapping[str, Any] | None) -> None:
        """Return the observation as it is now, None without one. Called a few times a second."""
        self._facts = facts
        if facts is not None and not self._start and not self._adopted and not self._task.done:
            self._start = place(facts)
        if self._timer is None and not self._settings["cost_aware"]:
            self._wake()
        if facts is None or self._asked is None or self.plan.over:
            return
        if self._asked.facts is None:
            self._asked.facts = facts
            self._shown |= labels(facts)
        before, now = (watched(seen, self.plan.open, self._things) for seen in (self._asked.facts, facts))
        told = differences(before, now, self._shown)
        if self._reasons.see(told, self._clock.now() + SETTLE_S):
            if not self._reasons:
                self._tell(ModelKind.SKIPPED, reason="what it watches is again as it was")
            self._wake()

    def subtask_done(self, subtask_id: str) -> None:
        """Note that the other layer has achieved a subtask, which is looked at again when what follows depends on it."""
        if subtask_id == WHOLE:
            subtasks = tuple(replace(s, status=SubtaskStatus.DONE) for s in self.plan.subtasks)
            self.plan = replace(self.plan, complete=True, subtasks=subtasks)
        elif any(s.id == subtask_id and not s.done for s in self.plan.subtasks):
            self.plan = replace(self.plan, subtasks=with_done(self.plan.subtasks, subtask_id))
        else:
            return
        self._progress.achieved()
        following = next(iter(self.plan.open), None)
        if following is None and self.plan.complete:
            self._conclude()
            if not self._over and (self._claim is None or not (self._call is not None or self._reasons)):
                self.claimed("")
        elif following is not None and following.conditional:
            self._happened(f"subtask {subtask_id} is done", URGENT_S)
        else:
            self._wake()

    def claimed(self, step: str) -> None:
        """Look again: the other layer holds the task for done when this step, the last one, ends well ("": none runs)."""
        self._claim, self._agreed = step, False
        self._drop_call()
        self._not_before_s = self._clock.now()
        self._happened("all subtasks are done, or will be with what is RUNNING", URGENT_S)

    def _conclude(self) -> None:
        if not (self._agreed and self.plan.complete and not self.plan.open):
            return
        if self._running or self._clock.now() - self._quiet_s <= STALE_S:
            self._finish(replace(self.plan, achieved=True))
        else:
            self._agreed = False  # the mark was set long after the step that was agreed to

    def _voided(self) -> None:
        """Take note of something that a verdict which was asked for before does not know of."""
        self._weight += 1
        self._agreed = False
        if self.plan.open or not self.plan.complete:
            self._claim = None

    def call_started(self, call_id: str, report: CallReport) -> None:
        self._running[call_id] = report

    def call_ended(self, call_id: str, report: CallReport, *, grave: bool = True, lost: bool = False) -> None:
        """Note the end of a call; one FAILED or REFUSED makes System 2 look again. Not `grave`: its failure is an answer,
        such as that a thing is not there, and no sign that the plan is bad. `lost`: it was interrupted or never begun, so what
        was agreed to with it is void."""
        self._running.pop(call_id, None)
        self._quiet_s = self._clock.now()
        if lost:
            self._voided()
        if report.outcome != "DROPPED":
            self._calls.append(report)
        if report.outcome not in ("FAILED", "REFUSED") or self._over:
            return
        why = f"{report.function} {report.outcome}: {report.message or 'without a word'}"
        self._voided()
        if grave:
            self._failed = self._awaited = True
            self._progress.failed(self.plan.signature, why, self._clock.now())
        if too_many := self._progress.hopeless():
            self._finish(replace(self.plan, given_up=True, reason=too_many))
        else:
            self._happened(why, URGENT_S)

    def event_fired(self, event_id: str) -> None:
        event = next((e for e in self.plan.events if e.id == event_id), None)
        if event is None:
            return
        events = tuple(replace(e, fired=e.fired + 1) if e is event else e for e in self.plan.events)
        self.plan = replace(self.plan, events=events)
        self._voided()
        self._happened(f"event {event_id} has come true: {event.condition}", URGENT_S)

    def planned_anew(self) -> None:
        """Void what the other layer had prepared."""
        self._voided()

    def paused(self, paused: bool) -> None:
        """Pause the process, which ends an answer under way, or let it go on."""
        if paused == self._paused or self._over:
            return
        self._paused = paused
        if paused:
            self._drop_call()
            self._wake()
        else:
            self._happened("it goes on after a pause", URGENT_S if self.plan.complete else 0.0)

    def end(self) -> None:
        self._over = True
        self._drop_call()
        self._wake()

    # -- when to ask --------------------------------------------------------------------------------------------------

    def _happened(self, why: str, within_s: float) -> None:
        self._reasons.add(why, self._clock.now() + within_s)
        self._wake()

    def _wake(self) -> None:
        """Set the one timer, for the next question."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._over or self._paused or self._call is not None or self.plan.over:
            return
        if self._reasons or not self._settings["cost_aware"]:
            due_s = min(self._reasons.due_s, self._clock.now() + self._settings["review_s"])
            wait_s = max(due_s, self._not_before_s) - self._clock.now()
            if self._awaited and self.plan.complete and wait_s > self._settings["review_s"]:
                # The other layer may not have heard yet of what it is told this because of.
                self._timer = self._clock.call_later(URGENT_S, self._put_off_long)
            else:
                self._timer = self._clock.call_later(max(0.0, wait_s), self._look)

    def _put_off_long(self) -> None:
        self._timer = None
        self._keep()
        self._wake()

    def _look(self) -> None:
        """Ask, unless it is forbidden, or `cost_aware` was set meanwhile and nothing has happened."""
        self._timer = None
        if self._settings["cost_aware"] and not self._reasons:
            return
        if self.plan.complete and self._claim is None and self._revised >= self._settings["max_revisions"]:
            self._skip(f"the plan was changed {self._revised} times already, and stays now as it is")
            self._reasons.take()
            self._keep()
            return
        allowed, wait_s, why = self._model.allowance(self._task.process_id, Layer.S2)
        if allowed and (wait_s <= 0.0 or not self.plan.complete or self._claim is not None):
            self._ask()
            return
        if self._claim is not None:
            self._publish(replace(self.plan, reason=why, made_by=FALLBACK))
        elif not allowed and not self.plan.complete:
            self._fall_back(why)
        self._skip(why)
        self._keep()
        self._not_before_s = self._clock.now() + (wait_s if allowed else FORBIDDEN_S)
        self._wake()

    def _keep(self) -> None:
        """Let the other layer, which waits to hear what becomes of a failure, go on with the plan as it is."""
        if self._awaited and self.plan.complete and not self.plan.over:
            self._awaited = False
            self._publish(replace(self.plan, reason="kept"))

    def _skip(self, why: str) -> None:
        """Tell why nothing is asked, once in a row."""
        if why != self._put_off:
            self._put_off = why
            self._tell(ModelKind.SKIPPED, reason=why)

    def _tell(self, kind: ModelKind, **told: Any) -> None:
        self._report(ModelEvent(kind=kind, process_id=self._task.process_id, layer=Layer.S2.value, **told))

    def _ask(self) -> None:
        why = self._reasons.take() or ("it is time to look again",)
        done = frozenset(s.id for s in self.plan.subtasks if s.done)
        asked = Asked(not self.plan.complete, self._claim, self._failed, self._weight, done, why, self._facts)
        self._asked, self._failed, self._put_off = asked, False, ""
        self._shown |= labels(self._facts)
        text = plan_message(
            background_of(self._task, start=self._start, memory=self._memory, routines=self._routines()),
            plan=self.plan if self.plan.subtasks else None,
            calls=[*self._calls, *self._running.values()],
            why=why,
            claim=asked.claim,
            observation=self._facts,
        )
        request = ModelRequest(
            self._system(),
            (Message("user", text),),
            max_output_tokens=self._settings["max_output_tokens"],
            deadline_s=self._settings["deadline_s"],
            instruction=self._task.instruction,
        )
        self._call = ModelCall(
            partial(self._model.ask, Layer.S2, self._task.process_id),
            self._clock,
            request,
            lambda: self._reader(asked),
            self._answered,
        )

    def _drop_call(self) -> None:
        """Stop the answer under way; what it was asked for is still to be asked."""
        if self._call is not None and self._asked is not None:
            self._call.cancel()
            self._call = None
            self._unanswered(self._asked, self._clock.now())

    def _unanswered(self, asked: Asked, due_s: float) -> None:
        self._reasons.give_back(asked.why, due_s)
        self._failed = self._failed or asked.failed

    # -- what was answered --------------------------------------------------------------------------------------------

    def _reader(self, asked: Asked) -> TaskReader:
        """Follow only the first try at a first plan while it is written: a list that replaces another counts whole."""
        asked.tries += 1
        streams = asked.first and asked.tries == 1 and not self._adopted and not self.plan.subtasks
        return TaskReader(
            most=self._settings["max_subtasks"],
            known={s.id for s in self.plan.subtasks},
            fields=self._fields,
            first=asked.first,
            claimed=asked.claim is not None,
            strict=asked.tries == 1,
            on_subtask=partial(self._streamed, asked) if streams else lambda one: None,
        )

    def _streamed(self, asked: Asked, one: Subtask) -> None:
        asked.streamed.append(one)
        self._publish(replace(self.plan, subtasks=self._merged(asked, asked.streamed), made_by=self._made_by))

    def _merged(self, asked: Asked, written: Iterable[Subtask]) -> tuple[Subtask, ...]:
        return revised(self.plan.subtasks, tuple(written), done_when_asked=asked.done, new_id=lambda: self._new_id("t"))

    def _answered(self, end: CallEnd[TaskAnswer]) -> None:
        asked, self._call = self._asked, None
        assert asked is not None  # an answer was asked for
        self._not_before_s = self._clock.now() + GAP_S
        if end.value is None:
            self._no_answer(asked, end.why)
        else:
            self._faults = 0
            self._take(asked, end.value)
        self._wake()

    def _no_answer(self, asked: Asked, why: str) -> None:
        """Keep the old plan and ask again some time later."""
        if asked.claim is not None:
            self._publish(replace(self.plan, reason=why, made_by=FALLBACK))
        elif asked.first and not self._adopted:
            self._fall_back(why)
        else:
            self._tell(ModelKind.DEGRADED, fallback="the plan stays as it was", error_msg=why)
            self._keep()
        self._not_before_s = self._clock.now() + min(RETRY_MAX_S, RETRY_S * 2.0 ** min(self._faults, 10))
        self._faults += 1
        self._unanswered(asked, self._not_before_s)

    def _fall_back(self, why: str) -> None:
        """Make the task its own only subtask without a model, or its last one when the model broke off."""
        if self._adopted and not self.plan.subtasks:
            return
        subtasks = ending_with(self.plan.subtasks, self._task.instruction, lambda: self._new_id("t"))
        self._publish(replace(self.plan, complete=True, subtasks=subtasks, reason=why, made_by=FALLBACK))
        self._tell(ModelKind.DEGRADED, fallback="the instruction itself is the plan", error_msg=why)

    def _take(self, asked: Asked, answer: TaskAnswer) -> None:
        if answer.give_up:
            self._give_up(asked, answer.give_up)
            return
        self._doubted = False
        if answer.achieved:
            self._achieved(asked)
            return
        subtasks = self._merged(asked, answer.subtasks) if answer.subtasks else self.plan.subtasks
        events = revised_events(self.plan.events, answer.events, lambda: self._new_id("e"))
        plan = replace(self.plan, complete=True, subtasks=subtasks, events=events)
        changed = plan != self.plan
        self._agreed = self._agreed and not changed
        again = self._progress.repeated(plan.signature) if asked.failed else ""
        if again:
            self._finish(replace(self.plan, given_up=True, reason=again))
        elif asked.claim is not None and (changed or not plan.open):
            self._disagree(asked, answer, plan)
        elif changed:
            self._revised += not asked.first
            reason = "" if asked.first else "; ".join(asked.why)
            self._publish(replace(plan, reason=reason, made_by=self._made_by))
        elif asked.failed:
            self._publish(replace(self.plan, reason="kept"))
        self._awaited = self._failed

    def _disagree(self, asked: Asked, answer: TaskAnswer, plan: Plan) -> None:
        """Send a task on that was held for done, a few times."""
        self._disagreed += 1
        if self._disagreed > MAX_DISAGREED:
            missing = shown(", ".join(s.description or s.id for s in answer.subtasks), 120)
            self._publish(replace(self.plan, reason=f"the layers do not agree; missing: {missing}", made_by=FALLBACK))
        elif plan.open:
            self._claim = None
            self._publish(replace(plan, reopened=True, reason="; ".join(asked.why), made_by=self._made_by))
        else:  # it named what was being done when it was asked
            self.claimed("")

    def _give_up(self, asked: Asked, reason: str) -> None:
        """Take a second word for it where something is left to do, or the first one did not know what has happened."""
        if (self.plan.open or self._weight != asked.weight) and not self._doubted:
            self._doubted = True
            why = f"you answered <give_up>{reason}</give_up>; write it again only if nothing else is left to try"
            self._unanswered(replace(asked, why=(*asked.why, why)), self._clock.now())
        else:
            self._finish(replace(self.plan, given_up=True, reason=reason))

    def _achieved(self, asked: Asked) -> None:
        """Agree with the other layer's claim. Without one the word of a single model ends nothing: the other one must say so,
        too."""
        if asked.claim is not None and asked.weight == self._weight:
            self._agreed, self._quiet_s = True, self._clock.now()
            self._conclude()
        elif asked.first and not self._adopted:
            subtasks = ending_with(self.plan.subtasks, self._task.instruction, lambda: self._new_id("t"))
            self._publish(replace(self.plan, complete=True, subtasks=subtasks, made_by=self._made_by))
        elif asked.failed:
            self._publish(replace(self.plan, reason="kept"))

    def _finish(self, plan: Plan) -> None:
        """Publish the last plan and ask nothing more."""
        ends = {SubtaskStatus.ACTIVE: SubtaskStatus.FAILED} if plan.given_up else {}
        subtasks = tuple(replace(s, status=ends.get(s.status, s.status)) for s in plan.subtasks)
        self.end()
        self._publish(replace(plan, complete=True, subtasks=subtasks, made_by=plan.made_by or self._made_by))

    def _publish(self, plan: Plan) -> None:
        self.plan = replace(plan, revision=self.plan.revision + 1)
        self._publish_plan(self.plan)

    def _new_id(self, kind: str) -> str:
        self._ids += 1
        return f"{kind}{self._ids}"
