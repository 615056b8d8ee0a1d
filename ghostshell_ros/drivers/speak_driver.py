# SPDX-License-Identifier: Apache-2.0
"""Say texts, with espeak-ng where there is a sound device, otherwise silently for the time it takes."""

import math
import re
from typing import Any

from ghostshell.action import Speak

from ghostshell_ros.drivers.driver import DriverRefusal, Job
from ghostshell_ros.drivers.sound import SoundDriver, SoundJob
from ghostshell_ros.drivers.speech import SpeechTiming, clamp_rate, is_cjk
from ghostshell_ros.runtime.goal_server import Goal

WORDS_PER_MINUTE = 150
MAX_CHARS = 20_000
_VOICE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\+[A-Za-z0-9_-]+)?")


class SpeakDriver(SoundDriver):
    """Serve the action `speak` (Speak.action): one text at a time; a second goal is refused, because its caller queues.

    The text reaches espeak-ng on its standard input, never a shell. A cancel silences it at once.
    """

    failure = Speak.Goal.SYNTHESIS_FAILED

    def __init__(self, name: str = "speak_driver", **options: Any) -> None:
        super().__init__(name, **options)
        self.declare_program("synthesiser", "espeak", ("espeak-ng", "espeak"), "espeak-ng")
        self._voice = self.declare("voice", "en", "espeak-ng voice where a goal names none that espeak-ng could know")
        self._cjk_voice = self.declare("cjk_voice", "cmn", "espeak-ng voice for texts in Chinese characters")
        self.serve(Speak, "speak", self._begin)

    def _begin(self, goal: Goal) -> Job:
        request = goal.request
        if self.jobs:
            raise DriverRefusal(self.failure, "another text is being said: wait for it or cancel it")
        if len(request.text) > MAX_CHARS:
            raise DriverRefusal(self.failure, f"the text has {len(request.text)} characters: at most {MAX_CHARS} are said")
        timing = SpeechTiming(request.text, request.rate)
        goal.state = timing
        return _Spoken(self, goal, timing.duration_s, self._command(request), request.text.encode)

    def _command(self, request: Speak.Goal) -> tuple[str, ...]:
        voice = self._cjk_voice if any(map(is_cjk, request.text)) else self._voice
        if _VOICE.fullmatch(request.voice):
            voice = request.voice
        volume = request.volume if math.isfinite(request.volume) else 1.0
        amplitude = round(100 * min(max(volume, 0.0), 1.0))
        speed = round(WORDS_PER_MINUTE * clamp_rate(request.rate))
        return (self.program, "--stdin", "-b", "1", "-v", voice, "-s", str(speed), "-a", str(amplitude))


class _Spoken(SoundJob):
    def report(self) -> dict[str, Any]:
        whole = len(self.goal.request.text)
        return {"spoken_chars": whole if self.done else self.goal.state.spoken_chars(self.elapsed_s)}
