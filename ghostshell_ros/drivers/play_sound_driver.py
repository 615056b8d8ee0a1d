# SPDX-License-Identifier: Apache-2.0
"""Play named tunes, with aplay where there is a sound device, otherwise silently for their time."""

import math
from functools import partial
from typing import Any

from ghostshell.action import PlaySound

from ghostshell_ros.drivers.driver import DriverRefusal, Job
from ghostshell_ros.drivers.sound import SoundDriver, SoundJob
from ghostshell_ros.drivers.tunes import TUNES, wav
from ghostshell_ros.runtime.goal_server import Goal
from skill_kernel.config.sections import nearest


class PlaySoundDriver(SoundDriver):
    """Serve the action `play_sound` (PlaySound.action): several sounds at once; a looping one plays until it is cancelled."""

    failure = PlaySound.Goal.UNKNOWN_SOUND

    def __init__(self, name: str = "play_sound_driver", **options: Any) -> None:
        super().__init__(name, **options)
        self.declare_program("player", "aplay", ("aplay",), "aplay (alsa-utils)")
        self.serve(PlaySound, "play_sound", self._begin)

    def _begin(self, goal: Goal) -> Job:
        request = goal.request
        tune = TUNES.get(request.name)
        if tune is None:
            hint = nearest(request.name, TUNES, else_known=True)
            raise DriverRefusal(self.failure, f"there is no sound '{request.name[:80]}'{hint}")
        volume = request.volume if math.isfinite(request.volume) else 1.0
        command = (self.program, "-q", "-")
        return _Played(self, goal, tune.duration_s, command, partial(wav, tune, volume), loop=request.loop)


class _Played(SoundJob):
    def report(self) -> dict[str, Any]:
        return {"played_s": self.elapsed_s}
