# SPDX-License-Identifier: Apache-2.0
"""What every node here shares: start and end of a process, parameters, QoS profiles, work handed to the executor."""

from __future__ import annotations

import difflib
import gc
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import rclpy
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.clock import Clock, ClockType
from rclpy.context import Context
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.exceptions import InvalidHandle, InvalidParameterTypeException, InvalidParameterValueException
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from rclpy.timer import Timer

from ghostshell_ros.runtime.diagnostics import Diagnostics, Health
from ghostshell_ros.runtime.end_signals import EndSignals
from ghostshell_ros.runtime.lean_executor import make_executor
from ghostshell_ros.runtime.middleware import prefer_profiles
from ghostshell_ros.runtime.parameter_files import doubled_key

T = TypeVar("T", bool, int, float, str, "list[str]", "list[float]")


END_S = 5.0
"""Letting go of ROS entities for longer is cut short by SIGALRM; a launcher would wait ten seconds before it kills."""


def _qos(reliability: ReliabilityPolicy, depth: int, *, latched: bool = False) -> QoSProfile:
    durability = DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=reliability, durability=durability)


LATCHED = _qos(ReliabilityPolicy.RELIABLE, 1, latched=True)
"""State that a late subscriber needs at once (kernel_state, processes, halted, face)."""

LATCHED_BY_ANY = _qos(ReliabilityPolicy.RELIABLE, 10, latched=True)
"""The same read where several may publish it: the message of one must not push out another's."""

STREAM = _qos(ReliabilityPolicy.RELIABLE, 2000)
"""Chunks, tokens, call content, call control: none may be lost, a burst must fit; publish once matched."""

EVENTS = _qos(ReliabilityPolicy.RELIABLE, 2000)
"""Skill events: each is an outcome that somebody counts on; a burst of refusals must fit."""

INSTRUCTION = _qos(ReliabilityPolicy.RELIABLE, 200)
"""Instructions: a stop among a flood of them must not be lost."""

SET_POINTS = _qos(ReliabilityPolicy.RELIABLE, 20)
"""Joint set-points: drivers of disjoint joints share the topic, so the newest message is not the whole command."""

SENSORS = _qos(ReliabilityPolicy.BEST_EFFORT, 5)
"""Joint states, IMU, odometry: the newest counts, and a lost one must not delay the next."""

OBSERVATION = _qos(ReliabilityPolicy.RELIABLE, 10)
"""Observations: each may be what a reflex waits for, and the newest says all that the ones before it said."""

PLANS = _qos(ReliabilityPolicy.RELIABLE, 50, latched=True)
"""Plans of several processes on one topic: a late subscriber needs the newest of each."""

QUEUES = _qos(ReliabilityPolicy.RELIABLE, 200)
"""Step queues and prompts: each change counts for whoever follows or records it."""

HEARTBEATS = _qos(ReliabilityPolicy.BEST_EFFORT, 50)
"""Heartbeats of several nodes on one topic: those of one must not push out another's, and a late one is worth nothing."""

IMAGES = _qos(ReliabilityPolicy.RELIABLE, 2)
"""Images are larger than a datagram, and best effort loses one with any of its parts; best-effort readers match too."""


SOON_AT_ONCE = 100
"""Handed-over calls that run in a row before messages have their turn."""


class NodeStartError(RuntimeError):
    """A node cannot start as it is configured; the message says what to change."""


