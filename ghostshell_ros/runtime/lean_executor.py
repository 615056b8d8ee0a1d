# SPDX-License-Identifier: Apache-2.0
"""A single-threaded rclpy executor that keeps what it waits for from one turn to the next."""

from __future__ import annotations

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
from rclpy.node import Node
from rclpy.task import Task
from rclpy.waitable import NumberOfEntities

_KINDS = ("timer", "subscription", "guard_condition", "client", "service")
"""In the order in which what is ready runs; waitables (actions) come before all."""

_PRIVATE = (
    "_context",
    "_guard",
    "_is_shutdown",
    "_sigint_gc",
    "_take_client",
    "_take_guard_condition",
    "_take_service",
    "_take_subscription",
    "_take_timer",
    "_take_waitable",
    "_tasks",
    "_tasks_lock",
)
"""What of rclpy's executor is used beyond its documented interface."""


def make_executor(context: Context) -> SingleThreadedExecutor:
    """Return a LeanExecutor; rclpy's own where this rclpy does not have what that one is built on."""
    plain = SingleThreadedExecutor(context=context)
    if not hasattr(rclpy_implementation, "WaitSet") or not all(hasattr(plain, name) for name in _PRIVATE):
        return plain
    plain.shutdown()
    return LeanExecutor(context=context)


class LeanExecutor(SingleThreadedExecutor):
    """Does what rclpy's SingleThreadedExecutor does, in a third of its time.

    That one gathers all entities of all nodes anew at each turn, though they rarely change, and turns a second time
    after each callback. This one gathers them when an entity came or went (`wake`), and turns as often as there is work.

    Entities are made and destroyed on the executor's thread only; a coroutine as callback runs on as a task, and its
    callback group does not wait for it. `spin_once` without a timeout is what differs; with one, rclpy's own runs.
    """

    load: tuple[float, float] = (0.0, 0.0)
    """Of about the last second: the share of it spent in callbacks, and the longest turn without a wait [s]."""

    def __init__(self, *, context: Context | None = None) -> None:
        self._stale = True
        self._layout: _Layout | None = None
        self._due: deque[Callable[[], Any]] = deque()
        self._meter = _Meter()
        super().__init__(context=context)

    def wake(self) -> None:
        """Gather the entities again at the next turn: one came or went."""
        self._stale = True
        super().wake()

    def add_node(self, node: Node) -> bool:
        added = super().add_node(node)
        self.wake()
        return added

    def remove_node(self, node: Node) -> None:
        super().remove_node(node)
        self.wake()

    def shutdown(self, timeout_sec: float | None = None) -> bool:
        ended = super().shutdown(timeout_sec)
        if self._layout is not None:
            self._layout.release()
            self._layout = None
        return ended

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Run the tasks there are, wait until something is ready, run all that is.

        Raises what a callback raised; what was ready beside it runs in the next turn.
        """
        if timeout_sec is not None:
            super().spin_once(timeout_sec)
            return
        while self._due and not self._is_shutdown:
            self._take(self._due.popleft())
        again = self._run_tasks()
        if self._is_shutdown:
            return
        if self._stale or self._layout is None:
            self._stale = False
            if self._layout is not None:
                self._layout.release()
            self._layout = _Layout(self)
        layout = self._layout
        self._meter.begin_wait()
        layout.wait(0 if again else -1)
        if load := self._meter.end_wait():
            self.load = load
        if not self._context.ok():
            raise ExternalShutdownException
        self._due.extend(layout.ready())
        while self._due and not self._is_shutdown:
            self._take(self._due.popleft())

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
        """Return whether any ended or went on, and so may have brought about what another one awaits: ask that one once more
        before the wait. Tasks that they make are left to the next turn, so that messages have theirs."""
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
    """Return what a task's coroutine waits for, at the end of its chain of awaits; another object after each step it makes."""
    at: Any = task._handler
    while (inner := getattr(at, "cr_await", None)) is not None:
        at = inner
    return at


