# SPDX-License-Identifier: Apache-2.0
"""What has been done so far, as goals look at it one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.simulated_model import seeing
from bench.simulated_model.calls import Seen
from bench.simulated_model.goals import TEXT, Act
from bench.simulated_model.vocabulary import Vocabulary, normal

SPOKEN = (TEXT, "speak")
STAYS = frozenset({*SPOKEN, "search", "rotate", "nod", "sit", "stand", "bark", "take_pic", "query_memory", "if"})
"""Calls after which it stands where it stood."""
NEAR_M = 1.2
_SIGHT = re.compile(r"^(not )?visible\('(\w+)'\)$")
_OF = re.compile(r"(-?\d+(?:\.\d+)?) (?:m )?of (-?\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Next:
    """Do this now."""

    act: Act


@dataclass(frozen=True)
class Branch:
    """Do this, depending on what is in sight then."""

    label: str
    found: Act | None
    missing: Act | None

    @property
    def source(self) -> str:
        """As function tokens."""
        seen = f"visible('{self.label}')"
        if self.found is None:
            return f'<if cond="not {seen}">{self.missing.source if self.missing else ""}</if>'
        rest = f"<else>{self.missing.source}</else>" if self.missing else ""
        return f'<if cond="{seen}">{self.found.source}</if>{rest}'


@dataclass(frozen=True)
class Wait:
    """Nothing before something that runs has ended."""


@dataclass(frozen=True)
class Stuck:
    """It cannot be done, and why."""

    why: str


Step = Next | Branch | Wait | Stuck
"""What a goal wants; None when it is achieved."""


@dataclass
class Story:
    """`at` is how far the goals before have used up the calls. `open_loop`: what was not tried yet counts as done well.
    `start` is where the task began."""

    words: Vocabulary
    facts: Mapping[str, Any]
    calls: list[Seen]
    start: tuple[float, float] | None = None
    open_loop: bool = False
    at: int = 0
    place: str = ""
    found: dict[str, bool | None] = field(default_factory=dict)
    found_at: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.open_loop:
            self.calls = [replace(c, state="DONE") if c.pending and not c.branches else c for c in self.calls]
        self.calls = list(_chosen(self.calls))

    @property
    def ahead(self) -> Iterator[tuple[int, Seen]]:
        """The calls behind the cursor, with their places in the list."""
        return ((i, self.calls[i]) for i in range(self.at, len(self.calls)))

    @property
    def busy(self) -> bool:
        """Whether anything still runs or is queued, so that what is in sight now may not be in sight then."""
        return any(c.pending and c.function not in SPOKEN for c in self.calls)

    def add(self, step: Next | Branch) -> None:
        """Take it that this is queued now."""
        if isinstance(step, Next):
            state = "DONE" if self.open_loop else "QUEUED"
            said = {"text": step.act.text} if step.act.function == TEXT else {}
            self.calls.append(Seen(step.act.function, {**step.act.arguments, **said}, state))
            return
        branches = [(f"visible('{step.label}')", step.found), ("always", step.missing)]
        known = [(c, (Seen(act.function, dict(act.arguments)),)) for c, act in branches if act is not None]
        self.calls.append(Seen("if", {}, "QUEUED", "", tuple(known)))

    def same(self, act: Act, seen: Seen) -> bool:
        """Whether a call is this one, defaults and number formats aside."""
        if act.function == TEXT:
            return seen.function in SPOKEN and _alike(act.text, f"{seen.arguments.get('text', '')} {seen.message}")
        parameters = self.words.parameters(act.function)
        return seen.function == act.function and self.words.complete(act) == normal(
            {k: v for k, v in seen.arguments.items() if k in parameters or not parameters}, parameters
        )

    def take(self, act: Act, tries: int = 2) -> Step | None:
        """Pass the call if it was done or is on its way; else say that it is to be done, or why it never will be."""
        failures, why = 0, ""
        for index, seen in self.ahead:
            if not self.same(act, seen):
                continue
            if seen.well or seen.pending:
                self.at = index + 1
                return None
            if seen.bad:
                failures, why = failures + 1, seen.message
            elif seen.broken:
                rest = _rest(act, seen)
                if rest is None:
                    self.at = index + 1
                    return None
                if rest != act:
                    self.at, act = index + 1, rest
                    return self.take(rest, tries)
        return Stuck(why or f"{act.function} failed") if failures >= tries else Next(act)

    def touched(self, functions: Sequence[str]) -> bool:
        """Whether a call of one of these was begun behind the cursor."""
        return any(c.function in functions and not c.bad for _, c in self.ahead)

    @property
    def mark(self) -> tuple[int, str, dict[str, bool | None], dict[str, str]]:
        """How far it was looked at, to come back to with `reset`."""
        return self.at, self.place, dict(self.found), dict(self.found_at)

    def reset(self, mark: tuple[int, str, dict[str, bool | None], dict[str, str]]) -> None:
        """Look at it again from a mark on."""
        self.at, self.place, self.found, self.found_at = mark[0], mark[1], dict(mark[2]), dict(mark[3])

    def here(self) -> str:
        """The named place it stood at before the calls behind the cursor, as far as the prompt tells."""
        if self.place:
            return self.place
        gone = any(c.function not in STAYS for c in self.calls)
        if near := self.words.near(self.start if gone else seeing.point(self.facts), NEAR_M):
            return near
        inside = "" if gone else seeing.room(self.facts)
        return inside if inside in self.words.places else ""

    def in_room(self, waypoints: Sequence[str]) -> bool:
        """Whether it is in the room of one of these places now, with nothing on its way that could change it."""
        inside = seeing.room(self.facts)
        return bool(inside) and not self.busy and any(w == inside or w.split("_")[0] == inside for w in waypoints)


def _chosen(calls: Sequence[Seen]) -> Iterator[Seen]:
    """The calls with every choice made whose search has ended."""
    looked: dict[str, bool] = {}
    for seen in calls:
        if seen.function == "search":
            label = str(seen.arguments.get("target", ""))
            looked.pop(label, None)
            if seen.well or seen.bad:
                looked[label] = seen.well
        branch = None
        for condition, inside in seen.branches:
            asked = _SIGHT.match(condition)
            if condition != "always" and (asked is None or asked[2] not in looked):
                break
            if asked is None or looked[asked[2]] != bool(asked[1]):
                branch = inside
                break
        if branch is not None:
            yield from branch
        elif not seen.branches or not all((m := _SIGHT.match(c)) and m[2] in looked for c, _ in seen.branches):
            yield seen


def _alike(wanted: str, told: str) -> bool:
    """Whether a text is the one that was wanted, by its first words."""
    plain = [" ".join(re.findall(r"\w+", t.lower())) for t in (wanted, told)]
    return plain[0][:40] in plain[1] or not plain[1].strip()


def _rest(act: Act, seen: Seen) -> Act | None:
    """What is left of a call that was interrupted; the call itself where its message does not say how far it came."""
    found = _OF.search(seen.message)
    if found is None:
        return act
    done, whole = float(found.group(1)), float(found.group(2))
    left = whole - done
    if abs(left) <= 0.05 * abs(whole):
        return None
    for name, value in {**seen.arguments, **act.arguments}.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if abs(abs(number) - abs(whole)) < 1e-6:
            signed = left if number * whole > 0 else -left
            text = f"{signed:.2f}".rstrip("0").rstrip(".") if "." in str(value) or left % 1 else f"{signed:g}"
            return Act(act.function, {**act.arguments, name: text})
    return act
