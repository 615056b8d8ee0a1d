# SPDX-License-Identifier: Apache-2.0
"""Define what Kalos can do, one file per kind. The model reads the signatures and docstrings of the functions."""

from ghostshell_ros.robots.kalos.skills.locomotion import move_back, move_forward, nav, rotate, strafe
from ghostshell_ros.robots.kalos.skills.pictures import take_pic
from ghostshell_ros.robots.kalos.skills.places import goto_waypoint, patrol
from ghostshell_ros.robots.kalos.skills.posture import nod, sit, stand
from ghostshell_ros.robots.kalos.skills.seeking import approach, follow, search
from ghostshell_ros.robots.kalos.skills.sound import bark, speak
from ghostshell_ros.robots.remembering import query_memory

__all__ = [
    "approach",
    "bark",
    "follow",
    "goto_waypoint",
    "move_back",
    "move_forward",
    "nav",
    "nod",
    "patrol",
    "query_memory",
    "rotate",
    "search",
    "sit",
    "speak",
    "stand",
    "strafe",
    "take_pic",
]