class _Meter:
    """How busy the executor is, in windows of a second or, where it waits longer, of that wait."""

    def __init__(self) -> None:
        self._window_at = self._turn_at = time.perf_counter()
        self._busy_s = self._longest_s = 0.0

    def begin_wait(self) -> None:
        turn_s = time.perf_counter() - self._turn_at
        self._busy_s += turn_s
        self._longest_s = max(self._longest_s, turn_s)

    def end_wait(self) -> tuple[float, float] | None:
        """Return the load of the window when it is over."""
        self._turn_at = now = time.perf_counter()
        window_s = now - self._window_at
        if window_s < 1.0:
            return None
        load = (self._busy_s / window_s, self._longest_s)
        self._window_at, self._busy_s, self._longest_s = now, 0.0, 0.0
        return load


class _Layout:
    """The entities of the executor's nodes at one time, held so that none is freed while it is waited for."""

    def __init__(self, executor: LeanExecutor) -> None:
        self._held = ExitStack()
        self._entities: dict[str, dict[int, Callable[[], Any]]] = {kind: {} for kind in _KINDS}
        self._handles: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
        self._waitables: list[Any] = []
        self._executor = executor
        count = NumberOfEntities()
        for guard in (executor._guard, executor._sigint_gc):
            self._hold("guard_condition", guard.handle, None)
        for node in executor.get_nodes():
            for timer in node.timers:
                self._hold("timer", timer.handle, partial(_take_timer, executor, timer))
            for subscription in node.subscriptions:
                self._hold("subscription", subscription.handle, partial(executor._take_subscription, subscription))
            for guard in node.guards:
                self._hold("guard_condition", guard.handle, partial(executor._take_guard_condition, guard))
            for client in node.clients:
                self._hold("client", client.handle, partial(executor._take_client, client))
            for service in node.services:
                self._hold("service", service.handle, partial(executor._take_service, service))
            for waitable in node.waitables:
                try:
                    self._held.enter_context(waitable)
                except InvalidHandle:
                    continue
                self._waitables.append(waitable)
                count += waitable.get_num_entities()
        context = executor.context.handle
        assert context is not None
        self._held.enter_context(context)
        have = {kind: len(handles) for kind, handles in self._handles.items()}
        self._wait_set = rclpy_implementation.WaitSet(
            count.num_subscriptions + have["subscription"],
            count.num_guard_conditions + have["guard_condition"],
            count.num_timers + have["timer"],
            count.num_clients + have["client"],
            count.num_services + have["service"],
            count.num_events,
            context,
        )
        adders = {kind: getattr(self._wait_set, f"add_{kind}") for kind in _KINDS}
        self._adders = [(adders[kind], handle) for kind, handles in self._handles.items() for handle in handles]

    def _hold(self, kind: str, handle: Any, take: Callable[[], Any] | None) -> None:
        try:
            self._held.enter_context(handle)
        except InvalidHandle:
            return
        self._handles[kind].append(handle)
        if take is not None:
            self._entities[kind][handle.pointer] = take

    def wait(self, timeout_ns: int) -> None:
        """Until something is ready, the time is over or the guard is triggered; -1 waits for ever."""
        wait_set = self._wait_set
        wait_set.clear_entities()
        for add, handle in self._adders:
            add(handle)
        for waitable in self._waitables:
            waitable.add_to_wait_set(wait_set)
        wait_set.wait(timeout_ns)

    def ready(self) -> list[Callable[[], Any]]:
        """For each entity that is ready: takes what arrived and gives the coroutine function that handles it."""
        executor = self._executor
        takes: list[Callable[[], Any]] = [
            partial(executor._take_waitable, waitable) for waitable in self._waitables if waitable.is_ready(self._wait_set)
        ]
        for kind in _KINDS:
            entities = self._entities[kind]
            if entities:
                takes += [entities[p] for p in self._wait_set.get_ready_entities(kind) if p in entities]
        return takes

    def release(self) -> None:
        """Let go of the entities; those destroyed meanwhile are freed."""
        self._held.close()


def _take_timer(executor: LeanExecutor, timer: Any) -> Any:
    # A cancelled timer may still show as ready.
    return executor._take_timer(timer) if timer.handle.is_timer_ready() else None
