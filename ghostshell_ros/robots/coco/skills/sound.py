# SPDX-License-Identifier: Apache-2.0
"""Define speech, phrase by phrase in a voice that `speech_role` sets, and background music."""

from threading import Event
from typing import Annotated, Literal

from pydantic import Field

from ghostshell_ros.drivers.speech import is_cjk, say, speaking_s
from ghostshell_ros.drivers.tunes import TUNES
from ghostshell_ros.robots.coco.body import CocoBody, Percent, Voice, wait_for_reset
from ghostshell_ros.robots.coco.motions import MANNERS
from skill_kernel import ContentStream, SkillReturn, robot_skill
from skill_kernel.skills.drivers import DriverResult, outcome

STOP_S = 0.3

Role = Literal["default", "child", "girl", "boy", "woman", "man", "elder", "robot", "storyteller", "whisper"]
Mood = Literal["neutral", "happy", "excited", "sad", "angry", "tender", "fearful", "surprised"]
RatePercent = Annotated[float, Field(ge=-50, le=100, description="%")]

_VARIANTS: dict[str, str] = MANNERS["voices"]
_MOODS: dict[str, tuple[float, float]] = MANNERS["moods"]


@robot_skill(subsystem="main", nominal_s=lambda text="": speaking_s(text), stop_s=STOP_S, speaks_text=True)
def speak(text: ContentStream, *, body: CocoBody, stop_evt: Event) -> SkillReturn:
    """Say a text aloud. Plain text of the answer is spoken without this tag."""

    def utter(phrase: str) -> DriverResult:
        voice = body.voice
        name = (("cmn" if any(map(is_cjk, phrase)) else "en") + voice.variant) if voice.variant else ""
        return body.speak(text=phrase, stop=stop_evt, voice=name, rate=voice.rate, volume=voice.volume)

    return say(text, utter, stop_evt, lambda: not stop_evt.is_set())


@robot_skill(subsystem="voice", nominal_s=0.0, stop_s=STOP_S, idempotent=True)
def speech_role(
    role: Role = "default",
    emotion: Mood = "neutral",
    speech_rate: RatePercent = 0.0,
    loudness_rate: RatePercent = 0.0,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Choose the voice for the text that follows. speech_rate: -50 (half as fast) to 100 (twice), loudness_rate
    likewise. Around text it holds until the end tag, else until it is set anew."""
    before = body.voice
    faster, louder = _MOODS[emotion]
    rate = max(0.5, min(2.0, (1.0 + speech_rate / 100.0) * faster))
    volume = max(0.0, min(1.0, Voice.volume * (1.0 + loudness_rate / 100.0) * louder))
    body.voice = Voice(_VARIANTS[role], rate, volume)
    if until_reset:
        wait_for_reset(stop_evt)
        body.voice = before
    return SkillReturn.success(f"voice is {role}, {emotion}")


Tune = Literal["dance", "happy", "calm", "sad", "suspense", "lullaby", "birthday", "ode_to_joy"]


@robot_skill(subsystem="bgm", nominal_s=lambda name: TUNES[name].duration_s, stop_s=STOP_S, idempotent=True)
def play_bgm(
    name: Tune = "dance", volume: Percent = 50.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Play background music. volume in percent. As an empty tag the tune plays once, around text or other calls
    it goes on until the end tag."""
    result = body.play_sound(name=name, stop=stop_evt, volume=volume / 100.0, loop=until_reset)
    return outcome(result, f"played '{name}'" if result.ok else f"played part of '{name}'")
