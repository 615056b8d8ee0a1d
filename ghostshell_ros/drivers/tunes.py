# SPDX-License-Identifier: Apache-2.0
"""Named tunes and sounds, synthesised from notes; no recordings are shipped."""

from __future__ import annotations

import io
import wave
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SAMPLE_RATE = 22_050
_SEMITONES = {"c": 0, "d": 2, "e": 4, "f": 5, "g": 7, "a": 9, "b": 11}


@dataclass(frozen=True)
class Tune:
    """Notes as words: a letter, `#` for a sharp, the octave, and `:beats` (1 when left out); `-` is a rest."""

    beats_per_minute: float
    notes: str
    overtones: tuple[float, ...] = (1.0, 0.35, 0.15)

    def parsed(self) -> list[tuple[float, float]]:
        """Frequency in Hz (0 for a rest) and length in seconds of each note."""
        parsed = []
        for word in self.notes.split():
            name, _, beats = word.partition(":")
            seconds = float(beats or 1) * 60 / self.beats_per_minute
            if name == "-":
                parsed.append((0.0, seconds))
                continue
            semitone = _SEMITONES[name[0]] + name.count("#") + 12 * (int(name[-1]) - 4) - 9
            parsed.append((440.0 * 2 ** (semitone / 12), seconds))
        return parsed

    @property
    def duration_s(self) -> float:
        return sum(seconds for _, seconds in self.parsed())


TUNES: dict[str, Tune] = {
    # Composed for this project.
    "dance": Tune(
        132,
        "c4 e4 g4 e4 a4:0.5 g4:0.5 e4 c4:2 d4 f4 a4 f4 b4:0.5 a4:0.5 f4 d4:2 "
        "e4 g4 c5 g4 d5:0.5 c5:0.5 g4 e4:2 g4:0.5 g4:0.5 a4 b4 d5 c5:2 -:2",
    ),
    "happy": Tune(150, "g4:0.5 a4:0.5 b4 d5 b4 g4:0.5 a4:0.5 b4 g4:2 e5 d5:0.5 b4:0.5 a4 b4 g4:2 -"),
    "calm": Tune(66, "c4:2 g4:2 e4:2 g4:2 a3:2 e4:2 c4:2 e4:2 f3:2 c4:2 a3:2 c4:2 g3:2 d4:2 b3:2 d4:2", (1.0, 0.2)),
    "sad": Tune(60, "a4:2 e4 c4 d4:2 b3:2 c4 d4 e4:2 a3:3 -"),
    "suspense": Tune(96, "e3 f3 e3 f3 e3:0.5 f3:0.5 e3:0.5 f3:0.5 e3:2 -:2", (1.0, 0.5, 0.4)),
    # Brahms, 1868
    "lullaby": Tune(72, "e4:0.5 e4:0.5 g4:2 e4:0.5 e4:0.5 g4:2 e4:0.5 g4:0.5 c5 b4 a4:1.5 g4:0.5 g4:2 -"),
    # the Hill sisters, 1893
    "birthday": Tune(108, "c4:0.75 c4:0.25 d4 c4 f4 e4:2 c4:0.75 c4:0.25 d4 c4 g4 f4:2"),
    # Beethoven, 1824
    "ode_to_joy": Tune(116, "e4 e4 f4 g4 g4 f4 e4 d4 c4 c4 d4 e4 e4:1.5 d4:0.5 d4:2"),
    # Composed for this project, as those above.
    "beep": Tune(240, "a5"),
    "chime": Tune(180, "e5 c5:2"),
    "success": Tune(200, "c5:0.5 e5:0.5 g5:0.5 c6:2"),
    "failure": Tune(160, "e4 d#4 d4 c#4:3"),
    "bark": Tune(400, "d3:0.5 a#3:0.5 e3:0.5 -:1.5", (1.0, 0.9, 0.8, 0.6, 0.5, 0.4)),
}


def synthesise(tune: Tune, volume: float) -> npt.NDArray[np.int16]:
    """Mono samples of a tune, `volume` 0..1."""
    parts = [_note(tune, frequency, seconds) for frequency, seconds in tune.parsed()]
    wave_ = np.concatenate(parts) if parts else np.zeros(0)
    return np.asarray(wave_ / sum(tune.overtones) * 0.8 * min(max(volume, 0.0), 1.0) * 32767, dtype=np.int16)


def _note(tune: Tune, frequency: float, seconds: float) -> npt.NDArray[np.float64]:
    at = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    if frequency == 0.0:
        return np.zeros_like(at)
    # A plucked string: a fast attack, an exponential decay, and silence before the next note so that notes part.
    envelope = np.minimum(at / 0.01, 1.0) * np.exp(-2.5 * at / seconds) * np.minimum((seconds - at) / 0.02, 1.0)
    tone = sum(
        (share * np.sin(2 * np.pi * frequency * (k + 1) * at) for k, share in enumerate(tune.overtones)),
        start=np.zeros_like(at),
    )
    return np.asarray(tone * envelope)


def wav(tune: Tune, volume: float) -> bytes:
    """Return a tune as the bytes of a WAV file."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(synthesise(tune, volume).tobytes())
    return out.getvalue()
