# SPDX-License-Identifier: Apache-2.0
"""Run the process of nodes: its start from the command line, its executor, its signals and its clean end."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise, zip_longest
from pathlib import Path

import rclpy
import yaml
from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException

from ghostshell_ros.executables import ENDING, drop_code
from ghostshell_ros.runtime.data import config_folder
from ghostshell_ros.runtime.lean_executor import LeanExecutor
from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode
from skill_kernel.config.sections import nearest
from skill_kernel.config.yaml_text import compose_yaml, first_duplicate, what_is_wrong

END_S = 5.0
"""After this long SIGALRM ends a process that still destroys ROS entities; a launcher would wait ten seconds."""
HUNG_S = 20.0
"""A process whose executor or middleware has not moved for so long ends itself."""


class EndSignals:
    """Call `callback` on a thread of its own at each SIGINT or SIGTERM. Create it in the main thread, once a process.

    Python's handlers run only when the main thread returns from its wait, and rclpy's shuts the context down while the
    executor still uses it, which sometimes ends in a hang or a segmentation fault.
    """

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback
        heard, self._told = os.pipe()
        os.set_blocking(self._told, False)
        signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        for number in ENDING:
            signal.signal(number, lambda *_: None)
        self._thread = threading.Thread(target=self._listen, args=(heard,), name="signals", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ignore signals from now on, so that none kills the process in its last lines.

        A terminal and a launcher each send a SIGINT, and at its end the interpreter restores the default action in the
        place of every other handler.
        """
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        os.close(self._told)
        self._thread.join()

    def _listen(self, heard: int) -> None:
        while received := os.read(heard, 1):
            if received[0] in ENDING:
                self._callback()
        os.close(heard)


class NodeHost:
    """Spin nodes on one single-threaded executor (0.6 ms a topic round trip; the multi-threaded one takes 3.3 ms).

    An exception in a callback is logged with its traceback and the nodes live on.
    """

    def __init__(self, nodes: Iterable[RuntimeNode] = (), *, context: Context | None = None) -> None:
        self._context = context if context is not None else rclpy.get_default_context()
        self._executor = LeanExecutor(context=self._context)
        self.nodes: list[RuntimeNode] = []
        """The nodes, in the order in which they were added."""
        self.ending = threading.Event()
        """Set once `end` or `close` was called."""
        self._thread: threading.Thread | None = None
        for node in nodes:
            self.add(node)

    def add(self, node: RuntimeNode) -> None:
        """Spin a node from now on."""
        self.nodes.append(node)
        self._executor.add_node(node)
        node.call_soon(lambda: None)

    def spin(self) -> None:
        """Serve callbacks until the context is shut down or `close` is called."""
        while self._context.ok() and not self.ending.is_set():
            try:
                self._executor.spin_once()
            except ExternalShutdownException:
                return
            except Exception:  # noqa: BLE001 - logged with its traceback; the node lives on
                if not self._context.ok():
                    return
                self.nodes[0].get_logger().error(f"a callback failed:\n{traceback.format_exc()}")

    def start(self) -> None:
        """Spin on a thread of its own."""
        self._thread = threading.Thread(target=self.spin, name="executor", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let `spin` return after the callback that runs. From any thread."""
        self.ending.set()
        # One that just ended has no guard to trigger.
        with suppress(AttributeError, InvalidHandle):
            self._executor.wake()

    def close(self) -> None:
        """End spinning, close the nodes and destroy them. From any thread but the executor's."""
        self.stop()
        self.destroy()

    def stop(self) -> None:
        """End spinning, and let the nodes release what they hold besides ROS entities; they may still publish."""
        self.end()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        for node in self.nodes:
            node.close()

    def destroy(self) -> None:
        self._executor.shutdown()
        for node in self.nodes:
            node.destroy_node()

    def __enter__(self) -> NodeHost:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def run(*factories: Callable[[], RuntimeNode | Sequence[RuntimeNode]]) -> int:
    """Build nodes and spin them in one process until SIGINT or SIGTERM: the body of a node's `main()`.

    A factory returns one node or several. Returns the exit status: 0, or EX_CONFIG with one sentence in the log when a node
    could not start, as it would not the next time.
    """
    # A skill that computes on its thread would otherwise keep the executor waiting for 5 ms at a time.
    sys.setswitchinterval(0.001)
    if doubled := doubled_key(sys.argv):
        rclpy.logging.get_logger("ghostshell").fatal(doubled)
        return os.EX_CONFIG
    prefer_profiles(images=any(getattr(factory, "sends_images", False) for factory in factories))
    try:
        rclpy.init(signal_handler_options=rclpy.SignalHandlerOptions.NO)
    except RuntimeError as error:  # a file of parameters that is not there, an argument that is none
        rclpy.logging.get_logger("ghostshell").fatal(str(error))
        return os.EX_CONFIG
    hosts = [NodeHost()]
    signals = EndSignals(hosts[0].end)
    try:
        for factory in factories:
            if not hosts[0].ending.is_set():
                _add(hosts, factory(), alone=len(factories) == 1)
        if not hosts[0].ending.is_set():  # else some of the nodes that know them are missing
            _warn_of_unknown_parameters([node for host in hosts for node in host.nodes])
        # Objects made at the start stay; full rounds of the garbage collector over them take 50 ms.
        gc.collect()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)
            drop_code()  # most of it ran once, to get here
        gc.freeze()
        gc.enable()
        if hosts[0].nodes:
            hosts[0].nodes[0].steady_timer(1.0, _while_alive())
        for host in hosts[1:]:
            host.start()
        hosts[0].spin()
    except (NodeStartError, ValueError) as error:
        rclpy.logging.get_logger("ghostshell").fatal(str(error))
        return os.EX_CONFIG
    finally:
        for host in hosts:
            host.stop()
        with bounded_end():
            for host in hosts:
                host.destroy()
            signals.close()
            rclpy.try_shutdown()
            # A node, or another object that still holds an entity, keeps the middleware's threads alive. One that is torn down
            # while it holds a lock of the shared memory stops all other processes for seconds.
            del host, hosts, signals
            gc.unfreeze()
            gc.collect()
    return 0


