# SPDX-License-Identifier: Apache-2.0
"""Define what Atlas can do: with what is on the table, in the drawers beside it and in the bin."""

from pathlib import Path

from ghostshell_ros.arms.scenery import Scenery
from ghostshell_ros.arms.skills import arm_skills
from ghostshell_ros.arms.skills import speak as speak
from ghostshell_ros.robots.asking import ask as ask

KITCHEN = Scenery.read(Path(__file__).parents[2] / "sim" / "worlds" / "kitchen.xml")
DRAWERS = ("drawer_top", "drawer_middle")

open_, close, pick_from, release_to = arm_skills(KITCHEN, DRAWERS, ("table", *DRAWERS, "trash_can"), subsystems=("arm",))
