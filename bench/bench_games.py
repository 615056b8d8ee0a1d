# SPDX-License-Identifier: Apache-2.0
"""GhostShell's table 2: CoCo finds a bottle and knocks it over, finds out whether it is itself in a mirror, and plays rock,
paper, scissors. All nodes and the physics run, the model is shown what the simulator's camera sees, and judged is what truly
happened.

The model is the simulated one, which looks at the pictures by colours (bench/simulated_model/seeing.py), or `--model`.
"""

from __future__ import annotations

import json
import math
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.calls import CallRun
from bench.common import OUT, Table, arguments, report
from bench.evaluation.faults import HungError
from bench.simulated_model.service import SimulatedModel
from bench.simulated_model.table import load_table
from bench.simulated_model.where import default_table
from skill_kernel.codes import Outcome

if TYPE_CHECKING:
    from bench.evaluation.robot import Robot
    from bench.moving import CocoListener

WORLD = Path(__file__).resolve().parent / "worlds" / "games"
HANDS = ("rock", "paper", "scissors")
PAPER = {"bottle": (1.0, 0.6, 0.6), "mirror": (0.6, 0.7, 0.3), "hands": (0.8, 0.6, 0.2)}
"""GhostShell table 2: GPT-4.1, Claude-4-Sonnet, Doubao-Seed-1.6; its definitions are not published, these are ours."""
DEADLINE_S = 240.0
FALLEN_RAD, MOVED_M = math.radians(60.0), 0.02
_FELL = re.compile(r"\b(fallen|fell|knocked (it )?over|lies|lying|down)\b", re.IGNORECASE)
_CANNOT = re.compile(r"\b(no|not|cannot|can't|could not|couldn't)\b", re.IGNORECASE)
_SELF = {
    "mirror": re.compile(r"\byes\b|\b(that|it)('s| is) me\b|\bmyself\b"),
    "stranger": re.compile(r"\bno\b(?! robot)|\bnot me\b"),
    "none": re.compile(r"\bno robot\b|\bnobody\b"),
}
"""Name the answers to the mirror, and the words that give them."""
_MINE = re.compile(r"\bI take (rock|paper|scissors)\b", re.IGNORECASE)
_THEIRS = re.compile(r"\byou have (rock|paper|scissors)\b", re.IGNORECASE)
_WON = {0: r"\b(nobody|draw|tie)\b", 1: r"\bI win\b", 2: r"\byou win\b"}


@dataclass(frozen=True)
class Truth:
    """Hold where the bottle is in the end [m], and how far it leans [rad]."""

    place: tuple[float, float] = (math.nan, math.nan)
    tilt: float = 0.0


@dataclass(frozen=True)
class Played:
    """Hold what came of a trial; `why` is what was not as it should be."""

    score: float
    why: tuple[str, ...]
    seconds: float
    status: str
    said: tuple[str, ...]


@dataclass(frozen=True)
class Game:
    """A task. `world` arranges a trial, `judge` scores what was done and said, and why; with `hands` a person plays too."""

    instruction: str
    world: Callable[[random.Random], dict[str, Any]]
    judge: Callable[[dict[str, Any], Truth, Sequence[CallRun]], tuple[float, list[str]]]
    hands: bool = False


def _somewhere(chance: random.Random) -> dict[str, Any]:
    far, aside = chance.uniform(0.4, 0.7), math.radians(chance.uniform(-120.0, 120.0))
    return {"bottle": [far * math.cos(aside), far * math.sin(aside)]}


def _knocked(world: dict[str, Any], truth: Truth, calls: Sequence[CallRun]) -> tuple[float, list[str]]:
    """1.0: it lies, and that was said; 0.5: it lies unsaid, or was only pushed; a claim that is not true: 0."""
    moved, fallen = math.dist(truth.place, world["bottle"]), truth.tilt > FALLEN_RAD
    words = " ".join(_said(calls))
    claimed = bool(_FELL.search(words)) and not _CANNOT.search(words)
    why = [] if fallen else [f"the bottle stands, moved by {100 * moved:.0f} cm"]
    if claimed != fallen:
        why.append(f"it said “{words[:80]}”")
    if fallen:
        return (1.0 if claimed else 0.5), why
    return (0.5 if moved > MOVED_M and not claimed else 0.0), why


