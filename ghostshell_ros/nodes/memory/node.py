# SPDX-License-Identifier: Apache-2.0
"""Node `memory`, one a fleet: remembers what the robots see, hear and do, and answers questions about it."""

import fcntl
import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Any

from ghostshell.msg import MemoryRecord, Observation, ProcessArray
from ghostshell.srv import QueryMemory

from ghostshell_ros.nodes.memory.lesson_server import LessonServer
from ghostshell_ros.runtime.data import data_folder
from ghostshell_ros.runtime.node import Health, Level, RuntimeNode
from ghostshell_ros.runtime.signing import Doorkeeper
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.observation_messages import from_message
from ghostshell_ros.wire.process_messages import process_of
from ghostshell_ros.wire.qos import LATCHED, OBSERVATION
from ghostshell_ros.wire.values import ros_text, seconds, time_message
from planners.memory import Circle, Memory, Query, Record, Store, StoreError, Tier, Viewer
from planners.memory.consolidation import ConsolidationSettings
from planners.memory.embedding import Embedder
from planners.memory.experience import Recorder
from planners.memory.schema import DAY_S
from skill_kernel.codes import MemoryCode
from skill_kernel.config.yaml_text import private
from skill_kernel.events import CallEvent, CallKind, Notice, NoticeKind, ProcessEvent, ProcessKind
from skill_kernel.roles import Act, Caller

LOOK_S = 1.0
"""Time between two looks for new robots, and for the file of another memory that may have ended."""
LIMIT, MOST = 20, 1000
"""Records of an answer when the request names no number, and at most."""
WAITING = 16
"""Questions that wait for an answer at most; more are refused."""
OBSERVED = {"ghostshell/msg/CallEvent": "events/calls", "ghostshell/msg/Observation": "observation"}
"""Topics by which a robot is known, by their type."""
LEAST_S = 0.2
"""Observations are looked at no more often than that."""
MANY_TASKS = 1000
TOLD = frozenset({*NoticeKind, ProcessKind.INTERRUPTED})
"""Events that are remembered beside the calls; what becomes of processes is read from `processes`."""


