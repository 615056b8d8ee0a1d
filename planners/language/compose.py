# SPDX-License-Identifier: Apache-2.0
"""Put calls and sentences together to a stream of function tokens that runs in the order of the words (GhostShell 3.4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from function_tokens.markup import attribute, escape
from skill_kernel.skills.skill import MAIN

_ON_MAIN = frozenset({MAIN})


@dataclass(frozen=True)
class Item:
    """A piece of the stream.

    `opening` is the start tag where it may stand open around others; `bounded` when the words said how long, how far or how
    often; `endless` when it goes on until it is reset; `travels` is "place" or "thing" when it takes the robot to one, so that
    what is joined to it waits for the arrival; `verbless` when the words named only what it is done to. `assumed` are the ways
    in it whose length the words did not say, as they are told.
    """

    source: str
    channels: frozenset[str] = _ON_MAIN
    opening: str = ""
    bounded: bool = False
    endless: bool = False
    travels: str = ""
    verbless: bool = False
    assumed: tuple[str, ...] = ()

    def holds(self, inner: Item) -> bool:
        """Return whether this may stand open around `inner`, or does so already."""
        return bool(self.opening) and (not self.channels & inner.channels or inner.source.startswith(self.opening))

    def around(self, inner: Item) -> Item:
        """Return this as an open element that lasts as long as `inner`; a dance with this music has it already."""
        if inner.source.startswith(self.opening):
            return inner
        name = self.opening[1:-1].split(" ", 1)[0]
        return Item(
            f"{self.opening}{inner.source}</{name}>", self.channels | inner.channels, bounded=True, assumed=inner.assumed
        )


def speech(text: str) -> Item:
    """Return plain text, escaped."""
    return Item(escape(" ".join(text.split())))


def tag(name: str, attributes: Mapping[str, str], *, ending: str = "/>") -> str:
    """Return a tag with its attributes escaped; `ending` is `/>` or `>`."""
    return f"<{name}{''.join(f' {attribute(k, v)}' for k, v in attributes.items())}{ending}"


def element(name: str, attributes: Mapping[str, str], inner: str) -> str:
    """Return an element around something."""
    return f"{tag(name, attributes, ending='>')}{inner}</{name}>"


def repeated(item: Item, count: int) -> Item:
    """Return the same several times in a row."""
    return item if count == 1 else replace(item, source=item.source * count, opening="", bounded=True)


def in_a_row(items: Sequence[Item], wait: str = "") -> Item:
    """Join by 'and': one behind the other, so channels decide. An endless item is reset when the rest has ended.

    Where `wait` is given, the robot's tag of that built-in, what is behind a travelling item waits for the arrival.
    """
    frames = {i.opening for i in items if i.endless and i.opening and any(j.source.startswith(i.opening) for j in items)}
    items = [i for i in items if i.source and i.opening not in frames]
    for at, item in enumerate(items[:-1]):
        rest = items[at + 1 :]
        if item.endless and item.holds(_joined(rest)):
            return _joined([*items[:at], item.around(in_a_row(rest, wait))])
        if wait and item.travels:
            return in_sequence([_joined(items[: at + 1]), in_a_row(rest, wait)], wait)
    return _joined(items)


def together(first: Item, second: Item) -> Item:
    """Join by 'while': an item without a length of its own is kept open exactly as long as the other."""
    for frame, inner in ((first, second), (second, first)):
        if not frame.bounded and frame.holds(inner):
            return frame.around(inner)
    return _joined(sorted((first, second), key=lambda item: item.channels == _ON_MAIN))


def in_sequence(steps: Sequence[Item], wait: str) -> Item:
    """Join by 'then': each starts when everything before it has ended. `wait` is the robot's tag of that built-in."""
    steps = [s for s in steps if s.source]
    runs: list[list[Item]] = []
    for at, step in enumerate(steps):
        rest = steps[at + 1 :]
        if step.endless and rest and step.holds(_joined(rest)):
            runs.append([step.around(in_sequence(rest, wait))])
            break
        alone = len(step.channels) == 1 and runs and runs[-1][-1].channels == step.channels
        if alone and step.channels != _ON_MAIN:
            runs[-1].append(step)
        else:
            runs.append([step])
    parts = [_joined(run) for run in runs]
    barred = [p if p.channels == _ON_MAIN else replace(p, source=element(wait, {}, p.source)) for p in parts[:-1]]
    return _joined([*barred, *parts[-1:]])


def _joined(items: Sequence[Item]) -> Item:
    if len(items) == 1:
        return items[0]
    source = ""
    for item in items:
        gap = " " if source and not source.endswith(">") and item.source and not item.source.startswith("<") else ""
        source += gap + item.source
    channels = frozenset[str]().union(*(item.channels for item in items))
    bounded, assumed = any(i.bounded for i in items), tuple(dict.fromkeys(a for i in items for a in i.assumed))
    return Item(source, channels, bounded=bounded, travels=max((i.travels for i in items), default=""), assumed=assumed)
