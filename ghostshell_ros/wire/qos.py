# SPDX-License-Identifier: Apache-2.0
"""Name the QoS profile of each kind of topic."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy


def _qos(reliability: ReliabilityPolicy, depth: int, *, latched: bool = False) -> QoSProfile:
    durability = DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=reliability, durability=durability)


LATCHED = _qos(ReliabilityPolicy.RELIABLE, 1, latched=True)
"""States that a late subscriber needs at once (kernel_state, processes, halted, face)."""

LATCHED_BY_ANY = _qos(ReliabilityPolicy.RELIABLE, 10, latched=True)
"""Reads such a state where several nodes publish it: the message of one must not displace another's."""

STREAM = _qos(ReliabilityPolicy.RELIABLE, 2000)
"""Chunks, tokens, call content and call control: none may be lost, and a burst must fit; publish once matched."""

EVENTS = _qos(ReliabilityPolicy.RELIABLE, 2000)
"""Events: each may be an outcome that a node waits for, and a burst of refusals must fit."""

INSTRUCTION = _qos(ReliabilityPolicy.RELIABLE, 200)
"""Instructions: a stop among a flood of them must not be lost."""

SET_POINTS = _qos(ReliabilityPolicy.RELIABLE, 20)
"""Joint set-points: drivers of disjoint joints share the topic, so the newest message is not the whole command."""

SENSORS = _qos(ReliabilityPolicy.BEST_EFFORT, 5)
"""Reads every sensor and publishes scans: only the newest counts, and a lost one must not delay the next."""

MEASUREMENTS = _qos(ReliabilityPolicy.RELIABLE, 10)
"""Publishes odometry, joint states, IMU, battery and clock (REP 2003): a reliable reader would hear no best-effort one."""

OBSERVATION = _qos(ReliabilityPolicy.RELIABLE, 10)
"""Observations: each may be the one that a reflex waits for."""

PLANS = _qos(ReliabilityPolicy.RELIABLE, 50, latched=True)
"""Plans of several processes on one topic: a late subscriber needs the newest of each."""

QUEUES = _qos(ReliabilityPolicy.RELIABLE, 200)
"""Step queues and prompts: each change counts for whoever follows or records it."""

HEARTBEATS = _qos(ReliabilityPolicy.BEST_EFFORT, 50)
"""Heartbeats of several nodes on one topic: those of one must not displace another's, and a late one is useless."""

IMAGES = _qos(ReliabilityPolicy.RELIABLE, 2)
"""Images are larger than a datagram, and best effort loses one with any of its parts; best-effort readers match too."""

DIAGNOSTICS = _qos(ReliabilityPolicy.RELIABLE, 10)
"""Health reports of nodes."""
