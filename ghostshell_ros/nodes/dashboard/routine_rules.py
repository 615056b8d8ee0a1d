# SPDX-License-Identifier: Apache-2.0
"""Show the routines that a robot was taught as rules of the page; try one, and revoke and approve it as people say."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from function_tokens.mapper import Mapper, Refusal
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError, TokenKind
from function_tokens.routines import Routine, RoutineError, RoutineStore
from function_tokens.run_model import call_label
from ghostshell_ros.nodes.dashboard.state import MAX_TEXT
from skill_kernel.config.sections import shown
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import RegistryError, SkillRegistry
from skill_kernel.skills.skill import SkillDefinitionError

KIND = "routine"
ACTIONS = (("test", "revoke"), ("test", "approve"))
"""Actions on a routine that stands, and on one that was revoked."""


class RoutineRules:
    """Hold the routines of a robot whose data is on this machine. Safe to use from several threads."""

    def __init__(self, config: RobotConfig, folder: Path) -> None:
        self._config = config
        self._store = RoutineStore(folder / config.name / "routines.json", clock=time.time)

    def rules(self) -> list[dict[str, Any]]:
        """Return them as the page shows rules."""
        return [_rule(routine) for routine in self._store.list(revoked=True)]

    def do(self, action: str, name: str, person: str) -> tuple[bool, str]:
        """Do one of ACTIONS. Return whether it was done, or what was tried would be performed, and a sentence."""
        try:
            if action == "test":
                return self._tried(name)
            if action == "approve":
                self._store.approve(name)
            else:
                self._store.revoke(name, person)
        except (RoutineError, ParseError, RegistryError, SkillDefinitionError) as error:
            return False, str(error)
        return True, ""

    def _tried(self, name: str) -> tuple[bool, str]:
        """Check each call of a routine against the robot's skills as they are on disk now. Nothing is performed."""
        routine = self._store.get(name)
        if routine is None:
            raise RoutineError(f"there is no routine '{shown(name)}'")
        mapper = Mapper(self._config, SkillRegistry.from_modules(self._config.skills, text_skill=self._config.text_skill))
        parser = StreamingParser("lenient")
        tokens = [*parser.feed(routine.source), *parser.close()]
        calls = [token for token in tokens if token.kind in (TokenKind.AF, TokenKind.SCF)]
        faults = [f"{token.name}: {fault}" for token in calls if (fault := self._fault(mapper, token))]
        if faults:
            return False, f"{len(faults)} of {len(calls)} calls would be refused: {'; '.join(faults)}"[:MAX_TEXT]
        told = ", ".join(call_label(token.name, token.attrs) for token in calls) or "it only says something"
        return True, f"each call fits {self._config.name}: {told}"[:MAX_TEXT]

    def _fault(self, mapper: Mapper, token: FunctionToken) -> str:
        if token.name == "run" and (inner := token.attrs.get("name", token.attrs.get("id"))):
            routine = self._store.get(inner)
            return f"there is no routine '{shown(inner)}'" if routine is None else routine.refusal
        mapped = mapper.map(token.name, token.attrs)
        return mapped.message if isinstance(mapped, Refusal) else ""


def _rule(routine: Routine) -> dict[str, Any]:
    revoked = [["revoked by", routine.revoked_by]] if routine.revoked_by else []
    return {
        "name": routine.name,
        "text": routine.description,
        "state": "revoked" if revoked else "approved",
        "detail": [["code", routine.source[:MAX_TEXT]], *revoked],
        "actions": list(ACTIONS[bool(revoked)]),
    }