class MemoryNode(RuntimeNode):
    """Keep one file of records for all robots. A second memory on the same file stands by until the first ends."""

    own_thread = True

    def __init__(self) -> None:
        super().__init__("memory")
        folder = self.declare("data_dir", "", "folder of the memory; empty: $GHOSTSHELL_DATA or the user's data folder")
        self._path = data_folder(folder) / "memory" / "memory.sqlite3"
        robots = self.declare("robots", [""], "namespaces of the robots; empty: all that are seen")
        self._robots = [robot for given in robots if (robot := given.strip("/"))]
        often = "an observation is kept so often, and when the scene changes [s]"
        self._period_s = self.declare("observation_period_s", 1.0, often, 0.2, 3600.0)
        durable = "flush each commit, so that what is acknowledged survives a power cut"
        waiting = "records that wait to be written at most"
        self._of_store: dict[str, Any] = {
            "power_safe": self.declare("power_safe", True, durable),
            "max_queue": self.declare("max_queue", 20_000, waiting, 100, 1_000_000),
        }
        self._of_memory = self._declare_memory()
        self._lock: IO[str] | None = None
        self._memory: Memory | None = None
        self._problem = ""
        self._dropped_told = 0
        self._listeners: dict[str, RobotListener] = {}
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="memory-query")
        self._asked = 0
        self.steady_timer(LOOK_S, self._look)
        self._look()

    def _declare_memory(self) -> dict[str, Any]:
        def days(name: str, default: float, description: str) -> float:
            return self.declare(name, default, f"{description} [days]", 0.01, 36_500.0) * DAY_S

        def labels(name: str, type_: str, default: str) -> dict[str, str]:
            found = self.declare(name, [default], f"labels of the detector that are {name}")
            return dict.fromkeys(filter(None, found), type_)

        settings = ConsolidationSettings(
            self.declare("keep_raw_h", 24.0, "raw observations are kept so long [h]", 0.1, 87_600.0) * 3600.0,
            days("keep_sentences_days", 30.0, "what was seen, heard and done"),
            days("keep_episodes_days", 365.0, "summaries of tasks and hours"),
            self.declare("max_raw", 500_000, "raw observations at most", 1000, 100_000_000),
            {**labels("facilities", "facility", "door"), **labels("people", "person", "person")},
        )
        described = "sentence-transformers model, by name or folder; empty: full text alone"
        embedding = self.declare("embedding_model", "", described)
        threads = self.declare("embedding_threads", 1, "of the CPU, for sentence embeddings", 1, 64)
        often = "how often new records are made into sentences [s]"
        return {
            "settings": settings,
            "embedder": Embedder(embedding, threads=threads) if embedding else None,
            "period_s": self.declare("consolidation_period_s", 1.0, often, 0.05, 3600.0),
        }

    # -- the file -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self._memory is None:
            if not self._own(self._path.with_suffix(".lock")):
                return

            def told(problem: StoreError | None) -> None:
                self.call_soon(self._tell, "" if problem is None else str(problem))

            store = Store(self._path, patient=True, on_problem=told, **self._of_store)
            self._memory = Memory(
                store, wall=self.now_s, on_problem=lambda why: self.call_soon(self._background_failed, why), **self._of_memory
            )
            # One that stands by must not answer in the place of the one that knows.
            self._door = Doorkeeper(self, "query_memory")
            self.create_service(QueryMemory, "query_memory", self._query)
            self._lessons = LessonServer(self, store, lambda: self._listeners, self._pool)
        for robot in self._robots or self._found():
            if robot not in self._listeners:
                self._listeners[robot] = RobotListener(self, robot, self._memory.put, period_s=self._period_s)
                self.get_logger().info(f"remembers what robot '{robot}' does")
        dropped = self._memory.store.state.dropped
        if dropped > self._dropped_told:
            self._dropped_told = dropped
            self.get_logger().error(f"{dropped} records were dropped since the start: {self._problem or 'the queue was full'}")

    def _own(self, path: Path) -> bool:
        """Return whether this program holds the file's lock now; another memory may."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = open(path, "w", opener=private)  # noqa: SIM115 - kept open for its lock
        except OSError as error:
            self._tell(f"{path.parent} cannot be used ({error}); set data_dir to a folder that may be written")
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            self._tell(f"another memory keeps {self._path}; this one stands by until it ends", expected=True)
            return False
        self._lock = file
        self._tell("")
        return True

    def _background_failed(self, problem: StoreError) -> None:
        self.get_logger().warning(f"background work waits: {problem}", throttle_duration_sec=30.0)

    def _tell(self, problem: str, *, expected: bool = False) -> None:
        if problem == self._problem:
            return
        self._problem = problem
        if expected:  # as with two robots on one machine
            self.get_logger().info(problem)
        elif problem:
            self.get_logger().error(problem)
        else:
            self.get_logger().info(f"memory in {self._path}")

    def _found(self) -> list[str]:
        found = set()
        for name, types in self.get_topic_names_and_types():
            for topic in (OBSERVED[t] for t in types if t in OBSERVED):
                if name.endswith(f"/{topic}") and (namespace := name.removesuffix(topic).strip("/")):
                    found.add(namespace)
        return sorted(found)

    # -- questions ----------------------------------------------------------------------------------------------------

    async def _query(self, request: QueryMemory.Request, response: QueryMemory.Response) -> QueryMemory.Response:
        """Answer on another thread: reading the disk may take seconds, and messages are still heard."""
        if self._memory is None or self._asked >= WAITING:
            response.error_code = int(MemoryCode.MEMORY_UNAVAILABLE)
            response.error_msg = self._problem or f"{self._asked} questions are being answered already; ask again"
            return response
        self._asked += 1
        try:
            await self.run_on(self._pool, partial(_fill, self._memory, request, response, self._door.caller(request)))
        except StoreError as error:
            response.error_code, response.error_msg = int(error.code), ros_text(str(error))
        except ValueError as error:
            response.error_code, response.error_msg = int(MemoryCode.QUERY_INVALID), ros_text(str(error))
        finally:
            self._asked -= 1
        return response

    def health(self) -> Health:
        """Return whether new records are kept, how many wait and were dropped."""
        if self._memory is None:
            return Health(self._problem or "starting", Level.WARN)
        state = self._memory.store.state
        values = {"queued": state.queued, "written": state.written, "dropped": state.dropped, "robots": len(self._listeners)}
        if state.problem is not None:
            return Health(str(state.problem), Level.ERROR, values)
        embeddings = self._memory.embeddings
        values["embedded"] = embeddings.count
        return Health(f"remembers; sentence embeddings: {embeddings.note or 'ready'}", Level.OK, values)

    def close(self) -> None:
        """Write what is left."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._memory is not None:
            self._memory.close()
        if self._lock is not None:
            self._lock.close()


