# SPDX-License-Identifier: Apache-2.0
"""Define what a skill returns: success, failure and interruption told apart (TypeGo, listing 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SkillReturn:
    """Hold the result of one run of a skill.

    `ok` is true only when the skill did what its name says. `interrupted` is true when it ended because its `stop_evt` was
    set; `message` then says how far it came, and `progress` in figures, for a skill that declares `remaining`. `error_code`
    is one of `skill_kernel.codes`, or 0; STOP_UNCERTAIN halts the robot. `value` is what the skill found out, for callers
    that go on with it: anything that JSON can hold.
    """

    ok: bool
    message: str = ""
    interrupted: bool = False
    error_code: int = 0
    progress: Mapping[str, Any] | None = None
    value: Any = None

    @classmethod
    def success(cls, message: str = "", *, value: Any = None) -> SkillReturn:
        """Return that the skill did what it says, and the value it has for its caller."""
        return cls(True, message, value=value)

    @classmethod
    def failure(cls, message: str, error_code: int = 0) -> SkillReturn:
        """Return that the skill could not do it; `message` says why and what would help."""
        return cls(False, message, error_code=error_code)

    @classmethod
    def interruption(cls, message: str, *, progress: Mapping[str, Any] | None = None) -> SkillReturn:
        """Return that the skill was stopped; `message`, and `progress` in figures, say what was done until then."""
        return cls(False, message, interrupted=True, progress=progress)
