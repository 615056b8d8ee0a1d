# SPDX-License-Identifier: Apache-2.0
"""GhostShell's three long tasks: the simulated model goes by its pictures, and judged is what was true."""

from __future__ import annotations

import io
import math
import random

import pytest
from PIL import Image, ImageDraw

from bench.bench_games import GAMES, WORLD, Truth
from bench.calls import CallRun
from bench.simulated_model.games import play
from bench.simulated_model.prompt import Question
from bench.simulated_model.seeing import hand_shown, look
from planners.prompts.prompt import build_turn_prompt
from skill_kernel.codes import Outcome

GREEN, MAGENTA, ORANGE, RED, BLUE = (5, 120, 40), (230, 30, 200), (230, 130, 40), (240, 80, 70), (100, 140, 250)
BOTTLE, MIRROR, HANDS = (GAMES[name].instruction for name in ("bottle", "mirror", "hands"))


def picture(*shapes: tuple[str, tuple[float, ...], tuple[int, int, int]]) -> bytes:
    """Return a picture of 320 by 240 on grey; a shape is a method of ImageDraw, its box or line, and a colour."""
    image = Image.new("RGB", (320, 240), (200, 200, 200))
    draw = ImageDraw.Draw(image)
    for kind, box, colour in shapes:
        getattr(draw, kind)(box, **{"fill": colour} | ({"width": 8} if kind == "line" else {}))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def upright(left: float) -> bytes:
    return picture(("rectangle", (left, 120, left + 22, 200), GREEN))


def ask(instruction: str, seen: bytes, *said: str) -> str:
    """Return the answer to a turn after some answers."""
    return play(Question("", (build_turn_prompt(instruction, turn=len(said)),), said=said, images=(seen,))) or ""


def test_a_bottle_is_looked_for_turned_to_walked_up_to_and_pushed() -> None:
    stood = ask(BOTTLE, picture())
    assert "<spider_stand/>" in stood and "<observe/>" in stood
    assert 'spider_rotate angle="45"' in ask(BOTTLE, picture(), stood)
    assert "cannot find" in ask(BOTTLE, picture(), "<think>turned=8</think>")
    assert 'spider_rotate angle="3' in ask(BOTTLE, upright(0), stood), "left is positive"
    assert 'spider_rotate angle="-' in ask(BOTTLE, upright(290), stood)
    assert 'spider_run_distance distance="3' in ask(BOTTLE, upright(150), stood)
    near = picture(("rectangle", (130, 100, 190, 239), GREEN))
    pushed = ask(BOTTLE, near, stood)
    assert "pushed=1" in pushed and 'distance="-25"' in pushed
    lying = picture(("rectangle", (100, 180, 180, 200), GREEN))
    assert "has fallen" in ask(BOTTLE, lying, stood, pushed) and "already" in ask(BOTTLE, lying, stood)


def test_it_is_itself_only_where_the_face_before_it_changes_with_its_own() -> None:
    robot = ("rectangle", (100.0, 150.0, 120.0, 170.0), ORANGE)
    still = picture(robot)
    angry, sad = (
        picture(robot, ("rectangle", (150, 100, 160, 110), RED)),
        picture(robot, ("rectangle", (150, 100, 160, 110), BLUE)),
    )
    first = ask(MIRROR, still)
    assert 'face="angry"' in first and "no robot" in ask(MIRROR, picture())
    second = ask(MIRROR, angry, first)
    assert 'face="sad"' in second
    assert ask(MIRROR, sad, first, second).startswith("Yes")
    assert ask(MIRROR, angry, first, second).startswith("No"), "one change alone may be chance"
    assert ask(MIRROR, sad, first, ask(MIRROR, still, first)).startswith("No")


