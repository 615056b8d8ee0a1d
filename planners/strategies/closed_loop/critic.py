# SPDX-License-Identifier: Apache-2.0
"""Weigh an action before it begins: by what is believed of the world, and where that is in doubt by a model that sees the
pictures. A verdict that was asked for while another action ran counts only if that went as supposed and what was
looked at has not changed since."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from planners.models.model_call import CallEnd
from planners.prompts.blocks import Layer
from planners.strategies.asking import Ask
from planners.strategies.closed_loop.actions import Action
from planners.strategies.closed_loop.answers import Judgement, read_judgement
from planners.strategies.closed_loop.memory import Question
from planners.strategies.closed_loop.pictures import Pictures
from planners.strategies.closed_loop.prompts import Prompts
from planners.strategies.closed_loop.world import Fit, World
from planners.strategy import RobotView

MAX_ASKED = 3
"""Questions about one action at most, when what was looked at changes each time."""


class Policy(str, Enum):
    """Say when the model is asked."""

    ALWAYS = "always"
    ON_DOUBT = "on_doubt"
    NEVER = "never"


@dataclass(frozen=True)
class Opinion:
    """Hold what the model said of an action and what it saw. `early`: while another one ran that was to end well first."""

    answer: CallEnd[Judgement]
    pictures: Pictures
    early: bool


@dataclass(eq=False)
class Step:
    """Hold an action of the plan, and what is thought of it before it begins."""

    action: Action
    opinion: Opinion | None = None
    question: Question | None = None
    asked: int = 0

    def drop(self) -> None:
        """Take back what is being asked about it, and forget what was said."""
        self.opinion = None
        if self.question is not None:
            self.question.cancel()
            self.question = None


@dataclass(frozen=True)
class Verdict:
    """Say whether an action may begin: None while that is being asked. `by`: world or model."""

    suits: bool | None
    by: str = ""
    why: str = ""


class Critic:
    """Weigh the steps of one process. `changed` is called when a model has answered."""

    def __init__(
        self,
        robots: Mapping[str, RobotView],
        world: World,
        prompts: Prompts,
        ask: Ask,
        policy: Policy,
        changed: Callable[[], None],
    ) -> None:
        self._robots, self._world, self._prompts, self._ask = robots, world, prompts, ask
        self._policy, self._changed = policy, changed

    def weigh(self, step: Step, running: Sequence[Step]) -> Verdict:
        """Return whether a step may begin now; what is not known yet is asked."""
        if spent := self._world.spent(step.action):
            return Verdict(False, "world", spent)
        if self._policy is Policy.NEVER:
            return Verdict(True)
        fit, why = self._world.weigh(step.action)
        if fit is Fit.UNFIT:
            return Verdict(False, "world", why)
        if fit is Fit.FITS and self._policy is Policy.ON_DOUBT:
            return Verdict(True)
        if step.opinion is not None and step.asked < MAX_ASKED and not self._holds(step.opinion):
            step.opinion = None
        if step.opinion is None:
            self._ask_about(step, running, early=False)
            return Verdict(None)
        judgement = step.opinion.answer.value
        if judgement is None:
            return Verdict(False, "model", f"the critic gave no verdict ({step.opinion.answer.why})")
        return Verdict(judgement.suits, "model", judgement.feedback)

    def foresee(self, step: Step, before: Sequence[Step], running: Sequence[Step]) -> str:
        """Return why a step will not be fit even if those before it end well, "" where that is not known; and ask early about
        it, where a model is to see what is there already."""
        if self._policy is Policy.NEVER:
            return ""
        fit, why = self._world.weigh(step.action, [s.action for s in before])
        if fit is Fit.UNFIT:
            return why
        if step.asked or any(self._world.hides(s.action, step.action) for s in before):
            return ""
        if fit is Fit.DOUBTED or self._policy is Policy.ALWAYS:
            self._ask_about(step, running, early=True)
        return ""

    def confirm(self, claim: str, heard: Callable[[Verdict], None]) -> Question | None:
        """Ask whether the task is done, as somebody claims; None where there is no picture to look at."""
        pictures = Pictures.take(self._robots)
        if self._policy is Policy.NEVER or not pictures.images:
            return None

        def answered(end: CallEnd[Judgement]) -> None:
            if end.value is None:
                heard(Verdict(None, "model", end.why))
            else:
                heard(Verdict(end.value.suits, "model", end.value.feedback))

        return self._put(pictures, self._prompts.critic(pictures, (), None, claim), answered)

    def _ask_about(self, step: Step, running: Sequence[Step], *, early: bool) -> None:
        if step.question is not None:
            return
        step.asked += 1
        pictures = Pictures.take(self._robots)
        text = self._prompts.critic(pictures, [s.action for s in running], step.action)

        def answered(end: CallEnd[Judgement]) -> None:
            step.question, step.opinion = None, Opinion(end, pictures, early)
            self._changed()

        step.question = self._put(pictures, text, answered)

    def _put(self, pictures: Pictures, text: str, answered: Callable[[CallEnd[Judgement]], None]) -> Question:
        read = partial(read_judgement, pictures=list(pictures.images))
        return self._ask(Layer.CRITIC, text, list(pictures.images.values()), read, answered)

    def _holds(self, opinion: Opinion) -> bool:
        """Return whether an opinion still counts: what it rests on looks as it did. One of a step whose predecessor did not end
        well has gone with the plan."""
        judgement = opinion.answer.value
        if judgement is None:
            return not opinion.early
        if not (opinion.early or judgement.regions):
            return True
        return opinion.pictures.same(Pictures.take(self._robots), judgement.regions)