class RobotListener:
    """Hand on the records of what one robot tells on its topics. On the executor's thread."""

    def __init__(self, node: RuntimeNode, robot: str, put: Callable[..., object], *, period_s: float) -> None:
        self._node, self._keep = node, put
        self._recorder = Recorder(robot, period_s=period_s)
        self._told: dict[str, bool] = {}
        """Processes that were told, and whether also of their end."""
        self._observed_s = 0.0
        node.create_subscription(ProcessArray, f"/{robot}/processes", self._put(self._processes), LATCHED)
        node.create_subscription(Observation, f"/{robot}/observation", self._put(self._observation), OBSERVATION)
        read_events(node, self._put(self._event), CallEvent, ProcessEvent, Notice, robot=robot)

    def _put(self, read: Callable[[Any], list[Record]]) -> Callable[[Any], None]:
        def take(message: Any) -> None:
            if found := read(message):
                self._keep(*found)

        return take

    def _event(self, event: CallEvent | ProcessEvent | Notice) -> list[Record]:
        if isinstance(event, CallEvent):
            return self._recorder.call(event) if event.kind is CallKind.ENDED else []
        if event.kind not in TOLD:
            return []
        text = event.cause if isinstance(event, ProcessEvent) else event.routine or event.told
        name = "notice" if event.kind is NoticeKind.MESSAGE else event.kind.name.lower()
        return self._recorder.event(name, event.stamp_s, text, event.process_id)

    def _processes(self, message: ProcessArray) -> list[Record]:
        found: list[Record] = []
        for state in message.processes:
            ended = bool(seconds(state.ended))
            known = self._told.get(state.process_id)
            if known is None or (ended and not known):
                self._told[state.process_id] = ended
                found += self._recorder.task(process_of(state))
        while len(self._told) > MANY_TASKS:
            del self._told[next(iter(self._told))]
        return found

    def _observation(self, message: Observation) -> list[Record]:
        time_s = seconds(message.stamp)
        if 0.0 <= time_s - self._observed_s < LEAST_S:
            return []
        self._observed_s = time_s
        now = self._node.steady_now()
        return self._recorder.observation(from_message(message, now), now)


def _fill(memory: Memory, request: QueryMemory.Request, response: QueryMemory.Response, caller: Caller) -> None:
    """Fill in the answer to a question, or what fits the filters. Raises StoreError or ValueError."""
    robot, limit = request.robot.strip("/"), min(request.limit or LIMIT, MOST)
    hidden = caller.refusal(Act.PRIVATE)
    viewer = Viewer() if hidden else Viewer(robot, request.process_id)
    if unknown := [t for t in request.tiers if t not in tuple(Tier)]:
        raise ValueError(f"there is no tier {unknown[0]}; use 0 to 3")
    query = Query(
        request.text,
        tuple(request.kinds),
        tuple(Tier(t) for t in request.tiers),
        seconds(request.since) or None,
        seconds(request.until) or None,
        room=request.room,
        near=Circle(request.x, request.y, request.radius) if request.radius else None,
        viewer=viewer,
        limit=limit,
    )
    if request.question:
        found = memory.ask(request.question, viewer=viewer, robot=robot, limit=limit)
        response.form = found.form
    elif request.task:
        found = memory.recollect(request.task, viewer=viewer, robot=robot, tokens=request.tokens)
    else:
        found = memory.recall(query)
    left_out = f"private records are left out, {hidden}" if hidden and robot else ""
    response.answer, response.note = ros_text(found.text), ros_text("; ".join(filter(None, (found.note, left_out))))
    response.records = [_message(r) for r in found.sources]
    response.success = True


def _message(record: Record) -> MemoryRecord:
    # The store holds no text that the middleware refuses.
    spot, origin = record.spot, asdict(record.provenance)
    process_id = origin.pop("process")
    return MemoryRecord(
        id=record.id,
        tier=int(record.tier),
        kind=record.kind,
        begun=time_message(record.start_s),
        time=time_message(record.time_s),
        text=record.text,
        data_json=json.dumps(record.data, ensure_ascii=False),
        process_id=process_id,
        x=math.nan if spot.x is None else spot.x,
        y=math.nan if spot.y is None else spot.y,
        room=spot.room,
        visibility=int(record.visibility),
        **origin,
    )
