# SPDX-License-Identifier: Apache-2.0
"""Hold calls and streams of function tokens with their states, and say who carries calls out (GhostShell 3.4.2, law C10) and
who knows whether the condition of a branch holds (TypeGo 6, System 1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any, Protocol

from pydantic_core import to_json

from function_tokens.builtins import BRANCHES
from function_tokens.parsing.tokens import FunctionToken
from skill_kernel.calls import CallResult
from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, CallKind
from skill_kernel.skills.skill import Skill

PHRASE_BOUNDARY = re.compile(r"[.!?,;:…\n。！？，、；：—]|\s\S{0,40}\s\S{0,40}\s\S{0,40}\s")
"""A boundary at which speech may begin (law C4): punctuation, or a few words of a sentence that goes on."""

PHRASE_REACH = 130
"""Characters before a new piece that can belong to a boundary which ends in it."""


class FrameKind(Enum):
    """Tell what an open element is to the calls inside it."""

    CALL = "call"
    WRAPPER = "wrapper"
    """Means nothing to them; also an element inside one that has ended already."""
    REFUSED = "refused"
    SAVE = "save"


@dataclass
class Frame:
    """Hold one open element.

    `recorded` collects the tokens inside `save`, `faults` what is wrong with them; in a refused element `faults` says why
    the turn ends with it. `branched` is true once an `if` has stood right inside it.
    """

    kind: FrameKind
    name: str
    call: Call | None = None
    recorded: list[FunctionToken] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    depth: int = 0
    branched: bool = False


@dataclass(eq=False)
class Stream:
    """Hold one answer of a model. `reason` tells how its turn ends once `closed`: end, observe, plan_done, failure, interrupt.

    A stream of a `turn` was planned without knowledge of what happened after that turn began. `plans` is true once it has
    written steps; `step` is the one being read, `unfinished` those whose end tag the parser had to add. `superseded` says
    why only the rest of what is open is still taken from it. `deciding` is the function behind which the answer ends, once
    no element around it is open any more.
    """

    stream_id: str
    epoch: int = 0
    strict: bool = False
    turn: int = 0
    frames: list[Frame] = field(default_factory=list)
    utterance: Call | None = None
    held_space: str = ""
    phrase: str = ""
    unspoken: bool = False
    closed: bool = False
    reason: str = ""
    code: int = 0
    error: str = ""
    live: int = 0
    run_stack: list[str] = field(default_factory=list)
    expanded: int = 0
    last_token_s: float = 0.0
    watched: bool = False
    turn_over: bool = False
    deadline_passed: bool = False
    plans: bool = False
    step: Call | None = None
    unfinished: list[Call] = field(default_factory=list)
    superseded: str = ""
    deciding: str = ""

    @property
    def inner(self) -> Frame | None:
        """Return the frame of the innermost open call."""
        for frame in reversed(self.frames):
            if frame.kind is FrameKind.CALL:
                return frame
        return None

    @property
    def parent(self) -> Call | None:
        """Return the innermost open call, which is the parent of the next one."""
        inner = self.inner
        return inner.call if inner is not None else None

    @property
    def around(self) -> Iterator[Call]:
        """Yield the open calls around the next token, the innermost first."""
        parent = self.parent
        if parent is not None:
            yield parent
            yield from parent.ancestors

    @property
    def top(self) -> Frame | None:
        """Return the frame of the innermost open element."""
        return self.frames[-1] if self.frames else None


TEXT = "text"
"""Function name under which spoken text appears."""


class CallState(Enum):
    """Tell where a call stands between its token and its outcome."""

    QUEUED = "queued"
    """Waits for its channels, its parent or its first phrase."""
    STARTING = "starting"
    """Handed to the executor, which has not said yet that it runs."""
    RUNNING = "running"
    ENDED = "ended"


class Role(Enum):
    """Tell what a call is to the scheduler."""

    SKILL = "skill"
    TEXT = "text"
    BUILTIN = "builtin"


@dataclass(eq=False)
class Call:
    """Hold one call of a process. Identity counts, not content; only the scheduler changes it.

    `channels` are the scheduling channels it claims, `subsystems` the physical resources the kernel must give it.
    `open` is true for an activation token whose lifecycle ends with its reset; `closed` once that reset (or the end of
    its content) has been read. `ending` is what a built-in without a body of its own ends with; None stands for DONE.
    `inside` are the living calls right inside it, by `seq` and in that order. Of the branches right inside it, if it
    `has_branches`, one is the `taken_branch`; `broken_branch` says why those behind a refused or undecided one must not
    run. Times are seconds on the scheduler's clock, None until they happen.
    """

    call_id: str
    seq: int
    stream_id: str
    epoch: int
    function: str
    role: Role
    arguments: dict[str, Any]
    channels: frozenset[str]
    subsystems: tuple[str, ...]
    parent: Call | None
    skill: Skill | None = None
    open: bool = False
    takes_content: bool = False
    closed: bool = False
    exclusive: bool = False
    content: list[str] = field(default_factory=list)
    content_ready: bool = True
    state: CallState = CallState.QUEUED
    stopping: bool = False
    held: str = ""
    body_result: CallResult | None = None
    ending: CallResult | None = None
    inside: dict[int, Call] = field(default_factory=dict)
    has_branches: bool = False
    taken_branch: Call | None = None
    broken_branch: str = ""
    start_s: float | None = None
    end_s: float | None = None
    result: CallResult | None = None

    @property
    def live(self) -> bool:
        """Return whether the call has no outcome yet."""
        return self.state is not CallState.ENDED

    @property
    def decides(self) -> bool:
        """Return whether what comes next depends on its result."""
        return self.skill is not None and self.skill.decides

    @property
    def unbegun(self) -> bool:
        """Return whether nothing of it has begun: it waits, or its condition is being asked."""
        return self.state is CallState.QUEUED or (self.state is CallState.STARTING and self.role is Role.BUILTIN)

    @property
    def takes_more(self) -> bool:
        """Return whether calls inside it may still run."""
        return self.live and (self.body_result is None or self.body_result.outcome is Outcome.DONE)

    @property
    def descendants(self) -> Iterator[Call]:
        """Yield the living calls inside it, however deep, in token order of each element."""
        for call in list(self.inside.values()):
            yield call
            yield from call.descendants

    @property
    def ancestors(self) -> Iterator[Call]:
        """Yield the elements around it, the innermost first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def text(self) -> str:
        """Return its character data so far."""
        return "".join(self.content)

    @property
    def args_shown(self) -> dict[str, Any]:
        """Return the arguments as events and the dry run show them, the content under its parameter's name."""
        if self.role is Role.TEXT:
            return {"text": self.text}
        return self.arguments_with_content

    @property
    def arguments_with_content(self) -> dict[str, Any]:
        """Return the arguments as the skill gets them: text given as an attribute comes before the character data."""
        if self.skill is None or self.skill.content is None:
            return dict(self.arguments)
        content = self.skill.content
        return {**self.arguments, content: f"{self.arguments.get(content, '')}{self.text}"}

    @property
    def in_turn(self) -> bool:
        """Return whether it may begin as far as its step goes: a branch waits for everything before it there."""
        if self.function not in IN_TURN:
            return True
        around = [self, *self.ancestors]
        while around and around[-1].function != "step":
            around.pop()
        return all(next(iter(outer.inside)) >= inner.seq for inner, outer in pairwise(around))

    @property
    def left_out(self) -> str:
        """Return why a branch right inside it does not run whatever its condition says, "" when it may."""
        if self.taken_branch is not None:
            return "another branch was taken"
        return f"a branch before it was refused: {self.broken_branch}" if self.broken_branch else ""

    def break_branches(self, why: str) -> None:
        """Note that a branch right inside it was refused: those behind that must not run as if it had not held."""
        if self.live:
            self.has_branches, self.broken_branch = True, why

    @property
    def root(self) -> Call:
        """Return the outermost element around it, or the call itself."""
        return [self, *self.ancestors][-1]

    def event(self, kind: CallKind, process_id: str, now_s: float) -> CallEvent:
        """Return the event that tells where the call stands now, its subsystems first among the channels."""
        result = self.result if kind is CallKind.ENDED else None
        return CallEvent(
            kind=kind,
            process_id=process_id,
            stamp_s=now_s,
            stream_id=self.stream_id,
            call_id=self.call_id,
            parent_id=self.parent.call_id if self.parent is not None else "",
            function=self.function,
            args_json=to_json(self.args_shown, fallback=str).decode(),
            channels=self.channels_shown,
            outcome=result.outcome if result else None,
            error_code=int(result.code) if result else 0,
            error_msg=result.error if result else "",
            message=result.message if result else "",
            value_json=result.value if result else "",
            start_s=-1.0 if self.start_s is None or result is None else self.start_s,
            end_s=-1.0 if self.end_s is None or result is None else self.end_s,
        )

    @property
    def channels_shown(self) -> tuple[str, ...]:
        """Return the channels in an order that does not change, the subsystems first."""
        own = [name for name in self.subsystems if name in self.channels]
        return tuple(dict.fromkeys([*own, *sorted(self.channels)]))


