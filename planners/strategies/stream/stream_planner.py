# SPDX-License-Identifier: Apache-2.0
"""Strategy `stream`: one stream of function tokens a turn, and another turn after an observation or a failure
(GhostShell 3.4.4, the ReAct loop of section 4.2.2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from function_tokens.builtins import BUILTINS
from function_tokens.routines import Routine
from function_tokens.scheduling.calls import TEXT
from planners.models.base import Image, Message, ModelRequest
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport, GrammarOptions, build_system_prompt, build_turn_prompt
from planners.strategies.turns import MAX_TURNS, PlanEnded, PlannerSettings, TurnPlanning, TurnResult
from planners.strategy import ModelRole, Parameter, PlannerIO, Planning, RobotView, Strategy, Task
from skill_kernel.codes import TaskCode
from skill_kernel.skills.skill import Skill

WORDS = frozenset({TEXT, *BUILTINS})
"""Calls that do nothing by themselves: a failure is not mended by talking about it."""


class Conversation:
    """What was said in all plans of a robot, so that "do it twice instead" means something to the next one, also while
    the first is still carried out. Each plan keeps its own messages together."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._plans: deque[list[Message]] = deque(maxlen=max(1, keep))

    def begin(self) -> list[Message]:
        """Messages of a new plan, to be extended in place."""
        own: list[Message] = []
        self._plans.append(own)
        return own

    def before(self, own: list[Message]) -> list[Message]:
        """The newest messages: those of the other plans, then those of this one."""
        others = [m for plan in self._plans if plan is not own for m in plan]
        return [*others, *own][-self._keep :] if self._keep else []


class StreamPlanner:
    """Builds the request of each turn of one process and decides whether there is another one."""

    layer = Layer.STREAM
    whole = False

    def __init__(
        self,
        *,
        skills: Callable[[], Iterable[Skill]],
        routines: Callable[[], Iterable[Routine]],
        options: GrammarOptions,
        robot_name: str,
        robot_description: str,
        fields: Mapping[str, str] | None = None,
        settings: PlannerSettings | None = None,
        conversation: Conversation | None = None,
    ) -> None:
        self._skills = skills
        self._routines = routines
        self._options = options
        self._robot = (robot_name, robot_description)
        self._fields = fields
        self._settings = settings or PlannerSettings()
        self._conversation = conversation or Conversation(self._settings.history)
        self._said = self._conversation.begin()
        self._instruction = ""
        self._sender = ""
        self._failures = 0
        self._fault = ""
        self.turn = 0

    def begin(
        self,
        instruction: str,
        *,
        sender: str = "",
        state: Mapping[str, Any] | None = None,
        observation: Mapping[str, Any] | None = None,
        images: Sequence[Image] = (),
        done: Sequence[CallReport] = (),
    ) -> ModelRequest:
        """The first request for an instruction. `done`: what was done of it before the plan had to be made anew."""
        self._instruction, self._sender, self.turn, self._failures = instruction, sender or "the operator", 0, 0
        self._fault = ""
        self._said = self._conversation.begin()
        return self._request(
            partial(build_turn_prompt, instruction, source=self._sender, results=done), state, observation, images
        )

    def wrote(self, text: str) -> None:
        """What the model wrote in this turn, for the conversation."""
        if text.strip():
            self._said.append(Message("assistant", text))

    def follow(
        self,
        result: TurnResult,
        *,
        state: Mapping[str, Any] | None = None,
        observation: Mapping[str, Any] | None = None,
        images: Sequence[Image] = (),
    ) -> ModelRequest | PlanEnded:
        """The next request, or the end of the plan, after a turn has ended."""
        bad = {"FAILED", "REFUSED"}
        if not any(c.function == "stop" for c in result.calls):
            # Nobody of this plan asked for it, and a plan that somebody else ended is not followed any more.
            bad.add("INTERRUPTED")
        failed = [c for c in result.calls if c.outcome in bad]
        first_fault = f"'{failed[0].function}' {failed[0].outcome}: {failed[0].message}" if failed else ""
        if result.code:
            return PlanEnded(result.code, result.error)
        if first_fault or any(c.outcome == "DONE" and c.function not in WORDS for c in result.calls):
            self._fault = first_fault
        if result.reason == "end" and not (result.calls or result.running or self.turn):
            return PlanEnded(int(TaskCode.CALL_FAILED), "the model's answer holds nothing to do or to say")
        if result.reason in ("end", "plan_done"):
            return PlanEnded(int(TaskCode.CALL_FAILED), self._fault) if self._fault else PlanEnded()
        if result.reason == "interrupt":
            return PlanEnded(int(TaskCode.CANCELLED), result.error)
        self._failures = self._failures + 1 if result.reason == "failure" else 0
        if self.turn + 1 >= self._settings.max_turns:
            why = f"not finished after {self._settings.max_turns} turns; {first_fault or 'give a smaller task'}"
            return PlanEnded(int(TaskCode.TURN_LIMIT), why)
        if self._failures >= 2:
            return PlanEnded(int(TaskCode.CALL_FAILED), first_fault or result.error)
        self.turn += 1
        prompt = partial(
            build_turn_prompt,
            self._instruction,
            turn=self.turn,
            source=self._sender,
            results=result.calls,
            running=result.running,
            repairs=result.repairs,
        )
        return self._request(prompt, state, observation, images)

    def _request(
        self,
        prompt: Callable[..., str],
        state: Mapping[str, Any] | None,
        observation: Mapping[str, Any] | None,
        images: Sequence[Image],
    ) -> ModelRequest:
        """The conversation keeps the turn without its observation: a later turn has its own, and that is what is now."""
        system = build_system_prompt(
            self._skills(),
            self._options,
            self._routines(),
            robot_name=self._robot[0],
            robot_description=self._robot[1],
            fields=self._fields,
        )
        message = Message("user", prompt(state=state, observation=observation), tuple(images))
        earlier = _alternating(self._conversation.before(self._said))
        self._said.append(Message("user", prompt(state=state)))
        return ModelRequest(
            system=system,
            messages=(*earlier, message),
            max_output_tokens=self._settings.max_output_tokens,
            temperature=self._settings.temperature,
            deadline_s=self._settings.deadline_s,
            instruction=self._instruction,
        )


class Stream(Strategy):
    """Plan by streams. All processes of a robot share one conversation."""

    name = "stream"
    roles = (ModelRole(Layer.STREAM.value),)
    parameters = (MAX_TURNS, Parameter("history", 12, "earlier messages a request carries", minimum=0, maximum=200))

    def __init__(self) -> None:
        self._conversation: Conversation | None = None

    def start(self, task: Task, robot: RobotView, io: PlannerIO) -> Planning:
        """Ask for the first stream."""
        settings, about = PlannerSettings.of(io.settings), robot.about
        if self._conversation is None:
            self._conversation = Conversation(settings.history)
        planner = StreamPlanner(
            skills=lambda: about.skills,
            routines=robot.routines.list,
            options=about.options,
            robot_name=about.name,
            robot_description=about.description,
            fields=about.fields,
            settings=settings,
            conversation=self._conversation,
        )
        return TurnPlanning(planner, task, robot, io)


def _alternating(history: Iterable[Message]) -> list[Message]:
    """Providers want user and assistant in turns, beginning with the user: join what stands side by side."""
    joined: list[Message] = []
    for message in history:
        if joined and joined[-1].role == message.role:
            joined[-1] = Message(message.role, f"{joined[-1].text}\n\n{message.text}")
        elif joined or message.role == "user":
            joined.append(message)
    if joined and joined[-1].role == "user":
        joined.append(Message("assistant", "(no answer)"))
    return joined
