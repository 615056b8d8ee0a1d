# SPDX-License-Identifier: Apache-2.0
"""Define the skill `query_memory`, the same for every robot (TypeGo 7): ask the robots' memory and say its answer."""

from threading import Event
from typing import Annotated, Protocol

from pydantic import Field

from ghostshell_ros.drivers.speech import speaking_s
from skill_kernel import SkillReturn, robot_skill
from skill_kernel.codes import CallCode
from skill_kernel.kernel.kernel import SkillCaller
from skill_kernel.skills.drivers import Memory

ANSWER_S = 5.0
"""Longest wait for the answer: a model may word it."""
SAID_CHARS = 400
"""Characters that are said of a longer answer; the result has all of it."""
BUSY_S, AGAIN_S = 20.0, 0.5
"""Time the answer waits while another text is being said, and time between two tries."""
STOP_S = 0.5

Question = Annotated[str, Field(min_length=1, max_length=1000)]


class Remembering(Protocol):
    """Define a body that asks for the memory."""

    memory: Memory


@robot_skill(
    subsystem="default",
    nominal_s=lambda question="", aloud=True: ANSWER_S + BUSY_S + speaking_s("x" * SAID_CHARS),
    stop_s=STOP_S,
    on_failure="continue",
    idempotent=True,
)
def query_memory(
    question: Question, aloud: bool = True, *, body: Remembering, kernel: SkillCaller, stop_evt: Event
) -> SkillReturn:
    """Ask the memory what was seen, heard or done, where and when, such as "where did you last see the ball?". The result
    is the answer. aloud: also say it. Moves nothing, so the robot goes on with what it does."""
    answer = body.memory(question, stop=stop_evt, timeout_s=ANSWER_S)
    if answer.cancelled:
        return SkillReturn.interruption("stopped before the memory answered")
    if not answer.ok:
        return SkillReturn.failure(answer.error_msg, answer.error_code or int(CallCode.SKILL_FAILED))
    text = answer.text + (f" ({answer.note})" if answer.note else "")
    if aloud:
        problem = _say(answer.text[:SAID_CHARS], kernel, stop_evt)
        if stop_evt.is_set():
            return SkillReturn.interruption(text)
        if problem:
            text += f" (not said: {problem})"
    return SkillReturn.success(text)


def _say(text: str, kernel: SkillCaller, stop_evt: Event) -> str:
    """Say the answer once nobody else speaks. Returns why that failed, or ""."""
    problem = ""
    for _ in range(round(BUSY_S / AGAIN_S)):
        said = kernel.call("speak", text=text)
        if said.ok or said.interrupted:
            return ""
        problem = said.message
        if stop_evt.wait(AGAIN_S):
            break
    return problem
