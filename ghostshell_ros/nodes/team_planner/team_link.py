# SPDX-License-Identifier: Apache-2.0
"""Carry out what a team's process scheduler commands, on every robot that has calls of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ghostshell_ros.nodes.team_planner.team_member import TeamCall, TeamMember
from ghostshell_ros.runtime.node import RuntimeNode
from skill_kernel.processes.process import Process
from skill_kernel.processes.scheduler import ProcessScheduler


class TeamLink:
    """Implement `RobotCommands` for a team; `interrupt_plan` tells the planner that a plan is void. Executor's thread only.

    The robots' kernels know calls and no processes: a process holds no subsystem between two calls, and epochs count here.
    """

    core: ProcessScheduler
    """Set by the owner."""

    def __init__(
        self,
        node: RuntimeNode,
        members: Mapping[str, TeamMember],
        *,
        on_change: Callable[[Process], None],
        on_amend: Callable[[Process], None],
        interrupt_plan: Callable[[str, str], None],
    ) -> None:
        self._node, self._members, self._interrupt_plan = node, members, interrupt_plan
        self.changed, self.amended = on_change, on_amend

    def calls(self, process_id: str) -> Iterator[tuple[TeamMember, TeamCall]]:
        """Yield the unfinished calls of a process, each with its robot."""
        for member in self._members.values():
            for call in list(member.calls.values()):
                if call.process_id == process_id:
                    yield member, call

    def stop(self, process_id: str, cause: str, then: Callable[[], None]) -> None:
        """Stop the calls of a process; `then` is called once every kernel has been told or is out of reach."""
        calls = list(self.calls(process_id))
        arrived = _Gathering(self._node, len(calls), lambda _: then())
        for member, call in calls:
            member.stop(call, cause, lambda: arrived.add([]))

    # -- what the core asks for ---------------------------------------------------------------------------------------

    def end(self, process_id: str, cause: str) -> None:
        """Stop whatever a process does."""
        self.stop(process_id, cause, lambda: None)

    def release(self, process_id: str) -> None:
        """Do nothing: each call has freed what it held."""

    def pause(self, process_id: str, cause: str) -> None:
        """Add a pause cause to the calls that are at a kernel; those not sent yet go on waiting."""
        calls = [(member, call) for member, call in self.calls(process_id) if not call.waits]
        stopped = _Gathering(self._node, len(calls), lambda found: self.core.paused(process_id, found))
        for member, call in calls:
            member.pause(call, cause, stopped.add)

    def resume(self, process_id: str, cause: str) -> None:
        """Remove a pause cause, also from calls that reached the kernel later and are held back by it."""
        calls = [(member, call) for member, call in self.calls(process_id) if call.paused]
        holders = _Gathering(self._node, len(calls), lambda found: self.core.resumed(process_id, cause, not found, found))
        for member, call in calls:
            member.resume(call, cause, holders.add)

    def void_plan(self, process_id: str, cause: str) -> None:
        """Void everything planned so far."""
        self._interrupt_plan(process_id, cause)
        self.stop(process_id, cause, lambda: self.core.interrupted(process_id, self.core.epoch + 1))


class _Gathering:
    """Collect `count` answers, then pass on the names in them; for none, on the next turn of the executor."""

    def __init__(self, node: RuntimeNode, count: int, then: Callable[[list[str]], None]) -> None:
        self._left, self._found, self._then = count, list[str](), then
        if not count:
            node.call_soon(then, self._found)

    def add(self, found: Sequence[str]) -> None:
        """Take one answer."""
        self._found += found
        self._left -= 1
        if not self._left:
            self._then(self._found)
