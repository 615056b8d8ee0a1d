# SPDX-License-Identifier: Apache-2.0
"""Collect a robot's skills from modules or a file, and replace them while the system runs."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from skill_kernel.skills.arguments import converters
from skill_kernel.skills.skill import Skill, SkillDefinitionError

SYNC = "sync"
"""Attribute every call may carry (law C8); the scheduler takes it, so no skill may have a parameter of that name."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class RegistryError(ValueError):
    """Report a skill set that cannot be used: a module does not import, or two skills share a name."""


class SkillRegistry:
    """Hold skills by name, in the order they were defined.

    `text_skill` is the skill that plain text of a stream goes to, if there is one; `version` a hash of names and signatures,
    the same in every process that loaded the same skills. The set is exchanged as a whole by `replace_from_modules` or
    `replace`: a reader sees the old set or the new one, never a mixture, and a set that cannot be loaded leaves the old one
    in place.
    """

    def __init__(self, skills: Iterable[Skill] = (), *, text_skill: str = "") -> None:
        self._skills: dict[str, Skill] = {}
        for skill in skills:
            other = self._skills.get(skill.name)
            if other is not None:
                raise RegistryError(f"skill '{skill.name}' is defined twice: {_where(other)} and {_where(skill)}")
            if SYNC in skill.signature.parameters:
                raise RegistryError(
                    f"skill '{skill.name}' ({_where(skill)}) may not have a parameter '{SYNC}': every call has it"
                )
            try:
                converters(skill)
            except SkillDefinitionError as error:
                raise RegistryError(f"{error} ({_where(skill)})") from error
            self._skills[skill.name] = skill
        self.text_skill = self._pick_text_skill(text_skill)
        lines = sorted(f"{s.name}{_ADDRESS.sub('', str(s.signature))}" for s in self._skills.values())
        self.version = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    @classmethod
    def from_modules(cls, modules: Sequence[str], *, text_skill: str = "") -> SkillRegistry:
        """Return the functions declared with `robot_skill` in these modules.

        `text_skill` names the skill that plain text goes to (default: the one declared with `speaks_text`). Raises
        RegistryError when a module does not import, two skills share a name, or `text_skill` is not among them.
        """
        return cls(_collect(map(_module_named, modules)), text_skill=text_skill)

    def replace(self, other: SkillRegistry) -> None:
        """Take over another registry's set. Calls already running keep the skill they were started with."""
        self.__dict__ = dict(vars(other))

    def replace_from_modules(
        self, modules: Sequence[str], *, text_skill: str = "", check: Callable[[SkillRegistry], None] = lambda registry: None
    ) -> None:
        """Read the modules, and those below them, again from disk and take their skills.

        On RegistryError, which `check` may raise of the new set as well, the present one stays.
        """
        importlib.invalidate_caches()
        before = {name: sys.modules.pop(name) for name in _loaded(modules)}
        for module in before.values():
            if module.__file__ is not None:
                _forget_bytecode(module.__file__)
        try:
            new = SkillRegistry.from_modules(modules, text_skill=text_skill)
            check(new)
            self.replace(new)
        except RegistryError:
            for name in _loaded(modules):
                del sys.modules[name]
            sys.modules.update(before)
            raise

    def get(self, name: str) -> Skill | None:
        return self._skills.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names in the order of definition."""
        return tuple(self._skills)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._skills.values())

    def __len__(self) -> int:
        return len(self._skills)

    def __contains__(self, name: object) -> bool:
        return name in self._skills

    def _pick_text_skill(self, wanted: str) -> Skill | None:
        if wanted:
            if wanted not in self._skills:
                raise RegistryError(f"text_skill '{wanted}' is not among the skills ({', '.join(self._skills) or 'none'})")
            return self._skills[wanted]
        speaking = [s for s in self._skills.values() if s.speaks_text]
        if len(speaking) > 1:
            raise RegistryError(f"several skills speak text ({', '.join(s.name for s in speaking)}); name one as text_skill")
        return speaking[0] if speaking else None


def _loaded(modules: Sequence[str]) -> list[str]:
    """Return the names of these modules and of what lies below them, as far as they are imported."""
    return [name for name in sys.modules if any(name == m or name.startswith(m + ".") for m in modules)]


def _module_named(name: str) -> ModuleType:
    """Import a module of skills; raises RegistryError that names it and the fault."""
    try:
        return importlib.import_module(name)
    except SkillDefinitionError as error:
        raise RegistryError(f"module '{name}': {error}") from error
    except (Exception, SystemExit) as error:
        raise RegistryError(f"module '{name}' cannot be loaded ({type(error).__name__}: {error})") from error


def _forget_bytecode(source: str | Path) -> None:
    """Remove the compiled form of a file: Python tells two edits within one second apart by the file's size alone."""
    with suppress(OSError, NotImplementedError):
        Path(importlib.util.cache_from_source(source)).unlink()


def _collect(modules: Iterable[ModuleType]) -> Iterator[Skill]:
    seen: set[int] = set()
    for module in modules:
        _refuse_shadowed(module)
        for value in list(vars(module).values()):
            skill = getattr(value, "__robot_skill__", None) if callable(value) else None
            if isinstance(skill, Skill) and id(skill) not in seen:
                seen.add(id(skill))
                yield skill


def _refuse_shadowed(module: ModuleType) -> None:
    """Refuse two functions of one name in a module: Python keeps the second, and the first would vanish without a word."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return
    lines: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any("robot_skill" in ast.unparse(d) for d in node.decorator_list):
            if node.name in lines:
                file = module.__file__
                raise RegistryError(f"skill '{node.name}' is defined twice: {file}:{lines[node.name]} and {file}:{node.lineno}")
            lines[node.name] = node.lineno


def _where(skill: Skill) -> str:
    code = getattr(skill.function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else skill.function.__module__
