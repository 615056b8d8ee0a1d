# SPDX-License-Identifier: Apache-2.0
"""The example robots: their files load, their skills are complete, streams and direct commands work on them."""

from __future__ import annotations

import inspect
import json
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.dry_run import DryRun, call_line, dry_run
from function_tokens.mapper import Mapper
from ghostshell_ros.cli.main import app
from planners.language.parser import CommandParser
from planners.prompts.prompt import GrammarOptions
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import DriverResult
from skill_kernel.skills.registry import SkillRegistry
from skill_kernel.skills.skill import Skill

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAN_TILT = EXAMPLES / "pan_tilt" / "pan_tilt.yaml"
STREAM = 'Hello. <look pan_deg="40"/> <nod/> <scan>I look around for you.</scan> <look pan_deg="-120" tilt_deg="10"/>'


@pytest.fixture(params=sorted(EXAMPLES.glob("*/*.yaml")), ids=lambda path: path.stem)
def robot(request: pytest.FixtureRequest) -> Iterator[tuple[RobotConfig, SkillRegistry]]:
    before = list(sys.path)
    config = RobotConfig.load(request.param)
    yield config, SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    sys.path[:] = before


def _arguments(skill: Skill) -> dict[str, Any]:
    parameters = skill.signature.parameters.values()
    return {p.name: "word" if p.default is inspect.Parameter.empty else p.default for p in parameters}


def test_every_skill_is_described_bounded_and_stops(robot: tuple[RobotConfig, SkillRegistry]) -> None:
    config, registry = robot
    for skill in registry:
        assert skill.description, skill.name
        assert math.isfinite(skill.nominal_for(_arguments(skill)))
        assert skill.interruptible and skill.stop_s is not None and skill.stop_s <= 1.0, skill.name
        assert set(skill.subsystems_for(_arguments(skill))) <= set(config.subsystems)
    assert config.load_body().__name__ in config.body


class Recorder:
    """Drivers that note what is asked of them; a motion ends at once where it should."""

    def __init__(self) -> None:
        self.at = {"pan": 0.0, "tilt": 0.0}
        self.moves: list[tuple[list[float], list[list[float]]]] = []
        self.said: list[str] = []
        self.after: Callable[[], None] = lambda: None

    def move_joints(self, *, trajectory: Mapping[str, Any], stop: threading.Event, goal_tolerance: float = 0.0) -> DriverResult:
        if stop.is_set():
            return DriverResult(False, cancelled=True)
        points = trajectory["points"]
        times_s = [point["time_from_start"] for point in points]
        self.moves.append((times_s, [[math.degrees(p) for p in point["positions"]] for point in points]))
        self.at = dict(zip(trajectory["joint_names"], points[-1]["positions"], strict=True))
        self.after()
        return DriverResult(True)

    def speak(self, *, text: str, stop: threading.Event) -> DriverResult:
        self.said.append(text)
        return DriverResult(not stop.is_set(), cancelled=stop.is_set())

    def joint_positions(self) -> Mapping[str, float]:
        return self.at


@pytest.fixture
def pan_tilt(monkeypatch: pytest.MonkeyPatch) -> tuple[RobotConfig, SkillRegistry]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    config = RobotConfig.load(PAN_TILT)
    return config, SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)


def _call(registry: SkillRegistry, body: Any, name: str, stop: threading.Event, **arguments: Any) -> Any:
    skill = registry.get(name)
    assert skill is not None
    return skill.function(**arguments, body=body, stop_evt=stop)


def test_its_skills_move_the_joints_they_say(pan_tilt: tuple[RobotConfig, SkillRegistry]) -> None:
    config, registry = pan_tilt
    drivers, stop = Recorder(), threading.Event()
    body = config.load_body()(move_joints=drivers.move_joints, speak=drivers.speak, senses=drivers)
    assert _call(registry, body, "look", stop, pan_deg=-45.0, tilt_deg=10.0).ok
    assert drivers.moves[-1] == ([pytest.approx(0.5)], [pytest.approx([-45.0, 10.0])])
    assert _call(registry, body, "shake", stop).ok
    assert [row[0] for row in drivers.moves[-1][1]] == pytest.approx([-25.0, -65.0, -25.0, -45.0])
    assert _call(registry, body, "nod", stop).ok
    assert drivers.moves[-1][1][-1] == pytest.approx([-45.0, 10.0])
    drivers.at = {"pan": math.radians(-43.0), "tilt": math.radians(8.0)}
    assert body.place() == pytest.approx((-45.0, 10.0)), "servos that lag do not shift the next gesture"
    drivers.at = {"pan": math.radians(20.0), "tilt": 0.0}
    assert body.place() == pytest.approx((20.0, 0.0)), "a head moved by hand starts from where it is"
    drivers.after = lambda: stop.set() if len(drivers.moves) == 6 else None
    swept = _call(registry, body, "scan", stop, until_reset=True)
    assert swept.interrupted and "3 times" in swept.message
    assert _call(registry, body, "speak", threading.Event(), text="hello").ok and drivers.said == ["hello"]
    drivers.at = {}
    with pytest.raises(RuntimeError, match="have not been measured"):
        _call(registry, body, "nod", threading.Event())


