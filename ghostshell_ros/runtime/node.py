# SPDX-License-Identifier: Apache-2.0
"""Give every node parameters, clocks, one-shot timers, work on the executor's thread, and its health on /diagnostics."""

from __future__ import annotations

import concurrent.futures
import inspect
import os
import socket
import stat
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from functools import partial, wraps
from typing import Any, TypeVar

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.clock import Clock, ClockType
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.exceptions import InvalidHandle, InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.task import Future
from rclpy.timer import Timer

from ghostshell_ros.runtime.lean_executor import LeanExecutor
from ghostshell_ros.wire.qos import DIAGNOSTICS, REQUESTS
from skill_kernel.codes import TaskCode
from skill_kernel.events import Notice

R = TypeVar("R")
T = TypeVar("T", bool, int, float, str, "list[str]", "list[float]")

PERIOD_S, REST_PERIOD_S = 1.0, 2.0
"""Time between two reports, and between two looks for a reader. Aggregators take a node as stale after 5 s of silence."""
BUSY_LOAD = 0.9
"""Share of the last second spent in callbacks from which on a node counts as overloaded."""
BLOCKED_S = 0.25
"""A callback this long delays heartbeats and halts; it belongs on a thread of its own."""
SOON_AT_ONCE = 100
"""Handed-over calls that run in a row before messages have their turn."""
FAILURES_KEPT = 64
ROOM_BYTES = 1_000_000
"""Receive buffer of each socket of the middleware, as far as net.core.rmem_max goes. A process that joins is greeted by all
others at once: the system's 208 kB do not hold it, and what is dropped of it comes a second later. No profile of Fast DDS can
say this for the transports that rmw_fastrtps makes itself; one that a profile adds sends each datagram once more."""
OF_A_COMMAND: dict[str, Any] = {
    "use_global_arguments": False,
    "start_parameter_services": False,
    "enable_rosout": False,
    "parameter_overrides": [Parameter("start_type_description_service", value=False)],
}
"""Options of a command's node: of the endpoints that it announces fewer get lost, each of which costs a second."""

_works_for: ContextVar[str] = ContextVar("works_for", default="")
"""Process for which the running callback works; what it hands over, times or asks works for it, too."""


class Level(Enum):
    """Name the levels of a DiagnosticStatus."""

    OK = DiagnosticStatus.OK
    WARN = DiagnosticStatus.WARN
    ERROR = DiagnosticStatus.ERROR


@dataclass(frozen=True)
class Health:
    """Hold a node's report on itself: one sentence, and the numbers an engineer asks for first (name with unit → value)."""

    message: str = "runs"
    level: Level = Level.OK
    values: Mapping[str, object] = field(default_factory=dict)


class NodeStartError(ValueError):
    """Raised when a node cannot start as it is configured; the message says what to change."""


