# SPDX-License-Identifier: Apache-2.0
"""Which unit a declared parameter is in, which way its sign points, and how a spoken quantity is written for it."""

from __future__ import annotations

import re

from planners.language.lexicon import UNITS, concept
from planners.prompts.declarations import Declared
from skill_kernel.skills.skill import Skill

_SUFFIX = re.compile(r"_(cm|mm|km|m|deg|degrees|rad|s|sec|secs|seconds|ms|min|pct|percent)$")
_UNIT_WORD = re.compile(
    r"(?<![\w'’])(centi(?:metres?|meters?)|milli(?:metres?|meters?)|kilo(?:metres?|meters?)|metres?|meters?|cm|mm|km|m|degrees?|deg|radians?|rad|"
    r"milliseconds?|seconds?|secs?|ms|s|minutes?|percent)\b|([%°])",
    re.IGNORECASE,
)
_SIGN = re.compile(
    r"(positive|negative)[^.;,]*?\b(left|right|counter-?clockwise|anti-?clockwise|clockwise|up|down|forwards?|backwards?)\b|"
    r"\b(left|right|counter-?clockwise|anti-?clockwise|clockwise|up|down)\b[^.;,]{0,12}\b(positive|negative)\b",
    re.IGNORECASE,
)
_SPEEDS = ("speed", "velocity", "rate", "pace", "tempo")
_SIZES = ("amplitude", "size", "magnitude", "scale")
_VOLUMES = ("volume", "loudness")
_COUNTS = ("times", "count", "repeat", "repeats", "repetitions", "repetition", "rounds")
_ANGLES = ("angle", "yaw", "pitch", "roll", "heading", "theta")
_TIMES = ("duration", "seconds", "time")

STANDARD = {"length": 0.2, "angle": 90.0, "time": 2.0, "count": 1.0}
"""Amount meant when none is named, in base units."""


def unit_of(parameter: Declared, skill: Skill) -> tuple[str, float] | None:
    """Dimension of a numeric parameter and the factor from its unit to the base unit; None when nothing tells.

    Looked for in the name's suffix, in the parameter's description, behind its name in the docstring, and in its name.
    """
    if not parameter.is_number:
        return None
    words = parameter.name.lower().split("_")
    if words[-1] in _COUNTS:
        return ("count", 1.0)
    if suffix := _SUFFIX.search(parameter.name.lower()):
        return _unit({"degrees": "deg", "seconds": "s", "pct": "percent"}.get(suffix.group(1), suffix.group(1)))
    about = re.findall(rf"\b{re.escape(parameter.name)}\b:?([^.;:]*)", " ".join(skill.description.split()))
    for text in (parameter.description, *about):
        if found := _UNIT_WORD.search(text):
            return _unit((found.group(1) or found.group(2)).lower())
    if set(words) & set(_TIMES):
        return ("time", 1.0)
    bound = max((abs(b) for b in (parameter.lower, parameter.upper) if b is not None), default=0.0)
    if set(words) & set(_ANGLES) and bound > 7:
        return ("angle", 1.0)
    return None


def _unit(word: str) -> tuple[str, float] | None:
    return UNITS.get(word)


def is_speed(parameter: Declared) -> bool:
    """Whether the parameter sets how fast."""
    return _is(parameter, _SPEEDS)


def is_size(parameter: Declared) -> bool:
    """Whether the parameter sets how large a movement is."""
    return _is(parameter, _SIZES)


def is_volume(parameter: Declared) -> bool:
    """Whether the parameter sets how loud."""
    return _is(parameter, _VOLUMES)


def is_yaw(parameter: Declared) -> bool:
    """Whether left and right are its two signs."""
    return _is(parameter, ("angle", "yaw", "heading", "theta", "pan"))


def is_pitch(parameter: Declared) -> bool:
    """Whether up and down are its two signs."""
    return _is(parameter, ("pitch", "tilt", "elevation"))


def _is(parameter: Declared, names: tuple[str, ...]) -> bool:
    return parameter.is_number and bool(set(parameter.name.lower().split("_")) & set(names))


def sign_of(direction: str, parameter: Declared, skill: Skill) -> int:
    """+1 or -1 for a direction (left, right, up, down, forward, backward) on this parameter; 0 when it cannot be said.

    The declaration's own words count; without any, left is positive (REP 103) and forward is.
    """
    for text in (parameter.description, skill.description):
        for found in _SIGN.finditer(text):
            word = concept((found.group(2) or found.group(3)).lower().replace("-", ""))
            sign = 1 if (found.group(1) or found.group(4)).lower() == "positive" else -1
            if word == direction:
                return sign
            if {word, direction} in ({"left", "right"}, {"up", "down"}, {"forward", "backward"}):
                return -sign
        if (
            is_yaw(parameter)
            and direction in ("left", "right")
            and re.search(r"\b(counter|anti)?-?clockwise\b", text, re.IGNORECASE)
        ):
            left = 1 if re.search(r"(counter|anti)-?clockwise", text, re.IGNORECASE) else -1
            return left if direction == "left" else -left
    return {"left": 1, "right": -1, "forward": 1, "backward": -1}.get(direction, 0)


def written(value: float, parameter: Declared) -> str | None:
    """A number as the parameter's type wants it; None when a whole number is wanted and it is none."""
    value = round(value, 6) + 0.0
    if parameter.kind == "int":
        return str(round(value)) if abs(value - round(value)) < 1e-6 else None
    return f"{value:.6f}".rstrip("0").rstrip(".")


def fraction(parameter: Declared, share: float) -> float | None:
    """A share (0 to 1) of the parameter's range; None when it has no range."""
    if parameter.lower is None or parameter.upper is None:
        return None
    value = parameter.lower + share * (parameter.upper - parameter.lower)
    return float(round(value)) if parameter.kind == "int" else round(value, 3)
