# SPDX-License-Identifier: Apache-2.0
"""Tell from what was true of CoCo's body in the simulator whether it bears out a call that is reported as done."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bench.calls import CallRun
from bench.evaluation.trace import PoseAt
from bench.evaluation.truth import turned
from ghostshell_ros.drivers.faces import EMOTIONS
from skill_kernel.codes import Outcome

SLACK_S = 0.35
"""Times are measured, and a tag of a stream takes a tenth of a second and more to be written."""
MOVED_RAD = 0.05
"""A joint has moved that was so far from where it was."""
WALK_M, WALK_SHARE = 0.03, 0.15
TURN_RAD, TURN_SHARE = math.radians(8.0), 0.1
"""A way and a turn may be off by so much, or by such a share."""
LIMBS = {"legs": "leg", "head": "head", "ear_left": "ear_left", "ear_right": "ear_right"}
"""Beginnings of the names of the joints of a channel."""


@dataclass
class Body:
    """Hold what was true of the body: joints by name, poses and faces, each with its times."""

    joints: list[tuple[float, Mapping[str, float]]] = field(default_factory=list)
    poses: list[PoseAt] = field(default_factory=list)
    faces: list[tuple[float, str]] = field(default_factory=list)

    def belies(self, call: CallRun) -> str:
        """Return what the body did not do of a call that is reported as done; "" where it bears it out."""
        assert call.start_s is not None and call.end_s is not None
        if call.function == "spider_run_distance":
            return _short(self._walked(call), call.arguments["distance"] / 100.0, WALK_M, WALK_SHARE, "m")
        if call.function == "spider_rotate":
            return _short(self._turned(call), math.radians(call.arguments["angle"]), TURN_RAD, TURN_SHARE, "rad")
        for channel in call.channels:
            if channel in LIMBS and self._moved(LIMBS[channel], call.start_s, call.end_s) < MOVED_RAD:
                return f"no joint of '{channel}' moved"
        wanted = call.arguments.get("face") or EMOTIONS.get(str(call.arguments.get("emo", "")), "")
        shown = {name for at, name in self.faces if call.start_s - SLACK_S <= at <= call.end_s}
        return f"the display did not show '{wanted}'" if "face" in call.channels and wanted and wanted not in shown else ""

    def _between(self, since: float, until: float) -> list[PoseAt]:
        return [p for p in self.poses if since <= p.at <= until]

    def _walked(self, call: CallRun) -> float:
        on_way = self._between(call.start_s or 0.0, (call.end_s or 0.0) + 0.1)
        if not on_way:
            return 0.0
        first, last = on_way[0], on_way[-1]
        return (last.x - first.x) * math.cos(first.yaw) + (last.y - first.y) * math.sin(first.yaw)

    def _turned(self, call: CallRun) -> float:
        return (turned(self._between(call.start_s or 0.0, (call.end_s or 0.0) + 0.1)) or [0.0])[-1]

    def _moved(self, begin: str, since: float, until: float) -> float:
        low, high = (bisect.bisect(self.joints, at, key=lambda known: known[0]) for at in (since - 0.1, until))
        states = [state for _, state in self.joints[low:high]]
        names = [name for name in states[0] if name.startswith(begin)] if states else []
        return max((max(s[n] for s in states) - min(s[n] for s in states) for n in names), default=0.0)


def _short(did: float, wanted: float, least: float, share: float, unit: str) -> str:
    off = abs(did - wanted)
    return "" if off <= max(least, share * abs(wanted)) else f"it moved by {did:.2f} {unit} in place of {wanted:.2f}"


def borne_out(call: CallRun, body: Body, calls: Sequence[CallRun]) -> CallRun:
    """Return the call, as FAILED where the body belies it. What was held around others is cut short with them."""
    if call.outcome is not Outcome.DONE or call.start_s is None or call.end_s is None:
        return call
    held = any(other.parent_id == call.call_id for other in calls)
    fault = "" if held and call.function in ("spider_run_distance", "spider_rotate") else body.belies(call)
    return replace(call, outcome=Outcome.FAILED, error=fault) if fault else call