class RuntimeNode(Node):
    """Be the base of every node. Threads of a node use rclpy only through its executor, by `call_soon`.

    rclpy's action clients and servers may not be called from other threads: a response may be taken before its request
    is filed.

    A callback that raises ends what it worked for: its process (`give_up`), its goal, its request. The node lives on.

    Publishes /diagnostics (diagnostic_msgs/DiagnosticArray, every second): the node's `health` and the executor's load.
    """

    _events: Any = None
    """The EventWriter of a node that writes notices."""

    own_thread = False
    """True for a node with a thread of its own in a process of several nodes, so that their callbacks do not delay its own."""

    sends_images = False
    """True for a node whose process needs room for many images in shared memory."""

    def __init__(self, name: str, **options: Any) -> None:
        self._failures: deque[str] = deque(maxlen=FAILURES_KEPT)
        """Tracebacks and processes of callbacks that raised, each told once."""
        super().__init__(name, **options)
        _make_room()
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._soon: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._soon_lock = threading.Lock()
        self._soon_posted = False
        self.goal_servers: list[Any] = []
        """The node's GoalServers, in the order they were made."""
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", DIAGNOSTICS)
        Beat(self, PERIOD_S, REST_PERIOD_S, self._diagnostics.get_subscription_count, self._report_health)

    def health(self) -> Health:
        """Return the report that /diagnostics publishes once a second; subclasses extend it. On the executor's thread."""
        return Health()

    def _report_health(self) -> None:
        """Publish the health of the node and its executor, with the worse of the two as the level."""
        if not self._diagnostics.get_subscription_count():
            return
        health = self.health()
        values = dict(health.values)
        level, text = health.level, health.message
        if self.goal_servers:
            values["goals running"] = sum(len(server.goals) for server in self.goal_servers)
        load, longest_s = self.executor.load if isinstance(self.executor, LeanExecutor) else (0.0, 0.0)
        values["executor load [%]"] = round(100 * load)
        values["longest callback [ms]"] = f"{1e3 * longest_s:.1f}"
        if level is Level.OK and longest_s > BLOCKED_S:
            level, text = Level.WARN, f"{text}; a callback took {longest_s:.2f} s, and its whole process waited"
        elif level is Level.OK and load > BUSY_LOAD:
            level, text = Level.WARN, f"{text}; its executor is busy {load:.0%} of the time"
        if self._failures and level is not Level.ERROR:
            level, text = Level.WARN, f"{text}; a callback has failed, see the log"
        status = DiagnosticStatus(
            level=level.value,
            name=self.get_fully_qualified_name().lstrip("/"),
            message=text,
            hardware_id=self.get_namespace().strip("/"),
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)

    def refuses_goals(self) -> str:
        """Return why a goal that comes now is rejected; empty while goals are taken."""
        return ""

    def create_publisher(self, *args: Any, **options: Any) -> Publisher:
        """Create a publisher without rclpy's QoS event handler, which is a third of what the executor waits for.

        A subscriber with an incompatible QoS logs a warning on its own side.
        """
        options.setdefault("event_callbacks", PublisherEventCallbacks(use_default_callbacks=False))
        return super().create_publisher(*args, **options)

    def create_subscription(self, *args: Any, **options: Any) -> Subscription:
        """Create a subscription without rclpy's QoS event handler."""
        options.setdefault("event_callbacks", SubscriptionEventCallbacks(use_default_callbacks=False))
        kind, topic, callback, *rest = args
        return super().create_subscription(kind, topic, self.guarded(callback), *rest, **options)

    def create_timer(self, timer_period_sec: float, callback: Callable[..., Any], *args: Any, **options: Any) -> Timer:
        return super().create_timer(timer_period_sec, self.guarded(callback), *args, **options)

    def create_service(self, srv_type: Any, srv_name: str, callback: Callable[..., Any], **options: Any) -> Service:
        """Create a service, whose caller is answered with NODE_UNAVAILABLE and a sentence when `callback` raises."""

        async def answer(request: Any, response: Any) -> Any:
            try:
                made = callback(request, response)
                return await made if inspect.isawaitable(made) else made
            except Exception as error:  # noqa: BLE001 - whoever asked must have an answer
                why = self.caught(error, self.process_of(request))
                return with_reason(srv_type.Response(), TaskCode.NODE_UNAVAILABLE, why)

        options.setdefault("qos_profile", REQUESTS)
        return super().create_service(srv_type, srv_name, answer, **options)

    def guarded(self, callback: Callable[..., Any], process_id: str = "") -> Callable[..., Any]:
        """Return a callback that raises nothing and ends its process instead.

        That is `process_id`, else the one that its first argument names, else that of the callback which guards it.
        """
        given = process_id or _works_for.get()

        @wraps(callback, assigned=(), updated=())  # rclpy tells by the signature whether the message alone is wanted
        def run(*args: Any) -> Any:
            before = _works_for.set(process_id or (self.process_of(args[0]) if args else "") or given)
            try:
                return callback(*args)
            except Exception as error:  # noqa: BLE001 - the node lives on
                self.caught(error, _works_for.get())
            finally:
                _works_for.reset(before)

        return run

    def process_of(self, message: Any) -> str:
        """Return the process that a message is about, "" for none."""
        return str(getattr(message, "process_id", ""))

    def caught(self, error: Exception, process_id: str = "") -> str:
        """Log what a callback raised, once, give its process up, and return the sentence that ends what it worked for."""
        if not self.context.ok():
            raise error
        why = f"node {self.get_name()} failed at its work ({type(error).__name__}); its log says where"
        trace = "".join(traceback.format_exception(error))
        if trace not in self._failures:
            self._failures.append(trace)
            self.get_logger().error(f"a callback failed:\n{trace}")
        if process_id and process_id not in self._failures:
            self._failures.append(process_id)
            self.give_up(process_id, why)
        return why

    def give_up(self, process_id: str, why: str) -> None:
        """Have a process ended for which a callback of this node failed."""
        if self._events is not None:
            self._events.write(Notice(process_id=process_id, error_code=TaskCode.NODE_UNAVAILABLE, error_msg=why))

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        """Run `callback` on the executor's thread, in the order of the calls. From any thread; returns at once.

        Calls that are handed over before the node is spun run once it is; those for an ended executor are dropped.
        """
        with self._soon_lock:
            self._soon.append((self.guarded(callback), args))
            if self._soon_posted or self.executor is None:
                return
            self._soon_posted = True
        self._post_soon()

    def _post_soon(self) -> None:
        # An executor that just ended has lost its guard condition, and its work is dropped.
        if self.executor is not None:
            with suppress(AttributeError, InvalidHandle):
                self.executor.create_task(self._run_soon)

    def _run_soon(self) -> None:
        """Run the handed-over calls and those they hand over; after SOON_AT_ONCE of them, messages have their turn."""
        for _ in range(SOON_AT_ONCE):
            with self._soon_lock:
                if not self._soon:
                    self._soon_posted = False
                    return
                callback, args = self._soon.popleft()
            callback(*args)
        self._post_soon()

    async def run_on(self, pool: ThreadPoolExecutor, work: Callable[[], R]) -> R:
        """Return what `work` returns on a thread of a pool, or raise what it raises; callbacks are served meanwhile."""
        done: Future = Future(executor=self.executor)
        pool.submit(work).add_done_callback(partial(self.call_soon, done.set_result))
        ended: concurrent.futures.Future[R] = await done
        return ended.result()

    def steady_now(self) -> float:
        """Return seconds on the steady clock, on which safety relies and which simulated time does not change."""
        return time.monotonic()

    def now_s(self) -> float:
        """Return ROS time in seconds."""
        return float(self.get_clock().now().nanoseconds) * 1e-9

    def steady_timer(self, period_s: float, callback: Callable[[], object]) -> Timer:
        """Create a timer on steady time, which goes on while simulated time stands still."""
        return self.create_timer(period_s, callback, clock=self._steady)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Later:
        """Run `callback` once after a delay on steady time, unless cancelled before. On the executor's thread."""
        return Later(self, self.steady_timer, delay_s, callback)

    def declare(
        self,
        name: str,
        default: T,
        description: str,
        minimum: float | None = None,
        maximum: float | None = None,
        *,
        choices: Sequence[str] = (),
        read_only: bool = True,
    ) -> T:
        """Declare a parameter of minimum to maximum and return its value. `description` names the unit.

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
            # A number of Hz may be given as 50 as well as 50.0.
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


def with_reason(result: Any, code: int, text: str) -> Any:
    """Return a result or response with its error code and text, as far as its interface has fields for them."""
    if hasattr(result, "error_code"):
        result.error_code = int(code)
    if name := next((name for name in ("error_msg", "error_string", "message") if hasattr(result, name)), ""):
        setattr(result, name, text)
    return result


def _make_room() -> None:
    """Give the middleware's sockets the receive buffer that they need, where /dev/fd tells of them."""
    for fd in map(int, os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else ()):
        with suppress(OSError):  # listing them took one that is closed by now
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                with socket.socket(fileno=os.dup(fd)) as one:
                    if (one.family, one.type) == (socket.AF_INET, socket.SOCK_DGRAM):
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM_BYTES)


