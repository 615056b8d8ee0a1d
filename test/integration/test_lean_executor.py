# SPDX-License-Identifier: Apache-2.0
"""The executor of every node: whatever comes and goes while it spins, nothing is lost and nothing keeps it busy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import rclpy
from ghostshell.action import PlaySound
from rclpy.action import ActionClient
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.lean_executor import LeanExecutor
from ghostshell_ros.runtime.node import Beat, RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import EVENTS
from ros_support import ROOT, wait_until

Spin = Callable[..., NodeHost]


@pytest.fixture
def spin(ros: None) -> Iterator[Spin]:
    hosts: list[NodeHost] = []

    def start(*nodes: RuntimeNode) -> NodeHost:
        hosts.append(NodeHost(nodes))
        hosts[-1].start()
        return hosts[-1]

    yield start
    for host in hosts:
        host.close()


@pytest.fixture
def node(namespace: str, spin: Spin) -> RuntimeNode:
    made = RuntimeNode("lean", namespace=namespace)
    spin(made)
    assert isinstance(made.executor, LeanExecutor)
    return made


def on_executor(node: RuntimeNode, call: Callable[[], Any]) -> Any:
    """Return what `call` gives on the executor's thread."""
    answers: list[Any] = []
    node.call_soon(lambda: answers.append(call()))
    wait_until(lambda: answers, 5.0, "the executor's thread ran it")
    return answers[0]


def test_a_beat_is_slow_without_work_and_at_once_at_its_rate_with_it(node: RuntimeNode) -> None:
    beats: list[float] = []
    busy: list[bool] = []
    beat = on_executor(node, lambda: Beat(node, 0.05, 1.0, lambda: busy, lambda: beats.append(time.monotonic())))
    time.sleep(1.5)
    assert 1 <= len(beats) <= 3
    busy.append(True)
    begun = time.monotonic()
    on_executor(node, beat.now)
    wait_until(lambda: len([at for at in beats if at >= begun]) >= 10, 5.0, "ten beats at the full rate")
    assert beats[-1] - begun < 2.0
    busy.clear()
    time.sleep(0.3)
    count = len(beats)
    time.sleep(0.6)
    assert len(beats) <= count + 1


def test_nothing_handed_over_from_many_threads_is_lost_or_reordered(node: RuntimeNode) -> None:
    heard: list[tuple[int, int]] = []

    def hand_over(thread: int) -> None:
        for number in range(1000):
            node.call_soon(heard.append, (thread, number))

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(hand_over, range(10)))
    wait_until(lambda: len(heard) == 10_000, 10.0, "all 10,000 calls")
    for thread in range(10):
        assert [number for at, number in heard if at == thread] == list(range(1000))


def test_a_callback_that_hands_itself_over_again_does_not_keep_messages_out(node: RuntimeNode) -> None:
    heard: list[str] = []
    on = [True]

    def again() -> None:
        if on[0]:
            node.call_soon(again)

    def start() -> None:
        node.create_subscription(String, "heard", lambda m: heard.append(m.data), EVENTS)
        publisher = node.create_publisher(String, "heard", EVENTS)
        node.steady_timer(0.01, lambda: publisher.publish(String(data="x")))
        again()

    node.call_soon(start)
    wait_until(lambda: len(heard) > 3, 5.0, "messages beside an endless chain of work")
    on[0] = False


def test_entities_come_and_go_from_callbacks_while_it_spins(node: RuntimeNode) -> None:
    heard: list[tuple[int, str]] = []
    rounds = 25

    def make(round_: int) -> None:
        subscription = node.create_subscription(String, f"round{round_}", lambda m: done(m), EVENTS)
        publisher = node.create_publisher(String, f"round{round_}", EVENTS)
        timer = node.steady_timer(0.005, lambda: publisher.publish(String(data=str(round_))))

        def done(message: Any) -> None:
            heard.append((round_, message.data))
            # From the subscription's own callback, with the timer perhaps ready in the same turn.
            node.destroy_timer(timer)
            node.destroy_subscription(subscription)
            node.destroy_publisher(publisher)
            if round_ + 1 < rounds:
                make(round_ + 1)

    before = on_executor(node, lambda: (len(list(node.subscriptions)), len(list(node.timers))))
    node.call_soon(make, 0)
    wait_until(lambda: len(heard) == rounds, 20.0, "a message in each round")
    assert heard == [(n, str(n)) for n in range(rounds)]
    assert on_executor(node, lambda: (len(list(node.subscriptions)), len(list(node.timers)))) == before


