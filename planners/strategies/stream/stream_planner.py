# SPDX-License-Identifier: Apache-2.0
"""Strategy `stream`: one stream of function tokens a turn, and another turn after an observation or a failure
(GhostShell 3.4.4, the ReAct loop of section 4.2.2)."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from function_tokens.builtins import BUILTINS
from function_tokens.parsing.asides import CONTROL
from function_tokens.routines import Routine
from function_tokens.scheduling.calls import TEXT
from planners.models.base import Message, ModelRequest, tokens_in
from planners.models.tool_calls import answered, with_results
from planners.prompts.blocks import Layer
from planners.prompts.grammar import stream_front
from planners.prompts.prompt import PROMPTS, CallReport, RobotFacts, build_turn_prompt, place
from planners.strategies.turns import MAX_TURNS, NOTHING, Known, PlanEnded, TurnPlanner, TurnPlanning, TurnResult
from planners.strategy import ModelRole, Parameter, PlannerIO, Planning, RobotView, Strategy, Task
from skill_kernel.codes import TaskCode

NO_CALLS = "the model's answer holds nothing to do or to say"
WORDS = frozenset({TEXT, *BUILTINS})
"""Calls that do nothing by themselves: a failure is not mended by talking about it."""

HISTORY = Parameter("history_tokens", 3000, "about so many tokens of earlier messages a request carries", 0, 1_000_000)
MAX_ANSWER_CHARS = 1500
"""Characters of one answer that the history keeps."""
MAX_PLANS = 50
"""Newest plans that the history keeps."""


def _acts(call: CallReport) -> bool:
    return call.outcome == "DONE" and call.function not in WORDS


class Conversation:
    """History of all plans of a robot, so that "do it twice instead" means something to the next one, also while
    the first is still carried out. Each plan keeps its own messages together; one that failed is no example and leaves it.

    A request carries about `tokens` tokens of it at most.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._plans: deque[list[Message]] = deque(maxlen=MAX_PLANS)

    def begin(self) -> list[Message]:
        """Messages of a new plan, to be extended in place."""
        own: list[Message] = []
        self._plans.append(own)
        return own

    def before(self, own: list[Message]) -> list[Message]:
        """Return the newest messages: those of the other plans, then those of this one."""
        others = [m for plan in self._plans if plan is not own for m in plan]
        newest, left = list[Message](), self._tokens
        for message in reversed([*others, *own]):
            left -= tokens_in(message.whole)
            if left < 0:
                break
            newest.insert(0, message)
        return newest

    def forget(self, own: list[Message] | None = None) -> None:
        """Forget a plan, or all there is."""
        for plan in self._plans:
            if own is None or plan is own:
                plan.clear()


