# SPDX-License-Identifier: Apache-2.0
"""CoCo with a real model that talks nonsense, bound to the grammar and not: no limit is passed, and each end is told as it was.

`NONSENSE_MINUTES=60` for an hour.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ghostshell.msg import ProcessState
from ghostshell.srv import ControlProcess
from sensor_msgs.msg import JointState
from small_model import SmallModel
from std_srvs.srv import Trigger

from function_tokens.builtins import BUILTINS
from function_tokens.scheduling.calls import TEXT
from pipeline_support import Observer, brought_up, config_dir
from planners.prompts.grammar import StreamGrammar
from planners.prompts.prompt import GrammarOptions
from ros_support import ROOT, wait_until
from skill_kernel.codes import Achievement
from skill_kernel.events import CallKind, RunEvent
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

MINUTES = float(os.environ.get("NONSENSE_MINUTES", "6"))
PYTHON = ROOT / ".venv-extras" / "bin" / "python3"
WORDS = (
    "nod twice",
    "walk 60 cm forward, then sit down",
    "tell me about yourself",
    "dance for us and sing",
    "walk ten kilometres at once",
    "turn your head all the way round",
    "do nothing",
    "< > & ' \" ]]> ``` {} \u0000",
    "show how happy you are, wag your ears and play a song for the children",
)
TALK = frozenset({TEXT, "speak", *BUILTINS})
TASK_S = 40.0
"""Time after which a task is stopped: one may be told to dance for a minute."""
STOPPED_S = 15.0
COCO = RobotConfig.load("coco")
SPEEDS = {name: joint.max_velocity for name, joint in COCO.joints.items()}
TOLERANCE = 1.05
MODES = ("bound", "acting", "free")
"""Bound by the robot to its grammar; by the server to calls alone, because a small model would rather talk; or to nothing."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(0),
    pytest.mark.skipif(not PYTHON.exists(), reason="make test-extras installs the model"),
]


class Watcher(Observer):
    """Hears set-points that are faster than a joint may be."""

    def __init__(self, namespace: str) -> None:
        self.too_fast: list[str] = []
        self._before: tuple[float, dict[str, float]] | None = None
        super().__init__(namespace)

    def _on_set_points(self, message: JointState) -> None:
        super()._on_set_points(message)
        at_s, points = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9, self.set_points[-1][1]
        if self._before is not None and (passed_s := at_s - self._before[0]) > 0.0:
            speeds = {name: abs(at - self._before[1].get(name, at)) / passed_s for name, at in points.items()}
            self.too_fast += [f"{n} at {v:.2f} rad/s" for n, v in speeds.items() if v > TOLERANCE * SPEEDS[n]]
        self._before = at_s, points
        if len(self.set_points) > 2000 and not self.beyond_limits():
            del self.set_points[:1000]


def untrue(watch: Watcher, result: Any) -> list[str]:
    """Return what a result says of a process that its calls contradict."""
    ends = [e for e in watch.of(result.process_id, CallKind.ENDED) if e.function not in BUILTINS or e.function == "sleep"]
    last = {e.function: e for e in ends}
    began = [e.function for e in ends if e.outcome_name in ("DONE", "INTERRUPTED")]
    moved, done = set(began) - TALK, [e for e in ends if e.outcome_name == "DONE"]
    wrong = []
    if result.status != ProcessState.SUCCESS and not result.error_msg:
        wrong.append("not a success, and no reason")
    if result.achievement in (Achievement.DONE, Achievement.PARTLY_DONE) and not (moved or "sleep" in began):
        wrong.append("DONE, but the body did nothing")
    if result.achievement in (Achievement.ANSWERED, Achievement.NOT_DONE) and moved:
        wrong.append(f"told as no deed, but it did {sorted(moved)}")
    if result.achievement == Achievement.ANSWERED and not began:
        wrong.append("ANSWERED, but it said nothing")
    if result.achievement == Achievement.DONE:
        bad = [e for e in last.values() if e.outcome_name in ("FAILED", "REFUSED")]
        wrong += [f"DONE, but {e.function} ended {e.outcome_name}: {e.error_msg}" for e in bad]
    if result.calls_done > len(done):
        wrong.append(f"{result.calls_done} calls done are told, {len(done)} were")
    return wrong


