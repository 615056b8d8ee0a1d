# SPDX-License-Identifier: Apache-2.0
"""What each planning layer of a process has asked of its model, summed up, and which goes on without one."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class LayerUsage:
    """Sums over a layer's calls (fields of LayerUsage.msg). `cost_usd` is -1 while no price is known."""

    layer: str
    model: str = ""
    calls: int = 0
    failures: int = 0
    skipped: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = -1.0
    latency_s: float = 0.0
    latency_max_s: float = 0.0


@dataclass(frozen=True)
class ModelAnswer:
    """One call of a layer's model as it ended; `failed` when it gave no usable answer."""

    layer: str
    model: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = -1.0
    latency_s: float = 0.0
    failed: bool = False


def added(usage: tuple[LayerUsage, ...], answer: ModelAnswer) -> tuple[LayerUsage, ...]:
    """The sums with one more call."""
    old = _of(usage, answer.layer)
    cost = max(old.cost_usd, 0.0) + answer.cost_usd if answer.cost_usd >= 0 else old.cost_usd
    return _with(
        usage,
        replace(
            old,
            model=answer.model or old.model,
            calls=old.calls + 1,
            failures=old.failures + answer.failed,
            prompt_tokens=old.prompt_tokens + answer.prompt_tokens,
            cached_tokens=old.cached_tokens + answer.cached_tokens,
            completion_tokens=old.completion_tokens + answer.completion_tokens,
            cost_usd=cost,
            latency_s=old.latency_s + answer.latency_s,
            latency_max_s=max(old.latency_max_s, answer.latency_s),
        ),
    )


def skipped(usage: tuple[LayerUsage, ...], layer: str) -> tuple[LayerUsage, ...]:
    """The sums when a layer saw no need to ask, or was not allowed to."""
    old = _of(usage, layer)
    return _with(usage, replace(old, skipped=old.skipped + 1))


def _of(usage: tuple[LayerUsage, ...], layer: str) -> LayerUsage:
    return next((u for u in usage if u.layer == layer), LayerUsage(layer))


def _with(usage: tuple[LayerUsage, ...], new: LayerUsage) -> tuple[LayerUsage, ...]:
    if any(u.layer == new.layer for u in usage):
        return tuple(new if u.layer == new.layer else u for u in usage)
    return (*usage, new)
