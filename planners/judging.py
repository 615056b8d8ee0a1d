# SPDX-License-Identifier: Apache-2.0
"""Ask a model whether a sentence holds now, by the observation."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from planners.models.base import Message, ModelRequest
from planners.models.model_call import AnswerError, Model, ModelCall, WholeAnswer
from planners.prompts.blocks import Layer, block, front, text_beside
from planners.prompts.prompt import RobotFacts, compose, observation_now, observed
from planners.strategy import RobotView
from skill_kernel.clock import Clock
from skill_kernel.config.sections import shown

MAX_ANSWER = 2000
MAX_OUTPUT_TOKENS = 60
_RULES = text_beside(__file__, "judge_rules.txt")
_ANSWER = re.compile(
    r"(?P<unknown>unknown\b|未知|无法|無法|不确定|不確定|不知道|不清楚|不明|不能|不一定|不好说|没法|有可能|可能|没有\w{0,4}信息)"
    r"|(?P<yes>(?:yes|true)\b|是(?!否|不是)|有(?!没有)|对(?!不对))|(?P<no>(?:no|false)\b|[否不没沒])",
    re.IGNORECASE,
)
"""Chinese has no space behind a word; the longest that fits counts, and “是否” is none."""
_OPEN = re.compile(r"\w*(?:\s*[/?|]|\s+(?:or|idea)\b)", re.IGNORECASE)
"""Behind a word that decides nothing: “yes/no”, “no idea”."""
_OF_WHAT = re.compile(r"[ \t]+(?!(?:way|because|since|as|there|it|the|that|this)\b)\w", re.IGNORECASE)
"""Behind a “no” that says of what there is none: “no one is there” may bear a sentence out, “no information” leaves it open."""
_HOLDS = {"yes": True, "no": False, "unknown": None}


@dataclass(frozen=True)
class Judgement:
    """Hold an answer. `holds` is None when the model cannot tell, or gave none (`code`, `why`)."""

    holds: bool | None
    reason: str = ""
    code: int = 0
    why: str = ""


def judgement_reader() -> WholeAnswer[Judgement]:
    """Return what reads one answer: yes, no or unknown as the first word, and the reason behind it."""
    return WholeAnswer(_read, MAX_ANSWER, "begin with yes, no or unknown")


def _read(answer: str) -> Judgement:
    text = answer.strip().strip("`*\"'<>").strip()
    said = _ANSWER.match(text)
    if said is None or _OPEN.match(text, said.end()) or (said["no"] and _OF_WHAT.match(text, said.end())):
        raise AnswerError(f"the answer begins with “{shown(text, 30)}”; it must begin with yes, no or unknown")
    return Judgement(_HOLDS[str(said.lastgroup)], text[said.end() :].lstrip(" ,.:;-—*").strip()[:300])


class SentenceJudge:
    """Ask the model of a robot whether sentences hold, for all of its processes."""

    def __init__(self, model: Model, clock: Clock, robot: RobotView, deadline_s: float) -> None:
        self._model, self._clock, self._robot, self._deadline_s = model, clock, robot, deadline_s

    def ask(self, process_id: str, sentence: str, heard: Callable[[Judgement], None]) -> None:
        """Ask whether a sentence holds. `heard` gets the judgement once, at once where nothing is observed to judge from."""
        seen = self._robot.observed()
        if seen is None:
            heard(Judgement(None, "nothing is observed now"))
            return
        request = ModelRequest(
            self._robot.system_prompt(judge_system),
            (Message("user", judge_message(sentence, seen)),),
            max_output_tokens=MAX_OUTPUT_TOKENS,
            deadline_s=self._deadline_s,
        )
        ModelCall(
            partial(self._model.ask, Layer.JUDGE, process_id),
            self._clock,
            request,
            judgement_reader,
            lambda end: heard(end.value or Judgement(None, code=end.code, why=end.why)),
        )


def judge_system(robot: RobotFacts) -> str:
    """Return the static front of the prompt."""
    return compose(front(Layer.JUDGE) + _RULES.format(robot=robot.name), observed(robot))


def judge_message(condition: str, observation: Mapping[str, Any] | None) -> str:
    """Return what the judge is asked."""
    return compose(block("CONDITION", [condition]), observation_now(observation))
