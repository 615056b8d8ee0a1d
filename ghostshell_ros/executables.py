# SPDX-License-Identifier: Apache-2.0
"""Run the nodes and the command line: what setup.cfg names as console scripts. Importing a node takes a second; a Ctrl-C
meanwhile ends it without a word, for nothing has begun yet.

`python3 -m ghostshell_ros.executables observer` runs a node, or several in one process, without its script.
"""

import ctypes
import gc
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ghostshell_ros import halt_door

ENDING = (signal.SIGINT, signal.SIGTERM)
GONE_S = 1.5
"""Time that a node has to end when its launcher is gone."""
NODES = {
    "process_scheduler": "ProcessSchedulerNode",
    "action_planner": "ActionPlanner",
    "task_planner": "TaskPlannerNode",
    "token_parser": "TokenParser",
    "channel_scheduler": "ChannelScheduler",
    "skill_kernel": "SkillKernelNode",
    "safety_gate": "SafetyGate",
    "lifecycle_manager": "LifecycleManager",
    "object_detector": "ObjectDetector",
    "memory": "MemoryNode",
    "observer": "ObserverNode",
    "reflexes": "ReflexesNode",
    "teleop": "Teleop",
    "joint_forwarder": "JointForwarder",
    "team_planner": "TeamPlanner",
    "dashboard": "Dashboard",
    "sim": "Sim",
}
"""Classes of the nodes, each in ghostshell_ros.nodes.<name>.node."""
MIND = ("channel_scheduler", "token_parser", "action_planner", "task_planner", "process_scheduler")
"""The planning nodes, which `mind` names: one process."""


def without_generator() -> None:
    """Keep what every message imports from loading ROS's code generator beside it: 4 MB and 0.1 s for nothing."""
    modules: dict[str, Any] = sys.modules
    modules.setdefault("rosidl_generator_py.generate_py_impl", None)


def drop_code() -> None:
    """Give back the memory of the code of all libraries: what of it runs again is read from their files again. On Linux."""
    madvise, unneeded = ctypes.CDLL(None).madvise, 4  # MADV_DONTNEED
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        addresses, access, _, _, _, *name = line.split(maxsplit=5)
        # Only pages that cannot have been written to.
        if access == "r-xp" and name and name[0].startswith("/"):
            begin, end = (int(address, 16) for address in addresses.split("-"))
            madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), unneeded)


def outlives(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether nodes go on when their launcher is gone, because a service manager ends them."""
    return environment.get("GHOSTSHELL_OUTLIVE", "").lower() == "true"


def _end_with(parent: int) -> None:
    """End this process by SIGTERM when its parent, the launcher, has ended, and by SIGALRM `GONE_S` later."""
    with suppress(ProcessLookupError):
        if os.getppid() == parent:  # else it has ended before
            select.select([os.pidfd_open(parent)], [], [])
    signal.setitimer(signal.ITIMER_REAL, GONE_S)
    os.kill(os.getpid(), signal.SIGTERM)


def ghostshell() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["halt"] and halt_door.main(sys.argv[2:]) == 0:
        return
    without_generator()
    before = {number: signal.signal(number, lambda n, _: os._exit(128 + n)) for number in ENDING}
    main = import_module("ghostshell_ros.cli.main").main
    for number, handler in before.items():
        signal.signal(number, handler)
    main()


def run(*names: str) -> int:
    """Run the nodes that the command line names, or these, in one process."""
    without_generator()
    gc.disable()  # until the nodes have been made: little of what is made by then goes again
    for number in ENDING:
        signal.signal(number, lambda *_: os._exit(0))  # until the nodes' own handlers take over
    if sys.platform == "linux" and (parent := os.getppid()) > 1 and not outlives():
        threading.Thread(target=_end_with, args=(parent,), name="launcher", daemon=True).start()
    end = sys.argv.index("--ros-args") if "--ros-args" in sys.argv else None
    words = " ".join(sys.argv[1:end]).split() or names
    named = [name for word in words for name in (MIND if word == "mind" else (word,))]
    if unknown := [name for name in named if name not in NODES and name != "drivers"]:
        sys.stderr.write(f"there is no node '{unknown[0]}'; name one of {', '.join(NODES)}, drivers, mind\n")
        return 1
    try:
        makers = [_maker(name) for name in named]
    except ImportError as error:  # it would fail the next time, too
        sys.stderr.write(f"{' '.join(named)} cannot be imported ({error}); run make setup, or install what is missing\n")
        return os.EX_CONFIG
    return int(import_module("ghostshell_ros.runtime.node_runtime").run(*makers))


def _maker(name: str) -> Callable[[], Any]:
    if name == "drivers":
        module, maker = "ghostshell_ros.drivers.driver", "declared_drivers"
    else:
        module, maker = f"ghostshell_ros.nodes.{name}.node", NODES[name]
    found: Callable[[], Any] = getattr(import_module(module), maker)
    return found


def __getattr__(name: str) -> Callable[[], int]:
    if name in NODES or name in ("drivers", "mind"):
        return partial(run, name)
    raise AttributeError(f"module '{__name__}' has no executable '{name}'")


if __name__ == "__main__":
    sys.exit(run())