@pytest.mark.parametrize(
    ("shapes", "hand"),
    [
        ([("ellipse", (140, 70, 185, 115), MAGENTA)], "rock"),
        ([("rectangle", (140, 50, 180, 130), MAGENTA)], "paper"),
        ([("line", (130, 60, 160, 125), MAGENTA), ("line", (190, 60, 160, 125), MAGENTA)], "scissors"),
        ([], ""),
    ],
)
def test_a_hand_is_told_by_its_shape_and_the_round_by_the_rules(shapes: list, hand: str) -> None:
    seen = picture(*shapes)
    assert hand_shown(look(seen).hand) == hand
    told = ask(HANDS, seen, "<think>round=3 mine=paper won=1 lost=1</think>")
    ends = {
        "rock": "I win. In the end it is 2 to 1",
        "paper": "nobody wins. In the end it is 1 to 1",
        "scissors": "you win",
        "": "again=1",
    }
    assert ends[hand] in told


def run(function: str, channel: str = "face", **arguments: object) -> CallRun:
    return CallRun(function, "p", "s", "", function, (channel,), arguments, start_s=1.0, end_s=2.0, outcome=Outcome.DONE)


def score(name: str, world: dict, calls: list[CallRun], truth: Truth | None = None) -> float:
    return GAMES[name].judge(world, truth or Truth(), calls)[0]


def text(*said: str) -> list[CallRun]:
    return [run("text", "main", text=words) for words in said]


def test_a_bottle_counts_by_how_it_lies_and_what_was_said_of_it() -> None:
    world, lies, stands = {"bottle": [0.5, 0.0]}, Truth((0.6, 0.0), math.radians(90)), Truth((0.5, 0.0), 0.0)
    assert score("bottle", world, text("The bottle has fallen over."), lies) == 1.0
    assert score("bottle", world, text("Done."), lies) == 0.5
    assert score("bottle", world, text("I cannot knock it over."), Truth((0.6, 0.0), 0.1)) == 0.5
    assert score("bottle", world, text("The bottle has fallen over."), stands) == 0.0
    assert score("bottle", world, text("I cannot find it."), stands) == 0.0


def test_a_mirror_counts_where_the_truth_was_found_out() -> None:
    tried = [run("display_face", face="angry")]
    assert score("mirror", {"mirror": [0.3, 0.0, 0.0]}, tried + text("Yes, that is me.")) == 1.0
    assert score("mirror", {"mirror": [0.3, 0.0, 0.0]}, text("Yes, that is me.")) == 0.5
    assert score("mirror", {"stranger": [0.5, 0.0, 3.14]}, tried + text("Yes, that is me.")) == 0.0
    assert score("mirror", {}, text("I see no robot.")) == 1.0
    assert score("mirror", {"mirror": [0.3, 0.0, 0.0]}, tried + text("Sure! Here it is: yes, that is me.")) == 1.0
    assert score("mirror", {"stranger": [0.5, 0.0, 3.14]}, tried + text("No, that's not me.")) == 1.0
    assert score("mirror", {"mirror": [0.3, 0.0, 0.0]}, tried + text("Yes and no.")) == 0.0


def test_rounds_count_by_the_hand_that_was_shown_and_who_had_won() -> None:
    world = {"hands": ["rock", "paper"]}
    first, second = "I take paper!", "You have rock and I have paper: I win. I take rock!"
    assert score("hands", world, text(first, second, "You have paper and I have rock: you win.")) == 1.0
    assert score("hands", world, text(first, second, "You have paper and I have rock: I win.")) == 0.5
    assert score("hands", world, text(first, second)) == 0.5
    assert score("hands", world, text(first)) == 0.0


def test_the_worlds_of_the_games_vary_with_the_trial_alone() -> None:
    for game in GAMES.values():
        worlds = [game.world(random.Random(f"a {n}")) for n in range(20)]
        assert worlds == [game.world(random.Random(f"a {n}")) for n in range(20)]
        assert len({str(w) for w in worlds}) > 2
    assert WORLD.with_suffix(".xml").is_file()


def test_another_instruction_or_no_picture_is_no_game() -> None:
    assert play(Question("", (build_turn_prompt("Look for a ball."),), images=(picture(),))) is None
    assert play(Question("", (build_turn_prompt(BOTTLE),))) is None