class Later:
    """Hold a call that `RuntimeNode.call_later` or a clock will make. On the executor's thread only."""

    def __init__(
        self,
        node: RuntimeNode,
        create_timer: Callable[[float, Callable[[], None]], Timer],
        delay_s: float,
        callback: Callable[[], object],
    ) -> None:
        self._node = node
        self._callback = callback
        self._timer: Timer | None = create_timer(max(delay_s, 1e-6), self._fire)

    def cancel(self) -> None:
        """Cancel the call, unless it was made or cancelled before."""
        if self._timer is not None:
            self._timer.cancel()
            self._node.destroy_timer(self._timer)
            self._timer = None

    def _fire(self) -> None:
        if self._timer is not None:
            self.cancel()
            self._callback()


class Beat:
    """Call `act` every `period_s` while `busy()` holds, and every `rest_s` while it does not. On the executor's thread only."""

    def __init__(
        self, node: RuntimeNode, period_s: float, rest_s: float, busy: Callable[[], object], act: Callable[[], object]
    ) -> None:
        self._busy, self._act = busy, act
        self._period_ns, self._rest_ns = round(period_s * 1e9), round(rest_s * 1e9)
        self._timer = node.steady_timer(period_s, self.now)

    def now(self) -> None:
        """Act at once, because there is new work, and then at its rate."""
        self._act()
        period_ns = self._period_ns if self._busy() else self._rest_ns
        if self._timer.timer_period_ns != period_ns:
            self._timer.timer_period_ns = period_ns
            self._timer.reset()


class RosClock:
    """Implement `skill_kernel.clock.Clock` on ROS time, so that `use_sim_time` holds for skills and pauses alike."""

    def __init__(self, node: RuntimeNode) -> None:
        self.now = node.now_s
        self.call_later = partial(Later, node, node.create_timer)


class SteadyClock:
    """Implement `skill_kernel.clock.Clock` on steady time, which a model needs also in a simulation."""

    def __init__(self, node: RuntimeNode) -> None:
        self.now = node.steady_now
        self.call_later = node.call_later
