# SPDX-License-Identifier: Apache-2.0
"""Schedule the calls of one process: in order within a channel, parallel across channels (GhostShell 3.4.3, laws C1 to C12).

Pure and event-driven, on an injected clock; it never polls.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from function_tokens.builtins import BRANCHES, STEP_NAMES
from function_tokens.mapper import Mapper
from function_tokens.parsing.tokens import FunctionToken
from function_tokens.routines import RoutineStore
from function_tokens.scheduling.call_table import CallTable
from function_tokens.scheduling.calls import Call, CallState, ConditionSource, Executor, Role, Stream, Verdict, constant
from function_tokens.scheduling.queues import ChannelQueues, StepLine, StepQueue
from function_tokens.scheduling.token_handler import TokenHandler
from skill_kernel.calls import DONE, CallResult
from skill_kernel.clock import Clock
from skill_kernel.codes import CallCode, Outcome, ParseCode
from skill_kernel.config.sections import shown
from skill_kernel.events import CallKind, RunEvent

PAUSE_NOTICE_S = 0.2
"""A call that a pause has ended may be reported before the pause itself: for this long no step begins."""

CONTAINERS = frozenset({"wait", "run", "step", "if", "else"})
"""Built-ins without a body: they end with their children."""


@dataclass(frozen=True)
class SchedulerSettings:
    """Bound what is waited for.

    A stream with an open element that says nothing for `silence_s` is ended (C12). An observation starts after
    `observe_timeout_s` at the latest. More waiting calls than `max_unstarted` are refused (QUEUE_FULL). A condition that is
    not answered within `condition_timeout_s` is unknown.
    """

    silence_s: float = 3.0
    observe_timeout_s: float = 30.0
    max_unstarted: int = 2000
    condition_timeout_s: float = 30.0


class Scheduler:
    """Schedule the calls of one process. Every method is to be called on one thread.

    Tokens go in through `feed` and `end_stream`; calls go out through the executor, which answers with `started`,
    `held` and `ended`; each event goes to `on_event`, each change of the steps to `on_steps`. `conditions` knows which
    branch of a step holds.
    """

    def __init__(
        self,
        mapper: Mapper,
        executor: Executor,
        clock: Clock,
        on_event: Callable[[RunEvent], None],
        *,
        new_call_id: Callable[[], str],
        process_id: str = "",
        routines: RoutineStore | None = None,
        settings: SchedulerSettings | None = None,
        conditions: ConditionSource,
        on_steps: Callable[[StepQueue], None] = lambda steps: None,
    ) -> None:
        bounds = self._settings = settings or SchedulerSettings()
        lines = StepLine(on_steps), ChannelQueues(mapper.parallel)
        self._table = CallTable(process_id, executor, clock, on_event, *lines, self._settle, bounds.observe_timeout_s)
        self._tokens = TokenHandler(self._table, mapper, conditions, new_call_id, routines, bounds.max_unstarted)
        self._observing: Call | None = None
        self._busy = False
        self._paused = False
        self._expecting_pause = False

    @property
    def live_calls(self) -> list[Call]:
        """Return the calls without an outcome, in token order."""
        return self._table.in_order

    def call(self, call_id: str) -> Call | None:
        """Return the live call of that id."""
        return self._table.live.get(call_id)

    # -- streams ------------------------------------------------------------------------------------------------------

    def open_stream(self, stream_id: str, *, epoch: int = 0, strict: bool = False, turn: int = 0) -> None:
        """Begin a stream. In strict mode the first refusal ends it.

        `turn` tells what its writer knew: after a failure, steps of a stream that has no higher turn than the highest by
        then were planned without knowing, and are dropped.
        """
        self._table.open_stream(Stream(stream_id, epoch, strict, turn, last_token_s=self._table.clock.now()))

    def feed(self, stream_id: str, token: FunctionToken) -> None:
        """Take the next token of an open stream; a token of an ended one is recorded as dropped, while it is remembered."""
        stream = self._table.streams.get(stream_id) or self._table.past_streams.get(stream_id)
        if stream is None:
            return
        stream.last_token_s = self._table.clock.now()
        self._tokens.take(stream, token)
        self._watch_silence(stream)
        self._settle()

    def end_stream(self, stream_id: str, code: int = 0, error: str = "") -> None:
        """End a stream, regularly or with an error; open elements are reset when their children have ended (C12)."""
        stream = self._table.streams.get(stream_id)
        if stream is not None and not stream.closed:
            self._table.end_stream(stream, code, error)
        self._settle()

    def void_stream(self, stream_id: str, cause: str, code: int = 0) -> None:
        """End a stream that must not run: nothing of it is dispatched, its calls end as dropped."""
        stream = self._table.streams.get(stream_id)
        if stream is not None and not stream.closed:
            self._table.cut_off(stream, "interrupt", cause, code)
        self._settle()

    def _watch_silence(self, stream: Stream) -> None:
        """Check after `silence_s` whether a stream with something open has gone silent."""
        if stream.watched or stream.closed or not (stream.frames or stream.utterance):
            return
        stream.watched = True
        due_s = stream.last_token_s + self._settings.silence_s - self._table.clock.now()
        self._table.clock.call_later(due_s, lambda: self._check_silence(stream))

    def _check_silence(self, stream: Stream) -> None:
        stream.watched = False
        if stream.closed:
            return
        silence_s = self._settings.silence_s
        if self._table.clock.now() - stream.last_token_s < silence_s - 1e-6:
            self._watch_silence(stream)
        elif stream.frames:
            why = f"no token for {silence_s} s with <{stream.frames[-1].name}> open"
            self._table.stop_generation(stream, why)
            self._table.end_stream(stream, int(ParseCode.SILENCE), why)
        else:
            self._table.close_utterance(stream)
        self._settle()

    # -- interrupts and pauses ----------------------------------------------------------------------------------------

    def interrupt(self, cause: str, channels: Iterable[str] = ()) -> list[str]:
        """End all streams, drop what has not started and stop what runs, on the given channels or all (C9).

        Returns the ids of the calls that were running. Their results follow.
        """
        for stream in [s for s in self._table.streams.values() if not s.closed]:
            self._table.cut_off(stream, "interrupt", cause)
        named = frozenset(channels)
        stopped = self._table.stop([c for c in self.live_calls if not named or c.channels & named], cause)
        self._settle()
        return stopped

    def pause(self, paused: bool) -> None:
        """Begin no step and no branch while the process is paused: their conditions must hold when it goes on."""
        if paused != self._paused:
            self._paused = paused
            self._settle()

    def _expect_pause(self) -> None:
        def over() -> None:
            self._expecting_pause = False
            self._settle()

        self._expecting_pause = True
        self._table.clock.call_later(PAUSE_NOTICE_S, over)

    # -- the executor's answers ---------------------------------------------------------------------------------------

    def started(self, call_id: str) -> None:
        """Note that the executor has begun a call."""
        call = self.call(call_id)
        if call is None or call.state is not CallState.STARTING:
            return
        self._table.mark_running(call)
        self._settle()

    def held(self, call_id: str, reason: str) -> None:
        """Keep a call whose subsystem another process holds at the head of its queue until `freed` (C10)."""
        call = self.call(call_id)
        if call is None or call.state is not CallState.STARTING:
            return
        call.held, call.state = reason, CallState.QUEUED
        if call.stopping:
            self._table.end(call, CallResult(Outcome.DROPPED, CallCode.INTERRUPTED_BY, reason))
        self._settle()

    def freed(self) -> None:
        """Try held calls again, because subsystems changed hands."""
        held = [call for call in self._table.live.values() if call.held]
        for call in held:
            call.held = ""
        if held:
            self._settle()

    def ended(self, call_id: str, result: CallResult) -> None:
        """Take the executor's one result of a call."""
        call = self.call(call_id)
        if call is None:
            return
        if call.start_s is None and (result.outcome is Outcome.INTERRUPTED or result.code == CallCode.STALE_EPOCH):
            result = CallResult(Outcome.DROPPED, result.code, result.error, result.message)
        if result.code == CallCode.PROCESS_PAUSED and not self._expecting_pause:
            self._expect_pause()
        self._table.body_ended(call, result)
        self._settle()

    # -- starting and ending ------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Start and end whatever can be, then report turns that are over."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._finish_one() or self._start_one():
                pass
            self._table.report()
        finally:
            self._busy = False

    def _start_one(self) -> bool:
        for call in self._table.queues.candidates():
            parent = call.parent
            if call.held or not call.content_ready:
                continue
            if parent is not None and parent.state is not CallState.RUNNING:
                continue
            if call.role is Role.BUILTIN and not self._may_begin(call):
                continue
            if self._table.queues.blocker(call) is None:
                self._start(call)
                return True
        return False

    def _may_begin(self, call: Call) -> bool:
        if (self._paused or self._expecting_pause) and (call.function == "step" or call.function in BRANCHES):
            return False
        return call.in_turn

    def _start(self, call: Call) -> None:
        if call.role is not Role.BUILTIN:
            call.state = CallState.STARTING
            self._table.executor.start(call)
            if call.takes_content and call.live:
                self._table.executor.content(call, call.text, call.closed)
        elif call.function in BRANCHES:
            self._begin_branch(call)
        else:
            self._table.mark_running(call)
            self._perform(call)

    def _finish_one(self) -> bool:
        """Take one step for a call whose children, reset or body have changed."""
        recheck = self._table.recheck
        while recheck:
            call = recheck.pop()
            if call.state is not CallState.RUNNING or call.inside:
                continue
            if call.body_result is not None:
                if call.closed or not call.open or call.body_result.outcome is not Outcome.DONE:
                    self._table.end(call, call.body_result)
                    return True
            elif call.closed and call.role is Role.BUILTIN:
                if (result := _builtin_result(call)) is not None:
                    self._table.end(call, result)
                    return True
            elif call.closed and call.open and not call.takes_content and not call.stopping:
                call.stopping = True
                self._table.tell(CallKind.RESETTING, call)
                self._table.executor.reset(call)
                return True
        return self._finish_observation()

    # -- built-ins ----------------------------------------------------------------------------------------------------

    def _perform(self, call: Call) -> None:
        """Begin the body of a built-in."""
        if call.function == "sleep":
            self._end_later(call, float(call.arguments["seconds"]), DONE)
        elif call.function == "stop":
            channel = call.arguments["channel"]
            earlier = [c for c in self.live_calls if c.seq < call.seq and c not in call.ancestors]
            self._table.stop([c for c in earlier if not channel or channel in c.channels], "stopped by <stop>")
            self._table.body_ended(call, DONE)
        elif call.function == "observe":
            self._observing = call
            late = CallResult(Outcome.DONE, message="observed at the deadline; motion still runs")
            self._end_later(call, self._settings.observe_timeout_s, late)
        elif call.function in ("plan_done", "subtask_complete"):
            self._table.body_ended(call, DONE)

    def _end_later(self, call: Call, delay_s: float, result: CallResult) -> None:
        def over() -> None:
            if call.live:
                self._table.body_ended(call, result)
                self._settle()

        self._table.clock.call_later(delay_s, over)

    def _finish_observation(self) -> bool:
        """End an observation that has nothing left to wait for."""
        call = self._observing
        if call is None or not call.live:
            return False
        before = (c for c in self._table.live.values() if c.exclusive and c.seq < call.seq)
        if any(c not in call.ancestors for c in before):
            return False
        self._observing = None
        self._table.end(call, DONE)
        return True

    # -- branches -----------------------------------------------------------------------------------------------------

    def _begin_branch(self, call: Call) -> None:
        """Take a branch, ask its condition, or leave it out; the first that holds runs."""
        assert call.parent is not None
        call.parent.has_branches = True
        call.state = CallState.STARTING
        if why := call.parent.left_out:
            self._drop_branch(call, why)
        elif call.function == "else":
            self._take_branch(call)
        else:
            self._ask(call, str(call.arguments["cond"]))

    def _ask(self, call: Call, condition: str) -> None:
        holds = constant(condition)
        if holds is not None:
            self._decide(call, Verdict(holds))
            return
        timeout_s = self._settings.condition_timeout_s
        answered = False

        def answer(verdict: Verdict) -> None:
            nonlocal answered
            if answered or call.state is not CallState.STARTING:
                return
            answered = True
            timer.cancel()
            self._decide(call, verdict)
            self._settle()

        late = Verdict(None, f"no answer within {timeout_s:g} s")
        timer = self._table.clock.call_later(timeout_s, lambda: answer(late))
        try:
            self._tokens.conditions.ask(condition, answer, self._table.process_id)
        except Exception as error:
            if answered:
                raise
            answer(Verdict(None, f"whoever was asked failed ({type(error).__name__}: {error})"))

    def _decide(self, call: Call, verdict: Verdict) -> None:
        if verdict.holds is None:
            why = f"nobody can tell whether '{shown(call.arguments['cond'])}' holds: {verdict.reason}"
            if call.parent is not None:
                call.parent.break_branches(why)
            self._table.end(call, CallResult(Outcome.DROPPED, CallCode.CONDITION_UNKNOWN, why))
            self._table.end_turn(call, why)
        elif not verdict.holds:
            self._drop_branch(call, f"its condition does not hold{f': {verdict.reason}' if verdict.reason else ''}")
        elif self._paused:
            call.state = CallState.QUEUED  # what holds now need not hold when the process goes on
        else:
            self._take_branch(call)

    def _take_branch(self, call: Call) -> None:
        assert call.parent is not None
        call.parent.taken_branch = call
        self._table.mark_running(call)
        for other in list(call.parent.inside.values()):
            if other is not call and other.function in BRANCHES and other.unbegun:
                self._drop_branch(other, call.parent.left_out)

    def _drop_branch(self, call: Call, why: str) -> None:
        self._table.end(call, CallResult(Outcome.DROPPED, CallCode.NONE, why))


def _builtin_result(call: Call) -> CallResult | None:
    """Return the outcome of a built-in that was reset and whose children have ended; None where it goes on."""
    if call.function not in CONTAINERS and (not call.open or call.function == "observe"):
        return None
    if call.ending is not None:
        return call.ending
    if call.function in STEP_NAMES and call.has_branches and not call.left_out:
        return CallResult(Outcome.DONE, message="no branch held")
    return DONE