class RuntimeNode(Node):
    """A node whose threads reach rclpy only through the executor.

    rclpy's action clients and servers are not safe to call from other threads (a response may be taken before its
    request is filed), so threads hand their work over with `call_soon`.

    Publishes /diagnostics (diagnostic_msgs/DiagnosticArray, every second): what `health` says, and the executor's load.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._soon: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._soon_lock = threading.Lock()
        self._soon_posted = False
        self.goal_servers: list[Any] = []
        """The node's GoalServers, in the order they were made."""
        self._diagnostics = Diagnostics(self)

    def health(self) -> Health:
        """What /diagnostics says of this node; to be extended. On the executor's thread, once a second."""
        return Health()

    def refuses_goals(self) -> str:
        """Why a goal that comes now ends at once with DRIVER_INACTIVE; empty while goals are taken."""
        return ""

    def create_publisher(self, *args: Any, **options: Any) -> Publisher:
        """As rclpy's, without the QoS event handler it adds to each publisher: a third of what the executor waits for,
        built anew at every turn. Who subscribes with another QoS is told of it on the own side."""
        options.setdefault("event_callbacks", PublisherEventCallbacks(use_default_callbacks=False))
        return super().create_publisher(*args, **options)

    def create_subscription(self, *args: Any, **options: Any) -> Subscription:
        """As rclpy's, without the QoS event handler it adds to each subscription."""
        options.setdefault("event_callbacks", SubscriptionEventCallbacks(use_default_callbacks=False))
        return super().create_subscription(*args, **options)

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        """Run `callback` on the executor's thread, in the order of the calls. From any thread; returns at once.

        What is handed over before the node is spun runs once it is; what an ended executor finds is dropped.
        """
        with self._soon_lock:
            self._soon.append((callback, args))
            executor = self.executor
            if self._soon_posted or executor is None:
                return
            self._soon_posted = True
        # An executor that just ended has lost its guard condition; the work is dropped with it.
        with suppress(AttributeError, InvalidHandle):
            executor.create_task(self._run_soon)

    def _run_soon(self) -> None:
        """Run what there is and what that hands over, but let the messages that wait have their turn now and then."""
        done = 0
        while True:
            with self._soon_lock:
                if not self._soon:
                    self._soon_posted = False
                    return
                if done >= SOON_AT_ONCE:
                    if self.executor is not None:
                        with suppress(AttributeError, InvalidHandle):
                            self.executor.create_task(self._run_soon)
                    return
                callback, args = self._soon.popleft()
            done += 1
            try:
                callback(*args)
            except Exception:  # noqa: BLE001 - logged with its traceback; the node lives on
                self.get_logger().error(f"a handed-over call failed:\n{traceback.format_exc()}")

    def steady_now(self) -> float:
        """Seconds on the steady clock, the clock of all that safety needs; simulated time does not touch it."""
        return time.monotonic()

    def steady_timer(self, period_s: float, callback: Callable[[], object]) -> Timer:
        """A timer on steady time: it runs on when simulated time stands still."""
        return self.create_timer(period_s, callback, clock=self._steady)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Later:
        """Run `callback` once after a delay on steady time, unless cancelled before. On the executor's thread."""
        return Later(self, delay_s, callback)

    def declare(
        self,
        name: str,
        default: T,
        description: str,
        *,
        minimum: float | None = None,
        maximum: float | None = None,
        choices: Sequence[str] = (),
        read_only: bool = True,
    ) -> T:
        """Declare a parameter and give its value. `description` names the unit.

        Raises NodeStartError when the configured value has another type, lies outside its range or is no choice.
        """
        descriptor = ParameterDescriptor(description=description, read_only=read_only)
        if choices:
            descriptor.additional_constraints = "one of: " + ", ".join(choices)
        if minimum is not None or maximum is not None:
            low = minimum if minimum is not None else -1e9
            high = maximum if maximum is not None else 1e9
            if isinstance(default, int):
                descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=0)]
            else:
                descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
        given = self._parameter_overrides.get(name)
        if isinstance(default, float) and given is not None and given.type_ is Parameter.Type.INTEGER:
            # 50 is a number of Hz as well as 50.0 is.
            self._parameter_overrides[name] = Parameter(name, Parameter.Type.DOUBLE, float(given.value))
        try:
            value = self.declare_parameter(name, default, descriptor).value
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            raise NodeStartError(f"parameter {name} of {self.get_fully_qualified_name()}: {error}") from error
        if choices and value not in choices:
            raise NodeStartError(
                f"parameter {name} of {self.get_fully_qualified_name()} is '{value}'; use one of {', '.join(choices)}"
            )
        return value

    def close(self) -> None:
        """Release what the node holds besides ROS entities (threads, child processes). Called once, at the end."""


class Later:
    """A call to come, made by `RuntimeNode.call_later`. On the executor's thread only."""

    def __init__(self, node: RuntimeNode, delay_s: float, callback: Callable[[], object]) -> None:
        self._node = node
        self._callback = callback
        self._timer: Timer | None = node.steady_timer(max(delay_s, 1e-6), self._fire)

    def cancel(self) -> None:
        """Do not call. Does nothing once it was called or cancelled."""
        if self._timer is not None:
            self._timer.cancel()
            self._node.destroy_timer(self._timer)
            self._timer = None

    def _fire(self) -> None:
        if self._timer is not None:
            self.cancel()
            self._callback()


