# SPDX-License-Identifier: Apache-2.0
"""Find recorded runs in the data folder, and fold one into pages of its robots."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from function_tokens.run_model import RunModel
from ghostshell_ros.nodes.dashboard.feeds import BY_TOPIC, RobotReader
from ghostshell_ros.nodes.dashboard.state import RobotPage
from ghostshell_ros.wire.events import TOPICS, from_message
from skill_kernel.config.plugins import RECORDINGS, PluginError, load_plugin

MAX_RECORDINGS = 200
"""Recordings that the page offers; the newest."""
MAX_CALLS, MAX_PROCESSES = 20_000, 5_000
"""Calls and processes of a recording that are shown; the oldest are left out."""
MARK = "▶ "
"""Beginning of the name of a recorded robot among those of the page."""
REPLAY_S = 120.0
"""Time in which a recording has been folded."""
NICE = 5
"""Niceness of the process that does."""
_EVENTS = {topic: kind for kind, topic in TOPICS.items()}


def recordings(folder: Path) -> list[str]:
    """Return the names of the recorded runs in a folder and the folders in it, the newest first."""
    found = [path for pattern in ("*.mcap", "*/*.mcap") for path in folder.glob(pattern) if path.is_file()]
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [str(path.relative_to(folder)) for path in found[:MAX_RECORDINGS]]


def replayed(folder: Path, name: str) -> dict[str, RobotPage]:
    """Return a page for each robot of a recording. Raises ValueError, with the reason, for one that cannot be read."""
    if name not in recordings(folder):
        raise ValueError(f"there is no recording {name} in {folder}")
    try:
        run: Any = load_plugin(RECORDINGS, "mcap")(folder / name, _wanted)
    except PluginError as error:
        raise ValueError(str(error)) from error
    readers: dict[str, RobotReader] = {}
    for message in run.messages:
        robot, topic = _split(message.topic)
        if robot not in readers:
            page = RobotPage(recorded=True)
            page.model = RunModel(MAX_CALLS, MAX_PROCESSES)
            readers[robot] = RobotReader(page, partial(float, run.end_ns * 1e-9))
        if topic in _EVENTS:
            readers[robot].page.event(from_message(_EVENTS[topic], message.value))
        else:
            BY_TOPIC[topic].read(readers[robot], message.value)
    if not readers:
        raise ValueError(f"{name} tells of no robot")
    alone = len(readers) == 1
    return {f"{MARK}{name}" + ("" if alone else f" · {robot}"): reader.page for robot, reader in readers.items()}


def replayed_apart(folder: Path, name: str) -> dict[str, RobotPage]:
    """Do the same in a process of its own, so that it delays neither a halt nor a client. Raises ValueError as well."""
    command = [sys.executable, "-m", __spec__.name, str(folder), name]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=REPLAY_S, check=True)
        made = pickle.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, EOFError, pickle.UnpicklingError) as error:
        raise ValueError(f"{name} cannot be read: {error}") from error
    if isinstance(made, str):
        raise ValueError(made)
    pages: dict[str, RobotPage] = made
    return pages


def _wanted(topic: str) -> bool:
    below = _split(topic)[1]
    return below in BY_TOPIC or below in _EVENTS


def _split(topic: str) -> tuple[str, str]:
    """Return the robot and the topic below it."""
    robot, _, name = topic.strip("/").partition("/")
    return robot, name


def _serve(folder: str, name: str) -> None:
    """Write the pages of a recording to standard output, or why it cannot be read."""
    os.nice(NICE)
    made: dict[str, RobotPage] | str
    try:
        made = replayed(Path(folder), name)
    except Exception as error:  # noqa: BLE001 - whatever a damaged file brings about, the page says so
        made = str(error)
    pickle.dump(made, sys.stdout.buffer)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
