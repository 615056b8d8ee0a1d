# SPDX-License-Identifier: Apache-2.0
"""Replays a file: starts the parser and the scheduler on loopback, plays the run to them, and compares."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

import yaml

from bench.replay.calls import differences, start_tolerance_s
from bench.replay.recorded import RunFile, RunFileError, read_run
from bench.replay.timeline import WANTED, Timeline, robots_of, timeline
from skill_kernel.robot import RobotConfig, RobotConfigError

if TYPE_CHECKING:
    from bench.replay.player import Player

UP_S = 30.0
"""Parser and scheduler must be there by then."""

MARGIN_S = 60.0
"""A replay that takes so much longer than the run did is given up."""

NODES = ("token_parser", "channel_scheduler")


class ReplayError(RunFileError):
    """A file cannot be replayed; the sentence says why and what to do."""


def replay_file(path: Path, *, robot: str, speed: float, most: int, say: Callable[[str], None]) -> bool:
    """Replay the robots of a file, one after the other; tells whether each did the same. Raises RunFileError."""
    run = read_run(path, lambda topic: topic.endswith(tuple(f"/{name}" for name in WANTED)))
    robots = robots_of(run)
    if robot:
        robots = [name for name in robots if name.strip("/") == robot.strip("/")]
    if not robots:
        raise ReplayError(f"{path} holds no calls{f' of robot {robot}' if robot else ''}; see: ghostshell replay --info {path}")
    if not run.whole:
        say(f"{path} is cut off ({run.fault or 'no end'}); what is there is replayed")
    recorded = [timeline(run, name) for name in robots]
    if not any(one.book.calls for one in recorded):
        begun = "; its streams had begun before the recording did" if any(one.partial for one in recorded) else ""
        raise ReplayError(f"{path} holds no call to compare{begun}; see: ghostshell replay --info {path}")
    say(f"compared to {start_tolerance_s(speed):g} s of when each call begins")
    same = [_replay(run, one, speed=speed, most=most, say=say) for one in recorded]
    return all(same)


def _replay(run: RunFile, recorded: Timeline, *, speed: float, most: int, say: Callable[[str], None]) -> bool:
    from bench.replay.player import Player

    name = recorded.robot.strip("/")
    if not recorded.book.calls:
        say(f"{name}: no calls to compare")
        return True
    for stream in sorted(recorded.partial):
        say(f"{name}: stream {stream} had begun before the recording did and is left out")
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    namespace = f"/replay_{os.getpid()}{recorded.robot}"
    with tempfile.TemporaryDirectory(prefix="ghostshell_replay_") as folder:
        parameters = _configured(run, recorded.robot, Path(folder))
        nodes = _nodes(namespace, parameters, _modules(run, recorded.robot))
        with _spinning(lambda: Player(namespace, recorded, speed=speed)) as player, nodes as alive:
            _wait(player.ready, UP_S, alive, "parser and scheduler did not come up")
            player.call_soon(player.begin)
            length_s = (recorded.inputs[-1].at_s - recorded.inputs[0].at_s) / speed
            _wait(lambda: player.conductor.over, length_s + MARGIN_S, alive, "the replay did not end")
            time.sleep(0.3)  # what is told beyond the recording
    found = differences(recorded.book.calls, player.book.calls, speed=speed)
    begin_s = recorded.inputs[0].at_s
    count = len(recorded.book.calls)
    if not found and not player.conductor.missing and not player.problems:
        say(f"{name}: the same {count} calls with the same outcomes")
        return True
    say(f"{name}: not the same; {count} calls were recorded, {len(player.book.calls)} replayed, {len(found)} differences")
    for difference in found[:most]:
        say(f"  {difference.at_s - begin_s:8.2f} s  {difference.text}")
    if not found:
        for at_s, output in player.conductor.missing[:most]:
            say(f"  {at_s - begin_s:8.2f} s  event {output.kind} of {output.key.stream_id} is missing")
    for problem in player.problems:
        say(f"  {problem}")
    return False


def _configured(run: RunFile, robot: str, folder: Path) -> dict[str, Path]:
    """Parameter files of the nodes as in the run, with its robot file and routines."""
    file = folder / "robot.yaml"
    text = run.attachments.get(f"robots{robot}.yaml")
    try:
        if text is not None:
            file.write_text(text, encoding="utf-8")
        config = RobotConfig.load(file if text is not None else robot.rpartition("/")[2])
    except RobotConfigError as error:
        raise ReplayError(f"the robot's file of the run cannot be used: {error}") from error
    if routines := run.attachments.get(f"routines{robot}.json"):
        (folder / config.name).mkdir()
        (folder / config.name / "routines.json").write_text(routines, encoding="utf-8")
    files = {}
    for node in NODES:
        values = yaml.safe_load(run.attachments.get(f"parameters{robot}/{node}.yaml", "{}")) or {}
        # Of the models only those of verdicts are asked again, and the file of a run may be gone.
        not_needed = {"robot", "data_dir", "model", *(() if values.get("verdict_model") else ("models_file",))}
        values = {k: v for k, v in values.items() if k not in not_needed and v is not None}
        if node == "channel_scheduler":
            values |= {"robot": str(file) if text is not None else config.name, "data_dir": str(folder)}
        values["use_sim_time"] = True
        files[node] = folder / f"{node}.yaml"
        files[node].write_text(yaml.safe_dump({"/**": {"ros__parameters": values}}), encoding="utf-8")
    return files


def _modules(run: RunFile, robot: str) -> str:
    """Return the folder of the robot's file of the run, which may hold the modules of its skills; "" where it is not here."""
    values = yaml.safe_load(run.attachments.get(f"parameters{robot}/channel_scheduler.yaml", "{}")) or {}
    path = Path(str(values.get("robot", ""))).expanduser().absolute()
    return str(path.parent) if path.suffix in (".yaml", ".yml") and path.is_file() else ""


@contextmanager
def _nodes(namespace: str, parameters: dict[str, Path], modules: str) -> Iterator[Callable[[], str]]:
    """Start the real nodes, each a process of its own, and yield a function that names the one that has ended, or "". They
    find Python modules in the folder `modules`, too."""
    paths = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), modules)))
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for node, file in parameters.items():
            command = [sys.executable, "-m", "ghostshell_ros.executables", node, "--ros-args", "-r", f"__ns:={namespace}"]
            command += ["-r", f"/clock:={namespace}/clock", "--params-file", str(file), "--log-level", "warn"]
            started[node] = subprocess.Popen(command, start_new_session=True, env={**os.environ, "PYTHONPATH": paths})
        yield lambda: ", ".join(node for node, process in started.items() if process.poll() is not None)
    finally:
        for process in started.values():
            with suppress(ProcessLookupError):
                process.send_signal(SIGINT)
        for process in started.values():
            try:
                process.wait(timeout=5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def _spinning(make: Callable[[], Player]) -> Iterator[Player]:
    import rclpy

    from ghostshell_ros.runtime.node_runtime import NodeHost

    own = not rclpy.ok()
    if own:
        rclpy.init()
    player = make()
    host = NodeHost([player, player.kernel])
    host.start()
    try:
        yield player
    finally:
        host.close()
        if own:
            rclpy.try_shutdown()


def _wait(done: Callable[[], bool], limit_s: float, ended: Callable[[], str], what: str) -> None:
    until_s = time.monotonic() + limit_s
    while not done():
        if node := ended():
            raise ReplayError(f"node {node} ended during the replay; its log says why")
        if time.monotonic() > until_s:
            raise ReplayError(f"{what} within {limit_s:.0f} s")
        time.sleep(0.02)
