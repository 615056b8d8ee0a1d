# SPDX-License-Identifier: Apache-2.0
"""Raise a process's priority above the others of the machine, where the user may do that."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ghostshell_ros.runtime.node import RuntimeNode

HINT = "allow it with 'rtprio' in /etc/security/limits.conf"


def take_declared_priority(node: RuntimeNode, realtime: int, nice: int) -> None:
    """Declare `realtime_priority` and `nice` with these defaults, raise the priority accordingly and log the result."""
    realtime = node.declare("realtime_priority", realtime, "SCHED_RR where the user may (RLIMIT_RTPRIO), 0 = never", 0, 99)
    nice = node.declare("nice", nice, "where SCHED_RR may not be (RLIMIT_NICE), 0 = as started", -20, 0)
    node.get_logger().info(take_priority(realtime, nice))


def take_priority(realtime: int, nice: int) -> str:
    """Raise the priority of all threads of this process and return the result as a sentence for the log.

    `realtime` is a priority of the real-time scheduler (SCHED_RR, 1 to 99), 0 for none. Where it is not allowed, `nice`
    (-20 to 0) is set. That counts only among the processes of one session where the kernel groups them by sessions
    (CONFIG_SCHED_AUTOGROUP, on in Debian and Ubuntu), and each launched node has its own, so it helps less.
    Threads that are created later inherit the priority, those of the middleware too.
    """
    refused = []
    for wanted, name, take in (
        (realtime, f"real-time priority {realtime}", lambda t: os.sched_setscheduler(t, os.SCHED_RR, os.sched_param(realtime))),
        (nice, f"nice {nice}", lambda t: os.setpriority(os.PRIO_PROCESS, t, nice)),
    ):
        if wanted:
            try:
                take(0)  # the calling thread first: where that fails, none is changed
                for thread in os.listdir("/proc/self/task"):
                    with suppress(ProcessLookupError):  # one that ended meanwhile
                        take(int(thread))
            except (OSError, AttributeError) as error:
                refused.append(f"{name} is not allowed ({error})")
            else:
                return "; ".join([f"runs at {name}", *refused])
    return "; ".join(["runs at ordinary priority", *refused, *([HINT] if refused else [])])