def test_a_timer_destroyed_or_cancelled_by_another_that_is_due_at_once_does_not_fire(node: RuntimeNode) -> None:
    fired: list[str] = []

    def start() -> None:
        timers: dict[str, Any] = {}

        def fire(name: str) -> None:
            fired.append(name)
            for other, timer in timers.items():
                timer.cancel()
                if other != name:
                    node.destroy_timer(timer)

        for name in ("a", "b", "c"):
            timers[name] = node.steady_timer(0.02, lambda name=name: fire(name))
        time.sleep(0.03)  # all three are due now

    node.call_soon(start)
    wait_until(lambda: fired, 2.0, "the first timer")
    time.sleep(0.06)
    assert len(fired) == 1


def test_a_timer_runs_again_once_it_is_reset(node: RuntimeNode) -> None:
    fired: list[float] = []
    timer: Any = on_executor(node, lambda: node.steady_timer(0.01, lambda: (fired.append(time.monotonic()), timer.cancel())))
    wait_until(lambda: fired, 2.0, "the first time")
    for count in (2, 3):
        node.call_soon(timer.reset)
        wait_until(lambda: len(fired) == count, 2.0, "again")  # noqa: B023 - used at once
    assert on_executor(node, timer.is_canceled)


def test_an_exception_leaves_everything_else_running(node: RuntimeNode) -> None:
    """Also what was ready in the same turn: a guard condition's trigger is gone once it was waited for."""
    seen: list[str] = []

    def start() -> None:
        def fail() -> None:
            timer.cancel()
            raise RuntimeError("a test's failure")

        timer = node.steady_timer(0.01, fail)
        guard = node.create_guard_condition(lambda: seen.append("guard"))
        later = node.steady_timer(0.01, lambda: seen.append("timer"))
        assert later is not None
        time.sleep(0.02)
        guard.trigger()

        async def fail_later() -> None:
            seen.append("coroutine")
            raise RuntimeError("another test's failure")

        assert node.executor is not None
        node.executor.create_task(fail_later)
        node.executor.create_task(lambda: seen.append("task"))

    node.call_soon(start)
    wait_until(lambda: {"guard", "timer", "coroutine", "task"} <= set(seen), 3.0, "what was due beside the failures")
    assert seen.count("guard") == 1 and seen.count("coroutine") == 1


def test_coroutines_go_on_when_other_coroutines_or_services_bring_what_they_await(node: RuntimeNode) -> None:
    log: list[str] = []

    async def first(wanted: Future, given: Future) -> None:
        log.append(await wanted)
        given.set_result("to second")

    async def second(given: Future, wanted: Future) -> None:
        given.set_result("to first")  # and goes on waiting itself: nothing ends in this turn
        log.append(await wanted)
        client = node.create_client(Trigger, "ask")
        while not client.service_is_ready():
            await _later(node, 0.02)
        log.append((await client.call_async(Trigger.Request())).message)

    async def answer(_: Any, response: Any) -> Any:
        await _later(node, 0.05)
        response.message = "from a service that awaits"
        return response

    def start() -> None:
        node.create_service(Trigger, "ask", answer)
        a, b = Future(), Future()
        assert node.executor is not None
        node.executor.create_task(first, a, b)
        node.executor.create_task(second, a, b)

    node.call_soon(start)
    wait_until(lambda: len(log) == 3, 8.0, f"all three awaits, have {log}")
    assert log == ["to first", "to second", "from a service that awaits"]


def _later(node: RuntimeNode, delay_s: float) -> Future:
    future = Future()
    node.call_later(delay_s, lambda: future.set_result(None))
    return future


def test_a_long_chain_of_coroutines_needs_no_outside_event(node: RuntimeNode) -> None:
    """Each awaits the next one, which is asked after it: with nothing else due, one step a turn would hang."""
    length, ended = 30, []
    for timer in on_executor(node, lambda: list(node.timers)):
        node.call_soon(node.destroy_timer, timer)  # nothing else may turn the executor

    async def link(mine: Future, wanted: Future, forever: Future) -> None:
        await wanted
        mine.set_result(None)
        ended.append(len(ended))
        await forever

    def start() -> None:
        futures = [Future() for _ in range(length + 1)]
        futures[-1].set_result(None)
        assert node.executor is not None
        for mine, wanted in zip(futures, futures[1:], strict=False):
            node.executor.create_task(link, mine, wanted, Future())

    node.call_soon(start)
    wait_until(lambda: len(ended) == length, 3.0, f"the whole chain, have {len(ended)}")


