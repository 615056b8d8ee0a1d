# SPDX-License-Identifier: Apache-2.0
"""The words of memory: times, places and lists as a person says them."""

from __future__ import annotations

import time
from collections.abc import Iterable

from planners.memory.records import Spot


def listed(items: Iterable[str], limit: int = 8) -> str:
    """`a, b and c`; of many the first ones and how many more."""
    names = list(items)
    if len(names) > limit:
        names = [*names[:limit], f"{len(names) - limit} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"


def clock(time_s: float, now_s: float | None = None) -> str:
    """A time of day, with its date unless it lies on the same day as `now_s`."""
    then = time.localtime(time_s)
    if now_s is None:
        return time.strftime("%Y-%m-%d %H:%M:%S", then)
    days = (time.localtime(now_s).tm_yday, time.localtime(now_s).tm_year)
    if (then.tm_yday, then.tm_year) == days:
        return time.strftime("at %H:%M:%S", then)
    if 0 <= now_s - time_s < 2 * 86400 and time.localtime(now_s - 86400).tm_yday == then.tm_yday:
        return time.strftime("yesterday at %H:%M:%S", then)
    return time.strftime("on %Y-%m-%d at %H:%M:%S", then)


def where(spot: Spot) -> str:
    """`in the kitchen near (1.5, 2.4)`, as far as it is known; empty when nothing is."""
    room = f"in the {readable(spot.room)}" if spot.room else ""
    at = f"near ({spot.x:.1f}, {spot.y:.1f})" if spot.x is not None and spot.y is not None else ""
    return " ".join(filter(None, (room, at)))


def readable(name: str) -> str:
    """A name without its underscores."""
    return name.replace("_", " ")


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def with_article(label: str) -> str:
    """`a ball`, `an apple`."""
    return f"{'an' if label[:1].lower() in 'aeiou' else 'a'} {label}"
