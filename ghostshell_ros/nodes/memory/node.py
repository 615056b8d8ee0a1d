# SPDX-License-Identifier: Apache-2.0
"""Node `memory`, one a fleet: remembers what the robots see, hear and do, and answers questions about it."""

from __future__ import annotations

import fcntl
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from ghostshell.srv import QueryMemory
from rclpy.task import Future

from ghostshell_ros.nodes.memory.memory_listener import RobotListener
from ghostshell_ros.nodes.memory.memory_settings import MemorySettings, declare_memory
from ghostshell_ros.runtime.data import data_folder
from ghostshell_ros.runtime.node import Health, Level
from ghostshell_ros.runtime.node_runtime import RuntimeNode, run
from ghostshell_ros.wire.memory_messages import query_of, record_message, viewer_of
from ghostshell_ros.wire.values import ros_text
from planners.memory import Memory, Record, Store, StoreError
from skill_kernel.codes import MemoryCode

LOOK_S = 1.0
"""How often new robots are looked for, and the file of another memory that may have ended."""
WAITING = 16
"""Questions that wait for an answer at most; more are refused."""
OBSERVED = {"ghostshell/msg/CallEvent": "events/calls", "ghostshell/msg/Observation": "observation"}
"""Topics by which a robot is known, by their type."""


