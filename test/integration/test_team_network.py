# SPDX-License-Identifier: Apache-2.0
"""Strategy `team` over a bad network: the planner and three CoCos, each in a network namespace of its own, on a link that loses
a tenth of all frames and delays each by 200 ms (400 ms there and back).

Whatever is said at the end is held against what a witness beside each robot has seen: the calls that its kernel ran, and the
steps of its legs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from lossy_net import Host, LossyNet, possible
from network_model import Walks

from bench.simulated_model.model_server import ModelServer
from ros_support import ROOT, wait_until
from skill_kernel.codes import CallCode, Outcome

pytestmark = [pytest.mark.faults, pytest.mark.skipif(not possible(), reason="needs root and /dev/net/tun")]

TEAM, DESK, ROBOTS = "trio", "desk", ("one", "two", "three")
LOSS, DELAY_S = 0.1, 0.2
SILENCE_S = 3.0
"""`kernel_silence_s` for such a link (docs/teams.md)."""
WALK_CM, LEAST_STEPS, MOST_STEPS = 60, 7, 10
"""A walk, and how often the front leg swings in it."""
UP_S, BOUND_S = 90.0, 120.0
LOST_S = SILENCE_S + 5.0
LONG_CUT_S, SHORT_CUT_S = 15.0, 2.0
TASKS = 3
SEEN_S = 2.0
"""Time for a witness to write what it has seen."""


class Log:
    """What a program prints, a JSON object a line; other lines are left out."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def of(self, key: str) -> list[dict[str, Any]]:
        """Return the objects that hold a key, in order."""
        lines = [line for line in self._file.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [entry for entry in map(json.loads, lines) if key in entry]

    def values(self, key: str) -> list[Any]:
        return [entry[key] for entry in self.of(key)]


class Said:
    """A task that somebody at the desk has sent by `ghostshell say`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Log) -> None:
        self._process, self._log, self._begun_s = process, log, time.monotonic()

    def calls(self, kind: str) -> list[dict[str, Any]]:
        return [entry for entry in self._log.of("call_id") if entry["type"] == "CallEvent" and entry["kind"] == kind]

    def end(self) -> dict[str, Any]:
        """Wait for the end of the task; the time it took is added."""
        self._process.wait(BOUND_S)
        (end,) = [entry for entry in self._log.of("type") if entry["type"] == "end"]
        return {**end, "took_s": time.monotonic() - self._begun_s}


class Trio:
    """The team on its hosts, with a witness beside each robot and one beside the planner."""

    def __init__(self, folder: Path, net: LossyNet, model: str) -> None:
        self._folder, self.hosts, self._started = folder, net.hosts, list[subprocess.Popen[bytes]]()
        self._said = 0
        team = folder / "team.yaml"
        team.write_text(yaml.safe_dump({"name": TEAM, "robots": dict.fromkeys(ROBOTS, "coco"), "strategy": "team"}))
        without = ("page:=false", "memory:=false", "reflexes:=false", "default_robot:=false")
        for robot in ROBOTS:
            self._start(robot, robot, "./ghostshell", "launch", "coco", f"robot_name:={robot}", *without)
        node = (sys.executable, "-m", "ghostshell_ros.executables", "team_planner", "--ros-args", "-r", f"__ns:=/{TEAM}")
        given = {"team": team, "model": f"openai:any@{model}", "kernel_silence_s": SILENCE_S}
        params = [word for name, value in given.items() for word in ("-p", f"{name}:={value}")]
        self._start(DESK, "planner", *node, "--params-file", "config/team_planner.yaml", *params)
        names = {**dict.fromkeys(ROBOTS), TEAM: None}
        self.seen = {name: Log(folder / f"{name}_witness") for name in names}
        for name in names:
            host = name if name in ROBOTS else DESK
            self._start(host, f"{name}_witness", sys.executable, "test/support/robot_witness.py", name)
        wait_until(self.complete, UP_S, lambda: f"all robots are there: {self.seen[TEAM].values('health')}")

    def complete(self) -> bool:
        """Return whether the planner reaches every robot, and each witness its robot."""
        health = self.seen[TEAM].values("health")
        beside = all(self.seen[robot].values("halted") for robot in ROBOTS)
        return beside and bool(health) and "no kernel" not in health[-1]

    def _start(self, host: str, log: str, *command: str) -> subprocess.Popen[bytes]:
        peers = [other.address for name, other in self.hosts.items() if (name == DESK) != (host == DESK)]
        found = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_STATIC_PEERS": ";".join(peers), "ROS_DOMAIN_ID": "7"}
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        more = {"PYTHONPATH": path, "GHOSTSHELL_DATA": str(self._folder / f"data_{host}")}
        with (self._folder / log).open("wb") as file:
            process = subprocess.Popen(
                [*self.hosts[host].enter, *command],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, **found, **more},
            )
        self._started.append(process)
        return process

    def say(self, text: str) -> Said:
        """Say something to the team at the desk, where no link is lossy."""
        self._said += 1
        log = f"said_{self._said}"
        process = self._start(DESK, log, "./ghostshell", "say", "--robot", TEAM, "--json", text)
        return Said(process, Log(self._folder / log))

    def host(self, robot: str) -> Host:
        return self.hosts[robot]

    def notices(self) -> str:
        return "\n".join(self.seen[TEAM].values("notice"))

    def steps(self) -> dict[str, int]:
        return {robot: max(self.seen[robot].values("steps"), default=0) for robot in ROBOTS}

    def close(self) -> None:
        for process in self._started:
            assert process.stdin is not None
            process.stdin.close()
            process.terminate()
        for process in self._started:
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def trio(folder: Path, seed: int) -> Iterator[Trio]:
    with LossyNet([DESK, *ROBOTS], loss=LOSS, delay_s=DELAY_S, seed=seed) as net:
        with net.hosts[DESK].inside():
            server = ModelServer(Walks(WALK_CM))
        with server, pytest.MonkeyPatch.context() as environment:
            environment.setenv("OPENAI_API_KEY", "any")
            environment.setenv("FASTDDS_BUILTIN_TRANSPORTS", "DEFAULT")
            team = None
            try:
                yield (team := Trio(folder, net, server.openai_url))
            finally:
                if team is not None:
                    team.close()


@pytest.fixture(params=[1])
def team(request: pytest.FixtureRequest, ros: None, tmp_path: Path) -> Iterator[Trio]:
    with trio(tmp_path, request.param) as up:
        yield up


def judge(team: Trio, said: Said, before: dict[str, int], end: dict[str, Any]) -> int:
    """Hold the end of a task against what was seen at the robots; return how many walks are done."""
    time.sleep(SEEN_S)
    began = {robot: team.seen[robot].values("began") for robot in ROBOTS}
    everywhere = [call_id for ids in began.values() for call_id in ids]
    assert len(everywhere) == len({*everywhere}), f"a call ran twice: {began}"
    done = [call for call in said.calls("ENDED") if call["outcome"] == Outcome.DONE.name]
    walked = {robot: steps - before[robot] for robot, steps in team.steps().items()}
    for robot in ROBOTS:
        own = [call["call_id"] for call in done if call["channels"] == [robot]]
        assert {*own} <= {*began[robot]} & {*team.seen[robot].values("ended")}, f"{robot} did not do what is told of it"
        assert walked[robot] >= LEAST_STEPS * len(own), f"{robot} told of {len(own)} walks: {walked}"
    if end["status"] == "SUCCESS":
        assert len(done) >= len(ROBOTS)
    else:
        assert end["error_msg"] and len(done) < len(ROBOTS), end
    print(f"{end['status']} after {end['took_s']:.1f} s: {len(done)} walks done, {walked} steps; {end['error_msg']}")
    return len(done)


@pytest.mark.parametrize("team", [1, 2, 3], indirect=True)
def test_a_task_for_three_is_done_or_truthfully_failed_over_a_lossy_link(team: Trio) -> None:
    for _ in range(TASKS):
        before = team.steps()
        said = team.say("walk 60 cm each")
        judge(team, said, before, said.end())


def begun(team: Trio) -> tuple[Said, dict[str, Any]]:
    """Return a task once all three walk, and the call of the first."""
    said = team.say("walk 60 cm each")

    def all_walk() -> bool:
        return {*ROBOTS} <= {name for call in said.calls("STARTED") for name in call["channels"]}

    wait_until(all_walk, 30.0, lambda: f"all three walk: {said.calls('ENDED')}")
    return said, next(call for call in said.calls("STARTED") if call["channels"] == [ROBOTS[0]])


def outcome_of(said: Said, call: dict[str, Any]) -> dict[str, Any]:
    """Return how a call ended; {} while it has not."""
    return next((ended for ended in said.calls("ENDED") if ended["call_id"] == call["call_id"]), {})


def test_a_robot_cut_off_for_long_is_replaced_told_when_it_is_back_and_does_nothing_twice(team: Trio) -> None:
    before = team.steps()
    said, call = begun(team)
    lost = ROBOTS[0]
    team.host(lost).cut()
    cut_s = time.monotonic()
    wait_until(lambda: outcome_of(said, call), LOST_S, "the plan hears of it")
    assert outcome_of(said, call)["error_code"] == CallCode.KERNEL_UNAVAILABLE
    wait_until(lambda: call["call_id"] in team.seen[lost].values("ended"), 3.0, "the robot itself has ended the call")
    end = said.end()
    assert end["status"] == "SUCCESS" and judge(team, said, before, end) >= len(ROBOTS)
    time.sleep(max(0.0, cut_s + LONG_CUT_S - time.monotonic()))
    ran = team.seen[lost].values("began")
    team.host(lost).join()
    wait_until(lambda: f"{lost} is back, and was told that spider_run_distance is over" in team.notices(), 30.0, team.notices)
    time.sleep(SEEN_S)
    assert team.seen[lost].values("began") == ran, "nothing begins when it is back"


def test_a_short_cut_costs_a_step_and_no_robot(team: Trio) -> None:
    before = team.steps()
    said, call = begun(team)
    team.host(ROBOTS[0]).cut()
    time.sleep(SHORT_CUT_S)
    team.host(ROBOTS[0]).join()
    judge(team, said, before, said.end())
    outcome = outcome_of(said, call)
    # The link that loses a tenth may also lose the first signs of life after the cut; then the kernel counts as silent.
    told = {(Outcome.INTERRUPTED.name, CallCode.INTERRUPTED_BY), (Outcome.FAILED.name, CallCode.KERNEL_UNAVAILABLE)}
    assert (outcome["outcome"], outcome["error_code"]) in told, outcome
    wait_until(team.complete, 30.0, "it is back")


def test_a_stop_reaches_who_can_be_reached_and_says_who_cannot(team: Trio) -> None:
    _, call = begun(team)
    lost = ROBOTS[0]
    team.host(lost).cut()
    cut_s = time.monotonic()
    stop = team.say("stop")
    for robot in ROBOTS[1:]:
        wait_until(lambda robot=robot: team.seen[robot].values("halted")[-1], 15.0, f"{robot} is halted")
    wait_until(lambda: f"the safety gate of {lost} does not obey" in team.notices(), 10.0, team.notices)
    end = stop.end()
    assert (end["status"], end["achievement"], end["exit_status"]) == ("STOPPED", "NOT_DONE", 1)
    told = f"{lost} does not obey; use its own emergency stop; halted: {', '.join(sorted(ROBOTS[1:]))}; when it is safe"
    assert end["error_msg"].startswith(told), end
    wait_until(lambda: call["call_id"] in team.seen[lost].values("ended"), 5.0, "the robot that is cut off has stopped itself")
    (ended,) = [entry for entry in team.seen[lost].of("ended") if entry["ended"] == call["call_id"]]
    assert ended["at"] - cut_s < 2.0
