# SPDX-License-Identifier: Apache-2.0
"""Plan one process at the prompt of a console: ask for a statement, run it, make the calls that it makes, show what came of it,
and ask again until it waits for what somebody says next (section 3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from planners.learned import LessonKind
from planners.models.base import Message, ModelRequest
from planners.models.model_call import AnswerEnd, Handle, without_thoughts
from planners.prompts.blocks import Layer, quoted
from planners.prompts.prompt import CallReport, RobotFacts
from planners.strategies.asking import Patience
from planners.strategies.console.api import LEARN, OBSERVE, WAIT_NAME, Api, ApiError, SkillCall, plain
from planners.strategies.console.desk import Desk
from planners.strategies.console.functions import FunctionWriter
from planners.strategies.console.learning import UNASKED, Learning, Offer, Refused, agreed, settle
from planners.strategies.console.lessons import example_of, named
from planners.strategies.console.prompts import Prompts
from planners.strategies.console.rehearsal import Checked, Executor
from planners.strategies.console.replies import complete, is_circle, is_comment, statement, unfenced
from planners.strategies.console.sandbox import PRELUDE_NAMES, SLEEP, HostCall, Raised, SandboxError, Step
from planners.strategies.console.session import Session
from planners.strategies.console.transcript import WAIT
from planners.strategies.only_words import OnlyWords
from planners.strategy import Interrupted, Paused, PlannerEvent, PlannerIO, Restarted, Resumed, RobotView, Task
from skill_kernel.codes import Outcome, TaskCode
from skill_kernel.config.sections import shown
from skill_kernel.events import CallEvent, Notice

MAX_TOKENS = 512
"""Length of an answer."""
MAX_REPLY = 20_000
"""Characters of an answer that are waited for."""
WARMER = 0.1
"""Rise of the temperature with each empty answer, up to 1."""
MAX_SLEEP_S = 600.0
SHOWN_WHY = 400
"""Characters of a reason."""
SORRY = "Sorry, I am going in circles and do not know how to go on."
DONE_BEFORE, REMEMBERED = "# Done before, of this task: {}", "# Remembered, may have changed since: {}"
CUT_OFF = (
    "the robot's programs were started anew while {name}() ran: it may be done in part, or not at all; look before you go on"
)


class ConsolePlanning:
    """Plan one process of a robot."""

    def __init__(
        self, task: Task, robot: RobotView, io: PlannerIO, desk: Desk, executor: Callable[[RobotView], Executor] | None = None
    ) -> None:
        self._task, self._robot, self._io, self._desk, self._executor = task, robot, io, desk, executor
        self._api = Api(robot.about, learns=io.learned is not None)
        self._prompts = Prompts(robot.about, self._api, io.settings["history_tokens"])
        self._words = OnlyWords(task.instruction, _waiting(robot.about), task.done)
        self._session: Session | None = None
        self._question: Handle | None = None
        self._reply = ""
        self._working = True
        """True while the interpreter is busy, so that nothing is known of it."""
        self._held: Callable[[], None] | None = None
        """What is to be done with the call that a statement waits in, once the process goes on."""
        self._heard = False
        """Whether the console knows the instruction."""
        self._todo: list[str] = []
        """Statements to be run before another one is asked for: functions that were written, and what uses them."""
        self._statements: list[str] = []
        self._circle = False
        self._temperature = 0.0
        self._patience = Patience(io)
        self._reports: list[CallReport] = []
        self._fault = self._spoken = ""
        """What went wrong last, while nothing that was done after it has made it good; what was said last."""
        self._taught, self._settled = False, ""
        """Whether the task was to learn, to confirm what was learned, or to leave it; what became of a lesson by its words."""
        self._paused = self._void = self._over = False
        self._doomed, self._cause = False, ""
        """Whether the statement that computes is to be ended when it calls, and why statements are ended."""
        self._notes = list(map(_done_before, task.done))
        """What the console is told of the task besides the instruction."""
        io.recollect(self._recollected)

    # -- what happens -------------------------------------------------------------------------------------------------

    def on(self, event: PlannerEvent) -> None:
        if isinstance(event, Paused):
            self._paused = True
            if self._question is not None and self._session is not None and self._session.call is not None:
                self._held = partial(self._called, self._session.call)  # to learn is begun again
            self._stop_asking()
        elif isinstance(event, Resumed) and self._paused:
            self._paused = False
            self._go_on()
        elif isinstance(event, Interrupted):
            self._void, self._doomed, self._cause = True, self._working, event.cause
            if self._session is not None:
                self._session.offered = 0
            self._stop_asking()
            self._todo.clear()
            self._break_off()
        elif isinstance(event, Restarted):
            self._void = self._paused = False
            self._statements.clear()
            self._notes += [_done_before(call) for call in event.done[-1:] if call.outcome == Outcome.INTERRUPTED]
            self._go_on()

    def close(self, why: str) -> None:
        self._over = True
        self._stop_asking()
        self._io.work(partial(self._desk.park, self._task.process_id, why), lambda _: None)

    def _recollected(self, lines: Sequence[str]) -> None:
        self._notes += [REMEMBERED.format(quoted(line)) for line in lines]
        take = partial(self._desk.take, self._task.process_id, self._api.names, self._io.folder)
        self._io.work(partial(_tried, take), self._opened)

    def _opened(self, session: Session | SandboxError) -> None:
        self._working = False
        if isinstance(session, SandboxError):
            self._finish(int(TaskCode.GIVEN_UP), f"the strategy console cannot run: {session}")
            return
        self._session = session
        if session.call is None:
            self._todo.append(WAIT)
        elif session.call.name == WAIT_NAME:
            self._called(session.call)
        else:
            # It was at this very task when its node ended: what it called is not done again by itself.
            self._heard = True
            self._notes = [_done_before(call) for call in self._task.done[-1:] if call.function == session.call.name]
            self._hold(partial(self._refuse, "RuntimeError", CUT_OFF.format(name=session.call.name)))
        self._go_on()

    def _finish(self, code: int, why: str) -> None:
        self._over = True
        self._stop_asking()
        self._io.finish(code, why)

    # -- statements ---------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Do what is due, unless the process waits."""
        session = self._session
        if self._paused or self._void or self._over or self._working or session is None:
            return
        if self._held is not None:
            held, self._held = self._held, None
            held()
        elif session.call is not None:
            return
        elif self._todo:
            self._work(partial(session.run, self._todo.pop(0)))
        elif self._question is None:
            self._ask()

    def _hold(self, action: Callable[[], None]) -> None:
        """Do something with the call that the statement waits in, at once or when the process goes on."""
        self._held = action
        self._go_on()

    def _answer(self, value: Any) -> None:
        assert self._session is not None
        self._work(partial(self._session.answer, value))

    def _refuse(self, kind: str, why: str) -> None:
        assert self._session is not None
        self._work(partial(self._session.refuse, kind, why))

    def _break_off(self) -> None:
        """End the statement where it waits; one that computes is ended when it calls."""
        if self._session is not None and self._session.call is not None and not self._working:
            self._held = None
            self._work(partial(self._session.break_off, self._cause))

    def _work(self, go: Callable[[], Step]) -> None:
        self._working = True
        self._io.work(partial(_tried, go), self._stepped)

    def _stepped(self, step: Step | SandboxError) -> None:
        assert self._session is not None
        doomed, self._working, self._doomed = self._doomed, False, False
        if isinstance(step, SandboxError):
            self._finish(int(TaskCode.GIVEN_UP), f"the strategy console cannot go on: {step}")
        elif isinstance(step, HostCall):
            if self._void or doomed:
                self._break_off()
            else:
                self._hold(partial(self._called, step))
        elif self._session.spent:
            why = f"the model made errors of one kind too often in a row, at last {shown(self._session.spent, SHOWN_WHY)}"
            self._finish(int(TaskCode.CALL_FAILED), why)
        else:
            if isinstance(step, Raised):
                self._todo.clear()
            self._go_on()

    # -- calls of the statement ---------------------------------------------------------------------------------------

    def _called(self, call: HostCall) -> None:
        """Make the call that a statement waits in."""
        try:
            if self._api.skill(call.name):
                wanted = self._api.call(call.name, call.args, call.kwargs)
                self._io.call(wanted.skill, **wanted.arguments).then(partial(self._skill_ended, call, wanted))
            elif call.name == OBSERVE:
                plain(call.name, (), call.args, call.kwargs)
                self._answer(self._observed())
            elif call.name == SLEEP:
                self._sleep(call, plain(call.name, ("seconds",), call.args, call.kwargs)["seconds"])
            elif call.name == LEARN:
                plain(call.name, (), call.args, call.kwargs)
                self._learn(call)
            else:
                plain(call.name, (), call.args, call.kwargs)
                self._wait()
        except ApiError as error:
            self._refuse("TypeError", str(error))

    def _skill_ended(self, call: HostCall, wanted: SkillCall, event: CallEvent) -> None:
        assert self._session is not None
        if self._session.call is not call or self._working:
            return
        done, speaks = event.outcome is Outcome.DONE, wanted.skill in self._api.spoken
        if speaks and done:
            self._spoken = str(next(iter(wanted.arguments.values()), ""))
        self._reports.append(replace(CallReport.of(event), function=wanted.skill))
        if not done:
            self._fault = f"{wanted.skill} {event.outcome_name}: {event.told}"
        elif not speaks:
            self._fault = ""
        if event.outcome is Outcome.INTERRUPTED:
            self._cause = event.told or f"{call.name}() was interrupted"
            self._break_off()
        elif done:
            value = event.value if event.value is not None else event.message or None
            self._session.returned(wanted, value)
            self._hold(partial(self._answer, value))
        else:
            why = event.told or f"{call.name}() was {event.outcome_name} and gives no reason"
            self._hold(partial(self._refuse, "RuntimeError", why))

    def _observed(self) -> Any:
        return json.loads(json.dumps(self._robot.observed(), default=str))

    def _sleep(self, call: HostCall, seconds: Any) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0.0 <= seconds <= MAX_SLEEP_S:
            raise ApiError(f"{SLEEP}() takes 0 to {MAX_SLEEP_S:g} seconds, not {seconds!r}")

        def slept() -> None:
            if self._session is not None and self._session.call is call and not self._working:
                self._hold(partial(self._answer, None))

        self._io.clock.call_later(float(seconds), slept)

    def _wait(self) -> None:
        """Let the console hear the instruction; when it waits again, the task is over."""
        if not self._heard:
            self._heard = True
            self._hear()
            return
        self._words.hear(self._spoken, self._reports)
        reminded, (code, why) = self._words.reminder, self._words.verdict()
        if self._settled and not self._reports:
            self._over = True
            self._speak(self._settled, lambda _: self._finish(int(TaskCode.CALL_FAILED) if self._fault else 0, self._fault))
        elif self._taught and code:
            self._finish(0, "")
        elif code is TaskCode.ONLY_WORDS and not reminded:
            self._spoken = ""
            self._refuse("RuntimeError", self._words.reminder)
        elif code:
            self._finish(int(code), why)
        else:
            self._finish(int(TaskCode.CALL_FAILED) if self._fault else 0, self._fault)

    # -- what is learned ----------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Let the console hear the instruction; a plain yes or no to a lesson that was offered settles that first."""
        assert self._session is not None
        offered, self._session.offered = self._session.offered, 0
        yes = agreed(self._task.instruction) if offered else None
        if yes is None:
            self._answer(self._task.instruction)
            return

        def settled(told: tuple[str, bool]) -> None:
            self._settled, self._taught = told
            self._fault = "" if self._taught else self._settled
            self._notes.insert(0, f"# {self._settled}")
            self._hold(partial(self._answer, self._task.instruction))

        assert self._io.learned is not None
        self._io.work(partial(settle, self._io.learned, offered, yes, self._task.sender), settled)

    def _learn(self, call: HostCall) -> None:
        """Learn from what was said last, while the statement waits."""
        assert self._session is not None and self._io.learned is not None
        executor = self._executor or (lambda robot: Checked(robot.check, self._session.results if self._session else ()))
        try:
            Learning(
                self._session.entries,
                prompts=self._prompts,
                api=self._api,
                store=self._io.learned,
                execute=executor(self._robot),
                observed=self._observed(),
                sender=self._task.sender,
                process=self._task.process_id,
                ask=self._ask_improvement,
                work=self._io.work,
                done=partial(self._learned, call),
            )
        except Refused as error:
            self._refuse("RuntimeError", str(error))

    def _learned(self, call: HostCall, outcome: Offer | str) -> None:
        """Ask a person about what was learned, and tell the statement; nobody is asked once it was broken off."""
        if self._session is None or self._session.call is not call or self._working:
            return
        if isinstance(outcome, str):
            self._told(call, outcome)
            return
        self._taught = True
        self._io.report(Notice(layer=Layer.IMPROVE.value, text=outcome.question))

        def asked(event: CallEvent | None) -> None:
            done = event is None or event.outcome is Outcome.DONE
            self._told(call, outcome.told if done else UNASKED.format(outcome.lesson), outcome.lesson if done else 0)

        self._speak(outcome.question, asked)

    def _speak(self, text: str, then: Callable[[CallEvent | None], None]) -> None:
        """Say something; `then` hears how that ended, None where the robot has no voice."""
        if not self._api.spoken:
            then(None)
            return
        skill, parameter = next(iter(self._api.spoken.items()))
        self._io.call(skill, **{parameter: text}).then(then)

    def _told(self, call: HostCall, what: str, offered: int = 0) -> None:
        """Let the statement that learns go on; a lesson that was `offered` is confirmed by the next thing that is said, if that
        is a plain yes."""
        assert self._session is not None
        if self._session.call is call and not self._working:
            self._session.offered = offered
            self._hold(partial(self._answer, what))

    def _ask_improvement(self, messages: Sequence[Message], then: Callable[[str], None]) -> None:
        request = replace(self._request(self._prompts.improve_system, ""), messages=tuple(messages))
        self._put(Layer.IMPROVE, request, lambda answer: then(without_thoughts(answer).strip()))

    # -- the model ----------------------------------------------------------------------------------------------------

    def _stop_asking(self) -> None:
        question, self._question = self._question, None
        if question is not None:
            question.cancel()

    def _ask(self) -> None:
        assert self._session is not None
        if not self._patience.may_ask(Layer.CONSOLE, self._go_on, self._finish):
            return
        most = self._io.settings["console.max_rounds"]
        if len(self._statements) >= most:
            why = f"not done after {most} statements; {self._fault or 'give a smaller task'}"
            self._finish(int(TaskCode.TURN_LIMIT), why)
            return
        for note in self._notes:
            self._session.note(note)
        self._notes = []
        self._reply = ""
        store = self._io.learned
        learned = list(map(example_of, store.confirmed(LessonKind.EXAMPLE))) if store is not None else []
        text = self._prompts.console(self._session.entries, learned, circle=self._circle)
        request = replace(self._request(self._prompts.system, text), temperature=round(self._temperature, 1))
        self._question = self._io.ask(Layer.CONSOLE, request, self._text, self._replied)

    def _request(self, system: str, text: str) -> ModelRequest:
        settings = self._io.settings
        tokens = min(MAX_TOKENS, settings["max_output_tokens"])
        messages = (Message("user", text),)
        return ModelRequest(system, messages, tokens, settings["deadline_s"], self._task.instruction, temperature=0.0)

    def _text(self, piece: str) -> None:
        self._reply += piece
        if self._question is not None and (complete(self._reply) or len(self._reply) > MAX_REPLY):
            self._question.enough()
            self._replied(AnswerEnd(self._reply))

    def _replied(self, end: AnswerEnd) -> None:
        self._question = None
        if end.code:
            if self._patience.lost(Layer.CONSOLE, end.code, end.why):
                self._finish(end.code, end.why)
            else:
                self._go_on()
            return
        self._patience.answered()
        code = statement(self._reply)
        if not code and self._temperature < 1.0 - WARMER / 2:
            self._temperature += WARMER
            self._go_on()
            return
        self._temperature = 0.0
        self._take(code or WAIT)

    def _take(self, code: str) -> None:
        """Run a statement, unless it goes in circles or does nothing."""
        assert self._session is not None
        self._statements.append(code)
        if is_circle(self._statements):
            if self._circle:
                self._apologise()
                return
            self._circle = True
            self._go_on()
            return
        self._circle = False
        self._io.report(Notice(layer=Layer.CONSOLE.value, text=shown(code, SHOWN_WHY)))
        if is_comment(code):
            self._session.note(code)
            self._go_on()
            return
        known = {*self._api.names, *PRELUDE_NAMES, *self._session.names}
        store = self._io.learned
        learned = named(store.confirmed(LessonKind.ROUTINE)) if store is not None else {}
        FunctionWriter(code, known, self._ask_function, partial(self._defined, code), learned)

    def _ask_function(self, call: str, written: Mapping[str, str], then: Callable[[str], None]) -> None:
        request = self._request(self._prompts.function_system, self._prompts.function(call, written))
        self._put(Layer.FUNCTIONS, request, lambda answer: then(unfenced(answer)))

    def _put(self, layer: Layer, request: ModelRequest, then: Callable[[str], None]) -> None:
        """Ask a role that the task can do without; `then` hears its answer, "" where there is none."""
        if not self._io.allowance(layer)[0]:
            then("")
            return

        def answered(end: AnswerEnd) -> None:
            self._question = None
            then("" if end.code else end.text)

        self._question = self._io.ask(layer, request, lambda _: None, answered)

    def _defined(self, code: str, definitions: list[str]) -> None:
        self._todo = [*definitions, code]
        self._go_on()

    def _apologise(self) -> None:
        """Begin anew, and say so."""
        assert self._session is not None
        self._session.reset()
        why = f"the model goes in circles: {shown(self._statements[-1], SHOWN_WHY)}"
        self._over = True
        self._speak(SORRY, lambda _: self._finish(int(TaskCode.GIVEN_UP), why))


def _tried(go: Callable[[], Any]) -> Any:
    """Return what a step of the interpreter gives, or why there is none."""
    try:
        return go()
    except SandboxError as error:
        return error


def _done_before(call: CallReport) -> str:
    return DONE_BEFORE.format(quoted(call.shown()))


def _waiting(robot: RobotFacts) -> RobotFacts:
    """Return the robot with the console's word for the end of a plan."""
    names = {tag: name for tag, name in robot.options.builtin_names.items() if name != "plan_done"}
    return replace(robot, options=replace(robot.options, builtin_names={**names, WAIT: "plan_done"}))