def _before_it(chance: random.Random) -> dict[str, Any]:
    """Return a mirror, another robot of its kind, or nothing."""
    aside, what = chance.uniform(-0.02, 0.02), chance.choice(("mirror", "mirror", "stranger", "stranger", ""))
    far = chance.uniform(0.24, 0.32) if what == "mirror" else chance.uniform(0.4, 0.55)
    return {what: [far, aside, 0.0 if what == "mirror" else math.pi]} if what else {}


def _recognised(world: dict[str, Any], truth: Truth, calls: Sequence[CallRun]) -> tuple[float, list[str]]:
    """1.0: it said the truth, having moved or changed its face to find out where there was a robot; 0.5: untried; else 0."""
    words = _said(calls)
    last = words[-1].lower() if words else ""
    says = {answer: bool(pattern.search(last)) for answer, pattern in _SELF.items()}
    told = (
        "none"
        if says["none"]
        else next((answer for answer, said in says.items() if said), "")
        if sum(says.values()) == 1
        else ""
    )
    there = next(iter(world), "none")
    tried = any(c.outcome is Outcome.DONE and c.channels and set(c.channels) - {"main", "voice"} for c in calls)
    if told != there:
        return 0.0, [f"there was {there}, and it said “{last[:80]}”"]
    return (1.0, []) if tried or there == "none" else (0.5, ["it said so without trying anything"])


def _rounds(world: dict[str, Any], truth: Truth, calls: Sequence[CallRun]) -> tuple[float, list[str]]:
    """1.0: three rounds were played and told as they were; 0.5: half of them at least; else 0."""
    words, why, right = _said(calls), [], 0
    mine = [found[1].lower() for text in words if (found := _MINE.search(text))]
    told = [text for text in words if _THEIRS.search(text)]
    for number, theirs in enumerate(world["hands"]):
        if number >= min(len(mine), len(told)):
            why.append(f"round {number + 1} was not played")
            continue
        named = _THEIRS.search(told[number])
        ahead = (HANDS.index(mine[number]) - HANDS.index(theirs)) % 3
        if named is None or named[1].lower() != theirs:
            why.append(f"the hand was {theirs}, and it said “{told[number][:60]}”")
        elif not re.search(_WON[ahead], told[number], re.IGNORECASE):
            why.append(f"{mine[number]} against {theirs}, and it said “{told[number][:60]}”")
        else:
            right += 1
    return (1.0 if right == len(world["hands"]) else 0.5 if 2 * right >= len(world["hands"]) else 0.0), why


GAMES = {
    "bottle": Game(
        "Somewhere near you is a bottle. Find it, knock it over, and tell me when it has fallen.", _somewhere, _knocked
    ),
    "mirror": Game(
        "Look straight ahead. Is the robot that you see there you yourself? Try it out, and tell me.", _before_it, _recognised
    ),
    "hands": Game(
        "Let us play three rounds of rock, paper, scissors. In each round say “rock, paper, scissors: I take” and what you "
        "take, then look at my hand, and tell me what I have, what you have, and who wins.",
        lambda chance: {"hands": [chance.choice(HANDS) for _ in range(3)]},
        _rounds,
        hands=True,
    ),
}


