# SPDX-License-Identifier: Apache-2.0
"""Name the places of Kalos's building, from its YAML file, and the things that it can see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from skill_kernel.robot import RobotConfig

CONFIG = RobotConfig.load("kalos")
PLACES = tuple(CONFIG.waypoints)
HALLWAY = tuple(name for name in PLACES if name.startswith("hallway"))
ROOMS = tuple(name for name in PLACES if name not in HALLWAY)

if TYPE_CHECKING:
    Place = str
else:
    Place = Literal[PLACES]
Thing = Literal["ball", "apple", "bottle", "person", "chair"]
