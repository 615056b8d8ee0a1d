# SPDX-License-Identifier: Apache-2.0
"""Declare functions as skills with `@robot_skill`, which attaches a skill's description (TypeGo 4, GhostShell 3.2)."""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
Nominal = float | Callable[..., float]

MAIN = "main"
"""Name of the main channel, C0 of the paper: a call on it blocks every later call."""

INJECTED = ("body", "pause_evt", "stop_evt", "kernel", "until_reset")
"""Parameters the kernel fills in. They are no part of the signature a model sees.

`body` is the robot's driver interface, `stop_evt` is a `threading.Event` and `pause_evt` a `PauseEvent` (bring the body to
rest while it is set, then call its `rest`), `kernel` lets a composite skill call others, and `until_reset` is true when
the skill stands as an open element and runs until it is reset.
"""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"[^\W\d][\w.:\-]*")


class SkillDefinitionError(ValueError):
    """Report a skill that the kernel cannot run as it is declared; the message names the skill and the fault."""


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


@dataclass(frozen=True)
class ContentMarker:
    """Mark a parameter that takes the element's character data."""

    streams: bool


Content = Annotated[str, ContentMarker(streams=False)]
"""Annotation of a parameter that receives the whole character data of its element; the skill starts at the end tag."""

ContentStream = Annotated[Iterator[str], ContentMarker(streams=True)]
"""Annotation of a parameter that receives the character data piece by piece while the element is still being written."""


@dataclass(frozen=True)
class Limited:
    """Mark a numeric parameter that is clamped to the robot's limit of that name, whoever asked (semantics 2.2)."""

    limit: str


