# SPDX-License-Identifier: Apache-2.0
"""Direct commands to Kalos, without a model: the offline parser finds its skills by their names and docstrings."""

from __future__ import annotations

import pytest
from kalos_fake import config, registry

from bench.dry_run import dry_run
from function_tokens.mapper import Mapper
from ghostshell_ros.robots.kalos.skills.locomotion import PLACES, ROOMS
from planners.language.parser import CommandParser, Reading
from planners.prompts.prompt import GrammarOptions

OPTIONS = GrammarOptions(config().builtin_names, config().limits)
ROOM = ROOMS[0]

COMMANDS = [
    ("walk 1 m forward", '<move_forward distance_m="1"/>'),
    ("walk back half a metre", '<move_back distance_m="0.5"/>'),
    ("turn left 90 degrees", '<rotate angle_deg="90"/>'),
    ("spin around", '<rotate angle_deg="360"/>'),
    ("step right 30 cm", '<strafe direction="right" distance_m="0.3"/>'),
    ("sit", "<sit/>"),
    ("stand up", "<stand/>"),
    ("nod twice", '<nod times="2"/>'),
    (f"go to the {ROOM}", f'<goto_waypoint waypoint="{ROOM}"/>'),
    (f"navigate to the {ROOM}", f'<goto_waypoint waypoint="{ROOM}"/>'),
    ("patrol", "<patrol/>"),
    ("patrol the hallway twice", '<patrol area="hallway" rounds="2"/>'),
    ("find the ball", '<search target="ball"/>'),
    ("find the ball everywhere", '<search target="ball" where="everywhere"/>'),
    ("go to the ball", '<approach target="ball"/>'),
    ("follow me", "<follow/>"),
    ("follow the person for 20 seconds", '<follow target="person" duration_s="20"/>'),
    ("bark", "<bark/>"),
    ("bark three times", '<bark times="3"/>'),
    ("take a picture", "<take_pic/>"),
    ("take a photo", "<take_pic/>"),
    ("patrol the hallway while saying hello", '<patrol area="hallway"/>hello'),
    (f"go to the {ROOM}, then take a picture", f'<wait><goto_waypoint waypoint="{ROOM}"/></wait><take_pic/>'),
    ("向前走一米", '<move_forward distance_m="1"/>'),
    ("坐下", "<sit/>"),
]


def _read(text: str) -> Reading:
    return CommandParser(registry(), [], OPTIONS, "Kalos").read(text)


@pytest.mark.parametrize(("text", "expected"), COMMANDS, ids=[c[0] for c in COMMANDS])
def test_a_command_becomes_this_stream_and_it_runs(text: str, expected: str) -> None:
    reading = _read(text)
    assert (reading.source, reading.trouble) == (expected, None)
    mapper = Mapper(config(), registry())
    assert all(call.outcome == "DONE" for call in dry_run(reading.source, mapper, mode="strict").calls)


@pytest.mark.parametrize(
    "text", ["don't walk", "go to the moon", "find the unicorn", "walk 20 m forward", "return", "if you see a ball, sit"]
)
def test_what_it_does_not_know_or_must_not_do_moves_nothing(text: str) -> None:
    assert _read(text).source == ""


def test_every_place_of_the_building_can_be_named() -> None:
    for place in PLACES:
        assert f'waypoint="{place}"' in _read(f"go to {place.replace('_', ' ')}").source
