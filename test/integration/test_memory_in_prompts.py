# SPDX-License-Identifier: Apache-2.0
"""The memory and both planners over real DDS: what it holds of a task stands in prompts, and nobody waits long for it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ghostshell.msg import ProcessArray, ProcessState
from ghostshell.srv import QueryMemory
from memory_model import observation

from bench.reading import layer_of, read_blocks
from bench.simulated_model.model_server import ModelServer, RecordedRequest
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.recollection import DEADLINE_S
from ghostshell_ros.wire.qos import LATCHED
from planners.memory import Memory, Store
from planners.prompts.blocks import Layer
from ros_support import Processes, ask, wait_until

TASK = "Go where you saw the ball."
SLACK_S = 1.0
"""For a machine with other work."""


class Robot(RuntimeNode):
    """Tells the planners of processes."""

    def __init__(self, namespace: str) -> None:
        super().__init__("robot", namespace=namespace)
        self._states: list[ProcessState] = []
        self._processes = self.create_publisher(ProcessArray, "processes", LATCHED)
        self.memory = self.create_client(QueryMemory, "/query_memory")

    def ready(self) -> bool:
        return self._processes.get_subscription_count() >= 2

    def begin(self, process_id: str, strategy: str) -> None:
        made = {"instruction": TASK, "status": ProcessState.IN_PROGRESS, "strategy": strategy}
        self._states = [ProcessState(process_id=process_id, created=self.get_clock().now().to_msg(), **made)]
        self._processes.publish(ProcessArray(processes=self._states))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer("<subtask>Go there</subtask>") as made:
        yield made


@pytest.fixture
def nodes() -> Iterator[Processes]:
    """Start the memory outside of every robot's namespace."""
    started = Processes("/")
    yield started
    started.end()


def block(request: RecordedRequest) -> list[Any]:
    return read_blocks(str(request.body["messages"][-1]["content"])).get("MEMORY", [])


def test_what_the_memory_holds_of_a_task_stands_in_the_prompts(
    namespace: str,
    host: Callable[..., Any],
    nodes: Processes,
    processes: Processes,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    robot = Robot(namespace)
    host(robot)
    name = namespace.strip("/")
    made = Memory(Store(tmp_path / "memory" / "memory.sqlite3"), wall=time.time, background=False)
    made.put(*(observation(time.time() - 7300.0 + t, "lounge", ["ball"], robot=name) for t in range(3))).result()
    while made.consolidator.step():
        pass
    made.close()
    for node in ("action_planner", "task_planner"):
        processes.start(node, "robot:=kalos", f"data_dir:={tmp_path}", f"model:=openai:any@{server.openai_url}")
    wait_until(robot.ready, 30.0, "the planners")

    def asked(process_id: str, strategy: str, layer: Layer) -> tuple[list[Any], float]:
        """Begin a process; return the block MEMORY of the first question of a layer, and the seconds until it came."""
        first, begun = len(server.requests), time.monotonic()

        def mine() -> list[RecordedRequest]:
            return [r for r in server.requests[first:] if layer_of(str(r.body["messages"][0]["content"])) in (layer, None)]

        robot.begin(process_id, strategy)
        wait_until(mine, 15.0, f"a question of {layer}")
        return block(mine()[0]), time.monotonic() - begun

    asked("p0", "stream", Layer.STREAM)  # the first is slow: libraries are imported
    shown, took_s = asked("p1", "stream", Layer.STREAM)
    assert shown == [] and took_s < SLACK_S, "no memory runs, and nobody waits for one"

    process = nodes.start("memory", f"data_dir:={tmp_path}")
    wait_until(robot.memory.service_is_ready, 20.0, "the memory")
    assert ask(robot, robot.memory, QueryMemory.Request(task=TASK, tokens=99), 5.0).answer
    time.sleep(1.0)  # until the planners have discovered it, too
    for number, (strategy, layer) in enumerate([("stream", Layer.STREAM), ("layered", Layer.S2)], 2):
        shown, took_s = asked(f"p{number}", strategy, layer)
        (line,) = shown
        assert line.startswith(("at ", "yesterday at ")), line
        assert f"(2 h ago): {name} saw a ball in the lounge near (1.0, 2.0) [record " in line
        assert took_s < SLACK_S + DEADLINE_S

    process.send_signal(signal.SIGSTOP)
    shown, took_s = asked("p4", "stream", Layer.STREAM)
    process.send_signal(signal.SIGCONT)
    assert shown == [] and took_s < SLACK_S + DEADLINE_S, "one that is silent is waited for so long"
