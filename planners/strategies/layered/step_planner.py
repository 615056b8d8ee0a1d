# SPDX-License-Identifier: Apache-2.0
"""Turn the subtasks of one process into steps while earlier steps are performed: System 1 (TypeGo 6). Pure, on an injected
clock; events come in by `on`, and everything goes out through the `PlannerIO`."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum, IntEnum
from functools import partial
from typing import TYPE_CHECKING

from function_tokens.markup import escape
from planners.models.base import Message, ModelRequest
from planners.models.model_call import CallEnd, ModelCall
from planners.plan import FALLBACK, WHOLE, GlobalEvent, Plan, Subtask
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport, place
from planners.scene import MOVED_M, SceneSnapshot, snapshot
from planners.strategies.asking import HOPELESS
from planners.strategies.layered.criteria import PROOF_S, Criteria, trace_accessors
from planners.strategies.layered.global_events import GlobalEvents
from planners.strategies.layered.prompts import (
    background_of,
    first_action_message,
    first_action_system,
    step_message,
    step_system,
)
from planners.strategies.layered.step_answer import FirstActionReader, StepWriting
from planners.strategies.layered.step_goals import BAD, Failures, Goals, StepBook, StepEnd, short, stop_sentence
from planners.strategy import Interrupted, Observed, Paused, PlannerEvent, PlannerIO, Restarted, Resumed, RobotView, Task
from skill_kernel.clock import Clock, Timer
from skill_kernel.codes import ModelCode, Outcome, TaskCode
from skill_kernel.events import (
    CallEvent,
    CallKind,
    ModelEvent,
    ModelKind,
    Notice,
    ProcessEvent,
    ProcessKind,
    StreamEvent,
    StreamKind,
)
from skill_kernel.observation.accessors import View
from skill_kernel.skills.skill import SkillDefinitionError

if TYPE_CHECKING:
    from planners.language.client import OfflineClient

FIRST_TOKENS = 120
"""Length of a first action at most [tokens]."""
SETTLE_S = 0.05
"""After a failed call its turn may end within so long, and with it what was planned before."""
NOTHING_GAP_S, LONGEST_GAP_S = 1.0, 16.0
"""Time from an answer that added nothing to the next question; doubled each time while the robot is idle."""
IDLE_ANSWERS, IDLE_WAITS = 5, 40
"""Answers in a row that add nothing while the robot is idle: at most so many, the second while events are watched."""
LOOK_AGAIN_S, SCENE_GAP_S = 0.5, 5.0
"""Times between two looks at the scene, and between two questions for no other reason than a change in it."""
LONG_S = 4.0
"""A call with this nominal time takes longer than the answers about what follows it."""
ANEW_WAIT_S = 2.0
"""Longest wait for the new epoch after a global event."""
UNVERIFIED = "unverified"
"""Stands before the reason why nobody has looked again at a task that ends as done."""
SAY_S = 20.0
"""Longest time for last words."""
LOST_ANSWERS = 3
"""Answers in a row that could not be used after which an idle robot does without the model; of a silent model two."""


class State(Enum):
    """Name the states in which it may or may not ask and write."""

    RUNNING = "running"
    PAUSED = "paused"
    VOID = "void"
    """Interrupted; it goes on with a new epoch."""
    ENDING = "ending"
    """It waits for its last words."""
    ENDED = "ended"


class Rung(IntEnum):
    """Name the rungs from the model down to a stop: one down with each useless answer, up again with a useful one."""

    MODEL = 0
    ONCE_MORE = 1
    QUEUE = 2
    COMMANDS = 3
    STOPPED = 4


HOW = {
    Rung.ONCE_MORE: "asks once more, with the error shown",
    Rung.QUEUE: "goes on with the rest of the queue",
    Rung.COMMANDS: "follows the direct commands in the task, without a language model",
    Rung.STOPPED: "stops and says so",
}


class Wait:
    """Wait for somebody else, counting only the time in which the process may go on. After a hold the time begins anew, since
    whoever is waited for may have been held as well."""

    def __init__(self, clock: Clock, over: Callable[[], None]) -> None:
        self._clock, self._over = clock, over
        self._timer: Timer | None = None
        self._seconds: float | None = None
        self._due_s = math.inf
        self._held = False

    def within(self, seconds: float) -> None:
        """Wait no longer than this from now."""
        if self._clock.now() + seconds < self._due_s:
            self.begin(seconds)

    def begin(self, seconds: float | None) -> None:
        """Wait from now, or from the end of the hold; with None wait no longer."""
        self._seconds = seconds
        self.hold(self._held)

    def hold(self, held: bool) -> None:
        """Stop counting, or count again."""
        self._held, self._due_s = held, math.inf
        if self._timer is not None:
            self._timer.cancel()
        if not held and self._seconds is not None:
            self._due_s = self._clock.now() + self._seconds
            self._timer = self._clock.call_later(self._seconds, self._ring)

    def _ring(self) -> None:
        self._seconds, self._due_s = None, math.inf
        self._over()


class StepPlanner:
    """Ask for a first action at once, then for steps of the first subtask that is not done, one question at a time."""

    def __init__(self, task: Task, robot: RobotView, io: PlannerIO) -> None:
        self._task, self._robot, self._io = task, robot, io
        self._plans = io.thinks(Layer.S2)
        """Without a System 2 the instruction itself is the one subtask."""
        self._book = StepBook(io, task.done, robot.about.deciding)
        self._goals = Goals(task, self._book)
        self._failures = Failures(io.settings)
        trace = trace_accessors((skill.name for skill in robot.about.skills), lambda: self._book.done)
        self._table = {**robot.about.accessors, **trace}
        self._criteria = Criteria(self._table, self._view)
        self._events = GlobalEvents(self._table, io.judge, robot.steady_now)
        self._fired: list[GlobalEvent] = []
        self._told: set[str] = set()
        self._start = {} if task.done else place(robot.observed())
        self._memory: Sequence[str] = ()
        io.recollect(self._recollected)
        self._paused_at: SceneSnapshot | None = None
        self._commands: OfflineClient | None = None
        self._plan_wait, self._review = Wait(io.clock, self._no_plan), Wait(io.clock, self._not_reviewed)
        self._look_again, self._proof = Wait(io.clock, self._not_looked), Wait(io.clock, self._not_proved)
        self._claim: object = None
        """State in which the task was held for done when System 2 was asked to look again."""
        self._unseen = ""
        """Why System 2 cannot look again."""
        self._unproved: dict[str, Subtask] = {}
        """Subtasks whose mark was reached, and whose criteria do not hold yet."""
        self._next_look = Wait(io.clock, self._consider)
        self._failed_under: int | None = None
        """The revision under which the same has failed again and again: only another plan can help."""
        self._review_fault = ""
        self._rung, self._code, self._why, self._followed = Rung.MODEL, 0, "", False
        self._lost = 0
        """Useless answers in a row."""
        self._first_action: ModelCall[str] | None = None
        self._writing: StepWriting | None = None
        self._asked, self._asked_s = False, 0.0
        self._knows_failures = True
        """True when all failures were known when it asked last."""
        self._seen_then: frozenset[str] = frozenset()
        """Labels of what was in sight then."""
        self._nothing: object = None
        """Plan, queue and results as they were when the last answer added nothing."""
        self._idle_answers = 0
        self._faults: list[str] = []
        self._skip_told = False
        self._not_before_s = self._ended_s = 0.0
        self._outcome = (0, "")
        self._stopping = False
        """True while it waits for a standstill before it speaks its last words."""
        self.state = State.RUNNING
        if not self._begin_directly():
            self._ask_first_action()
            self._plan_wait.begin(io.settings["plan_wait_s"] if self._plans else 0.0)

    def _recollected(self, lines: Sequence[str]) -> None:
        self._memory = lines

    # -- events -------------------------------------------------------------------------------------------------------

    def on(self, event: PlannerEvent) -> None:
        match event:
            case CallEvent(kind=CallKind.STARTED):
                if self._book.call_started(event):
                    self._drop_first_action()
            case CallEvent(kind=CallKind.ENDED):
                self._call_ended(event)
            case StreamEvent(kind=StreamKind.STOP_GENERATION) if event.stream_id in self._book.streams:
                # What is being written was planned without knowing why.
                self._book.next_turn()
                self._drop(event.error_msg)
                return
            case StreamEvent(kind=StreamKind.TURN_ENDED) if event.stream_id in self._book.streams:
                self._book.stream_over(event.stream_id)
                if event.end == "failure":
                    self._book.next_turn()
            case Plan():
                self._plan(event)
            case Observed():
                self._observed()
                if not self._unproved:
                    return
                self._prove()
            case Paused():
                self._pause()
            case Resumed() if self.state is State.PAUSED:
                self._resume()
            case Interrupted():
                if self.state in (State.RUNNING, State.PAUSED):
                    self._hold(State.VOID)
                self._drop_first_action()
                self._drop(event.cause)
            case Restarted():
                self._restart()
            case _:
                return
        self._finish_if_idle()
        self._consider()

    def close(self, why: str) -> None:
        if self.state is not State.ENDED:
            self.state = State.ENDED
            self._stop_asking(why)

    def _plan(self, plan: Plan) -> None:
        old = self._goals.plan
        if self._closing or not self._goals.take(plan):
            return
        self._events.follow(plan.events)
        for why in self._events.problems:
            if why not in self._told:
                self._told.add(why)
                self._io.report(Notice(error_msg=why))
        if self._failed_under is not None and plan.revision > self._failed_under:
            self._failed_under = None
            self._review.begin(None)
        self._plan_wait.begin(None if plan.complete else self._io.settings["plan_wait_s"])
        if plan.reopened:
            self._goals.reopen()
        if self._claim is not None and plan.made_by == FALLBACK:
            self._unseen = plan.reason or "System 2 could not look again"
        if plan.given_up:
            self._fail(int(TaskCode.GIVEN_UP), plan.reason or "it cannot be done", plan.reason)
        elif plan.achieved:
            self._drop("the task has been done already")
            if self._book.queued:
                self._book.send(replace_queue=True)
            self._end("the task has been done already")
        else:
            writing, current = self._writing, self._goals.current()
            changed = plan.signature != old.signature
            if changed and writing is not None and current is not None and current.id != writing.subtask:
                self._drop("System 2 has changed the plan")

    def _call_ended(self, call: CallEvent) -> None:
        self._ended_s = self._io.clock.now()
        if call.outcome in BAD or call.outcome is Outcome.INTERRUPTED:
            self._book.next_turn()
            self._knows_failures = False
            self._ask_not_before(SETTLE_S)
        if (end := self._book.call_ended(call)) is None:
            return
        item = end.item
        if item.mark:
            if end.outcome is Outcome.DONE and (subtask := self._goals.marked(item.subtask)) is not None:
                self._unproved[subtask.id] = subtask
                self._proof.begin(PROOF_S)
                self._prove()
        elif end.outcome is Outcome.DONE:
            self._failures.succeeded(moved=end.moved)
            self._fired = [e for e in self._fired if e.id not in item.handles]
        elif end.outcome is not Outcome.DROPPED:
            if not self._knows_failures:
                self._drop("a step has failed")
            if end.outcome is not Outcome.INTERRUPTED and item.subtask and self.state in (State.RUNNING, State.PAUSED):
                self._step_failed(end)

    def _prove(self) -> None:
        """Count the marks of subtasks whose criteria do not say otherwise."""
        for subtask in list(self._unproved.values()):
            if self._criteria.hold(subtask) is not False:
                self._subtask_done(self._unproved.pop(subtask.id))

    def _not_proved(self) -> None:
        """Have the rest of a subtask done whose criteria do not hold: what was planned behind it is void."""
        self._prove()
        unproved, self._unproved = self._unproved, {}
        if unproved and not self._closing:
            self._drop("a subtask is not done yet")
            if self._book.queued:
                self._book.send(replace_queue=True)
            self._faults = [self._criteria.refuse(subtask) for subtask in unproved.values()]
            self._renewed()
        self._consider()

    def _subtask_done(self, subtask: Subtask) -> None:
        self._goals.done.add(subtask.id)
        self._failures.succeeded(moved=True)
        self._io.report(ProcessEvent(kind=ProcessKind.SUBTASK_DONE, plan_item_id=subtask.id, plan_item=subtask.description))

    def _step_failed(self, end: StepEnd) -> None:
        self._failures.failed(end)
        if self._failures.too_many or (self._failures.repeated and not self._plans):
            self._fail(int(TaskCode.CALL_FAILED), self._book.fault)
        elif self._failures.repeated:
            self._failed_under = self._goals.plan.revision
            self._review_fault = self._book.fault
            self._review.begin(self._io.settings["review_wait_s"])

    def _observed(self) -> None:
        if self.state is State.RUNNING and self._events and not self._fired:
            self._events.look(self._view(), self._scene().place, self._fire)

    def _fire(self, event: GlobalEvent) -> bool:
        """Take one event at a time, and only while it acts: a model may have judged it late."""
        if self.state is not State.RUNNING or self._fired:
            return False
        self._fired.append(event)
        self._renewed()
        self._ask_not_before(ANEW_WAIT_S)
        self._io.report(ProcessEvent(kind=ProcessKind.PLAN_EVENT, plan_item_id=event.id, plan_item=event.response))
        return True

    # -- pauses and interrupts ----------------------------------------------------------------------------------------

    def _hold(self, state: State) -> None:
        """Wait for nobody while the process may not go on."""
        self.state = state
        for wait in (self._plan_wait, self._review, self._look_again, self._proof):
            wait.hold(state is not State.RUNNING)

    def _pause(self) -> None:
        """Keep the queue, and ask nothing."""
        if self.state is State.RUNNING:
            self._hold(State.PAUSED)
            self._drop_first_action()
        elif self.state is not State.VOID or self._paused_at is not None:
            return
        self._paused_at = self._scene()

    def _resume(self) -> None:
        """Go on as before: the queue stays if what it relied on still holds."""
        self._hold(State.RUNNING)
        before, self._paused_at = self._paused_at, None
        if before is not None and not before.holds(self._scene()):
            queued = bool(self._book.queued)
            self._drop("the robot is elsewhere, or sees something else, than before the pause")
            if queued:
                self._book.send(replace_queue=True)
        self._renewed()

    def _restart(self) -> None:
        """Go on with a new epoch: nothing of what was written is left but the plan and what was done of it."""
        self._book.clear()
        if self._closing:
            return
        self._drop_first_action()
        self._drop("it is planned anew")
        self._book.next_turn()
        self._hold(State.RUNNING)
        before, self._paused_at, self._claim = self._paused_at, None, None
        self._renewed()
        motion, pose = self._robot.about.resume_motion, before.pose if before is not None else None
        if before is not None and pose is not None and motion and self._scene().moved_m(before) > MOVED_M:
            self._book.send(motion.format(x_m=pose.x, y_m=pose.y, yaw_deg=math.degrees(pose.yaw)))

    # -- what is waited for -------------------------------------------------------------------------------------------

    def _no_plan(self) -> None:
        """Go on without System 2, which is too late, or absent, or fell silent in the middle of its plan."""
        goals, wait_s = self._goals, self._io.settings["plan_wait_s"]
        if not goals.plan.subtasks:
            goals.fall_back()
            if self._plans:
                self._degraded(Layer.S2, "the instruction itself is the one subtask", f"no plan within {wait_s:g} s")
        elif goals.current() is not None or not self._book.idle:
            self._plan_wait.begin(wait_s)
            return
        else:
            goals.plan = replace(goals.plan, complete=True)
            self._degraded(Layer.S2, "what is planned so far is the plan", "it was not finished in time")
        self._consider()

    def _not_reviewed(self) -> None:
        self._fail(int(TaskCode.CALL_FAILED), self._review_fault)

    # -- the first action ---------------------------------------------------------------------------------------------

    def _begin_directly(self) -> bool:
        """Begin with the whole task where it is a plain command, and hold it for done: no model need be waited for. System 2
        looks whether something is missing while it runs."""
        whole = self._io.settings["begin_directly"] and not self._task.done
        source = self._read_commands(self._task.instruction, ()) if whole else ""
        if source:
            self._goals.fall_back()
            self._book.send(source, subtask=WHOLE, mark=True)
            self._claimed(f"<step>{source}</step>")
        return bool(source)

    def _ask_first_action(self) -> None:
        task, robot, about = self._task, self._robot, self._robot.about
        deadline_s = self._io.settings["first_deadline_s"]
        some = any(skill.name in about.first_actions for skill in about.skills)
        if deadline_s <= 0 or not some or not self._io.thinks(Layer.S1P):
            return
        request = ModelRequest(
            robot.system_prompt(first_action_system),
            (Message("user", first_action_message(task.instruction, task.sender, robot.observed())),),
            max_output_tokens=FIRST_TOKENS,
            deadline_s=deadline_s,
            instruction=task.instruction,
        )
        self._first_action = ModelCall(
            partial(self._io.ask, Layer.S1P),
            self._io.clock,
            request,
            lambda: FirstActionReader(about.first_actions, robot.check),
            self._first_answered,
        )

    def _first_answered(self, end: CallEnd[str]) -> None:
        """Take the first action as a step of its own if it comes in time."""
        self._first_action = None
        if end.value is None:
            self._degraded(Layer.S1P, "begins without a first action", end.why)
        elif end.value and self.state is State.RUNNING and not self._asked:
            self._book.send(end.value)

    def _drop_first_action(self) -> None:
        if self._first_action is not None:
            self._first_action.cancel()
            self._first_action = None

    # -- what is next -------------------------------------------------------------------------------------------------

    def _consider(self) -> None:
        """Ask, help itself, or end, if it is time to."""
        goals = self._goals
        if self.state is not State.RUNNING or self._writing is not None or self._unproved:
            return
        subtask = goals.current()
        if subtask is None:
            if goals.over and not self._book.queued:
                self._hold_for_done()
            return
        if self._book.idle and self._book.did_last and self._criteria.hold(subtask):
            self._subtask_done(subtask)
            self._book.since_mark.clear()
            self._consider()
            return
        self._look_again.begin(None)
        if self._failed_under is None and self._book.has_room() and not self._does_without_model(subtask):
            if not self._asked:
                self._drop_first_action()
            self._ask_if_due(subtask)

    def _hold_for_done(self) -> None:
        """Have System 2 look at a task whose last step runs or has ended, and end when it agrees (TypeGo 6)."""
        book = self._book
        self._claimed(book.running_source)
        if not book.idle or book.streams:
            return
        if book.fault:
            self._end("everything is done", int(TaskCode.CALL_FAILED), book.fault)
        elif not self._plans or self._unseen:
            self._end("everything is done", 0, f"{UNVERIFIED}: {self._unseen or 'no second layer plans here'}")
        else:
            self._look_again.within(self._io.settings["review_wait_s"])

    def _claimed(self, last_step: str) -> None:
        """Tell System 2 once that all that is left is being done."""
        claim = (tuple(s.id for s in self._goals.plan.subtasks), self._book.failures, len(self._fired))
        if self._plans and claim != self._claim:
            self._claim, self._unseen = claim, ""
            self._look_again.begin(None)
            self._io.report(ProcessEvent(kind=ProcessKind.CLAIMED, plan_item=last_step))

    def _not_looked(self) -> None:
        wait_s = self._io.settings["review_wait_s"]
        self._end("nobody has looked again", 0, f"{UNVERIFIED}: System 2 did not look again within {wait_s:g} s")

    def _ask_if_due(self, subtask: Subtask) -> None:
        """Ask; when cost-aware, not while enough steps wait or nothing has changed, nor about half a plan while the robot is
        busy."""
        settings = self._io.settings
        if settings["cost_aware"] and self._rung is Rung.MODEL:
            if (not self._goals.plan.complete and self._busy_for_long()) or len(self._book.queued) > settings["refill_at"]:
                return
            if self._nothing is not None and self._nothing == self._digest(subtask) and not self._news(subtask):
                if not self._skip_told:
                    self._skip_told = True
                    why = "queue, results and observation are as they were when nothing was to be added"
                    self._io.report(ModelEvent(kind=ModelKind.SKIPPED, layer=Layer.S1.value, reason=why))
                self._next_look.within(LOOK_AGAIN_S)
                return
        allowed, budget_s, why = self._io.allowance(Layer.S1)
        settles_s = self._ended_s + SETTLE_S if self._book.between else 0.0
        wait_s = max(max(self._not_before_s, settles_s) - self._io.clock.now(), budget_s)
        if not allowed:
            self._useless(int(TaskCode.BUDGET_SPENT), why)
            self._next_look.within(0.0)
        elif wait_s > 0.0:
            self._next_look.within(wait_s)
        elif why := self._failures.exhausted():
            self._fail(int(TaskCode.TURN_LIMIT), f"{subtask.description}: {why}")
        else:
            self._ask(subtask)

    def _busy_for_long(self) -> bool:
        """Return whether something is being done that takes longer than a plan and the steps of it take to write."""
        skills = {skill.name: skill for skill in self._robot.about.skills}
        running = ((skills[c.function], c.arguments) for c in self._book.running_calls if c.function in skills)
        with suppress(SkillDefinitionError):  # whoever performs it says so
            return any(skill.nominal_for(arguments) >= LONG_S for skill, arguments in running)
        return False

    def _ask_not_before(self, seconds: float) -> None:
        """Ask nothing for so long."""
        self._not_before_s = max(self._not_before_s, self._io.clock.now() + seconds)
        self._next_look.within(seconds)

    def _renewed(self) -> None:
        """Take note that there is something new to ask about, whatever was said before."""
        self._nothing, self._not_before_s = None, 0.0

    def _digest(self, subtask: Subtask) -> object:
        queue = tuple(self._book.shown_queue())
        return (subtask.id, self._goals.plan.signature, self._book.ended, queue, tuple(e.id for e in self._fired))

    def _news(self, subtask: Subtask) -> bool:
        """Return whether something has come in sight that the task speaks of. While the robot turns, much comes and goes."""
        if self._io.clock.now() - self._asked_s < SCENE_GAP_S:
            return False
        words = f"{self._task.instruction} {subtask.description} {subtask.criteria}".casefold()
        new = self._scene().in_sight - self._seen_then
        return any(label.casefold() in words or not words.isascii() for label in new)

    def _ask(self, subtask: Subtask) -> None:
        robot, settings, book = self._robot, self._io.settings, self._book
        self._asked, self._skip_told, self._knows_failures = True, False, True
        self._asked_s, self._seen_then = self._io.clock.now(), self._scene().in_sight
        text = step_message(
            background_of(self._task, start=self._start, memory=self._memory, routines=robot.routines.list()),
            plan=self._goals.plan.subtasks,
            subtask=subtask,
            observation=robot.observed(),
            room=settings["queue_steps"] - len(book.queued),
            done_ids=self._goals.done,
            fired=self._fired,
            done=list(book.done),
            running=book.shown_running(),
            queue=book.shown_queue(),
            faults=self._faults,
        )
        request = ModelRequest(
            robot.system_prompt(step_system),
            (Message("user", text, tuple(robot.images())),),
            max_output_tokens=settings["max_output_tokens"],
            deadline_s=min(settings["step_deadline_s"], settings["deadline_s"]),
            instruction=self._task.instruction,
        )
        self._writing = StepWriting(
            self._io,
            book,
            request,
            robot.check,
            subtask.id,
            frozenset(e.id for e in self._fired),
            self._goals.following,
            partial(self._answered, self._digest(subtask)),
        )

    def _answered(self, before: object, code: int, why: str) -> None:
        writing, self._writing = self._writing, None
        assert writing is not None
        self._faults = list(dict.fromkeys(writing.answer.faults))[-5:]
        self._nothing = None
        if writing.useful:
            self._idle_answers = 0
            self._failures.answered()
            self._useful()
        elif writing.answer.nothing and not code:
            self._useful()
            self._added_nothing(before)
        else:
            if why or not self._faults:
                self._faults.append(why or "the answer holds neither <step> nor <subtask_complete/>")
            self._useless(code, why or "; ".join(self._faults[:2]))
        self._consider()

    def _added_nothing(self, before: object) -> None:
        """Ask again for an idle robot: a change may never come, and questions must end."""
        gap_s = NOTHING_GAP_S
        if not self._book.idle:
            self._nothing = before
        else:
            self._idle_answers += 1
            if self._idle_answers > (IDLE_WAITS if self._events else IDLE_ANSWERS):
                self._fail(int(TaskCode.CALL_FAILED), "the model adds no step, though nothing is being done")
                return
            self._faults.append("nothing is being done and nothing is queued: write the next step, or <subtask_complete/>")
            gap_s = min(gap_s * 2.0 ** (self._idle_answers - 1), LONGEST_GAP_S)
        self._ask_not_before(gap_s)

    # -- without the model --------------------------------------------------------------------------------------------

    def _useful(self) -> None:
        """Take note that an answer could be used."""
        self._lost = 0
        if self._rung < Rung.COMMANDS:
            self._rung, self._code, self._why = Rung.MODEL, 0, ""

    def _useless(self, code: int, why: str) -> None:
        """Take note that an answer came to nothing; `code` 0 when it was there but could not be used."""
        self._code, self._why = code or int(ModelCode.MODEL_NOT_UNDERSTOOD), why
        self._lost += 1
        again = self._rung is Rung.MODEL or (not code and self._book.idle and self._lost < LOST_ANSWERS)
        if again and code not in HOPELESS:
            self._rung = Rung.ONCE_MORE
        else:
            self._rung = Rung.COMMANDS if self._book.idle else Rung.QUEUE
        if self._rung is not Rung.COMMANDS:
            self._degraded(Layer.S1, HOW[self._rung], why)

    def _does_without_model(self, subtask: Subtask) -> bool:
        """Do what can be done without the model; return whether the model is not to be asked now."""
        idle = self._book.idle
        if idle and self._rung is Rung.QUEUE:
            # The queue has nothing left: the model is asked one last time, unless that is hopeless.
            self._rung = Rung.COMMANDS if self._code in HOPELESS else Rung.ONCE_MORE
        if self._rung < Rung.COMMANDS:
            return self._rung is Rung.QUEUE
        if idle:
            self._follow_commands(subtask)
        return True

    def _follow_commands(self, subtask: Subtask) -> None:
        book, instruction = self._book, self._task.instruction
        source, whose = self._read_commands(subtask.description, book.since_mark), subtask.id
        if not source and not self._goals.done and not self._followed:
            source, whose = self._read_commands(instruction, list(book.done)), WHOLE
        self._followed = True
        self._rung = Rung.COMMANDS if source else Rung.STOPPED
        self._degraded(Layer.S1, HOW[self._rung], self._why)
        if source:
            book.send(source, subtask=whose, mark=True)
        else:
            self._end("the model gives no usable answer", self._code, self._why, stop_sentence(instruction))

    def _read_commands(self, text: str, done: Sequence[CallReport]) -> str:
        """Return the direct commands in a text that is understood wholly without a model, without what was done of it."""
        if self._commands is None:
            from planners.language.client import OfflineClient  # takes a while, and most processes never need it

            self._commands = OfflineClient(self._robot.about, self._robot.routines)
        return self._commands.read_wholly(text, done, self._robot.present())

    # -- ends ---------------------------------------------------------------------------------------------------------

    @property
    def _closing(self) -> bool:
        return self.state in (State.ENDING, State.ENDED)

    def _drop(self, why: str) -> None:
        """Void what is being written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.cancel(why)

    def _stop_asking(self, why: str) -> None:
        self._drop(why)
        self._drop_first_action()
        for wait in (self._next_look, self._plan_wait, self._review, self._look_again, self._proof):
            wait.begin(None)

    def _end(self, reason: str, code: int = 0, why: str = "", sentence: str = "") -> None:
        """Ask nothing more, and end the plan when nothing runs; with a sentence stop what runs and say it first."""
        if self._closing:
            return
        self.state, self._outcome = State.ENDING, (code, why)
        self._stop_asking(reason)
        if sentence:
            self._io.clock.call_later(SAY_S, self._finish)
            if self._book.idle:
                self._speak(sentence)
            else:
                self._stopping = True
                self._io.stop(why, partial(self._speak, sentence))
        self._finish_if_idle()

    def _fail(self, code: int, why: str, sentence: str = "") -> None:
        why = why or "it could not be done"
        self._end(why, code, why, short(sentence) or stop_sentence(self._task.instruction, why))

    def _speak(self, sentence: str) -> None:
        self._stopping = False
        if self.state is not State.ENDED:
            self._book.send(escape(sentence), replace_queue=True)

    def _finish_if_idle(self) -> None:
        if not self._stopping and self._book.idle and not self._book.streams:
            self._finish()

    def _finish(self) -> None:
        if self.state is State.ENDING:
            self.state = State.ENDED
            self._io.finish(*self._outcome)

    # -- what is told and seen ----------------------------------------------------------------------------------------

    def _degraded(self, layer: Layer, how: str, why: str) -> None:
        self._io.report(ModelEvent(kind=ModelKind.DEGRADED, layer=layer.value, fallback=how, error_msg=why))

    def _view(self) -> View:
        return View(self._robot.observation(), self._table, self._robot.steady_now())

    def _scene(self) -> SceneSnapshot:
        return snapshot(self._robot.observation(), self._robot.steady_now())
