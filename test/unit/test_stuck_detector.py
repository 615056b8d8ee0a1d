# SPDX-License-Identifier: Apache-2.0
"""The detector of stuck robots, which tests of faults rely on."""

from __future__ import annotations

from stuck import StuckDetector


def passes(detector: StuckDetector, begin_s: int, end_s: int, *, speed: float = 0.0) -> list[str]:
    """Time goes by; what is complained of by then."""
    for second in range(begin_s, end_s):
        detector.commanded(second, speed)
        detector.look(second)
    return detector.complaints


def test_a_process_in_progress_without_a_sign_of_life_is_stuck_and_told_once() -> None:
    detector = StuckDetector(idle_s=20.0)
    detector.processes(0.0, ["p"])
    assert passes(detector, 0, 20) == []
    (told,) = passes(detector, 20, 60)
    assert told.startswith("p: in progress")


def test_motion_calls_and_questions_are_signs_of_life() -> None:
    detector = StuckDetector(idle_s=20.0, think_s=25.0)
    detector.processes(0.0, ["p"])
    assert passes(detector, 0, 60, speed=0.2) == []
    detector.asked(60.0, "p", "s1")
    assert passes(detector, 60, 100) == []
    detector.answered(100.0, "p", "s1")
    assert passes(detector, 100, 115) == []
    detector.sign(115.0)
    assert passes(detector, 115, 130) == []


def test_a_question_that_is_never_answered_counts_for_a_time_only() -> None:
    detector = StuckDetector(idle_s=20.0, think_s=25.0)
    detector.processes(0.0, ["p"])
    detector.asked(0.0, "p", "s1")
    assert len(passes(detector, 0, 60)) == 1


def test_an_ended_process_may_stand_for_ever_but_nothing_may_move_without_one() -> None:
    detector = StuckDetector(coast_s=3.0)
    detector.processes(0.0, ["p"])
    passes(detector, 0, 10, speed=0.2)
    detector.processes(10.0, [])
    assert passes(detector, 10, 12, speed=0.2) == []
    assert passes(detector, 12, 100) == []
    (told, *_) = passes(detector, 100, 103, speed=0.2)
    assert "after the last process" in told