def _add(hosts: list[NodeHost], made: RuntimeNode | Sequence[RuntimeNode], *, alone: bool) -> None:
    """Add the nodes that a factory has returned to the first host, or where one wants a thread of its own, to one for it."""
    for node in made if isinstance(made, Sequence) else [made]:
        if node.own_thread and not alone:
            hosts.append(NodeHost([node]))
        else:
            hosts[0].add(node)


@contextmanager
def bounded_end() -> Iterator[None]:
    """End the process by SIGALRM when the block takes longer than `END_S`: Fast DDS sometimes deadlocks when it releases
    endpoints while their peers end too (https://github.com/eProsima/Fast-DDS/issues/6502)."""
    signal.setitimer(signal.ITIMER_REAL, signal.getitimer(signal.ITIMER_REAL)[0] or END_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)


def _while_alive() -> Callable[[], None]:
    """Return what puts off the end of a process that hangs, when called each second, for as long as Fast DDS's event thread
    wakes, which announces the process to others. Else faulthandler, which needs no lock of Python's, writes all stacks."""
    events = [file.with_name("status") for file in Path("/proc/self/task").glob("*/comm") if file.read_text()[:7] == "dds.ev."]
    before: list[str] = []

    def look() -> None:
        now = [file.read_text(encoding="utf-8").rpartition("\nvoluntary")[2] for file in events]
        if all(a != b for a, b in zip_longest(now, before)):
            faulthandler.dump_traceback_later(HUNG_S, exit=True)
        before[:] = now

    return look


def _warn_of_unknown_parameters(nodes: Sequence[RuntimeNode]) -> None:
    """Warn of parameters that no node of the process declares: a misspelt one would be ignored in silence."""
    declared = {name for node in nodes for name in node._parameters}
    for node in nodes:
        for name in sorted(set(node._parameter_overrides) - declared):
            if not name.startswith("qos_overrides."):
                hint = nearest(name, declared) or f"; it knows {', '.join(sorted(node._parameters))}"
                node.get_logger().warning(f"there is no parameter '{name}', it is ignored{hint}")


PROFILES = "FASTRTPS_DEFAULT_PROFILES_FILE"
"""Environment variable that names a file of profiles. https://fast-dds.docs.eprosima.com, "Environment variables"."""


def prefer_profiles(*, images: bool = False) -> None:
    """Let Fast DDS read the project's profiles, with room for `images` where this process sends some, unless the environment
    names others; before `rclpy.init`."""
    ours = config_folder() / "fastdds.xml"
    named = os.environ.get(PROFILES)
    if not named or (images and Path(named).is_file() and ours.samefile(named)):
        os.environ[PROFILES] = str(ours.with_name("fastdds_images.xml") if images else ours)


def doubled_key(args: Sequence[str]) -> str:
    """Return a sentence on the first key given twice in a section of a command line's parameter files, or "".

    rcl silently takes the last of two; it reports all other mistakes itself.
    """
    for option, name in pairwise(args):
        if option != "--params-file":
            continue
        try:
            root = compose_yaml(Path(name).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue
        sections = root.value if isinstance(root, yaml.MappingNode) else []
        for _, section in sections:
            if twice := first_duplicate(section):
                return f"{name}, {what_is_wrong(twice)}"
    return ""