class MemoryNode(RuntimeNode):
    """Keeps one file of records for all robots. A second memory on the same file stands by until the first ends.

    Service: `query_memory` (QueryMemory). Topics of each robot (in): `events`, `processes`, `observation`.
    Parameters: `robots` (empty: every robot whose topics are seen), `data_dir`, `power_safe`, `max_queue`,
    `observation_period_s`, `consolidation_period_s`, `people`, `facilities`, `keep_raw_h`, `keep_sentences_days`,
    `keep_episodes_days`, `max_raw`, `embedding_model`, `embedding_threads`, `model`, `models_file`.
    """

    def __init__(self) -> None:
        super().__init__("memory")
        self._settings: MemorySettings = declare_memory(self)
        folder = data_folder(self._settings.data_dir) / "memory"
        self._path = folder / "memory.sqlite3"
        self._lock: IO[str] | None = None
        self._memory: Memory | None = None
        self._problem = ""
        self._dropped_told = 0
        self._listeners: dict[str, RobotListener] = {}
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="memory-query")
        self._asked = 0
        self.steady_timer(LOOK_S, self._look)
        self._look()

    # -- the file -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self._memory is None:
            if not self._own(self._path.with_suffix(".lock")):
                return
            store = Store(
                self._path,
                power_safe=self._settings.power_safe,
                max_queue=self._settings.max_queue,
                patient=True,
                on_problem=lambda problem: self.call_soon(self._file_is, problem),
            )
            self._memory = Memory(
                store,
                wall=self.now_s,
                settings=self._settings.consolidation,
                embedder=self._settings.embedder,
                model=self._settings.model,
                period_s=self._settings.consolidation_period_s,
                on_problem=lambda problem: self.call_soon(self._background_failed, problem),
            )
            # One that stands by must not answer in the place of the one that knows.
            self.create_service(QueryMemory, "query_memory", self._query)
        self._meet_robots()
        dropped = self._memory.store.state.dropped
        if dropped > self._dropped_told:
            self._dropped_told = dropped
            self.get_logger().error(f"{dropped} records were dropped since the start: {self._problem or 'the queue was full'}")

    def _own(self, path: Path) -> bool:
        """Whether this program holds the file's lock now; another memory may."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("w")
        except OSError as error:
            self._tell(f"{path.parent} cannot be used ({error}); set data_dir to a folder that may be written")
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            self._tell(f"another memory keeps {self._path}; this one stands by until it ends")
            return False
        self._lock = file
        self._tell("")
        return True

    def _file_is(self, problem: StoreError | None) -> None:
        self._tell("" if problem is None else str(problem))

    def _background_failed(self, problem: StoreError) -> None:
        self.get_logger().warning(f"background work waits: {problem}", throttle_duration_sec=30.0)

    def _tell(self, problem: str) -> None:
        if problem == self._problem:
            return
        self._problem = problem
        if problem:
            self.get_logger().error(problem)
        else:
            self.get_logger().info(f"memory in {self._path}")

    # -- the robots ---------------------------------------------------------------------------------------------------

    def _meet_robots(self) -> None:
        for robot in self._settings.robots or self._found():
            if robot not in self._listeners:
                period_s = self._settings.observation_period_s
                self._listeners[robot] = RobotListener(self, robot, self._put, period_s=period_s)
                self.get_logger().info(f"remembers what robot '{robot}' does")
        if self._memory is not None:
            self._memory.know_robots(self._listeners)

    def _found(self) -> list[str]:
        found = set()
        for name, types in self.get_topic_names_and_types():
            for topic in (OBSERVED[t] for t in types if t in OBSERVED):
                if name.endswith(f"/{topic}") and (namespace := name.removesuffix(topic).strip("/")):
                    found.add(namespace)
        return sorted(found)

    def _put(self, records: list[Record]) -> None:
        if self._memory is not None:
            self._memory.put(*records)

    # -- questions ----------------------------------------------------------------------------------------------------

    async def _query(self, request: QueryMemory.Request, response: QueryMemory.Response) -> QueryMemory.Response:
        """A query reads the disk, a model may take seconds: both on another thread, while messages are still heard."""
        if self._memory is None or self._asked >= WAITING:
            response.error_code = int(MemoryCode.MEMORY_UNAVAILABLE)
            response.error_msg = self._problem or f"{self._asked} questions are being answered already; ask again"
            return response
        self._asked += 1
        try:
            answered: Future = Future(executor=self.executor)
            self._pool.submit(self._answer, self._memory, request, response, answered)
            await answered
        finally:
            self._asked -= 1
        return response

    def _answer(self, memory: Memory, request: Any, response: Any, answered: Future) -> None:
        try:
            _fill(memory, request, response)
        except StoreError as error:
            response.error_code, response.error_msg = int(error.code), ros_text(str(error))
        except ValueError as error:
            response.error_code, response.error_msg = int(MemoryCode.QUERY_INVALID), ros_text(str(error))
        except Exception as error:  # noqa: BLE001 - whoever asked must have an answer
            self.get_logger().error(f"a question failed:\n{traceback.format_exc()}")
            response.error_code = int(MemoryCode.STORE_UNAVAILABLE)
            response.error_msg = f"{type(error).__name__} in the memory; its log says more"
        self.call_soon(answered.set_result, True)

    def health(self) -> Health:
        """Whether new records are kept, how many wait and were dropped."""
        if self._memory is None:
            return Health(self._problem or "starting", Level.WARN)
        state = self._memory.store.state
        values = {"queued": state.queued, "written": state.written, "dropped": state.dropped, "robots": len(self._listeners)}
        if state.problem is not None:
            return Health(str(state.problem), Level.ERROR, values)
        embeddings = self._memory.embeddings
        values["embedded"] = embeddings.count
        return Health(f"remembers; sentence embeddings: {embeddings.state.value}", Level.OK, values)

    def close(self) -> None:
        """Write what is left."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._memory is not None:
            self._memory.close()
        if self._lock is not None:
            self._lock.close()


def _fill(memory: Memory, request: QueryMemory.Request, response: QueryMemory.Response) -> None:
    """The answer to a question, or what fits the filters. Raises StoreError or ValueError."""
    query = query_of(request)
    if request.question:
        robot = request.robot.strip("/")
        answer = memory.ask(request.question, viewer=viewer_of(request), robot=robot, limit=query.limit)
        response.answer, response.form, response.note = ros_text(answer.text), answer.form, ros_text(answer.note)
        found = list(answer.sources)
    else:
        retrieved = memory.recall(query)
        response.note = ros_text(retrieved.note)
        found = [p.record for p in retrieved.passages]
    response.records = [record_message(r) for r in found]
    response.success = True


def main() -> int:
    """Entry point of the executable `memory`."""
    return run(MemoryNode)


if __name__ == "__main__":
    sys.exit(main())
