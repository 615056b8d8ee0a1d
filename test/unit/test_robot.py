# SPDX-License-Identifier: Apache-2.0
"""RobotConfig reads a robot's YAML and says in one sentence what is wrong with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from skill_kernel.robot import WRAPPERS, RobotConfig, RobotConfigError, find_file

GOOD = """\
name: toy
description: A toy.
skills: [toys.skills]
body: toys.body:Toy
text_skill: speak
builtin_names: {SAVE: save}
subsystems:
  legs: {exclusive_per_process: true, parallel: false}
limits:
  walk_cm: [0, 200]
joints:
  hip: {lower: -1.0, upper: 1.0, max_velocity: 3.0, rest: 0.2}
model: robots/toy/toy.xml
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "toy.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_base_whose_subsystems_no_skill_can_hold_is_refused(tmp_path: Path) -> None:
    base = """base: {max_forward: 1.0, max_backward: 1.0, max_turn: 1.0, max_acceleration: 1.0, max_turn_acceleration: 1.0,
  cruise_linear: 1.0, cruise_turn: 1.0, radius: 0.2}
"""
    with pytest.raises(RobotConfigError, match=r"key 'base': its subsystems name 'movement', .* the robot's \(legs\)"):
        RobotConfig.load(write(tmp_path, GOOD + base))
    assert RobotConfig.load(write(tmp_path, GOOD + base.replace("{max", "{subsystems: [legs], max"))).base


def test_every_key_arrives_typed(tmp_path: Path) -> None:
    robot = RobotConfig.load(write(tmp_path, GOOD))
    assert robot.limits == {"walk_cm": (0.0, 200.0)}
    assert robot.subsystems["legs"].exclusive_per_process and not robot.subsystems["legs"].parallel
    assert robot.joints["hip"].rest == 0.2 and robot.joints["hip"].max_velocity == 3.0
    assert robot.wrappers == WRAPPERS


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("text_skill", "text_skil", "key 'text_skil' is unknown; did you mean 'text_skill'?"),
        ("parallel", "paralel", "'subsystems.legs.parallel' is missing (is 'paralel' meant?)"),
        ("exclusive_per_process: true, ", "exclusive_per_process: true, cost: 3, ", "key 'subsystems.legs.cost' is unknown"),
        ("max_velocity: 3.0", "max_velocity: 0", "key 'joints.hip.max_velocity'"),
        ("rest: 0.2", "rest: 7", "rest 7.0 must lie between lower -1.0 and upper 1.0"),
        ("lower: -1.0", "lower: .nan", "key 'joints.hip.lower'"),
        ("[0, 200]", "[200, 0]", "must not exceed the second"),
        ("toys.body:Toy", "toys.body.Toy", "'module:Class'"),
        ("name: toy\n", "", "key 'name' is missing"),
        ("skills: [toys.skills]", "skills: []", "key 'skills'"),
        ("legs: {exclusive_per_process: true, parallel: false}", "legs:", "key 'subsystems.legs': must hold keys with values"),
        ("skills: [toys.skills]", "skills: toys", "key 'skills': must be a list, such as [a, b], not 'toys'"),
        ("max_velocity: 3.0", "max_velocity: fast", "key 'joints.hip.max_velocity': must be a number, not 'fast'"),
        (GOOD, "", "must hold keys with values, but is empty"),
    ],
)
def test_an_error_is_one_sentence_that_names_file_and_key(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(RobotConfigError) as caught:
        RobotConfig.load(path)
    assert str(path) in str(caught.value) and expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_broken_yaml_names_the_file_in_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, "name: [toy\nbody: :")
    with pytest.raises(RobotConfigError, match="toy.yaml, line 2: is not valid YAML") as caught:
        RobotConfig.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_in_utf_8_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "toy.yaml"
    path.write_bytes("name: toy\ndescription: gerät".encode("latin-1"))
    with pytest.raises(RobotConfigError, match="toy.yaml, line 2: is not in UTF-8; save the file in that encoding"):
        RobotConfig.load(path)