@dataclass(frozen=True, eq=False)
class Skill:
    """Describe a skill: a typed function and what the runtime must know of it. Built by `robot_skill`."""

    name: str
    function: Callable[..., Any]
    description: str
    subsystems: tuple[str, ...]
    nominal_s: Nominal
    stop_s: float | None
    on_failure: Literal["end_turn", "continue"]
    speaks_text: bool
    signature: inspect.Signature
    content: str | None
    content_streams: bool
    injected: frozenset[str]
    idempotent: bool = False
    remaining: Callable[..., Mapping[str, Any] | None] | None = None
    decides: bool = False
    """What comes next depends on its result, so that a model writes nothing behind it before that is known (semantics 4)."""

    @property
    def interruptible(self) -> bool:
        """Return whether the skill takes `stop_evt`; one that does not is atomic."""
        return "stop_evt" in self.injected

    @property
    def pausable(self) -> bool:
        """Return whether the skill takes `pause_evt`."""
        return "pause_evt" in self.injected

    @property
    def composite(self) -> bool:
        """Return whether it calls other skills."""
        return "kernel" in self.injected

    @property
    def restartable(self) -> bool:
        """Return whether it may be stopped for a pause and called again after it."""
        return self.idempotent or self.remaining is not None

    def subsystems_for(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the subsystems a call with these typed arguments claims, braces filled in, in order, without repeats."""
        names = [_PLACEHOLDER.sub(lambda m: str(plain_value(arguments[m.group(1)])), s) for s in self.subsystems]
        return tuple(dict.fromkeys(names))

    def nominal_for(self, arguments: Mapping[str, Any]) -> float:
        """Return the expected duration of a call with these typed arguments [s]; raises SkillDefinitionError if it is none."""
        value = self.nominal_s
        if callable(value):
            try:
                value = value(**{n: arguments[n] for n in inspect.signature(value).parameters if n in arguments})
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                raise SkillDefinitionError(f"nominal_s of skill '{self.name}' cannot be worked out ({why})") from error
        try:
            seconds = float(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise SkillDefinitionError(f"nominal_s of skill '{self.name}' gave {value!r}, not a number") from error
        if not math.isfinite(seconds) or seconds < 0:
            raise SkillDefinitionError(f"nominal_s of skill '{self.name}' gave {seconds}; it must be finite and not negative")
        return seconds

    def stop_bound_s(self, arguments: Mapping[str, Any]) -> float:
        """Return the longest time a stop may take, in seconds: `stop_s`, or for an atomic skill its whole duration (law C9)."""
        if self.stop_s is not None:
            return self.stop_s
        return 0.0 if self.interruptible else self.nominal_for(arguments)


def robot_skill(
    name: str | None = None,
    desc: str | None = None,
    *,
    subsystem: str | Sequence[str] = "default",
    nominal_s: Nominal = 1.0,
    stop_s: float | None = None,
    on_failure: Literal["end_turn", "continue"] = "end_turn",
    speaks_text: bool = False,
    idempotent: bool = False,
    remaining: Callable[..., Mapping[str, Any] | None] | None = None,
    decides: bool = False,
) -> Callable[[F], F]:
    """Declare a typed function as a skill.

    `name` is the tag the model writes (default: the function's name), `desc` stands in for a missing docstring.
    `subsystem` names the physical resource or resources the skill needs; a parameter in braces makes it follow from
    an argument (`"ear_{side}"`). `nominal_s` is the expected duration in seconds, a number or a function of the
    arguments (by their names). `stop_s` bounds how long a stop takes. `speaks_text` marks the skill that plain text
    of the stream goes to.

    A skill without `pause_evt` is stopped when its process pauses; how it goes on then: `idempotent` calls it anew with
    the same arguments, `remaining(progress, **arguments)` gives those that change, or None when nothing is left, from the
    `progress` in its `SkillReturn.interruption`.

    A skill that `decides` is on main and ends the answer that calls it: what comes next depends on its result. It may use no
    part of the body, `subsystem=()`. Raises SkillDefinitionError when the declaration cannot work.
    """
    if callable(name):
        raise SkillDefinitionError(f"skill '{name.__name__}': write @robot_skill(), with brackets")

    def declare(function: F) -> F:
        own = name or function.__name__
        if not _NAME.fullmatch(own):
            raise SkillDefinitionError(f"skill '{own}' has a name that is no tag; use letters, digits, '_', '-', '.'")
        if inspect.iscoroutinefunction(function):
            raise SkillDefinitionError(f"skill '{own}' is async; a skill blocks, so write 'def' (the kernel gives it a thread)")
        if not callable(nominal_s) and not (isinstance(nominal_s, (int, float)) and 0 <= nominal_s < math.inf):
            raise SkillDefinitionError(f"skill '{own}': nominal_s is {nominal_s!r}; give seconds or a function")
        if stop_s is not None and not (isinstance(stop_s, (int, float)) and 0 <= stop_s < math.inf):
            raise SkillDefinitionError(f"skill '{own}': stop_s is {stop_s!r}; give the seconds that a stop takes at most")
        if on_failure not in ("end_turn", "continue"):
            raise SkillDefinitionError(f"skill '{own}': on_failure is {on_failure!r}; write 'end_turn' or 'continue'")
        signature = _resolved_signature(function, own)
        visible = [p for p in signature.parameters.values() if p.name not in INJECTED]
        for p in visible:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
                raise SkillDefinitionError(f"skill '{own}': parameter '{p.name}' must be a plain named parameter")
        marked = [(p.name, m) for p in visible if (m := content_marker(p.annotation)) is not None]
        if len(marked) > 1:
            raise SkillDefinitionError(f"skill '{own}': only one parameter can take the content, not {[n for n, _ in marked]}")
        if marked and (idempotent or remaining is not None):
            raise SkillDefinitionError(f"skill '{own}' takes character data, which is not there a second time; let it pause")
        subsystems = (subsystem,) if isinstance(subsystem, str) else tuple(subsystem)
        if not subsystems and not decides:
            raise SkillDefinitionError(f"skill '{own}' names no subsystem")
        names = {p.name for p in visible}
        for wanted in (w for s in subsystems for w in _PLACEHOLDER.findall(s)):
            if wanted not in names:
                raise SkillDefinitionError(f"skill '{own}': subsystem uses '{{{wanted}}}', but there is no such parameter")
        function.__robot_skill__ = Skill(  # type: ignore[attr-defined]
            name=own,
            function=function,
            description=inspect.cleandoc(function.__doc__ or desc or ""),
            subsystems=subsystems,
            nominal_s=nominal_s,
            stop_s=stop_s,
            on_failure=on_failure,
            speaks_text=speaks_text,
            signature=signature.replace(parameters=visible),
            content=marked[0][0] if marked else None,
            content_streams=bool(marked and marked[0][1].streams),
            injected=frozenset(p for p in signature.parameters if p in INJECTED),
            idempotent=idempotent,
            remaining=remaining,
            decides=decides,
        )
        return function

    return declare


def content_marker(annotation: Any) -> ContentMarker | None:
    """Return the marker of a parameter annotated with `Content` or `ContentStream`, else None."""
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, ContentMarker):
            return extra
    return None


def plain_value(value: Any) -> Any:
    """Return the value of a member of an Enum; anything else as it is."""
    return value.value if isinstance(value, Enum) else value


def _resolved_signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    signature = inspect.signature(function)
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise SkillDefinitionError(f"skill '{name}': its annotations do not resolve ({error})") from error
    parameters = [p.replace(annotation=hints.get(p.name, str)) for p in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=hints.get("return", inspect.Signature.empty))
