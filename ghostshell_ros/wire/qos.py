# SPDX-License-Identifier: Apache-2.0
"""Name the QoS profile of each kind of topic: reliable and volatile unless it says otherwise."""

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""States that a late subscriber needs at once (kernel_state, processes, halted, face)."""

LATCHED_BY_ANY = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Reads such a state where several nodes publish it: the message of one must not displace another's."""

STREAM = QoSProfile(depth=2000)
"""Chunks, tokens, call content and call control: none may be lost, and a burst must fit; publish once matched."""

EVENTS = QoSProfile(depth=2000)
"""Events: each may be an outcome that a node waits for, and a burst of refusals must fit."""

INSTRUCTION = QoSProfile(depth=200)
"""Instructions: a stop among a flood of them must not be lost."""

REQUESTS = QoSProfile(depth=200)
"""Requests and answers of services and actions, and feedback: a burst must fit, and rclpy's own profiles hold ten."""
ACTIONS = {f"{service}_service_qos_profile": REQUESTS for service in ("goal", "result", "cancel")}

SET_POINTS = QoSProfile(depth=20)
"""Joint set-points: drivers of disjoint joints share the topic, so the newest message is not the whole command."""

SENSORS = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Reads every sensor and publishes scans: only the newest counts, and a lost one must not delay the next."""

MEASUREMENTS = QoSProfile(depth=10)
"""Publishes odometry, joint states, IMU, battery and clock (REP 2003): a reliable reader would hear no best-effort one."""

OBSERVATION = QoSProfile(depth=10)
"""Observations: each may be the one that a reflex waits for."""

PLANS = QoSProfile(depth=50, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Plans of several processes on one topic: a late subscriber needs the newest of each."""

QUEUES = QoSProfile(depth=200)
"""Step queues and prompts: each change counts for whoever follows or records it."""

HEARTBEATS = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Heartbeats of several nodes on one topic: those of one must not displace another's, and a late one is useless."""

IMAGES = QoSProfile(depth=2)
"""Images are larger than a datagram, and best effort loses one with any of its parts; best-effort readers match too."""

DIAGNOSTICS = QoSProfile(depth=10)
"""Health reports of nodes."""