IN_TURN = BRANCHES | {"subtask_complete"}
"""Built-ins that begin when everything before them in their step has ended, whatever channel it is on."""


@dataclass(frozen=True)
class Verdict:
    """Answer whether a condition holds; None when nobody can tell, and then `reason` says why."""

    holds: bool | None
    reason: str = ""


Answer = Callable[[Verdict], None]


class ConditionSource(Protocol):
    """Know what is true now."""

    def fault(self, condition: str) -> str:
        """Return why a condition cannot be asked as it stands, "" when it can. Looks at no observation."""

    def ask(self, condition: str, answer: Answer, process_id: str) -> None:
        """Find out for a process, and answer once, from within this call or later, on the scheduler's thread.

        A late answer is ignored.
        """


def constant(condition: str) -> bool | None:
    """Return whether a condition holds that asks nothing; None for one that does ask."""
    return {"always": True, "true": True, "never": False, "false": False}.get(condition.strip().lower())


class Executor(Protocol):
    """Carry calls out (GhostShell 3.4.4). Answers come back through the scheduler's `started`, `held` and `ended`,
    from within these calls or later, on the scheduler's thread. Each started call gets exactly one `ended`."""

    def start(self, call: Call) -> None:
        """Begin it. The content known so far is in `call.content`."""

    def content(self, call: Call, text: str, last: bool) -> None:
        """Take more character data of a call that was started."""

    def reset(self, call: Call) -> None:
        """End it as DONE: condition-based termination (law C5)."""

    def stop(self, call: Call, cause: str) -> None:
        """End it as INTERRUPTED within its stop time: event-driven termination (law C9)."""
