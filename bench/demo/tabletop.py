# SPDX-License-Identifier: Apache-2.0
"""Show how the tabletop robot learns: a block misses its corner, somebody corrects the robot, and from then on it is right,
even after a restart."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from geometry_msgs.msg import PoseStamped

from bench.demo.film import FilmReel
from bench.tabletop.person import YES
from bench.tabletop.table import CORNERS, NEAR_M, Table
from ghostshell_ros.arms.scenery import Scenery
from ghostshell_ros.cli.follow import RobotClient
from ghostshell_ros.robots.tabletop.area import Area
from ghostshell_ros.robots.tabletop.body import TABLE
from ghostshell_ros.sim.world import WORLDS
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import SENSORS
from planners.prompts.blocks import Layer
from skill_kernel.events import Notice, RunEvent

MOST, COLUMNS = 2, 2
"""Most corrections of one task, and pictures in a row."""
CORRECTION = "That is not the {}. It must be right at the edge of the table."


@dataclass(frozen=True)
class Wish:
    """A block and the corner where it is to be."""

    block: str
    corner: str

    @property
    def instruction(self) -> str:
        """Return the request in words."""
        return f"put the {self.block} in the {self.corner}"


BEFORE = (Wish("blue block", "top left corner"), Wish("red block", "top right corner"))
"""The tasks before the restart; the first one is corrected."""
AFTER = (Wish("green block", "bottom right corner"),)
"""The task after the restart."""
Say = Callable[[str], object]
"""Says something to the robot and waits until the task of it has ended."""


@dataclass(frozen=True)
class Shot:
    """Hold a picture of the table after something was said: width, height and RGB."""

    caption: str
    size: tuple[int, int]
    pixels: bytes


class TableClient(RobotClient):
    """Instruct the robot, and measure the outcome from the true poses."""

    def __init__(self, robot: str, *, film: bool, anew: bool = False) -> None:
        super().__init__(robot)
        self._note = "restarted: " if anew else ""
        scenery = Scenery.read(WORLDS / "tabletop.xml")
        space = scenery.space(TABLE)
        (x, y, _), (depth, width, _) = space.position.tolist(), space.half.tolist()
        self.table = Table({}, Area(-y - width, -y + width, x - depth, x + depth))
        self.reel = FilmReel(self, every_s=0.5) if film else None
        self.shots: list[Shot] = []
        self.offered = False
        for thing in scenery.things:
            self.create_subscription(PoseStamped, f"ground_truth/{thing}", partial(self._placed, thing), SENSORS)
        read_events(self, self._event)

    def _placed(self, thing: str, message: PoseStamped) -> None:
        at = message.pose.position
        self.table.things[thing.replace("_", " ")] = -at.y, at.x, at.z

    def _event(self, event: RunEvent) -> None:
        self.offered |= isinstance(event, Notice) and event.layer == Layer.IMPROVE.value

    def off_m(self, wish: Wish) -> float:
        """Return how far a block is from its corner [m]."""
        x, y = self.table.at(wish.block)
        a, b = self.table.area.denormalised(CORNERS[wish.corner])
        return float(((x - a) ** 2 + (y - b) ** 2) ** 0.5)

    def keep_shot(self, caption: str) -> None:
        """Keep the film's newest picture."""
        if self.reel is not None and (frame := self.reel.newest) is not None:
            self.shots.append(Shot(self._note + caption, (frame.width, frame.height), bytes(frame.data)))


def play(client: TableClient, wishes: Sequence[Wish], say: Say, tell: Callable[[str], None]) -> list[int]:
    """Ask for each wish, correct the robot until it is right, and confirm what it offers to remember. Return the number of
    corrections of each, `MOST + 1` if it never came right. `tell` gets each result."""
    needed = []
    for wish in wishes:
        corrections, said = 0, wish.instruction
        while True:
            client.offered = client.offered and corrections > 0
            say(said)
            off = client.off_m(wish)
            right = off < NEAR_M
            result = f"{100 * off:.1f} cm from the {wish.corner}: {'right' if right else 'missed'} (the rule: less than 6 cm)"
            tell(result)
            client.keep_shot(f"“{said}”: {result}")
            if right or corrections == MOST:
                break
            corrections, said = corrections + 1, CORRECTION.format(wish.corner)
        if right and client.offered:
            say(YES)
            client.offered = False
        needed.append(corrections if right else MOST + 1)
    return needed


def draw(shots: Sequence[Shot], path: Path) -> None:
    """Write one PNG with the table after each sentence, in order."""
    import matplotlib

    matplotlib.use("Agg")
    import numpy as np
    from matplotlib import pyplot

    rows = -(-len(shots) // COLUMNS)
    figure, axes = pyplot.subplots(rows, COLUMNS, figsize=(5.4 * COLUMNS, 4.6 * rows), squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, shot in zip(axes.flat, shots, strict=False):
        width, height = shot.size
        axis.imshow(np.frombuffer(shot.pixels, dtype=np.uint8).reshape(height, width, 3))
        axis.set_title(textwrap.fill(shot.caption, 72), fontsize=9)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
