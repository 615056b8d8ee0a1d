# SPDX-License-Identifier: Apache-2.0
"""The driver that plays named tunes, with aplay where there is a sound device, otherwise for their time."""

from __future__ import annotations

import difflib
import math
import shutil
from functools import partial
from typing import Any

from ghostshell.action import PlaySound

from ghostshell_ros.drivers.driver import Driver, DriverRefusal, Job
from ghostshell_ros.drivers.sound import CommandJob, TimedJob, has_sound_device
from ghostshell_ros.drivers.tunes import TUNES, wav
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.node import NodeStartError


class _Played(Job):
    """The messages of a sound being played."""

    def feedback(self) -> PlaySound.Feedback:
        return PlaySound.Feedback(played_s=self.elapsed_s)

    def result(self) -> PlaySound.Result:
        return PlaySound.Result(played_s=self.elapsed_s)


class _Silent(_Played, TimedJob):
    pass


class _Heard(_Played, CommandJob):
    pass


class PlaySoundDriver(Driver):
    """Action `play_sound` (PlaySound.action): several sounds at once; a looping one plays until it is cancelled.

    Parameters: `player` (auto | aplay | timing).
    """

    def __init__(self, name: str = "play_sound_driver", **options: Any) -> None:
        super().__init__(name, **options)
        wanted = self.declare(
            "player",
            "auto",
            "auto: aplay if it is installed and there is a sound device; timing: silent, for its time",
            choices=("auto", "aplay", "timing"),
        )
        self._aplay = shutil.which("aplay")
        if wanted == "aplay" and self._aplay is None:
            raise NodeStartError("player is 'aplay', but aplay is not installed; install alsa-utils or use 'timing'")
        self._heard = wanted == "aplay" or (wanted == "auto" and self._aplay is not None and has_sound_device())
        self._fall_back = wanted == "auto"
        self.get_logger().info("sounds are heard" if self._heard else "sounds are silent, for their timing only")
        self.serve(PlaySound, "play_sound", self._begin)

    def _begin(self, goal: Goal) -> Job:
        request = goal.request
        tune = TUNES.get(request.name)
        if tune is None:
            near = difflib.get_close_matches(request.name, TUNES, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(TUNES)}"
            raise DriverRefusal(PlaySound.Goal.UNKNOWN_SOUND, f"there is no sound '{request.name[:80]}'; {hint}")
        if not self._heard:
            return _Silent(self, goal, None if request.loop else tune.duration_s)
        volume = request.volume if math.isfinite(request.volume) else 1.0
        return _Heard(
            self,
            goal,
            (str(self._aplay), "-q", "-"),
            partial(wav, tune, volume),
            deadline_s=10.0 + 2.0 * tune.duration_s,
            on_failure=self._failed,
            loop=request.loop,
        )

    def _failed(self, text: str) -> DriverRefusal:
        if self._fall_back:
            self._heard = False
            self.get_logger().warning(f"sounds are silent from now on: {text}")
        # The action has one code for a sound that could not be played; the text says why.
        return DriverRefusal(PlaySound.Goal.UNKNOWN_SOUND, text)
