# SPDX-License-Identifier: Apache-2.0
"""Every parameter of our nodes stands in config/<node>.yaml, but for what models.yaml holds, and nothing else does."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
import yaml

from ros_support import ROOT

NODES = {
    "process_scheduler": "nodes.process_scheduler.node:ProcessSchedulerNode",
    "action_planner": "nodes.action_planner.node:ActionPlanner",
    "task_planner": "nodes.task_planner.node:TaskPlannerNode",
    "token_parser": "nodes.token_parser.node:TokenParser",
    "channel_scheduler": "nodes.channel_scheduler.node:ChannelScheduler",
    "skill_kernel": "nodes.skill_kernel.node:SkillKernelNode",
    "safety_gate": "nodes.safety_gate.node:SafetyGate",
    "observer": "nodes.observer.node:ObserverNode",
    "reflexes": "nodes.reflexes.node:ReflexesNode",
    "memory": "nodes.memory.node:MemoryNode",
    "dashboard": "nodes.dashboard.node:Dashboard",
    "lifecycle_manager": "nodes.lifecycle_manager.node:LifecycleManager",
    "sim": "nodes.sim.node:Sim",
    "object_detector": "nodes.object_detector.node:ObjectDetector",
    "move_joints_driver": "drivers.move_joints_driver:MoveJointsDriver",
    "speak_driver": "drivers.speak_driver:SpeakDriver",
    "play_sound_driver": "drivers.play_sound_driver:PlaySoundDriver",
    "show_face_driver": "drivers.show_face_driver:ShowFaceDriver",
    "base_driver": "drivers.base_driver:BaseDriver",
    "posture_driver": "drivers.posture_driver:PostureDriver",
    "teleop": "nodes.teleop.node:Teleop",
    "team_planner": "nodes.team_planner.node:TeamPlanner",
}
OF_MODELS = "models_file deadline_s step_deadline_s first_deadline_s advice_deadline_s judge_s".split()
"""Parameters that a node takes from the launch argument `models` and from that file."""
OF_LAUNCH = {"object_detector": {"robot"}}
"""Parameters that the launch alone gives: its file comes last in the composed process, so that what it says would win."""
OF_RCLPY = ("use_sim_time", "start_type_description_service", "qos_overrides")


def configured() -> dict[str, dict[str, object]]:
    """Parameters by node, from all files of config/."""
    found: dict[str, dict[str, object]] = {}
    for file in (ROOT / "config").glob("*.yaml"):
        for key, value in yaml.safe_load(file.read_text()).items():
            if key.startswith("/**/"):
                assert key.removeprefix("/**/") not in found, f"{key} stands in two files"
                found[key.removeprefix("/**/")] = value["ros__parameters"]
    return found


def test_every_configured_node_exists() -> None:
    assert set(configured()) <= set(NODES)


@pytest.mark.parametrize("name", NODES)
def test_the_file_holds_exactly_the_declared_parameters(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GHOSTSHELL_DATA", str(tmp_path))
    module, _, made = NODES[name].partition(":")
    node = getattr(import_module(f"ghostshell_ros.{module}"), made)()
    try:
        assert node.get_name() == name
        names = [p for p in node.list_parameters([], 0).names if not p.startswith(OF_RCLPY) and p not in OF_MODELS]
        declared = {p: node.get_parameter(p).value for p in names}
        assert all(node.describe_parameter(p).description for p in names)
        given = configured().get(name, {})
        for launched in OF_LAUNCH.get(name, ()):
            del declared[launched]
        assert sorted(given) == sorted(declared)
        assert {p: type(value) for p, value in given.items()} == {p: type(value) for p, value in declared.items()}
    finally:
        node.close()
        node.destroy_node()
