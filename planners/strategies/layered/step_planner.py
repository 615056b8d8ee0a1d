# SPDX-License-Identifier: Apache-2.0
"""System 1 of one process: turns subtasks into steps while earlier steps are performed (TypeGo 6). Pure, on an injected clock;
events in by method, everything out through the link."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from planners.plan import GlobalEvent, Plan
from planners.prompts.prompt import CallReport
from planners.scene import SceneSnapshot
from planners.strategies.layered.global_events import GlobalEvents
from planners.strategies.layered.step_answer import STEP
from planners.strategies.layered.step_asking import AfterFailure, Failures, Questions
from planners.strategies.layered.step_book import Item, StepBook, StepEnd
from planners.strategies.layered.step_degrade import DegradationLadder
from planners.strategies.layered.step_first import FirstActionRequest
from planners.strategies.layered.step_goals import Ending, Goals
from planners.strategies.layered.step_link import StepLink, StepSettings
from planners.strategies.layered.step_waits import OneShot, PlanWait
from planners.strategies.layered.step_writing import StepWriter, Turn
from planners.strategy import CallEvent, Task
from skill_kernel.codes import TaskCode
from skill_kernel.observation.accessors import View


class State(Enum):
    """Whether it may ask and write."""

    RUNNING = "running"
    PAUSED = "paused"
    VOID = "void"
    """Interrupted; it goes on with a new epoch."""
    ENDING = "ending"
    """It waits for its last words."""
    ENDED = "ended"


class StepPlanner:
    """Asks for a first action at once, then for steps of the first subtask that is not done, one question at a time."""

    def __init__(
        self, task: Task, link: StepLink, settings: StepSettings, *, done: Sequence[CallReport] = (), plans: bool = True
    ) -> None:
        """`plans`: whether System 2 has a model; without one the instruction itself is the one subtask."""
        self._task, self._link, self._settings, self._plans = task, link, settings, plans
        self._book, self._turn = StepBook(list(done)), Turn()
        self._goals = Goals(task, self._book)
        self._writer = StepWriter(link.outlet, self._book, self._turn, settings.queue_steps)
        self._failures = Failures(settings.bounds)
        self._events = GlobalEvents(link.accessors, link.judge, link.steady_now)
        self._ending = Ending(task, link, self._writer, self._turn, settings.say_s, self._over)
        self._ladder = DegradationLadder(task, link, self._writer, self._ending)
        self._next_look = OneShot(link.clock, self._consider)
        self._plan_wait = PlanWait(
            link,
            settings,
            self._goals,
            self._book,
            plans=plans,
            changed=self._consider,
            give_up=lambda fault: self._fail(int(TaskCode.CALL_FAILED), fault),
        )
        self._questions = Questions(
            task,
            link,
            settings,
            self._goals,
            self._writer,
            self._ladder,
            self._failures,
            fail=self._fail,
            changed=self._consider,
            later=self._next_look.within,
        )
        self._first_action = FirstActionRequest(
            task, link, self._writer, lambda: self.state is State.RUNNING and not self._questions.asked
        )
        self._fired: list[GlobalEvent] = []
        self._told: set[str] = set()
        self._paused_at: SceneSnapshot | None = None
        self.state = State.RUNNING

    # -- events -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The process has been made."""
        self._first_action.begin(self._settings.first_deadline_s)
        self._plan_wait.begin()

    def plan(self, plan: Plan) -> None:
        """System 2 has published a plan, or more of it."""
        old = self._goals.plan
        if self._closing or not self._goals.take(plan):
            return
        self._events.follow(plan.events)
        for why in self._events.problems.values():
            if why not in self._told:
                self._told.add(why)
                self._link.notice(why)
        self._plan_wait.taken(plan)
        if plan.given_up:
            self._fail(int(TaskCode.GIVEN_UP), plan.reason or "it cannot be done", plan.reason)
        elif plan.achieved:
            self._close("the task has been done already")
            self._ending.when_idle(drop_queue=True)
        else:
            writing, current = self._questions.writing, self._goals.current()
            changed = old is not None and plan.signature != old.signature
            if changed and writing is not None and current is not None and current.id != writing.subtask:
                self._questions.drop("System 2 has changed the plan")
            self._consider()

    def started(self, call: CallEvent) -> None:
        """A call has begun."""
        if self._book.started(call) is not None:
            self._first_action.throw_away()
        self._consider()

    def ended(self, call: CallEvent) -> None:
        """A call has its outcome."""
        if call.outcome in ("FAILED", "REFUSED", "INTERRUPTED"):
            self._turn.next()
            self._questions.call_failed()
        end = self._book.call_ended(call)
        if end is not None:
            self._step_over(end)
        self._ending.look()
        self._consider()

    def stream_over(self, stream_id: str, reason: str) -> None:
        """The turn of one of its streams has ended."""
        if stream_id not in self._writer.begun:
            return
        self._writer.begun.remove(stream_id)
        self._book.stream_over(stream_id)
        if reason == "failure":
            self._turn.next()
        self._ending.look()
        self._consider()

    def stop_generation(self, stream_id: str, why: str) -> None:
        """The channel scheduler takes no more of a stream: what is being written was planned without knowing why."""
        if stream_id in self._writer.begun:
            self._turn.next()
            self._questions.drop(why)

    def observed(self) -> None:
        """There is a new observation."""
        if self.state is not State.RUNNING or not self._events or self._fired:
            return
        observation, now = self._link.observation(), self._link.steady_now()
        view = View(observation, self._link.accessors, now)
        scene = self._link.relies_on()
        self._events.look(view, (scene.room, scene.posture, scene.in_sight), self._fire)

    def paused(self) -> None:
        """The process is paused: its queue stays, nothing is asked."""
        if self.state is State.RUNNING:
            self.state = State.PAUSED
            self._plan_wait.hold()
            self._first_action.throw_away()
        elif self.state is not State.VOID or self._paused_at is not None:
            return
        self._paused_at = self._link.relies_on()

    def resumed(self) -> None:
        """It goes on as it was: the queue stays if what it relied on still holds."""
        if self.state is not State.PAUSED:
            return
        self.state = State.RUNNING
        self._plan_wait.go_on()
        before, self._paused_at = self._paused_at, None
        if before is not None and not before.holds(self._link.relies_on()):
            queued = bool(self._book.queued)
            self._questions.drop("the robot is elsewhere, or sees something else, than before the pause")
            if queued:
                self._turn.next()
                self._book.drop_queue()
                self._writer.send("<replace_steps/>", [])
        self._questions.renewed()
        self._consider()

    def interrupted(self, why: str) -> None:
        """Everything written is void; it goes on with a new epoch, or ends."""
        if self.state in (State.RUNNING, State.PAUSED):
            self.state = State.VOID
            self._plan_wait.hold()
        self._first_action.throw_away()
        self._questions.drop(why)

    def anew(self) -> None:
        """The process has a new epoch: nothing of what was written is left but the plan and what was done of it."""
        self._book.clear()
        self._writer.begun.clear()
        if self._closing:
            self._ending.look()
            return
        self._first_action.throw_away()
        self._questions.drop("it is planned anew")
        self._turn.next()
        self.state = State.RUNNING
        self._plan_wait.go_on()
        before, self._paused_at = self._paused_at, None
        self._questions.renewed()
        if before is not None and (way := self._link.way_back(before)):
            self._writer.send(f"<{STEP}>{way}</{STEP}>", [Item("", "", source=f"<{STEP}>{way}</{STEP}>")])
        self._consider()

    def end(self) -> None:
        """The process has ended."""
        self.state = State.ENDED
        self._ending.void()
        self._first_action.throw_away()
        self._questions.drop("the process has ended")
        self._stop_waiting()

    # -- steps --------------------------------------------------------------------------------------------------------

    def _step_over(self, end: StepEnd) -> None:
        item = end.item
        if item.mark:
            if end.outcome == "DONE" and (subtask := self._goals.mark_done(item.subtask)) is not None:
                self._failures.succeeded(moved=True)
                self._link.subtask_done(subtask)
        elif end.outcome == "DONE":
            self._failures.succeeded(moved=end.moved)
            self._fired = [e for e in self._fired if e.id not in item.handles]
        elif end.outcome != "DROPPED":
            self._questions.drop_unknowing("a step has failed")
            if end.outcome != "INTERRUPTED" and item.subtask and self.state in (State.RUNNING, State.PAUSED):
                self._failed(end)

    def _failed(self, end: StepEnd) -> None:
        after = self._failures.failed(end)
        if after is AfterFailure.END or (after is AfterFailure.REVIEW and not self._plans):
            self._fail(int(TaskCode.CALL_FAILED), self._book.fault)
        elif after is AfterFailure.REVIEW:
            self._plan_wait.failed(self._book.fault)

    def _fire(self, event: GlobalEvent) -> bool:
        """One at a time, and only while it acts: a model may have judged it late."""
        if self.state is not State.RUNNING or self._fired:
            return False
        self._fired.append(event)
        self._questions.renewed()
        self._questions.wait(self._settings.anew_wait_s)
        self._link.fired(event)
        return True

    # -- what is next -------------------------------------------------------------------------------------------------

    def _consider(self) -> None:
        """Ask, help itself, or end, if it is time to."""
        goals = self._goals
        if self.state is not State.RUNNING or self._questions.writing is not None or goals.plan is None:
            return
        subtask = goals.current()
        if subtask is None:
            if goals.over and self._book.idle and not self._writer.begun:
                self._close("everything is done")
                fault = self._book.fault
                self._ending.when_idle(int(TaskCode.CALL_FAILED) if fault else 0, fault)
        elif self._plan_wait.review or not self._writer.has_room():
            return
        elif self._ladder.advance(subtask, goals.done):
            if self._ending.begun:
                self._close("the model gives no usable answer")
        else:
            if not self._questions.asked:
                self._first_action.throw_away()
            self._questions.look(goals.plan, subtask, self._fired, watching=bool(self._events))

    # -- ends ---------------------------------------------------------------------------------------------------------

    @property
    def _closing(self) -> bool:
        return self.state in (State.ENDING, State.ENDED)

    def _close(self, why: str) -> None:
        """Nothing more is asked."""
        self._questions.drop(why)
        self._first_action.throw_away()
        self._stop_waiting()
        self.state = State.ENDING

    def _fail(self, code: int, why: str, sentence: str = "") -> None:
        self._close(why)
        self._ending.fail(code, why or "it could not be done", sentence)

    def _over(self) -> None:
        self.state = State.ENDED
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        self._next_look.cancel()
        self._plan_wait.end()