def test_what_is_wrong_with_a_value_is_told_once(tmp_path: Path) -> None:
    with pytest.raises(RobotConfigError, match="'my toy' is not a name of letters, digits and underscores$"):
        RobotConfig.load(write(tmp_path, GOOD.replace("name: toy", "name: my toy")))


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RobotConfigError, match="toy.yaml, line 2: the key 'name' is given twice"):
        RobotConfig.load(write(tmp_path, "name: toy\nname: toy2"))


def test_a_robot_is_found_by_name_in_the_installed_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "share" / "ghostshell" / "config" / "robots"
    folder.mkdir(parents=True)
    path = write(folder, GOOD)
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join([str(tmp_path / "none"), str(tmp_path)]))
    assert find_file("toy") == path
    with pytest.raises(RobotConfigError, match="no robot 'tojy'; did you mean 'toy'"):
        find_file("tojy")


def test_a_folder_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(RobotConfigError, match=f"robot file {tmp_path} is a folder; name the YAML file in it"):
        find_file(tmp_path)
    with pytest.raises(RobotConfigError, match="does not exist"):
        find_file(tmp_path / "toy.yaml")


def test_body_and_model_that_are_not_there_are_named(tmp_path: Path) -> None:
    robot = RobotConfig.load(write(tmp_path, GOOD))
    with pytest.raises(RobotConfigError, match="'toys.body:Toy' of robot 'toy' cannot be imported"):
        robot.load_body()
    with pytest.raises(RobotConfigError, match="toy.xml"):
        robot.model_path()


def test_modules_beside_a_file_given_by_its_path_are_found_and_hide_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "toys_beside").mkdir()
    (tmp_path / "toys_beside" / "body.py").write_text("class Toy: pass\n")
    (tmp_path / "colorsys.py").write_text("class Toy: pass\n")
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, GOOD.replace("toys.body", "toys_beside.body"))
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    RobotConfig.load("toy.yaml")
    robot = RobotConfig.load(tmp_path / "toy.yaml")
    assert sys.path.count(str(tmp_path)) == 1
    assert robot.load_body().__name__ == "Toy"
    write(tmp_path, GOOD.replace("toys.body", "colorsys"))
    with pytest.raises(RobotConfigError, match="module 'colorsys' has no class 'Toy'"):
        RobotConfig.load("./toy.yaml").load_body()


@pytest.mark.parametrize(
    ("drivers", "reason"),
    [
        ("{arm: {actions: {grip: Grip}}}", "key 'drivers.arm.actions.grip'.*'Grip' is not an interface written as"),
        ("{arm: {}}", "drivers.arm"),
        ("{arm: {node: toys.arm, actions: {grip: toys/action/Grip}}}", "'toys.arm' is not a class written as"),
        ("{a: {actions: {grip: t/action/G}}, b: {actions: {grip: t/action/G}}}", "'a' and 'b' both serve the action 'grip'"),
        ("{arm: {actoins: {grip: t/action/G}}}", "is 'actoins' meant"),
        ("{größe: {actions: {grip: t/action/G}}}", "'größe' is not a node's name of plain letters"),
        ("{arm: {actions: {fuß: t/action/G}}}", "'fuß' is not an action's name of plain letters"),
    ],
)
def test_a_driver_that_is_declared_wrongly_is_named(tmp_path: Path, drivers: str, reason: str) -> None:
    with pytest.raises(RobotConfigError, match=reason):
        RobotConfig.load(write(tmp_path, f"{GOOD}drivers: {drivers}\n"))


def test_drivers_name_the_actions_a_body_may_use(tmp_path: Path) -> None:
    robot = RobotConfig.load(
        write(
            tmp_path,
            GOOD + "drivers: {arm: {node: 'toys.arm:Arm', actions: {grip: toys/action/Grip, let_go: toys/action/Grip}}}\n",
        )
    )
    assert robot.actions == {"grip": "toys/action/Grip", "let_go": "toys/action/Grip"}
    with pytest.raises(RobotConfigError, match="driver arm 'toys.arm:Arm' of robot 'toy' cannot be imported"):
        robot.load_drivers()