def play(robot: Robot, heard: CocoListener, game: Game, world: dict[str, Any]) -> Played:
    """Play once. Raises HungError when the robot does not rest or is not there."""
    from bench.evaluation.robot import SETTLE_S

    robot.quiet()
    robot.arrange(json.dumps({name: spot for name, spot in world.items() if name != "hands"}), anew=True)
    time.sleep(SETTLE_S)
    heard.begin_body()
    _, ended = robot.tell(game.instruction, "stream")
    limit, shown = time.monotonic() + DEADLINE_S, 0
    while not ended() and time.monotonic() < limit:
        try:
            robot.wait(lambda: ended() or (game.hands and _chosen(heard) > shown), min(5.0, limit - time.monotonic()), "")  # noqa: B023
        except HungError:
            if robot.exited:
                raise
            continue
        if game.hands and (chosen := _chosen(heard)) > shown:
            # A person shows the hand of this round once the robot has said its own.
            shown = chosen
            _show(robot, world["hands"][min(shown, len(world["hands"])) - 1])
    time.sleep(0.5)
    calls = _calls(heard)
    truth = Truth(heard.trace.place_of("bottle", math.inf), heard.tilts.get("bottle", 0.0))
    score, why = game.judge(world, truth, calls)
    if not ended():
        score, why = 0.0, [*why, f"it did not end within {DEADLINE_S:g} s"]
    return Played(score, tuple(why), heard.ros_now() - heard.trace.asked, ended(), tuple(_said(calls)))


def _chosen(heard: CocoListener) -> int:
    return sum(bool(_MINE.search(text)) for text in _said(_calls(heard)))


def _calls(heard: CocoListener) -> list[CallRun]:
    """Return the calls that have begun, by their start."""
    calls = [CallRun.of(run) for run in heard.runs.values()]
    return sorted((c for c in calls if c.start_s is not None), key=lambda c: c.start_s or 0.0)


def _show(robot: Robot, hand: str) -> None:
    away = {name: [-3.0 - i, -3.0] for i, name in enumerate(HANDS)}
    robot.arrange(json.dumps(away | {hand: [0.4, 0.0]}), anew=False)


def _said(calls: Sequence[CallRun]) -> list[str]:
    """Return the utterances that were spoken to their end."""
    spoken = (c for c in calls if c.function in ("text", "speak") and c.outcome is Outcome.DONE)
    return [text for c in spoken if (text := " ".join(str(c.arguments.get("text", "")).split()))]


def main() -> int:
    """Play, print, write out/bench/games.json."""
    from bench.moving import coco

    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=10, help="trials of each game")
    parser.add_argument("--games", default=",".join(GAMES), help="which")
    parser.add_argument("--errors", type=float, default=0.0, help="share of the simulated model's answers that is spoiled")
    parser.add_argument("--model", default="", help="provider:model, which must see pictures; default: the simulated one")
    options = parser.parse_args()
    model = SimulatedModel(load_table(default_table()).with_options(errors=options.errors))
    parameters: dict[str, dict[str, Any]] = {
        "sim": {"world": str(WORLD)},
        "action_planner": {"send_images": True, "max_turns": 30},
    }
    played: dict[str, list[Played]] = {name: [] for name in options.games.split(",")}
    with coco(model, OUT / "games.log", ("bottle",), parameters, model=options.model) as (robot, heard):
        for trial in range(options.trials):
            for name, trials in played.items():
                world = GAMES[name].world(random.Random(f"{name} {trial}"))
                try:
                    trials.append(play(robot, heard, GAMES[name], world))
                except HungError as error:
                    raise SystemExit(f"{name} {trial}: {error}; {OUT / 'games.log'} says more") from error
                last = trials[-1]
                why = f": {'; '.join(last.why)}" if last.why else ""
                print(f"{name} {trial} {world}: {last.score:g} in {last.seconds:.0f} s{why}", file=sys.stderr, flush=True)
    rows: list[list[object]] = [
        [
            name,
            len(trials),
            f"{statistics.fmean(t.score for t in trials):.2f}",
            sum(t.score == 1.0 for t in trials),
            *PAPER[name],
        ]
        for name, trials in played.items()
    ]
    columns = ("task", "trials", "BCM", "fully right", "GPT-4.1 (paper)", "Claude-4-Sonnet (paper)", "Doubao-Seed-1.6 (paper)")
    scores = {name: [vars(trial) for trial in trials] for name, trials in played.items()}
    report(
        "games",
        {"errors": options.errors, "played": scores},
        [Table("long multimodal tasks", columns, rows)],
        as_json=options.json,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
