# SPDX-License-Identifier: Apache-2.0
"""Let people halt a team as they halt a robot: each of its robots at that robot's own gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ghostshell.srv import ControlHalt
from rclpy.task import Future
from std_srvs.srv import Trigger

from ghostshell_ros.halt_door import HaltDoor
from ghostshell_ros.nodes.team_planner.team_member import TeamMember
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.signing import Doorkeeper
from skill_kernel.config.sections import CAUSE_CHARS, shown
from skill_kernel.roles import Caller


class HaltDoors:
    """Serve `halt`, `request_halt` and `control_halt`, and halts by programs of this machine.

    A halt is cleared at each robot by itself, by who may there: somebody has to look at it first.
    """

    def __init__(self, node: RuntimeNode, members: Mapping[str, TeamMember]) -> None:
        self._node, self._members = node, members
        node.create_service(Trigger, "halt", self._on_halt)
        for name in ("control_halt", "request_halt"):
            door = Doorkeeper(node, name)
            node.create_service(ControlHalt, name, lambda asked, answer, door=door: self._on_control(door, asked, answer))
        self._door = self._open_door()

    def close(self) -> None:
        """Serve no more."""
        if self._door is not None:
            self._door.close()

    def halt(self, cause: str, then: Callable[[bool, str], object] = lambda *_: None) -> None:
        """Halt every robot. `then` hears whether each obeys, and a sentence on it, once all have answered or cannot."""
        obey: dict[str, bool] = {}

        def answered(name: str, obeys: bool) -> None:
            obey[name] = obeys
            if len(obey) == len(self._members):
                halted = [one for one in self._members if obey[one]]
                deaf = [f"{one} does not obey; use its own emergency stop" for one in self._members if not obey[one]]
                how = "; ".join(f"ghostshell clear --robot {one}" for one in halted)
                told = [f"halted: {', '.join(halted)}; when it is safe to move again: {how}"] if halted else []
                then(not deaf, "; ".join([*deaf, *told]))

        for name, member in self._members.items():
            member.halt(cause, partial(answered, name))

    @property
    def standing(self) -> bool:
        """Return whether every robot is halted, or is being halted."""
        return all(member.stands for member in self._members.values())

    @property
    def causes(self) -> str:
        """Return why robots are halted, each with its name."""
        halted = [m for m in self._members.values() if m.stands]
        return "; ".join(f"{m.name} is halted{f' ({m.halt_cause})' if m.halt_cause else ''}" for m in halted)

    @property
    def how_to_clear(self) -> str:
        """Return how the robots that are halted are cleared."""
        return ", ".join(f"ghostshell clear --robot {m.name}" for m in self._members.values() if m.stands)

    def _open_door(self) -> HaltDoor | None:
        domain, team = str(self._node.context.get_domain_id()), self._node.get_namespace().strip("/")

        def on_halt(who: str, cause: str, answer: Callable[[str], None]) -> None:
            self._node.call_soon(self.halt, _told(who, cause), lambda obey, text: answer(text) if obey else None)

        try:
            return HaltDoor(domain, team, on_halt)
        except OSError as error:
            self._node.get_logger().warning(f"ghostshell halt reaches this team by ROS alone, which takes seconds: {error}")
            return None

    async def _on_halt(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success, response.message = await self._halted("somebody called halt of the team")
        return response

    async def _on_control(
        self, door: Doorkeeper, request: ControlHalt.Request, response: ControlHalt.Response
    ) -> ControlHalt.Response:
        caller: Caller = door.caller(request)
        response.success = request.command != request.CLEAR
        if request.command == request.HALT:
            response.success, response.message = await self._halted(_told(caller.who, request.cause))
        elif request.command == request.CLEAR:
            response.error_code = request.NOT_PERMITTED
            how = self.how_to_clear or "none is halted"
            response.message = f"look at each robot of the team and clear its own halt: {how}"
        else:
            response.message = self.causes
        response.halted = self.standing
        return response

    async def _halted(self, cause: str) -> tuple[bool, str]:
        future: Future = Future(executor=self._node.executor)
        self.halt(cause, lambda obey, text: future.set_result((obey, text)))
        answer: tuple[bool, str] = await future
        return answer


def _told(who: str, cause: str) -> str:
    return f"{who} halted the team{f': {shown(cause, CAUSE_CHARS)}' if cause else ''}"