def _performed(source: str, config: RobotConfig, registry: SkillRegistry) -> DryRun:
    return dry_run(source, Mapper(config, registry), mode="strict")


def test_a_dry_run_orders_its_calls_by_channel(pan_tilt: tuple[RobotConfig, SkillRegistry]) -> None:
    run = _performed(STREAM, *pan_tilt)
    by_id = {call["call"]: call for call in (call_line(c) for c in run.calls)}
    assert not run.refused and all(call["outcome"] == "DONE" for call in by_id.values())
    hello, look, nod, scan, inner, far = by_id.values()
    assert look["start"] == hello["end"], "plain text stands on the main channel, so what follows waits"
    assert (nod["start"], scan["start"], far["start"]) == (look["end"], nod["end"], scan["end"])
    assert inner["parent"] == scan["call"] and inner["start"] == scan["start"]
    assert scan["end"] == pytest.approx(inner["end"] + 0.3), "it goes on until its end tag, then takes its stop_s"
    assert far["args"] == {"pan_deg": -90.0, "tilt_deg": 10.0}, "clamped to the limits of the robot's file"


def test_the_guide_explains_every_key_of_a_robots_file() -> None:
    guide = (EXAMPLES.parent / "docs" / "own_robot.md").read_text()
    rows = {line.split("`")[1] for line in guide.splitlines() if line.startswith("| `")}
    assert rows == set(RobotConfig.model_fields)


def test_the_command_line_runs_it_dry_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    stream = tmp_path / "stream.xml"
    stream.write_text(STREAM)
    result = CliRunner().invoke(app, ["dry-run", "--robot", str(PAN_TILT), str(stream)])
    assert result.exit_code == 0
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith('{"call"')]
    assert [line["function"] for line in lines] == ["text", "look", "nod", "scan", "text", "look"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("look left", '<look pan_deg="30"/>'),
        ("look 30 degrees to the right", '<look pan_deg="-30"/>'),
        ("turn your head 45 degrees to the left", '<look pan_deg="45"/>'),
        ("look up 20 degrees", '<look tilt_deg="20"/>'),
        ("look straight ahead", '<look pan_deg="0" tilt_deg="0"/>'),
        ("nod", "<nod/>"),
        ("shake your head twice", "<shake/><shake/>"),
        ("scan the room for 5 seconds", '<scan><sleep seconds="5"/></scan>'),
        ("nod while saying 'hello'", "<nod/>hello"),
    ],
)
def test_direct_commands_are_understood(pan_tilt: tuple[RobotConfig, SkillRegistry], command: str, expected: str) -> None:
    config, registry = pan_tilt
    parser = CommandParser(registry, [], GrammarOptions(config.builtin_names, config.limits), config.name)
    reading = parser.read(command, "")
    assert (reading.source, reading.trouble) == (expected, None)
    assert not _performed(reading.source, config, registry).refused


@pytest.mark.parametrize(
    ("command", "hint"), [("go to the windw", "window"), ("go to the moon", ""), ("rotatte left", "rotate")]
)
def test_a_misspelt_word_is_answered_with_what_was_meant(monkeypatch: pytest.MonkeyPatch, command: str, hint: str) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    config = RobotConfig.load(EXAMPLES / "rover" / "rover.yaml")
    registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    reading = CommandParser(registry, [], GrammarOptions({}, config.limits), config.name).read(command, "")
    assert reading.source == "" and reading.trouble is not None
    assert (f"did you mean “{hint}”?" in reading.trouble) if hint else "did you mean" not in reading.trouble


def test_a_direct_command_beyond_the_limits_is_refused_with_the_range(pan_tilt: tuple[RobotConfig, SkillRegistry]) -> None:
    config, registry = pan_tilt
    reading = CommandParser(registry, [], GrammarOptions({}, config.limits), config.name).read("look 120 degrees right", "")
    assert reading.source == "" and reading.trouble is not None and "-90 to 90 degrees" in reading.trouble
