# SPDX-License-Identifier: Apache-2.0
"""A callback that raises, of each kind and in each node, ends what it worked for with a code; the node lives on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ghostshell.action import ExecuteSkill
from ghostshell.msg import ProcessState, SkillCall
from ghostshell.srv import ControlProcess
from process_robot import ROBOT_YAML
from rclpy.parameter import Parameter

from ghostshell_ros.drivers.base_driver import BaseDriver
from ghostshell_ros.drivers.move_joints_driver import MoveJointsDriver
from ghostshell_ros.drivers.play_sound_driver import PlaySoundDriver
from ghostshell_ros.drivers.posture_driver import PostureDriver
from ghostshell_ros.drivers.show_face_driver import ShowFaceDriver
from ghostshell_ros.drivers.speak_driver import SpeakDriver
from ghostshell_ros.executables import MIND, NODES, _maker
from ghostshell_ros.runtime.goal_client import GoalEnd
from ghostshell_ros.runtime.goal_server import GoalServer
from ghostshell_ros.runtime.node import Level, RuntimeNode
from ghostshell_ros.runtime.node import _works_for as working
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.sim.world import SimWorld
from pipeline_support import Observer
from ros_support import wait_until
from skill_kernel.codes import ParseCode, TaskCode
from skill_kernel.events import CallKind

UNAVAILABLE = int(TaskCode.NODE_UNAVAILABLE)
DRIVERS = (BaseDriver, MoveJointsDriver, PlaySoundDriver, PostureDriver, ShowFaceDriver, SpeakDriver)


class Sabotage:
    """Lets one callback of a node raise, once: the next of this name that does not work for a process known before."""

    def __init__(self) -> None:
        self.armed: dict[str, str] = {}
        self.known: set[str] = set()
        self._guarded, self._server = RuntimeNode.guarded, GoalServer.__init__

    def guarded(self, node: RuntimeNode, callback: Callable[..., Any], process_id: str = "") -> Callable[..., Any]:
        return self._guarded(node, self.fragile(node, callback, self.known), process_id)

    def server(self, server: GoalServer, node: RuntimeNode, *args: Any, on_goal: Any, on_cancel: Any) -> None:
        """Goals name no process, so that any goal's owner raises."""
        owners = {"on_goal": self.fragile(node, on_goal, set()), "on_cancel": self.fragile(node, on_cancel, set())}
        self._server(server, node, *args, **owners)

    def fragile(self, node: RuntimeNode, callback: Callable[..., Any], spared: set[str]) -> Callable[..., Any]:
        inner: Any = callback.func if isinstance(callback, partial) else callback
        name = inner.__name__

        def run(*args: Any) -> Any:
            if self.armed.get(node.get_name()) == name and working.get() not in spared:
                del self.armed[node.get_name()]
                raise ZeroDivisionError("a test's failure")
            return callback(*args)

        return run


class Robot:
    """The pipeline of a robot without hardware in the test's own process, and somebody who watches it."""

    def __init__(self, namespace: str, sabotage: Sabotage) -> None:
        self.sabotage = sabotage
        self.nodes = {node.get_name(): node for node in (_maker(name)() for name in (*MIND, "skill_kernel"))}
        self.watch = Observer(namespace)
        self.host = NodeHost([*self.nodes.values(), self.watch])

    def begin(self, instruction: str, *raises: str) -> str:
        """Give an instruction; for its process the callback `raises`, a node and a name, raises once."""
        self.sabotage.known.update(("", *(p.process_id for p in self.watch.processes)))
        self.sabotage.armed = dict([raises]) if raises else {}
        return self.watch.task(instruction).process_id

    def at_rest(self) -> None:
        kernel = lambda: self.watch.kernel  # noqa: E731
        wait_until(lambda: kernel() and not kernel().running and not kernel().processes, 3.0, "nothing runs or is held")