class NodeHost:
    """Spins nodes on one single-threaded executor (0.6 ms a topic round trip; the multi-threaded one takes 3.3 ms).

    An exception in a callback is logged with its traceback and the nodes live on.
    """

    def __init__(self, nodes: Iterable[RuntimeNode] = (), *, context: Context | None = None) -> None:
        self._context = context if context is not None else rclpy.get_default_context()
        self._executor = make_executor(self._context)
        self._nodes: list[RuntimeNode] = []
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        for node in nodes:
            self.add(node)

    def add(self, node: RuntimeNode) -> None:
        self._nodes.append(node)
        self._executor.add_node(node)
        node.call_soon(lambda: None)

    def spin(self) -> None:
        """Serve callbacks until the context is shut down or `close` is called."""
        while self._context.ok() and not self._ending.is_set():
            try:
                self._executor.spin_once()
            except ExternalShutdownException:
                return
            except Exception:  # noqa: BLE001 - logged with its traceback; the node lives on
                if not self._context.ok():
                    return
                self._nodes[0].get_logger().error(f"a callback failed:\n{traceback.format_exc()}")

    def start(self) -> None:
        """Spin on a thread of its own, for programs whose main thread does something else."""
        self._thread = threading.Thread(target=self.spin, name="executor", daemon=True)
        self._thread.start()

    @property
    def nodes(self) -> tuple[RuntimeNode, ...]:
        return tuple(self._nodes)

    @property
    def ending(self) -> bool:
        """Whether `end` or `close` was called."""
        return self._ending.is_set()

    def end(self) -> None:
        """Have `spin` return when the callback that runs is done. From any thread."""
        self._ending.set()
        # rclpy's own executor goes back to its wait when it is only woken. One that just ended has no guard to trigger.
        with suppress(AttributeError, InvalidHandle):
            self._executor.create_task(lambda: None)

    def close(self) -> None:
        """Have the nodes close, end spinning and destroy them. From any thread but the executor's."""
        self.close_nodes()
        self.destroy()

    def close_nodes(self) -> None:
        """What the nodes hold besides ROS entities; they may still publish."""
        for node in self._nodes:
            node.close()

    def destroy(self) -> None:
        """End spinning and destroy the nodes' entities."""
        self.end()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        self._executor.shutdown()
        for node in self._nodes:
            node.destroy_node()

    def __enter__(self) -> NodeHost:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def run(*factories: Callable[[], RuntimeNode], args: Sequence[str] | None = None, frozen: bool = False) -> int:
    """The body of a node's `main()`: build the nodes, spin them in one process until SIGINT or SIGTERM, end cleanly.

    `frozen` keeps what was made at the start out of the garbage collector's way, whose full rounds else take 50 ms.
    Gives the exit status: 0, or 1 with one sentence in the log when a node could not start.
    """
    # A skill's thread that computes would else keep the executor waiting for 5 ms at a time.
    sys.setswitchinterval(0.001)
    if doubled := doubled_key(sys.argv if args is None else args):
        rclpy.logging.get_logger("ghostshell").fatal(doubled)
        return 1
    prefer_profiles()
    try:
        rclpy.init(args=list(args) if args is not None else None, signal_handler_options=rclpy.SignalHandlerOptions.NO)
    except RuntimeError as error:  # a file of parameters that is not there, an argument that is none
        rclpy.logging.get_logger("ghostshell").fatal(str(error))
        return 1
    host = NodeHost()
    signals = EndSignals(host.end)
    try:
        for factory in factories:
            if not host.ending:
                host.add(factory())
        _warn_of_unknown_parameters(host.nodes)
        if frozen:
            gc.collect()
            gc.freeze()
        host.spin()
    except (NodeStartError, ValueError) as error:
        rclpy.logging.get_logger("ghostshell").fatal(str(error))
        return 1
    finally:
        host.close_nodes()
        # Fast DDS now and then deadlocks when it lets go of endpoints while their peers end too.
        signal.setitimer(signal.ITIMER_REAL, END_S)
        host.destroy()
        signals.close()
        rclpy.try_shutdown()
        # What still holds an entity keeps the middleware's threads alive until it is torn down beneath them.
        del host, signals
        gc.unfreeze()
        gc.collect()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    return 0


def _warn_of_unknown_parameters(nodes: Sequence[RuntimeNode]) -> None:
    """A misspelt key would otherwise be ignored without a word. What one node of the process declares may be given to all."""
    declared = {name for node in nodes for name in node._parameters}
    for node in nodes:
        for name in sorted(set(node._parameter_overrides) - declared):
            if not name.startswith("qos_overrides."):
                near = difflib.get_close_matches(name, declared, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else f"; it knows {', '.join(sorted(node._parameters))}"
                node.get_logger().warning(f"there is no parameter '{name}', it is ignored{hint}")
