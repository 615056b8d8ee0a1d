# SPDX-License-Identifier: Apache-2.0
"""Define the skill `ask`, the same for every robot: ask the people nearby, and wait for the answer."""

import re
from threading import Event
from typing import Protocol

from ghostshell_ros.drivers.speech import speaking_s
from ghostshell_ros.robots.control import Control
from skill_kernel import Content, PauseEvent, SkillReturn, robot_skill
from skill_kernel.codes import CallCode
from skill_kernel.kernel.kernel import SkillCaller
from skill_kernel.processes.questions import MAX_QUESTION, USUAL_S
from skill_kernel.skills.drivers import Action

STOP_S = 1.0
UNHEARD = (CallCode.DRIVER_LOST, CallCode.STOP_UNCERTAIN)
"""Codes after which nobody knows what became of the question: it is asked again. Nothing moves, so no halt is needed."""


class Asking(Protocol):
    """Hold the action that asks people, as a body that has this skill does."""

    ask_human: Action


@robot_skill(subsystem=(), nominal_s=USUAL_S + speaking_s("x" * MAX_QUESTION), stop_s=STOP_S, decides=True)
def ask(
    question: Content, choices: str = "", *, body: Asking, kernel: SkillCaller, stop_evt: Event, pause_evt: PauseEvent
) -> SkillReturn:
    """Ask the people around, as the last thing you write; their answer is the result. Only for what they alone know or must
    allow. choices: what may be answered, such as "yes,no"."""
    offered = [choice for choice in map(str.strip, re.split("[,;，、]", choices)) if choice]
    control = Control(stop_evt, pause_evt)
    kernel.call("speak", text=question)  # may fail: the question can be read, too
    while control.go_on():
        result = body.ask_human(
            process_id=kernel.process_id, question=question, choices=offered, timeout_s=USUAL_S, stop=control
        )
        if not result.ok and (result.cancelled or control.is_set() or result.error_code in UNHEARD):
            continue  # ask again: a pause withdrew it and may be over, or the node that keeps it fell silent
        if result.ok:
            return SkillReturn.success(str(result.values["answer"]), value=result.values["answer"])
        return SkillReturn.failure(result.error_msg, result.error_code or int(CallCode.SKILL_FAILED))
    return SkillReturn.interruption("stopped before anybody answered")
