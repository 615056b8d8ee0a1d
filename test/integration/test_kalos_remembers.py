# SPDX-License-Identifier: Apache-2.0
"""Kalos in its building is asked what it remembers while it walks on (task T7 of TypeGo)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from skill_kernel.codes import Outcome
from skill_kernel.events import CallKind, ProcessKind, RunEvent

pytest.importorskip("mujoco")

from ghostshell.msg import ProcessState
from memory_kit import settle
from memory_model import observation

from bench.evaluation.models import simulated
from bench.evaluation.settings import settings
from ghostshell_ros.runtime.data import config_folder
from pipeline_support import KALOS_NODES, Observer, brought_up
from planners.memory import Memory, Store
from ros_support import wait_until

pytestmark = pytest.mark.slow


def ended(robot: Observer, function: str) -> list[RunEvent]:
    return [e for e in robot.events if e.kind == CallKind.ENDED and e.function == function]


def test_it_tells_how_many_places_it_explored_while_it_walks_on(tmp_path: Path) -> None:
    nodes = KALOS_NODES
    with brought_up(tmp_path, launch="kalos", nodes=nodes, model="offline", memory="true") as up:
        robot = up.observer
        name = robot.get_namespace().strip("/")
        wait_until(lambda: up.alive() and any(f"remembers what robot '{name}'" in line for line in up.log), 20.0, "the memory")
        robot.say("Go to the kitchen.")
        wait_until(lambda: ended(robot, "goto_waypoint"), 60.0, "it reaches the kitchen")
        assert ended(robot, "goto_waypoint")[0].outcome == Outcome.DONE

        robot.say("Patrol the hallway.")
        started = [CallKind.STARTED, "patrol"]
        wait_until(
            lambda: any([e.kind, getattr(e, "function", "")] == started for e in robot.events), 20.0, "the patrol begins"
        )
        walked = [robot.pose]
        wait_until(lambda: robot.pose is not None and abs(robot.pose[1] - walked[0][1]) > 0.3, 30.0, "it walks")
        before = robot.pose
        robot.say("How many places have you explored?")
        wait_until(lambda: ended(robot, "query_memory"), 30.0, "the answer")
        answer = ended(robot, "query_memory")[0]
        assert answer.outcome == Outcome.DONE, answer.error_msg
        assert answer.message.startswith("I explored 2 places: hallway and kitchen."), answer.message
        assert "not said" not in answer.message

        for question, told in (("What are you doing?", "“Patrol the hallway.” ("), ("Where are you?", "I am in ")):
            asked = robot.task(question)
            assert asked.result(30.0).status == ProcessState.SUCCESS
            (said,) = robot.drained(asked.process_id)
            assert said.function == "text" and told in str(said.arguments["text"]), said

        patrol = next(p for p in robot.processes if p.instruction.startswith("Patrol"))
        assert patrol.status == ProcessState.IN_PROGRESS and not patrol.pause_causes
        paused = [e for e in robot.events if e.kind == ProcessKind.PAUSED]
        assert not paused and not ended(robot, "patrol")
        assert before is not None and robot.pose is not None
        assert max(abs(a - b) for a, b in zip(robot.pose, before, strict=True)) > 0.1, "it went on in the meantime"


@pytest.mark.timeout(240)
def test_it_goes_where_a_ball_was_seen_yesterday_by_what_its_prompts_show(tmp_path: Path) -> None:
    """The memory holds a newer sighting elsewhere; no call asks it."""
    memory = Memory(Store(tmp_path / "data" / "memory" / "memory.sqlite3"), wall=time.time, background=False)
    for ago_s, room in ((86_400.0, "lounge"), (600.0, "kitchen")):
        memory.put(*(observation(time.time() - ago_s + t, room, ["ball"]) for t in range(3))).result()
    settle(memory)
    memory.close()
    prompting = {node: {"memory_tokens": 150} for node in ("action_planner", "task_planner")}
    with simulated(0.0, 1.0, 1, tmp_path / "model.log") as models:
        config = settings(config_folder(), tmp_path / "config", models.entries, prompting)
        given = {"model": models.model, "fast_model": models.fast_model, "strategy": "layered", "memory": "true"}
        with brought_up(tmp_path, config, launch="kalos", nodes=KALOS_NODES, **given) as up:
            robot = up.observer
            wait_until(lambda: up.alive() and any("remembers what robot" in line for line in up.log), 20.0, "the memory")
            result = robot.task("Go where you saw the ball yesterday.").result(120.0)
            assert result.status == ProcessState.SUCCESS, result.error_msg
            assert robot.pose is not None and robot.pose[:2] == pytest.approx((9.5, 2.5), abs=0.5), "in the lounge"
            assert not ended(robot, "query_memory")