@pytest.fixture(scope="module")
def placed(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Place the nodes that are made from now on in a namespace, with parameters."""
    patch, made = pytest.MonkeyPatch(), RuntimeNode.__init__
    folder = tmp_path_factory.mktemp("raising")
    patch.setenv("GHOSTSHELL_DATA", str(folder))
    file = folder / "several.yaml"
    file.write_text(ROBOT_YAML)

    def place(name: str, **parameters: Any) -> str:
        namespace = f"/{name}{os.getpid()}"
        parameters = {"robot": str(file), **parameters}
        given = [Parameter(key, value=value) for key, value in parameters.items()]

        def init(self: RuntimeNode, name: str, **options: Any) -> None:
            made(self, name, **{"namespace": namespace, "parameter_overrides": given, **options})

        patch.setattr(RuntimeNode, "__init__", init)
        return namespace

    yield place
    patch.undo()


@pytest.fixture(scope="module")
def running(placed: Callable[..., str]) -> Iterator[Robot]:
    with pytest.MonkeyPatch.context() as patch:
        sabotage = Sabotage()
        patch.setattr(RuntimeNode, "guarded", lambda *args: sabotage.guarded(*args))
        patch.setattr(GoalServer, "__init__", lambda *args, **callbacks: sabotage.server(*args, **callbacks))
        robot = Robot(placed("raising", model="offline", strategy="stream"), sabotage)
        with robot.host as host:
            host.start()
            wait_until(lambda: robot.watch.servers_ready and robot.watch.kernel, 15.0, "the robot is up")
            yield robot


@pytest.mark.parametrize(
    ("node", "callback"),
    [
        ("process_scheduler", "_event"),
        pytest.param("action_planner", "_process_state", marks=pytest.mark.slow),
        ("action_planner", "_event"),
        ("channel_scheduler", "_token"),
        pytest.param("channel_scheduler", "_feedback", marks=pytest.mark.slow),
        pytest.param("channel_scheduler", "_responded", marks=pytest.mark.slow),
        pytest.param("channel_scheduler", "write", marks=pytest.mark.slow),
        ("skill_kernel", "_on_goal"),
        pytest.param("skill_kernel", "_on_content", marks=pytest.mark.slow),
    ],
)
def test_a_process_ends_whose_callback_raises(running: Robot, node: str, callback: str) -> None:
    watch = running.watch
    process_id = running.begin("say hello" if callback == "_on_content" else "walk for 20 seconds", node, callback)
    state = watch.wait_status(process_id, ProcessState.FAILED, 5.0)
    assert (state.error_code, node in state.message) == (UNAVAILABLE, True), state.message
    assert not running.sabotage.armed
    running.at_rest()
    watch.wait_status(running.begin("wave"), ProcessState.SUCCESS, 5.0)


def test_a_stream_ends_whose_chunk_raises(running: Robot) -> None:
    state = running.watch.wait_status(running.begin("walk", "token_parser", "_chunk"), ProcessState.FAILED, 5.0)
    assert state.error_code == ParseCode.SEQUENCE_GAP and "is missing" in state.message


def test_a_request_is_answered_whose_callback_raises(running: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler: Any = running.nodes["process_scheduler"]
    monkeypatch.setattr(scheduler._core, "chosen", lambda *_: 1 / 0)
    answer = running.watch.ask(running.watch.control, ControlProcess.Request(command=ControlProcess.Request.STOP))
    assert not answer.success and answer.error_code == UNAVAILABLE
    assert "process_scheduler" in answer.error_msg and "ZeroDivisionError" in answer.error_msg


def test_a_goal_ends_whose_owner_raises_and_what_it_had_begun_ends_too(running: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel: Any = running.nodes["skill_kernel"]
    execute = kernel._kernel.execute
    monkeypatch.setattr(kernel._kernel, "execute", lambda spec: (execute(spec), 1 / 0))
    ends: list[Any] = []
    call = SkillCall(process_id="p", call_id="c", function="walk", args_json='{"seconds": 20}')
    watch = running.watch
    watch.call_soon(lambda: watch.calls.send(ExecuteSkill.Goal(call=call), on_end=lambda *end: ends.append(end)))
    wait_until(lambda: ends, 3.0, "the goal's end")
    ((end, result),) = ends
    assert end is GoalEnd.ABORTED and result.error_code == UNAVAILABLE and "skill_kernel" in result.error_msg
    running.at_rest()


def test_a_reader_of_all_processes_that_fails_for_one_reads_the_others(running: Robot) -> None:
    watch = running.watch
    waves = running.begin("wave for 20 seconds")
    watch.wait_event(CallKind.STARTED, 5.0, process_id=waves)
    walks = running.begin("walk for 20 seconds", "action_planner", "_process_state")
    watch.wait_status(walks, ProcessState.FAILED, 5.0)
    watch.wait_event(CallKind.STARTED, 5.0, process_id=running.begin("walk"))
    assert watch.wait_status(waves, ProcessState.IN_PROGRESS, 1.0)
    assert watch.ask(watch.control, ControlProcess.Request(command=ControlProcess.Request.STOP, process_id=waves)).success
    running.at_rest()


def test_a_process_of_a_team_ends_whose_callback_raises(
    placed: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "crew.yaml"
    file.write_text(f"name: crew\nrobots: {{lone{os.getpid()}: coco}}\n")
    namespace = placed("crew", team=str(file))
    node, watch = _maker("team_planner")(), Observer(namespace)
    monkeypatch.setattr(node._processes, "take", lambda process: 1 / 0)
    with NodeHost([node, watch]) as host:
        host.start()
        wait_until(watch.tasks.server_is_ready, 5.0, "the team is up")
        state = watch.wait_status(watch.task("walk").process_id, ProcessState.FAILED, 5.0)
        assert (state.error_code, "team_planner" in state.message) == (UNAVAILABLE, True), state.message


def test_a_gate_whose_callback_raises_halts(placed: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    placed("gate", robot="kalos")
    gate: Any = _maker("safety_gate")()
    try:
        monkeypatch.setattr(gate._sole, "conflict", lambda _: 1 / 0)
        gate._watch.callback()
        assert "safety_gate failed at its work (ZeroDivisionError)" in gate._halt_cause() and gate._halted_published
        assert gate._base.gate.halted and gate._gate.halted
    finally:
        gate.close()
        gate.destroy_node()


def test_a_robot_whose_physics_fails_falls_silent_and_says_so(
    placed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    placed("still", robot="coco")
    monkeypatch.setattr(SimWorld, "advance", lambda self, dt: 1 / 0)
    node: Any = _maker("sim")()
    try:
        node._physics.join(5.0)
        published: list[Any] = []
        (robot,) = node._robots
        monkeypatch.setattr(robot, "publish", lambda: published.append(robot))
        node._publish()
        assert node.health().level is Level.ERROR and not published
    finally:
        node.close()
        node.destroy_node()


COCOS = ("sim", "MoveJointsDriver", "ShowFaceDriver")
EVERY = [*NODES, *(driver.__name__ for driver in DRIVERS)]


@pytest.mark.parametrize("name", EVERY)
def test_every_callback_of_every_node_is_guarded(placed: Callable[..., str], name: str, tmp_path: Path) -> None:
    placed(name.lower(), robot="coco" if name in COCOS else "kalos", data_dir=str(tmp_path))
    driver = next((driver for driver in DRIVERS if driver.__name__ == name), None)
    node: Any = _maker(name)() if driver is None else driver(name.lower())
    try:
        entities = [*node.subscriptions, *node.timers]
        assert {entity.callback.__qualname__ for entity in entities} == {"RuntimeNode.guarded.<locals>.run"}
        served = {service.callback.__qualname__ for service in node.services}
        rclpys = {name for name in served if name.startswith(("LifecycleNodeMixin.", "TypeDescriptionService."))}
        assert served - rclpys <= {"RuntimeNode.create_service.<locals>.answer", "ManagedNode._on_change_state"}
        failed: list[Exception] = []
        for server in node.goal_servers:
            server._tell(lambda _: 1 / 0, SimpleNamespace(fail=failed.append, goal_id=b"", request=None))
        assert len(failed) >= len(node.goal_servers)
    finally:
        node.close()
        node.destroy_node()
