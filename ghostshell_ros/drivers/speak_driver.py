# SPDX-License-Identifier: Apache-2.0
"""The driver that says texts, with espeak-ng where there is a sound device, otherwise for the time it takes."""

from __future__ import annotations

import math
import re
import shutil
from typing import Any

from ghostshell.action import Speak

from ghostshell_ros.drivers.driver import Driver, DriverRefusal, Job
from ghostshell_ros.drivers.sound import CommandJob, TimedJob, has_sound_device
from ghostshell_ros.drivers.speech import SpeechTiming, clamp_rate, is_cjk
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.node import NodeStartError

WORDS_PER_MINUTE = 150
MAX_CHARS = 20_000
_VOICE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\+[A-Za-z0-9_-]+)?")


class _Spoken(Job):
    """The messages of a text being said."""

    def feedback(self) -> Speak.Feedback:
        return Speak.Feedback(spoken_chars=self.goal.state.spoken_chars(self.elapsed_s))

    def result(self) -> Speak.Result:
        whole = len(self.goal.request.text)
        return Speak.Result(spoken_chars=whole if self.done else self.goal.state.spoken_chars(self.elapsed_s))


class _Silent(_Spoken, TimedJob):
    pass


class _Heard(_Spoken, CommandJob):
    pass


class SpeakDriver(Driver):
    """Action `speak` (Speak.action): one text at a time; a second goal is refused, because its caller queues.

    The text reaches espeak-ng on its standard input, never a shell. A cancel silences it at once.

    Parameters: `synthesiser` (auto | espeak | timing), `voice` (en), `cjk_voice` (cmn).
    """

    def __init__(self, name: str = "speak_driver", **options: Any) -> None:
        super().__init__(name, **options)
        wanted = self.declare(
            "synthesiser",
            "auto",
            "auto: espeak-ng if it is installed and there is a sound device; timing: silent, for its time",
            choices=("auto", "espeak", "timing"),
        )
        self._voice = self.declare("voice", "en", "espeak-ng voice where a goal names none that espeak-ng could know")
        self._cjk_voice = self.declare("cjk_voice", "cmn", "espeak-ng voice for texts in Chinese characters")
        self._espeak = shutil.which("espeak-ng") or shutil.which("espeak")
        if wanted == "espeak" and self._espeak is None:
            raise NodeStartError("synthesiser is 'espeak', but espeak-ng is not installed; install it or use 'timing'")
        self._heard = wanted == "espeak" or (wanted == "auto" and self._espeak is not None and has_sound_device())
        self._fall_back = wanted == "auto"
        self.get_logger().info("speech is heard" if self._heard else "speech is silent, for its timing only")
        self.serve(Speak, "speak", self._begin)

    def _begin(self, goal: Goal) -> Job:
        request = goal.request
        if self.jobs:
            raise DriverRefusal(Speak.Goal.SYNTHESIS_FAILED, "another text is being said: wait for it or cancel it")
        if len(request.text) > MAX_CHARS:
            raise DriverRefusal(
                Speak.Goal.SYNTHESIS_FAILED, f"the text has {len(request.text)} characters: at most {MAX_CHARS} are said"
            )
        timing = SpeechTiming(request.text, request.rate)
        goal.state = timing
        if not self._heard or timing.duration_s == 0.0:
            return _Silent(self, goal, timing.duration_s)
        return _Heard(
            self,
            goal,
            self._command(request),
            request.text.encode,
            deadline_s=10.0 + 3.0 * timing.duration_s,
            on_failure=self._failed,
        )

    def _command(self, request: Speak.Goal) -> tuple[str, ...]:
        voice = self._cjk_voice if any(map(is_cjk, request.text)) else self._voice
        if _VOICE.fullmatch(request.voice):
            voice = request.voice
        volume = request.volume if math.isfinite(request.volume) else 1.0
        amplitude = round(100 * min(max(volume, 0.0), 1.0))
        speed = round(WORDS_PER_MINUTE * clamp_rate(request.rate))
        return (str(self._espeak), "--stdin", "-b", "1", "-v", voice, "-s", str(speed), "-a", str(amplitude))

    def _failed(self, text: str) -> DriverRefusal:
        if self._fall_back:
            self._heard = False
            self.get_logger().warning(f"speech is silent from now on: {text}")
        return DriverRefusal(Speak.Goal.SYNTHESIS_FAILED, text)
