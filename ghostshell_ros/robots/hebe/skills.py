# SPDX-License-Identifier: Apache-2.0
"""Define what Hebe can do: go to the table and along the counter, and use what is there; no drawer and no bin."""

from pathlib import Path

from ghostshell_ros.arms.scenery import Scenery
from ghostshell_ros.arms.skills import arm_skills, go_to_skill
from ghostshell_ros.arms.skills import speak as speak
from ghostshell_ros.robots.asking import ask as ask

KITCHEN = Scenery.read(Path(__file__).parents[2] / "sim" / "worlds" / "kitchen.xml")
DOORS = ("oven", "fridge")
BODY = ("arms", "base")
"""Its arms do nothing while it goes, and it stands while they work."""

go_to = go_to_skill(KITCHEN, tuple(KITCHEN.points), subsystems=BODY)
open_, close, pick_from, release_to = arm_skills(KITCHEN, DOORS, ("table", "sink", *DOORS), subsystems=BODY)
