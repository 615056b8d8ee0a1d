# SPDX-License-Identifier: Apache-2.0
"""What becomes of the plain text of a robot that has no skill that speaks."""

from __future__ import annotations

from types import SimpleNamespace

from function_tokens.scheduling.calls import TEXT, Call, Role
from ghostshell_ros.runtime.kernel_executor import ProcessExecutor
from skill_kernel.calls import CallResult
from skill_kernel.codes import Outcome
from skill_kernel.skills.registry import SkillRegistry
from skill_kernel.skills.skill import MAIN


def test_text_that_nobody_can_speak_is_dropped_with_the_reason_and_reaches_no_kernel() -> None:
    ended: dict[str, CallResult] = {}
    executor = ProcessExecutor(SimpleNamespace(), SkillRegistry(), "p")  # type: ignore[arg-type]
    executor.scheduler = SimpleNamespace(ended=ended.__setitem__)  # type: ignore[assignment]
    executor.start(Call("c", 1, "s", 0, TEXT, Role.TEXT, {"text": "hello"}, frozenset({MAIN}), subsystems=(), parent=None))
    assert ended["c"].outcome is Outcome.DROPPED and "no skill that speaks" in ended["c"].error
