# SPDX-License-Identifier: Apache-2.0
"""Means, deviations and normalised means of results, as TypeGo's tables 3 and 4 have them."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Line = dict[str, Any]


@dataclass(frozen=True)
class Spread:
    """Mean and sample deviation of `n` values; nan without any."""

    mean: float
    std: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread:
        """Of the values there are."""
        known = [v for v in values if v is not None and not math.isnan(v)]
        if not known:
            return cls(math.nan, math.nan, 0)
        return cls(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0, len(known))

    def __str__(self) -> str:
        return "–" if not self.n else f"{self.mean:.2f}/{self.std:.2f} ({self.n})"


def tokens(line: Line) -> float:
    """All tokens of a trial."""
    return float(sum(layer["prompt"] + layer["completion"] for layer in line.get("layers", {}).values()))


def wait(line: Line) -> float | None:
    """Mean wait between the steps of a trial, in s."""
    waits = line.get("waits_s") or []
    return statistics.fmean(waits) if waits else None


def total(line: Line) -> float | None:
    """Seconds of a trial that came to an end."""
    return line.get("total_s") if line.get("status") else None


def interval(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return the Wilson interval of a share, of 95 % by default. Raises ValueError without trials."""
    if not 0 <= hits <= n or not n:
        raise ValueError(f"{hits} of {n} is no share of trials")
    middle, spread = hits + z * z / 2, z * math.sqrt(hits * (n - hits) / n + z * z / 4)
    return max(0.0, (middle - spread) / (n + z * z)), min(1.0, (middle + spread) / (n + z * z))


def share(hits: int, n: int) -> str:
    """Return a share in percent with its interval and how many it is of."""
    if not n:
        return "–"
    low, high = interval(hits, n)
    return f"{100 * hits / n:.1f} [{100 * low:.1f}, {100 * high:.1f}] ({n})"


def bootstrap(values: Sequence[float], draws: int = 2000) -> tuple[float, float]:
    """Return the interval of a mean of 95 %, by the percentiles of means drawn anew with a fixed seed. Raises ValueError
    without values."""
    if not values:
        raise ValueError("there is no mean of nothing")
    drawn = np.random.default_rng(7).choice(np.asarray(values, dtype=float), (draws, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return float(low), float(high)


def mean(values: Sequence[float], scale: float = 100.0) -> str:
    """Return a mean in percent, or in another scale, with its interval and of how many it is."""
    if not values:
        return "–"
    low, high = bootstrap(values)
    return f"{scale * statistics.fmean(values):.1f} [{scale * low:.1f}, {scale * high:.1f}] ({len(values)})"


def falsely_done(line: Line) -> bool:
    """Return whether a process ended as SUCCESS although the judge says that its task was not done."""
    return line.get("status") == "SUCCESS" and not line["success"]


def unverified(line: Line) -> bool:
    """Return whether a process said at its end that nobody had looked again."""
    return str(line.get("message", "")).startswith("unverified")


def successes(lines: Sequence[Line]) -> str:
    """Return how many of how many."""
    return f"{sum(bool(x['success']) for x in lines)}/{len(lines)}" if lines else "–"


def normalised(lines: Sequence[Line], reference: Sequence[Line], value: Callable[[Line], float | None]) -> Spread:
    """Each trial's value divided by the reference's mean of the same task, so that long tasks do not outweigh short ones."""
    by_task: defaultdict[str, list[float | None]] = defaultdict(list)
    for line in reference:
        by_task[line["task"]].append(value(line))
    means = {task: Spread.of(values).mean for task, values in by_task.items()}
    shares = []
    for line in lines:
        mean, own = means.get(line["task"], math.nan), value(line)
        if own is not None and mean > 0:
            shares.append(own / mean)
    return Spread.of(shares)


def ratio(a: Spread, b: Spread) -> float:
    """Of two means; nan where there is none."""
    return a.mean / b.mean if a.n and b.n and b.mean else math.nan


def kind_of(reason: str) -> str:
    """Return a reason without what differs from trial to trial: numbers, and what was said or named."""
    return re.sub(r"\d+(\.\d+)?", "…", re.sub(r"“[^”]*”|: .*$", "", reason)).strip()


def reasons(lines: Iterable[Line]) -> Counter[str]:
    """Return how often trials failed for what; a trial with several reasons counts for its first."""
    return Counter(kind_of(line["reasons"][0]) for line in lines if line["reasons"])


@dataclass(frozen=True)
class Crossing:
    """Between two error rates one strategy fell behind another."""

    low: float
    high: float
    fell: str
    rose: str
    why: str


def crossings(rates: dict[str, dict[float, float]], lines: Sequence[Line]) -> list[Crossing]:
    """Return where curves of success over error rate cross, and why the one that fell failed at the higher rate."""
    found = []
    names = sorted(rates)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            shared = sorted(set(rates[a]) & set(rates[b]))
            ahead: tuple[float, float] | None = None
            for error in shared:
                lead = rates[a][error] - rates[b][error]
                if lead == 0:
                    continue
                if ahead is not None and ahead[1] * lead < 0:
                    fell, rose = (a, b) if lead < 0 else (b, a)
                    failed = reasons(x for x in lines if x["strategy"] == fell and x["error"] == error)
                    why = ", ".join(f"{kind} ({n})" for kind, n in failed.most_common(3)) or "no trial of it failed"
                    found.append(Crossing(ahead[0], error, fell, rose, why))
                ahead = error, lead
    return found
