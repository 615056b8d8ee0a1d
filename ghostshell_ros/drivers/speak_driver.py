# SPDX-License-Identifier: Apache-2.0
"""The action server that says texts, with espeak-ng where there is a sound device, otherwise for the time it takes."""

from __future__ import annotations

import math
import re
import shutil
import sys

from ghostshell.action import Speak

from ghostshell_ros.drivers.speech import SpeechTiming, clamp_rate, is_cjk
from ghostshell_ros.drivers.timed_driver import Activity, DriverRefusal, TimedDriver, Work, has_sound_device
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.node_runtime import NodeStartError, run

WORDS_PER_MINUTE = 150
MAX_CHARS = 20_000
_VOICE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\+[A-Za-z0-9_-]+)?")


class SpeakDriver(TimedDriver):
    """Action `speak` (Speak.action): one text at a time; a second goal is refused, because its caller queues.

    The text reaches espeak-ng on its standard input, never a shell. A cancel silences it at once.

    Parameters: `synthesiser` (auto | espeak | timing), `voice` (en), `cjk_voice` (cmn).
    """

    def __init__(self) -> None:
        super().__init__("speak_driver", Speak, "speak")
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

    def plan(self, goal: Goal) -> Work:
        request = goal.request
        if self._active:
            raise DriverRefusal(Speak.Goal.SYNTHESIS_FAILED, "another text is being said: wait for it or cancel it")
        if len(request.text) > MAX_CHARS:
            raise DriverRefusal(
                Speak.Goal.SYNTHESIS_FAILED, f"the text has {len(request.text)} characters: at most {MAX_CHARS} are said"
            )
        timing = SpeechTiming(request.text, request.rate)
        goal.state = timing
        if not self._heard or timing.duration_s == 0.0:
            return Work(timing.duration_s)
        return Work(None, self._command(request), request.text.encode, deadline_s=10.0 + 3.0 * timing.duration_s)

    def _command(self, request: Speak.Goal) -> tuple[str, ...]:
        voice = self._cjk_voice if any(map(is_cjk, request.text)) else self._voice
        if _VOICE.fullmatch(request.voice):
            voice = request.voice
        volume = request.volume if math.isfinite(request.volume) else 1.0
        amplitude = round(100 * min(max(volume, 0.0), 1.0))
        speed = round(WORDS_PER_MINUTE * clamp_rate(request.rate))
        return (str(self._espeak), "--stdin", "-b", "1", "-v", voice, "-s", str(speed), "-a", str(amplitude))

    def failed(self, activity: Activity, text: str) -> DriverRefusal:
        if self._fall_back:
            self._heard = False
            self.get_logger().warning(f"speech is silent from now on: {text}")
        return DriverRefusal(Speak.Goal.SYNTHESIS_FAILED, text)

    def feedback(self, goal: Goal, elapsed_s: float) -> Speak.Feedback:
        return Speak.Feedback(spoken_chars=goal.state.spoken_chars(elapsed_s))

    def result(self, goal: Goal, elapsed_s: float, *, whole: bool) -> Speak.Result:
        spoken = len(goal.request.text) if whole else goal.state.spoken_chars(elapsed_s)
        return Speak.Result(spoken_chars=spoken)

    def refused(self, code: int, text: str) -> Speak.Result:
        return Speak.Result(error_code=code, error_msg=text)


def main() -> int:
    return run(SpeakDriver)


if __name__ == "__main__":
    sys.exit(main())