class StreamPlanner(TurnPlanner):
    """Build the request of each turn of one process and decide whether there is another one."""

    layer = Layer.STREAM
    whole = False

    def __init__(
        self,
        robot: RobotFacts,
        routines: Callable[[], Iterable[Routine]],
        settings: Mapping[str, Any],
        conversation: Conversation | None = None,
    ) -> None:
        super().__init__(robot, settings)
        self._routines = routines
        self._tools = settings["dialect"] == "tools"
        self._conversation = conversation or Conversation(settings["history_tokens"])
        self._said = self._conversation.begin()
        self._failures = 0
        self._fault = ""
        self._acted = False
        self._began: Mapping[str, Any] | None = None
        """Where the robot was when the task began; None before it has."""

    def first(self, done: Sequence[CallReport], known: Known) -> ModelRequest:
        self._failures, self._fault, self._acted = 0, "", any(map(_acts, done))
        self._said = self._conversation.begin()
        return self._asked(known, results=done)

    def wrote(self, text: str) -> None:
        text = CONTROL.sub("", text)
        if len(text) > MAX_ANSWER_CHARS:
            whole = text[:MAX_ANSWER_CHARS]
            text = whole[: max(whole.rfind(">"), whole.rfind(" ")) + 1] or whole
        said = answered(text) if self._tools else Message("assistant", text)
        if said.whole.strip():
            self._said.append(said)

    def forget(self) -> None:
        self._conversation.forget()

    def follow(self, result: TurnResult, known: Known = NOTHING) -> ModelRequest | PlanEnded:
        step = self._next(result, known)
        if isinstance(step, PlanEnded):
            self._tell([*result.calls, *result.running])
            if step.code not in (0, TaskCode.CANCELLED):
                self._conversation.forget(self._said)
        return step

    def _next(self, result: TurnResult, known: Known) -> ModelRequest | PlanEnded:
        bad = {"FAILED", "REFUSED"}
        if not any(c.function == "stop" for c in result.calls):
            # Nobody of this plan asked for it, and a plan that somebody else ended is not followed any more.
            bad.add("INTERRUPTED")
        failed = [c for c in result.calls if c.outcome in bad]
        first_fault = f"'{failed[0].function}' {failed[0].outcome}: {failed[0].message}" if failed else ""
        if result.code:
            return PlanEnded(result.code, result.error)
        acted = any(map(_acts, result.calls))
        self._acted = self._acted or acted
        unheard = [c for c in result.calls if c.function == TEXT and c.outcome == "DROPPED"]
        if first_fault or acted:
            self._fault = first_fault
        elif unheard and not self._acted:  # of a robot that does not speak; beside a deed its words may be lost
            self._fault = self._fault or f"'{TEXT}' DROPPED: {unheard[0].message}"
        if result.reason == "end" and not (result.calls or result.running or self.turn):
            return PlanEnded(int(TaskCode.CALL_FAILED), NO_CALLS)
        if result.reason in ("end", "plan_done"):
            return PlanEnded(int(TaskCode.CALL_FAILED), self._fault) if self._fault else PlanEnded()
        if result.reason == "interrupt":
            return PlanEnded(int(TaskCode.CANCELLED), result.error)
        self._failures = self._failures + 1 if result.reason == "failure" else 0
        if self.turn + 1 >= self.settings["max_turns"]:
            why = f"not finished after {self.settings['max_turns']} turns; {first_fault or 'give a smaller task'}"
            return PlanEnded(int(TaskCode.TURN_LIMIT), why)
        if self._failures >= 2:
            return PlanEnded(int(TaskCode.CALL_FAILED), first_fault or result.error)
        self.turn += 1
        return self._asked(known, results=result.calls, running=result.running, repairs=result.repairs)

    def _tell(self, reports: Sequence[CallReport]) -> Sequence[CallReport]:
        """Give the native calls of the last answer their results; return the reports that belong to none."""
        if not (self._said and self._said[-1].calls):
            return reports
        calls, left = with_results(self._said[-1].calls, reports, self.robot.options.builtin_names)
        self._said[-1] = replace(self._said[-1], calls=calls)
        return left

    def _asked(
        self, known: Known, results: Sequence[CallReport], running: Sequence[CallReport] = (), repairs: Sequence[str] = ()
    ) -> ModelRequest:
        """Keep the turn without its observation: a later turn has its own, which is the present one."""
        if self._began is None:
            self._began = place(known.observation)
        routines = list(self._routines())
        left = self._tell([*results, *running])
        prompt = partial(
            build_turn_prompt,
            self.instruction,
            turn=self.turn,
            source=self.sender,
            results=[report for report in left if report in results],
            running=[report for report in left if report in running],
            repairs=repairs,
        )
        earlier = _alternating(self._conversation.before(self._said))
        self._said.append(Message("user", prompt()))
        now = prompt(observation=known.observation, began=self._began, memory=known.memory)
        message = Message("user", now, tuple(known.images))
        request = self.request("", (*earlier, message))
        return replace(request, turn=self.turn, done=results, **stream_front(self.robot, routines, self.settings))


class Stream(Strategy):
    """Plan by streams. All processes of a robot share one conversation."""

    name = "stream"
    roles = (ModelRole(Layer.STREAM.value),)
    parameters = (
        MAX_TURNS,
        Parameter(
            "prompt",
            "full",
            "what the model is shown of the functions: full, or short for a small model with a grammar",
            choices=tuple(PROMPTS),
        ),
        Parameter(
            "dialect",
            "xml",
            "how the model calls functions: xml in its text, or tools for one that was trained to call a provider's own",
            choices=("xml", "tools"),
        ),
        HISTORY,
    )

    def __init__(self) -> None:
        self._conversation: Conversation | None = None

    def start(self, task: Task, robot: RobotView, io: PlannerIO) -> Planning:
        if self._conversation is None:
            self._conversation = Conversation(io.settings["history_tokens"])
        planner = StreamPlanner(robot.about, robot.routines.list, io.settings, self._conversation)
        return TurnPlanning(planner, task, robot, io)


def _alternating(history: Iterable[Message]) -> list[Message]:
    """Join messages of one speaker and leave out what was not answered: providers want turns, beginning with the user."""
    joined: list[Message] = []
    for message in history:
        if joined and joined[-1].role == message.role:
            texts = filter(None, (joined[-1].text, message.text))
            joined[-1] = Message(message.role, "\n\n".join(texts), calls=(*joined[-1].calls, *message.calls))
        elif joined or message.role == "user":
            joined.append(message)
    if joined and joined[-1].role == "user":
        joined.pop()
    return joined
