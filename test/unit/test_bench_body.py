# SPDX-License-Identifier: Apache-2.0
"""A call counts on the moving robot only where the body bears it out."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bench.body import Body, borne_out
from bench.calls import CallRun
from bench.evaluation.trace import PoseAt
from skill_kernel.codes import Outcome


def run(function: str, channel: str, parent: str = "", **arguments: Any) -> CallRun:
    return CallRun(function, "p", "s", parent, function, (channel,), arguments, start_s=1.0, end_s=3.0, outcome=Outcome.DONE)


def body(walked_m: float = 0.0, turned_deg: float = 0.0, heading: float = 0.0, leg_rad: float = 0.0, face: str = "") -> Body:
    parts = [i / 20 for i in range(21)]
    poses = [
        PoseAt(
            1.0 + 2 * p,
            walked_m * p * math.cos(heading),
            walked_m * p * math.sin(heading),
            math.remainder(heading + math.radians(turned_deg) * p, math.tau),
        )
        for p in parts
    ]
    joints = [(1.0 + 2 * p, {"leg1_knee": leg_rad * math.sin(math.pi * p), "ear_left": 0.0}) for p in parts]
    return Body(joints, poses, [(1.1, face)] if face else [])


@pytest.mark.parametrize(
    ("call", "true", "false"),
    [
        (run("spider_run_distance", "legs", distance=30.0), body(0.31, heading=2.0), body(0.2, heading=2.0)),
        (run("spider_run_distance", "legs", distance=-10.0), body(-0.1), body(0.1)),
        (run("spider_rotate", "legs", angle=360.0), body(turned_deg=350.0), body(turned_deg=-350.0)),
        (run("spider_wave_move", "legs", times=2), body(leg_rad=0.3), body(leg_rad=0.01)),
        (run("shake_ears", "ear_left"), Body([(1.0, {"ear_left": 0.0}), (2.0, {"ear_left": 0.4})]), body(leg_rad=1.0)),
        (run("display_face", "face", face="shy"), body(face="shy"), body(face="happy")),
        (run("emotion", "face", emo="loving"), body(face="love"), Body()),
    ],
    ids=lambda value: value.function if isinstance(value, CallRun) else "",
)
def test_what_is_reported_as_done_counts_where_the_body_did_it(call: CallRun, true: Body, false: Body) -> None:
    assert borne_out(call, true, [call]) is call
    belied = borne_out(call, false, [call])
    assert belied.outcome is Outcome.FAILED and belied.error
    assert borne_out(call, Body(), [call]).outcome is Outcome.FAILED


def test_a_turn_that_is_held_round_others_ends_with_them() -> None:
    turn = run("spider_rotate", "legs", angle=360.0)
    assert borne_out(turn, body(turned_deg=200.0), [turn]).outcome is Outcome.FAILED
    assert borne_out(turn, body(turned_deg=200.0), [turn, run("text", "main", parent="spider_rotate")]) is turn
