# SPDX-License-Identifier: Apache-2.0
"""Turn a driver's result into a skill's, the same for every robot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skill_kernel import SkillReturn
from skill_kernel.codes import CallCode
from skill_kernel.skills.drivers import DriverResult


def outcome(result: DriverResult, what: str, *, progress: Mapping[str, Any] | None = None) -> SkillReturn:
    """Return a driver's result as a skill's: `what` says what was done, or how far it came, `progress` the same in figures."""
    if result.ok:
        return SkillReturn.success(what, value=progress)
    if result.cancelled:
        return SkillReturn.interruption(what, progress=progress)
    code = result.error_code or int(CallCode.SKILL_FAILED)
    return SkillReturn.failure(f"{what}: {result.error_msg or 'the driver gives no reason'}", code)
