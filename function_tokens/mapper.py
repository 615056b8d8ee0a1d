# SPDX-License-Identifier: Apache-2.0
"""Map function tokens to typed calls: the dynamic function interface mapper (GhostShell 3.4.2, semantics section 2)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from function_tokens.builtins import BUILTINS, RESERVED, STEP_ALIASES, STEP_BUILTINS, STEP_LABELS
from function_tokens.parsing.tokens import NO_VALUE
from skill_kernel.codes import CallCode
from skill_kernel.config.sections import nearest, shown
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.arguments import BOOLEANS, ArgumentError, bind
from skill_kernel.skills.registry import SYNC, SkillRegistry
from skill_kernel.skills.skill import MAIN, Skill, SkillDefinitionError


@dataclass(frozen=True)
class Mapped:
    """Hold a token resolved to a function with typed arguments. `channels` holds main as well when `sync` was set, or the
    skill decides."""

    function: str
    skill: Skill
    builtin: bool
    arguments: dict[str, Any]
    channels: frozenset[str]
    subsystems: tuple[str, ...]
    exclusive: bool
    clamped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """Tell why a token cannot become a call. `ends_turn` when it stood for motion on an exclusive subsystem, or for what nobody
    knows (law C11)."""

    function: str
    code: CallCode
    message: str
    ends_turn: bool
    channels: frozenset[str] = frozenset()


@dataclass
class Mapper:
    """Resolve tokens against a robot's skill set, which may be replaced at any time by assigning `registry`.

    `exclusive` tells per subsystem whether only one process may use it; an unknown subsystem counts as exclusive.
    `parallel` names those that run several calls at a time. Raises SkillDefinitionError when a skill takes a reserved name.
    """

    robot: RobotConfig
    registry: SkillRegistry
    exclusive: Mapping[str, bool] = field(init=False)
    parallel: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        subsystems, names = self.robot.subsystems.items(), self.robot.builtin_names
        self.exclusive = {MAIN: False, **{name: s.exclusive_per_process for name, s in subsystems}}
        self.parallel = frozenset(name for name, s in subsystems if s.parallel)
        taken = sorted((RESERVED | set(names)) & set(self.registry.names))
        if taken:
            raise SkillDefinitionError(f"skill '{taken[0]}' has the name of a built-in; give it another one")
        unknown = sorted(set(names.values()) - set(BUILTINS))
        if unknown:
            raise SkillDefinitionError(f"builtin_names: there is no built-in '{unknown[0]}'; known: {', '.join(BUILTINS)}")

    def fault(self, name: str, attrs: Mapping[str, str]) -> str:
        """Return what is wrong with a call as a stream would write it, "" when it can be performed."""
        mapped = self.map(name, attrs)
        if mapped is None:
            return f"there is no function '{name}'"
        return mapped.message if isinstance(mapped, Refusal) else ""

    def map(self, name: str, attrs: Mapping[str, str], *, strict: bool = False) -> Mapped | Refusal | None:
        """Return what a start tag or an empty-element tag stands for, None for one that only wraps others: its children run as
        if it were not there. Never raises for what a model wrote. Unless `strict`, a value that can only mean one that fits is
        taken for it (semantics 2.2)."""
        builtin = BUILTINS.get(self.robot.builtin_names.get(name, name))
        if builtin is not None:
            return self._bind(builtin, _named(attrs, "id", "name") if builtin.name == "run" else attrs)
        if name == "else" and attrs:
            name, attrs = _else_if(attrs)
        if (builtin := STEP_BUILTINS.get(STEP_ALIASES.get(name, name))) is not None:
            return self._step_builtin(builtin, attrs)
        if (skill := self.registry.get(name)) is not None:
            return self._bind(skill, attrs, mends=not strict)
        if name in self.robot.wrappers:
            return None
        known = [*self.registry.names, *BUILTINS, *self.robot.builtin_names]
        hint = nearest(name, [*known, *STEP_BUILTINS]) or f"; known: {', '.join(known[:40])}"
        meant = self.registry.get(next(iter(difflib.get_close_matches(name[:80], self.registry.names, n=1)), ""))
        ends = meant is None or self._matters(meant)
        return Refusal(name, CallCode.UNKNOWN_FUNCTION, f"there is no function '{shown(name)}'{hint}", ends)

    def _bind(self, skill: Skill, attrs: Mapping[str, str], *, mends: bool = False) -> Mapped | Refusal:
        builtin = skill.name in RESERVED
        try:
            bound = bind(skill, {k: v for k, v in attrs.items() if k != SYNC}, self.robot.limits, mends=mends)
            sync = _sync(attrs)
        except ArgumentError as error:
            ends = not builtin and self._matters(skill)
            declared = frozenset(s for s in skill.subsystems if "{" not in s)
            return Refusal(skill.name, error.code, error.message, ends, declared)
        if skill.name == "stop":
            channel = bound.values["channel"] = str(bound.values["channel"]).strip()
            if fault := self._no_channel(channel):
                return Refusal("stop", CallCode.INVALID_ARGUMENT, fault, ends_turn=False)
        subsystems = skill.subsystems_for(bound.values)
        channels = frozenset(subsystems) | ({MAIN} if sync or skill.decides else frozenset())
        exclusive = not builtin and (skill.decides or self._exclusive(subsystems))
        return Mapped(skill.name, skill, builtin, dict(bound.values), channels, subsystems, exclusive, tuple(bound.clamped))

    def _matters(self, skill: Skill) -> bool:
        """Return whether what follows a call of this skill must not run when it was refused (law C11)."""
        return skill.on_failure == "end_turn" and (skill.decides or self._exclusive(skill.subsystems))

    def _exclusive(self, subsystems: Iterable[str]) -> bool:
        return any(self.exclusive.get(s, True) for s in subsystems)

    def _step_builtin(self, builtin: Skill, attrs: Mapping[str, str]) -> Mapped | Refusal:
        """Resolve a built-in of plans. A refused one ends the turn: what follows it was planned on what it held."""
        if builtin.name == "if":
            attrs = _named(attrs, "condition", "cond")
        if builtin.name == "step":
            attrs = {k: v for k, v in attrs.items() if k not in STEP_LABELS}
        mapped = self._bind(builtin, attrs)
        if isinstance(mapped, Refusal):
            hint = '; write <if cond="…">, cond="always" if there is no condition' if builtin.name == "if" else ""
            return replace(mapped, ends_turn=True, message=mapped.message + hint)
        if builtin.name == "if" and not str(mapped.arguments["cond"]).strip():
            message = 'the condition of <if> is empty; write cond="always" if there is none'
            return Refusal("if", CallCode.INVALID_ARGUMENT, message, ends_turn=True)
        return mapped

    def _no_channel(self, name: str) -> str:
        known = sorted({MAIN, *self.exclusive, *(s for skill in self.registry for s in skill.subsystems)})
        patterns = {k: re.sub(r"\\\{\w+\\\}", r"\\w+", re.escape(k)) for k in known}
        if not name or any(re.fullmatch(p, name) for p in patterns.values()):
            return ""
        channels = [k for k, p in patterns.items() if not any(k != o and re.fullmatch(p, o) for o in known)]
        return f"there is no channel '{shown(name)}' to stop; channels: {', '.join(channels)}"


def _else_if(attrs: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Read `<else if="…">`, `<else cond="…">` and `<else if cond="…">` as the next branch; leave anything else alone."""
    given = {k: v for k, v in attrs.items() if k != "if" or v != NO_VALUE}
    if len(given.keys() & {"if", "cond", "condition"}) != 1:
        return "else", attrs
    return "if", _named(given, "if", "cond")


def _named(attrs: Mapping[str, str], alias: str, name: str) -> Mapping[str, str]:
    """Return the attributes with `name` in the place of `alias`, unless both are given."""
    return attrs if name in attrs else {(name if k == alias else k): v for k, v in attrs.items()}


def _sync(attrs: Mapping[str, str]) -> bool:
    sync = BOOLEANS.get(attrs.get(SYNC, "false").strip().casefold())
    if sync is not None:
        return sync
    raise ArgumentError(CallCode.INVALID_ARGUMENT, f"sync is '{shown(attrs[SYNC])}'; write sync=\"true\" or leave it out")
