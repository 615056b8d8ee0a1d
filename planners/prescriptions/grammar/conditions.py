# SPDX-License-Identifier: Apache-2.0
"""Reads what must be so for a reflex to act, clause by clause, into an expression over the accessors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from planners.prescriptions.grammar.clauses import CLAUSES
from planners.prescriptions.grammar.problem import FORMS, GrammarError
from planners.prescriptions.grammar.quantities import metres_of, number_of, written
from skill_kernel.guard import Vocabulary
from skill_kernel.observation.accessors import plain_words
from skill_kernel.robot import RobotConfig

CLOSE_M = 0.5
"""What "close" means where no distance is said."""
LOW_PERCENT = 20.0
FRESH_S = 2.0
"""How long something heard counts as said now."""
ASIDE_DEG = 15.0
"""From which bearing on something is on the left or the right, not ahead."""

_PERSON = frozenset(
    {"people", "human", "humans", "man", "woman", "child", "somebody", "someone", "anyone", "anybody", "everybody", "visitor"}
)


@dataclass(frozen=True)
class Condition:
    """An expression, and what was supposed where the sentence did not say."""

    source: str
    notes: tuple[str, ...] = ()


class Conditions:
    """Reads conditions for the accessors of one robot."""

    def __init__(self, vocabulary: Vocabulary, robot: RobotConfig) -> None:
        self._accessors = vocabulary.accessors
        self._rooms = tuple(robot.rooms)
        self._notes: list[str] = []
        self._texts: list[str] = []
        self._readers: dict[str, Callable[[re.Match[str]], str]] = {
            "near": self._near,
            "close": self._close,
            "free": self._free,
            "clear": self._clear,
            "thing near": self._thing_near,
            "thing far": self._thing_far,
            "thing close": self._thing_close,
            "counted": self._counted,
            "seen": self._seen,
            "battery": self._battery,
            "low": self._low,
            "charging": self._charging,
            "hears": self._hears,
            "moving": self._moving,
            "still": self._still,
            "speed": self._speed,
            "room": self._room,
            "posture": self._posture,
        }

    def read(self, text: str, texts: list[str]) -> Condition:
        """The expression for a condition; `and` binds closer than `or`. Raises GrammarError."""
        self._notes, self._texts = [], texts
        text = re.sub(r"\b(?:nobody|no one)\b", "no person", text, flags=re.IGNORECASE)
        text = re.sub(r"^\s*(?:either|both)\s+", "", text.strip().rstrip(","), flags=re.IGNORECASE)
        alternatives = []
        for alternative in re.split(r"\s*,?\s+or\s+(?:when\s+|if\s+)?", text, flags=re.IGNORECASE):
            parts = re.split(r"\s*,?\s+(?:and|but|while)\s+(?:also\s+|when\s+|if\s+)?", alternative, flags=re.IGNORECASE)
            alternatives.append(" and ".join(self._clause(part) for part in parts))
        return Condition(" or ".join(alternatives), tuple(dict.fromkeys(self._notes)))

    def _clause(self, text: str) -> str:
        clause = text.strip().strip(",")
        trouble: GrammarError | None = None
        for kind, pattern in CLAUSES:
            match = pattern.fullmatch(clause)
            if match is not None:
                try:
                    return self._readers[kind](match)
                except GrammarError as error:
                    trouble = trouble or error
        if trouble is not None:
            raise trouble
        raise GrammarError(f"the condition “{self._restored(clause)}” was not understood", FORMS)

    def _restored(self, text: str) -> str:
        return re.sub(r"«(\d+)»", lambda m: f'"{self._texts[int(m.group(1))]}"', text)

    def _call(self, name: str, *arguments: str) -> str:
        if name not in self._accessors:
            sensed = ", ".join(sorted(self._accessors))
            raise GrammarError(f"this robot has no accessor {name}: nothing of it measures that; it has {sensed}")
        return f"{name}({', '.join(map(repr, arguments))})"

    def _sector(self, match: re.Match[str]) -> str:
        """The accessor of the distance in the direction that is said."""
        groups = match.groupdict()
        side = (groups.get("side") or groups.get("other") or "").lower()
        word = "back" if re.search("behind|back", side) else next((w for w in ("left", "right") if w in side), "")
        if not word and re.search("front|ahead|before", side):
            word = "front"
        return self._call(f"{word or 'nearest'}_distance_m")

    def _near(self, match: re.Match[str]) -> str:
        return f"{self._sector(match)} < {_metres(match)}"

    def _close(self, match: re.Match[str]) -> str:
        self._notes.append(f"“close” was read as less than {CLOSE_M:g} m")
        return f"{self._sector(match)} < {written(CLOSE_M)}"

    def _free(self, match: re.Match[str]) -> str:
        if match["number"] is None:
            self._notes.append(f"a way was read as free for {CLOSE_M:g} m")
        length = _metres(match) if match["number"] is not None else written(CLOSE_M)
        return f"{self._sector(match)} {'<' if match['no'] else '>='} {length}"

    def _clear(self, match: re.Match[str]) -> str:
        return f"{self._sector(match)} >= {_metres(match)}"

    def _label(self, text: str) -> str:
        """The label that a thing is detected under. Raises GrammarError with those there are."""
        words = re.sub(r"^(?:an?|the|any|some|my|your|his|her|another)\s+", "", text.strip().lower())
        self._call("visible", "x")
        choices = self._accessors["visible"].parameters[0].choices
        singular = [words, words.removesuffix("s"), words.removesuffix("es"), "person" if words in _PERSON else words]
        for word in (w.replace(" ", "_") for w in singular):
            if word in choices or (not choices and re.fullmatch(r"[a-z]\w*", word)):
                return word
        known = f"; it knows {', '.join(choices)}" if choices else ""
        raise GrammarError(f"“{self._restored(text.strip())}” is nothing the robot can recognise{known}", FORMS)

    def _thing_near(self, match: re.Match[str]) -> str:
        return f"{self._call('distance_to', self._label(match['thing']))} < {_metres(match)}{self._aside(match)}"

    def _thing_far(self, match: re.Match[str]) -> str:
        label = self._label(match["thing"])
        return f"{self._call('visible', label)} and {self._call('distance_to', label)} > {_metres(match)}"

    def _thing_close(self, match: re.Match[str]) -> str:
        label = self._label(match["thing"])
        self._notes.append(f"“close” was read as less than {CLOSE_M * 2:g} m")
        return f"{self._call('distance_to', label)} < {written(CLOSE_M * 2)}"

    def _aside(self, match: re.Match[str]) -> str:
        """More of the condition when it says left, right or in front of a thing."""
        side = (match.groupdict().get("side") or "").lower()
        if not side:
            return ""
        bearing = self._call("bearing_to", self._label(match["thing"]))
        if "left" in side:
            return f" and {bearing} > {written(ASIDE_DEG)}"
        if "right" in side:
            return f" and {bearing} < -{written(ASIDE_DEG)}"
        if re.search("front|ahead|before", side):
            return f" and abs({bearing}) <= {written(2 * ASIDE_DEG)}"
        if re.search("behind|back", side):
            raise GrammarError(f"“{side}”: the camera looks ahead and recognises nothing behind the robot")
        return ""

    def _seen(self, match: re.Match[str]) -> str:
        seen = self._call("visible", self._label(match["thing"]))
        return f"not {seen}" if match.groupdict().get("no") else f"{seen}{self._aside(match)}"

    def _counted(self, match: re.Match[str]) -> str:
        sign = {"more than": ">", "at least": ">=", "fewer than": "<", "less than": "<", "exactly": "=="}[match["how"].lower()]
        label = self._label(match["thing"])
        counted = self._call("count", label)
        return f"{counted} {sign} {written(number_of(match['count']))}"

    def _battery(self, match: re.Match[str]) -> str:
        sign = "<" if match["how"].lower() in ("below", "under", "less than", "lower than", "at") else ">"
        return f"{self._call('battery_percent')} {sign} {written(number_of(match['count']))}"

    def _low(self, match: re.Match[str]) -> str:
        self._notes.append(f"“low” was read as less than {LOW_PERCENT:g} %")
        return f"{self._call('battery_percent')} {'>=' if match['no'] else '<'} {written(LOW_PERCENT)}"

    def _charging(self, match: re.Match[str]) -> str:
        return f"{'not ' if match['no'] else ''}{self._call('charging')}"

    def _moving(self, match: re.Match[str]) -> str:
        return f"{'not ' if match['no'] else ''}{self._call('moving')}"

    def _still(self, _: re.Match[str]) -> str:
        return f"not {self._call('moving')}"

    def _speed(self, match: re.Match[str]) -> str:
        sign = ">" if match["how"].lower() == "faster" else "<"
        return f"{self._call('speed_mps')} {sign} {written(number_of(match['count']))}"

    def _hears(self, match: re.Match[str]) -> str:
        words = plain_words(self._restored(match["text"]))
        if not words:
            raise GrammarError(f"“{self._restored(match[0])}” does not say which word", FORMS)
        return f"{self._call('heard_words', words)} and {self._call('heard_age_s')} < {written(FRESH_S)}"

    def _room(self, match: re.Match[str]) -> str:
        if match["room"].lower() not in self._rooms:
            raise GrammarError(f"there is no room “{match['room']}”; the robot knows {', '.join(self._rooms) or 'none'}")
        return f"{self._call('room')} {'!=' if match['no'] else '=='} {match['room'].lower()!r}"

    def _posture(self, match: re.Match[str]) -> str:
        word = {"sitting": "sit", "standing": "stand"}.get(match["posture"].lower(), "lie")
        return f"{self._call('posture')} {'!=' if match['no'] else '=='} {word!r}"


def _metres(match: re.Match[str]) -> str:
    metres = metres_of(f"{match['number']} {match['unit']}")
    assert metres is not None
    return written(metres)
