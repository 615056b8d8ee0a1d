# SPDX-License-Identifier: Apache-2.0
"""Synthesise the tunes and sounds of `tunes.yaml` from their notes; no recordings are shipped."""

import io
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from skill_kernel.config.yaml_text import read_yaml

SAMPLE_RATE = 22_050
_SEMITONES = {"c": 0, "d": 2, "e": 4, "f": 5, "g": 7, "a": 9, "b": 11}


@dataclass(frozen=True)
class Tune:
    """Hold notes as words: a letter, `#` for a sharp, the octave, and `:beats` (1 when left out); `-` is a rest."""

    beats_per_minute: float
    notes: str
    overtones: Sequence[float] = (1.0, 0.35, 0.15)

    def parsed(self) -> list[tuple[float, float]]:
        """Return frequency in Hz (0 for a rest) and length in seconds of each note."""
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


TUNES = {
    name: Tune(**tune) for name, tune in read_yaml(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")).items()
}
"""The known tunes by name."""


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
    """Return a tune as the bytes of a WAV file, `volume` 0 to 1."""
    notes = np.concatenate([np.zeros(0), *(_note(tune, frequency, seconds) for frequency, seconds in tune.parsed())])
    samples = notes / sum(tune.overtones) * 0.8 * min(max(volume, 0.0), 1.0) * 32767
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(samples.astype(np.int16).tobytes())
    return out.getvalue()
