# SPDX-License-Identifier: Apache-2.0
"""Define what the picker can do, by the names in its workbench's file."""

from pathlib import Path

from ghostshell_ros.arms.scenery import Scenery
from ghostshell_ros.arms.skills import arm_skills
from ghostshell_ros.robots.asking import ask as ask

BENCH = Scenery.read(Path(__file__).with_name("workbench.xml"))

open_, close, pick_from, release_to = arm_skills(BENCH, tuple(BENCH.doors), tuple(BENCH.spaces), subsystems=("arm",))
