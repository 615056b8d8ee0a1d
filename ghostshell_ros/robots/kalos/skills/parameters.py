# SPDX-License-Identifier: Apache-2.0
"""Define what Kalos's skills share: places and things, parameter types, with limits from its YAML file, and stop times."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from skill_kernel import Limited
from skill_kernel.robot import RobotConfig

CONFIG = RobotConfig.load("kalos")
assert CONFIG.base is not None
BASE = CONFIG.base
PLACES = tuple(CONFIG.waypoints)
HALLWAY = tuple(name for name in PLACES if name.startswith("hallway"))
ROOMS = tuple(name for name in PLACES if name not in HALLWAY)

if TYPE_CHECKING:
    Place = str
else:
    Place = Literal[PLACES]
Thing = Literal["ball", "apple", "bottle", "person", "chair"]


STOP_S = 0.5
"""Time to stop: a driver call returns within 0.2 s, and the base then has to brake."""

Metres = Annotated[float, Field(ge=0, le=50, description="m"), Limited("walk_m")]
Sideways = Annotated[float, Field(ge=0, le=10, description="m"), Limited("strafe_m")]
Degrees = Annotated[float, Field(ge=-1080, le=1080, description="deg"), Limited("turn_deg")]
Near = Annotated[float, Field(ge=0.3, le=5, description="m"), Limited("keep_off_m")]
Seconds = Annotated[float, Field(ge=1, le=600, description="s"), Limited("duration_s")]


def way_s(metres: float, *, slower: float = 1.0) -> float:
    """Return the seconds that a way takes at the base's usual speed."""
    return 1.0 + abs(metres) / (BASE.cruise_linear * slower)


def turn_s(radians: float) -> float:
    """Return the seconds that a turn takes at the base's usual speed."""
    return 1.0 + abs(radians) / BASE.cruise_turn
