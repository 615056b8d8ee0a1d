# SPDX-License-Identifier: Apache-2.0
"""Convert the skill kernel's answers to messages."""

from __future__ import annotations

import json

from ghostshell.action import ExecuteSkill
from ghostshell.msg import ProcessHold, SkillInfo, Subsystem

from ghostshell_ros.wire.values import OUTCOME_NUMBERS, ros_text
from skill_kernel.calls import CallResult, ProcessHoldState, Refused, SubsystemState
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.skills.arguments import parameters_schema, signature_text
from skill_kernel.skills.skill import Skill


def result_message(result: CallResult) -> ExecuteSkill.Result:
    """Return a call's result as a message."""
    return ExecuteSkill.Result(
        outcome=OUTCOME_NUMBERS[result.outcome],
        error_code=int(result.code),
        error_msg=ros_text(result.error),
        message=ros_text(result.message),
        value_json=ros_text(result.value),
        start_s=result.start_s,
        end_s=result.end_s,
    )


def refusal(refused: Refused) -> ExecuteSkill.Result:
    """Return the result of a refused call: interrupted where its epoch is old, because an interrupt made it old."""
    outcome = Outcome.INTERRUPTED if refused.code is CallCode.STALE_EPOCH else Outcome.REFUSED
    return ExecuteSkill.Result(
        outcome=OUTCOME_NUMBERS[outcome],
        error_code=int(refused.code),
        error_msg=ros_text(refused.message),
        start_s=-1.0,
        end_s=-1.0,
    )


def subsystem(state: SubsystemState) -> Subsystem:
    """Return a subsystem's settings and holders."""
    return Subsystem(
        name=state.name,
        exclusive_per_process=state.exclusive_per_process,
        parallel=state.parallel,
        process_id=state.process_id,
        call_ids=list(state.call_ids),
    )


def hold(state: ProcessHoldState) -> ProcessHold:
    """Return the subsystems and pauses kept for a process."""
    return ProcessHold(
        process_id=state.process_id,
        subsystems=list(state.subsystems),
        pause_causes=list(state.pause_causes),
        paused_calls=list(state.paused_calls),
    )


def info(skill: Skill, stop_measured_s: float) -> SkillInfo:
    """Return a skill for ListSkills, with its longest stop so far."""
    bounded = skill.stop_s is not None or skill.interruptible
    return SkillInfo(
        name=skill.name,
        signature=signature_text(skill),
        description=skill.description,
        subsystems=list(skill.subsystems),
        parameters_json=json.dumps(parameters_schema(skill)),
        interruptible=skill.interruptible,
        pausable=skill.pausable,
        takes_content=skill.content is not None,
        stop_measured_s=stop_measured_s,
        stop_s=skill.stop_bound_s({}) if bounded else -1.0,
        on_failure=skill.on_failure,
    )