def test_goals_made_and_awaited_on_the_fly(node: RuntimeNode) -> None:
    """A client and a server of an action made while it spins; results by callback, and by a coroutine of plain rclpy."""
    ends: list[tuple[str, Any]] = []

    def serve(goal: Goal) -> None:
        node.call_later(0.02, lambda: goal.succeed(PlaySound.Result(played_s=goal.request.volume)))

    def start() -> None:
        GoalServer(node, PlaySound, "play", on_goal=serve, on_cancel=lambda goal: goal.canceled(PlaySound.Result()))
        client, plain = GoalClient(node, PlaySound, "play"), ActionClient(node, PlaySound, "play")

        def send() -> None:
            if not client.server_is_ready():
                node.call_later(0.02, send)
                return
            for number in range(5):  # a service keeps ten requests, and all come at once
                goal = PlaySound.Goal(volume=float(number))
                client.send(goal, on_end=lambda end, result: ends.append((end.name, result.played_s)))
            assert node.executor is not None
            node.executor.create_task(wait_for_one)

        async def wait_for_one() -> None:
            handle = await plain.send_goal_async(PlaySound.Goal(volume=99.0))
            ends.append(("AWAITED", (await handle.get_result_async()).result.played_s))
            plain.destroy()

        send()

    node.call_soon(start)
    wait_until(lambda: len(ends) == 6, 15.0, "six results")
    assert sorted(ends) == sorted([(GoalEnd.SUCCEEDED.name, float(n)) for n in range(5)] + [("AWAITED", 99.0)])


def test_a_node_added_while_it_spins_is_served_and_one_removed_no_more(node: RuntimeNode, spin: Spin) -> None:
    host = spin()
    first = RuntimeNode("first", namespace=node.get_namespace())
    host.add(first)
    fired: list[str] = []
    on_executor(first, lambda: first.steady_timer(0.01, lambda: fired.append("first")))
    second = RuntimeNode("second", namespace=node.get_namespace())
    second.steady_timer(0.01, lambda: fired.append("second"))
    host.add(second)
    wait_until(lambda: {"first", "second"} <= set(fired), 3.0, "timers of both nodes")
    assert first.executor is not None
    on_executor(first, lambda: first.executor.remove_node(second))
    fired.clear()
    wait_until(lambda: len(fired) > 3, 3.0, "the other goes on")
    assert "second" not in fired


def test_it_sleeps_while_nothing_is_due(node: RuntimeNode) -> None:
    async def wait_for_ever() -> None:
        await Future()

    assert node.executor is not None
    node.executor.create_task(wait_for_ever)
    wait_until(lambda: on_executor(node, lambda: True), 2.0, "it runs")
    began, wall = on_executor(node, time.thread_time), time.monotonic()
    time.sleep(1.2)
    used = on_executor(node, time.thread_time) - began
    assert used < 0.02 * (time.monotonic() - wall), f"{used:.4f} s of processor time while idle"


def test_it_ends_at_once_when_the_host_closes_and_when_its_context_is_shut_down(ros: None, namespace: str) -> None:
    for end in ("close", "shutdown"):
        context = rclpy.Context()
        rclpy.init(context=context)
        host = NodeHost([RuntimeNode("ends", namespace=namespace, context=context)], context=context)
        host.start()
        thread = host._thread
        assert thread is not None
        time.sleep(0.05)
        began = time.monotonic()
        host.close() if end == "close" else context.shutdown()
        thread.join(2.0)
        assert not thread.is_alive() and time.monotonic() - began < 1.0
        if end == "shutdown":
            host.close()
        context.try_shutdown()


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_signal_ends_a_node_that_waits(number: signal.Signals) -> None:
    program = (
        "import sys\nfrom ghostshell_ros.runtime.node import RuntimeNode\nfrom ghostshell_ros.runtime.node_runtime import run\n"
        "class Idle(RuntimeNode):\n"
        "    def __init__(self):\n        super().__init__('idle'); self.call_soon(lambda: print('spins', flush=True))\n"
        "sys.exit(run(Idle))\n"
    )
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    ) as process:
        killer = threading.Timer(20.0, process.kill)
        killer.start()
        assert process.stdout is not None and process.stdout.readline().strip() == "spins"
        time.sleep(0.1)
        deadline = time.monotonic() + 5.0
        while process.poll() is None and time.monotonic() < deadline:  # a terminal and a launcher each send one
            process.send_signal(number)
            time.sleep(0.002)
        assert process.poll() == 0
        killer.cancel()
