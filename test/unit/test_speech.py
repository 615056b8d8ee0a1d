# SPDX-License-Identifier: Apache-2.0
"""Speech takes a plausible time in any script, and how far it came never runs backwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostshell_ros.drivers.speech import SpeechTiming, clamp_rate


def test_english_takes_about_150_words_a_minute() -> None:
    text = "the quick brown fox jumps over the lazy dog " * 5
    assert SpeechTiming(text).duration_s == pytest.approx(45 / 150 * 60, rel=0.2)


def test_a_chinese_character_takes_a_quarter_of_a_second() -> None:
    assert SpeechTiming("你好世界").duration_s == pytest.approx(1.0)


def test_what_is_not_said_takes_no_time() -> None:
    assert SpeechTiming("🎉\u200b\u200d\ufe0f").duration_s == 0.0
    assert SpeechTiming("").duration_s == 0.0


def test_a_run_of_marks_is_one_pause() -> None:
    assert SpeechTiming("ha...").duration_s == SpeechTiming("ha.").duration_s


def test_rate_divides_the_time_and_is_kept_within_reason() -> None:
    slow, fast = SpeechTiming("hello there", 1.0), SpeechTiming("hello there", 2.0)
    assert slow.duration_s == pytest.approx(2 * fast.duration_s)
    assert clamp_rate(0.0) == 1.0
    assert clamp_rate(float("nan")) == 1.0
    assert clamp_rate(1e9) == 4.0


@given(text=st.text(max_size=60), times=st.lists(st.floats(0, 60), max_size=8), rate=st.floats(allow_nan=True))
def test_progress_never_runs_backwards_and_ends_at_the_end(text: str, times: list[float], rate: float) -> None:
    timing = SpeechTiming(text, rate)
    said = [timing.spoken_chars(t) for t in sorted(times)]
    assert said == sorted(said)
    assert timing.spoken_chars(timing.duration_s) == len(text)
