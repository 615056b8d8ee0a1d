# SPDX-License-Identifier: Apache-2.0
"""Define what the arm at the table can do: the functions of Code as Policies' tabletop (incremental learning, section 4.1)."""

from threading import Event
from typing import Annotated, Any, TypeAlias

from annotated_types import Len

from ghostshell_ros.arms.skills import STOP_S, TAKE_S
from ghostshell_ros.arms.skills import speak as speak
from ghostshell_ros.robots.asking import ask as ask
from skill_kernel import SkillReturn, robot_skill

Position: TypeAlias = Annotated[list[float], Len(2, 2)]


@robot_skill(subsystem=(), decides=True, nominal_s=0.1)
def get_obj_names(*, body: Any) -> SkillReturn:
    """Return the names of all blocks and bowls on the table, such as 'blue block' or 'red bowl'."""
    return SkillReturn.success(value=body.names())


@robot_skill(subsystem=(), decides=True, nominal_s=0.1)
def get_obj_pos(name: str, *, body: Any) -> SkillReturn:
    """Return where a block or bowl is: [x, y] in metres, x to the right and y away from the robot."""
    return body.position(name)


@robot_skill(subsystem=(), decides=True, nominal_s=0.1)
def denormalize_xy(position: Position, *, body: Any) -> SkillReturn:
    """Return the [x, y] in metres of a position on the table that is given from 0 to 1: x from left to right, y from bottom
    (near the robot) to top."""
    return SkillReturn.success(value=list(body.area.denormalised(position)))


@robot_skill(subsystem="arm", nominal_s=2 * TAKE_S, stop_s=STOP_S)
def put_first_on_second(first: str, second: Position | str, *, body: Any, stop_evt: Event) -> SkillReturn:
    """Take a block and put it on another thing, named, or at a position [x, y] in metres."""
    return body.put_on(first, second, stop_evt)
