# SPDX-License-Identifier: Apache-2.0
"""Describe what goes into the kernel and comes out of it: calls, answers, results and its state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skill_kernel.codes import CallCode, LeaseCode, Outcome


@dataclass(frozen=True)
class CallSpec:
    """Ask for one typed call of a skill (SkillCall.msg).

    `channels` are the scheduling channels it claims. An `open` call runs until it is reset. With `streams_content` its
    character data follows through `Kernel.content`.
    """

    process_id: str
    call_id: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    stream_id: str = ""
    parent_id: str = ""
    epoch: int = 0
    channels: tuple[str, ...] = ()
    open: bool = False
    streams_content: bool = False

    @property
    def about(self) -> dict[str, Any]:
        """Return the fields of an event that say which call it is about."""
        return {name: getattr(self, name) for name in ("process_id", "stream_id", "call_id", "function", "channels")}


@dataclass(frozen=True)
class Refused:
    """Answer that the call does not run; no result follows.

    With SUBSYSTEM_HELD, `holder` is the process that has the subsystem: the call may be tried again once the state shows it
    free; with PROCESS_PAUSED, once its process has no cause left.
    """

    code: CallCode
    message: str
    holder: str = ""


@dataclass(frozen=True)
class CallResult:
    """Tell how a call ended (law C10). `error` says what is wrong and what to do, `message` is the skill's report, `value`
    what it returns to its caller as JSON ("" for nothing).

    Times are seconds of the kernel's clock; `start_s` is -1 when the skill was stopped before its first statement.
    """

    outcome: Outcome
    code: int = CallCode.NONE
    error: str = ""
    message: str = ""
    start_s: float = -1.0
    end_s: float = -1.0
    value: str = ""


DONE = CallResult(Outcome.DONE)


@dataclass(frozen=True)
class Interruption:
    """Tell what an interrupt did: goals of an epoch older than `epoch` are void, `stopped` calls were running, and
    `uncertain` ones had not stopped within their stop time before.
    """

    epoch: int
    stopped: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeaseAnswer:
    """Answer a request about a process.

    `holders` are processes that hold, or with a preemption held, the subsystems; `paused` calls wait for the resume,
    `stopped` ones end because they cannot.
    """

    code: LeaseCode = LeaseCode.NONE
    message: str = ""
    holders: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()


@dataclass(frozen=True)
class SubsystemState:
    """Show a physical resource, the process that uses or keeps it ("" when it is free) and the calls that run on it."""

    name: str
    exclusive_per_process: bool
    parallel: bool
    process_id: str = ""
    call_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProcessHoldState:
    """Show what the kernel keeps for a process (ProcessHold.msg)."""

    process_id: str
    subsystems: tuple[str, ...] = ()
    pause_causes: tuple[str, ...] = ()
    paused_calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelSnapshot:
    """Show the kernel's state at one moment. `running` are call ids in the order they started, `calling` their processes."""

    halted: bool
    halt_cause: str
    skills_version: str
    subsystems: tuple[SubsystemState, ...]
    running: tuple[str, ...]
    processes: tuple[ProcessHoldState, ...] = ()
    calling: tuple[str, ...] = ()
