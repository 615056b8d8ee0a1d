# SPDX-License-Identifier: Apache-2.0
"""Spin nodes by an executor that keeps its set of entities from one turn to the next."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.task import Task
from rclpy.waitable import NumberOfEntities

_KINDS = {
    "timer": "timers",
    "subscription": "subscriptions",
    "guard_condition": "guards",
    "client": "clients",
    "service": "services",
}
"""A node's lists of entities by kind, in the order in which those that are ready run; waitables (actions) come first."""


class LeanExecutor(SingleThreadedExecutor):
    """Serve callbacks as rclpy's SingleThreadedExecutor does, with less work for each.

    rclpy's executor collects all entities of all nodes at each turn, and turns a second time after each callback. This one
    collects them when an entity was made or destroyed (`wake`), and turns once for all that is ready.

    Entities are made and destroyed on the executor's thread only. A coroutine as callback goes on as a task, and its
    callback group does not wait for it. With a timeout, `spin_once` is rclpy's own.
    """

    load: tuple[float, float] = (0.0, 0.0)
    """Share of about the last second spent in callbacks, and the longest turn without a wait [s]."""

    def __init__(self, *, context: Context | None = None) -> None:
        self._stale = True
        self._layout: _Layout | None = None
        self._due: deque[Callable[[], Any]] = deque()
        self._window_at = self._turn_at = time.perf_counter()
        self._busy_s = self._longest_s = 0.0
        super().__init__(context=context)

    def wake(self) -> None:
        """Collect the entities again at the next turn, because one was made or destroyed."""
        self._stale = True
        super().wake()

    def shutdown(self, timeout_sec: float | None = None) -> bool:
        """Release the entities. Return whether all callbacks ended in time."""
        ended = super().shutdown(timeout_sec)
        if self._layout is not None:
            self._layout.release()
            self._layout = None
        return ended

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Run the tasks, wait until an entity is ready, and run the callbacks of all that are.

        Raises what a callback raises; the others that were ready run in the next turn.
        """
        if timeout_sec is not None:
            super().spin_once(timeout_sec)
            return
        while self._due and not self._is_shutdown:
            self._take(self._due.popleft())
        again = self._run_tasks()
        if self._is_shutdown:
            return
        if self._stale or self._layout is None or self._layout.nodes != self.get_nodes():
            self._stale = False
            if self._layout is not None:
                self._layout.release()
            self._layout = _Layout(self)
        layout = self._layout
        turn_s = time.perf_counter() - self._turn_at
        layout.wait(0 if again else -1)
        self._measure(turn_s)
        if not self._context.ok():
            raise ExternalShutdownException
        self._due.extend(layout.ready())
        while self._due and not self._is_shutdown:
            self._take(self._due.popleft())

    def _measure(self, turn_s: float) -> None:
        """Add a turn that took so long without its wait, and publish the load once a second or a longer wait is over."""
        self._turn_at = now = time.perf_counter()
        self._busy_s += turn_s
        self._longest_s = max(self._longest_s, turn_s)
        window_s = now - self._window_at
        if window_s >= 1.0:
            self.load = (self._busy_s / window_s, self._longest_s)
            self._window_at, self._busy_s, self._longest_s = now, 0.0, 0.0

    def _take_timer(self, tmr: Any) -> Any:
        # A cancelled timer may still show as ready.
        return super()._take_timer(tmr) if tmr.handle.is_timer_ready() else None

    def _take(self, take: Callable[[], Any]) -> None:
        callback = take()
        if callback is None:
            return
        task = Task(callback, executor=self)
        task()
        if not task.done():
            with self._tasks_lock:
                self._tasks.append((task, None, None))
        elif error := task.exception():
            raise error

    def _run_tasks(self) -> bool:
        """Run each task once. Return whether one of them made progress, on which another one may have waited.

        Tasks that they create run in the next turn, after the messages that are waiting.
        """
        with self._tasks_lock:
            tasks = [task for task, _, _ in self._tasks]
        if not tasks:
            return False
        moved = False
        try:
            for task in tasks:
                before = _awaited(task)
                task()
                moved = moved or _awaited(task) is not before
                if task.done() and (error := task.exception()):
                    raise error
        finally:
            with self._tasks_lock:
                self._tasks = [entry for entry in self._tasks if not (entry[0].done() or entry[0].cancelled())]
        return moved


def _awaited(task: Task) -> object:
    """Return the object that a task's coroutine awaits in the end; after each step of the coroutine it is another one."""
    at: Any = task._handler
    while (inner := getattr(at, "cr_await", None)) is not None:
        at = inner
    return at


class _Layout:
    """Hold the entities of the executor's nodes, so that none is freed while it is waited for."""

    def __init__(self, executor: LeanExecutor) -> None:
        self.nodes = executor.get_nodes()
        self._executor, self._held = executor, ExitStack()
        self._takes: dict[str, dict[int, Callable[[], Any]]] = {}
        """Functions that take what arrived, by kind of entity and pointer of its handle."""
        handles: dict[str, list[Any]] = {}
        for kind, entities in _KINDS.items():
            take = getattr(executor, f"_take_{kind}")
            held = [e for node in self.nodes for e in getattr(node, entities) if self._hold(e.handle)]
            self._takes[kind] = {entity.handle.pointer: partial(take, entity) for entity in held}
            handles[kind] = [entity.handle for entity in held]
        guards = (executor._guard, executor._sigint_gc)
        handles["guard_condition"] += [guard.handle for guard in guards if self._hold(guard.handle)]
        self._waitables = [waitable for node in self.nodes for waitable in node.waitables if self._hold(waitable)]
        count = sum((waitable.get_num_entities() for waitable in self._waitables), NumberOfEntities())
        context = executor.context.handle
        assert context is not None
        self._held.enter_context(context)
        self._wait_set = rclpy_implementation.WaitSet(
            count.num_subscriptions + len(handles["subscription"]),
            count.num_guard_conditions + len(handles["guard_condition"]),
            count.num_timers + len(handles["timer"]),
            count.num_clients + len(handles["client"]),
            count.num_services + len(handles["service"]),
            count.num_events,
            context,
        )
        adders = {kind: getattr(self._wait_set, f"add_{kind}") for kind in _KINDS}
        self._adders = [(adders[kind], handle) for kind in _KINDS for handle in handles[kind]]

    def _hold(self, entity: Any) -> bool:
        """Keep an entity from being freed; return whether it was there still."""
        try:
            self._held.enter_context(entity)
        except InvalidHandle:
            return False
        return True

    def wait(self, timeout_ns: int) -> None:
        """Wait until an entity is ready, the guard is triggered or the timeout is over; -1 waits without a limit."""
        wait_set = self._wait_set
        wait_set.clear_entities()
        for add, handle in self._adders:
            add(handle)
        for waitable in self._waitables:
            waitable.add_to_wait_set(wait_set)
        wait_set.wait(timeout_ns)

    def ready(self) -> list[Callable[[], Any]]:
        """Return for each ready entity a function that takes what arrived and returns its handler."""
        executor = self._executor
        takes: list[Callable[[], Any]] = [
            partial(executor._take_waitable, waitable) for waitable in self._waitables if waitable.is_ready(self._wait_set)
        ]
        for kind, entities in self._takes.items():
            if entities:
                takes += [entities[p] for p in self._wait_set.get_ready_entities(kind) if p in entities]
        return takes

    def release(self) -> None:
        """Release the entities; those that were destroyed meanwhile are freed."""
        self._held.close()
