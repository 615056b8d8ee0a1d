# SPDX-License-Identifier: Apache-2.0
"""Make the skills of robots with arms (CLEA, table I) out of the names that each robot may use."""

from collections.abc import Callable, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ghostshell_ros.arms.scenery import Scenery, SceneryError
from ghostshell_ros.drivers.speech import say, speaking_s
from skill_kernel import ContentStream, SkillReturn, robot_skill

TAKE_S, SWING_S, GO_S = 14.0, 16.0, 20.0
"""Usual durations: of taking or putting down, of a door, of a way."""
STOP_S, QUIET_S = 0.5, 0.3
"""Times in which an arm and a voice stop."""
OPEN, SHUT = 0.95, 0.0
"""Shares of a door's way that the skills bring it to."""


def arm_skills(
    scenery: Scenery, doors: Sequence[str], spaces: Sequence[str], *, subsystems: Sequence[str]
) -> tuple[Callable[..., SkillReturn], ...]:
    """Return `open`, `close`, `pick_from` and `release_to` for a robot that may use these doors and spaces, and all things.

    Assign them to names of the robot's module of skills; its body is an `ArmBody`. Raises SceneryError for a name that the
    scenery does not have.
    """
    for door in doors:
        scenery.door(door)
    for space in spaces:
        scenery.space(space)
    if TYPE_CHECKING:  # mypy knows no Literal of names that a file gives
        Door: TypeAlias = str
        Thing: TypeAlias = str
        Space: TypeAlias = str
    else:
        Door, Thing, Space = (Literal[tuple(names)] for names in (doors, scenery.things, spaces))

    @robot_skill("open", subsystem=subsystems, nominal_s=SWING_S, stop_s=STOP_S)
    def open_(what: Door, *, body: Any, stop_evt: Event) -> SkillReturn:
        """Open a door or a drawer. The hand must be empty."""
        return body.swing(what, OPEN, stop_evt)

    @robot_skill(subsystem=subsystems, nominal_s=SWING_S, stop_s=STOP_S)
    def close(what: Door, *, body: Any, stop_evt: Event) -> SkillReturn:
        """Close (shut) a door or a drawer. The hand must be empty."""
        return body.swing(what, SHUT, stop_evt)

    @robot_skill(subsystem=subsystems, nominal_s=TAKE_S, stop_s=STOP_S)
    def pick_from(object: Thing, space: Space, *, body: Any, stop_evt: Event) -> SkillReturn:
        """Pick (take, grasp) a thing out of a space. The hand must be empty, and the space's door open."""
        return body.pick(object, space, stop_evt)

    @robot_skill(subsystem=subsystems, nominal_s=TAKE_S, stop_s=STOP_S)
    def release_to(space: Space, *, body: Any, stop_evt: Event) -> SkillReturn:
        """Release (put, place) what the hand holds into a space, whose door must be open."""
        return body.put(space, stop_evt)

    return open_, close, pick_from, release_to


def go_to_skill(scenery: Scenery, points: Sequence[str], *, subsystems: Sequence[str]) -> Callable[..., SkillReturn]:
    """Return `go_to` for a robot with a `MobileArmBody`, to these points. Raises SceneryError for one that is not there."""
    if unknown := [point for point in points if point not in scenery.points]:
        raise SceneryError(f"there is no point '{unknown[0]}'; the points are {', '.join(scenery.points) or 'none'}")
    if TYPE_CHECKING:
        Point: TypeAlias = str
    else:
        Point = Literal[tuple(points)]

    @robot_skill(subsystem=subsystems, nominal_s=GO_S, stop_s=STOP_S)
    def go_to(point: Point, *, body: Any, stop_evt: Event) -> SkillReturn:
        """Go (move, drive) to a place in front of something, with what the hand holds."""
        return body.go_to(point, stop_evt)

    return go_to


@robot_skill(subsystem="voice", nominal_s=lambda text="": speaking_s(text), stop_s=QUIET_S, speaks_text=True)
def speak(text: ContentStream, *, body: Any, stop_evt: Event) -> SkillReturn:
    """Say a text aloud while the robot goes on with what it does. Plain text of the answer is spoken without this tag."""
    return say(text, lambda phrase: body.speak(text=phrase, stop=stop_evt), stop_evt, lambda: not stop_evt.is_set())