class Acting(StreamGrammar):
    """Leave nothing but a call on each channel, legs first."""

    @property
    def rules(self) -> Mapping[str, str]:
        rules = super().rules
        calls = sorted((name for name in rules if name.startswith("calls-")), key=lambda name: -rules[name].count("|"))
        return {**rules, "root": " ".join(calls)}


@pytest.mark.parametrize("mode", MODES)
def test_whatever_a_model_babbles_the_robot_is_safe_and_says_what_it_did(mode: str, tmp_path: Path, ros: None) -> None:
    chance = random.Random(63)
    ends: list[str] = []
    skills = SkillRegistry.from_modules(COCO.skills, text_skill=COCO.text_skill)
    acting = Acting(skills, GrammarOptions(COCO.builtin_names, COCO.limits)).gbnf()
    with SmallModel(python=str(PYTHON), grammar=acting * (mode == "acting"), heat=1.5) as model:
        server = "llama.cpp" if mode == "bound" else "off"
        entry = {"provider": "openai", "model": "smollm2", "base_url": model.url, "grammar": server, "first_token_s": 60.0}
        config = config_dir(tmp_path, {"smollm2": entry}, action_planner={"max_output_tokens": 100, "max_turns": 3})
        arguments = {"model": "smollm2", "prompt": "short"}
        with brought_up(tmp_path, config, observer_class=Watcher, **arguments) as robot:
            watch: Watcher = robot.observer
            until_s = time.monotonic() + MINUTES * 60 / len(MODES)
            while time.monotonic() < until_s:
                task = watch.task(words := chance.choice(WORDS))
                if halts := chance.random() < 0.2:
                    time.sleep(chance.uniform(0.5, 6.0))
                    watch.ask(watch.halt, Trigger.Request())
                    halted_s = time.monotonic()
                end_s = time.monotonic() + TASK_S
                while not task.ends and time.monotonic() < end_s:
                    time.sleep(0.1)
                if stopped := not task.ends:
                    watch.ask(
                        watch.control, ControlProcess.Request(process_id=task.process_id, command=ControlProcess.Request.STOP)
                    )
                result = task.result(STOPPED_S)
                if halts:
                    time.sleep(max(0.0, halted_s + 1.0 - time.monotonic()))
                    assert watch.still_since(halted_s + 0.5), "it moved while it was halted"
                    watch.ask(watch.clear_halt, Trigger.Request())
                    wait_until(lambda: watch.halted is False, 5.0, "the halt is cleared")
                time.sleep(0.3)
                ends.append(f"{Achievement(result.achievement).name}{' (halted)' * halts}{' (stopped)' * stopped}")
                assert not (wrong := untrue(watch, result)), (words, wrong, told(watch, result.process_id))
                assert not watch.beyond_limits() and not watch.too_fast, (words, watch.too_fast[:5])
            starts = {e.call_id for e in watch.events if e.kind == CallKind.STARTED}
            ended = [e.call_id for e in watch.events if e.kind == CallKind.ENDED]
            assert len(ended) == len(set(ended)) and starts <= set(ended)
            wait_until(lambda: watch.kernel is not None and not watch.kernel.running, 10.0, "nothing runs any more")
            assert robot.alive(), robot.exited
            done = Counter(e.function for e in watch.events if e.kind == CallKind.ENDED and e.outcome_name == "DONE")
    counted = ", ".join(f"{count} {end}" for end, count in Counter(ends).items())
    print(f"\n{mode}: {len(ends)} tasks in {MINUTES / len(MODES):g} min: {counted}; calls done: {dict(done)}")
    assert mode != "acting" or len(set(done) - TALK) > 2, "nothing but talk"


def told(watch: Watcher, process_id: str) -> list[str]:
    """Return the ends of a process' calls, for a failure's message."""
    events: list[RunEvent] = watch.of(process_id, CallKind.ENDED)
    return [f"{e.function} {e.outcome_name} {e.error_msg}" for e in events]
