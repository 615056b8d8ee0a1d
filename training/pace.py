# SPDX-License-Identifier: Apache-2.0
"""End a training in time on a machine whose speed is not known beforehand."""

from __future__ import annotations

import time
from typing import Any

from transformers import TrainerCallback

SETTLED_STEPS = 4
MEASURED_STEPS = 8
"""Steps by which the pace is measured, after those in which it settles."""


class UntilThen(TrainerCallback):  # type: ignore[misc]
    """Lower the number of steps to what the minutes allow, and let the learning rate fall to 0 by then. The minutes count from
    the first step."""

    def __init__(self, minutes: float) -> None:
        self._minutes = minutes
        self._end = 0.0
        self._since = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin to count."""
        self._end = time.monotonic() + self._minutes * 60.0

    def on_step_end(self, args: Any, state: Any, control: Any, lr_scheduler: Any = None, **_: Any) -> None:
        """Measure the pace once, and end at the last moment in any case."""
        now = time.monotonic()
        if state.global_step == SETTLED_STEPS:
            self._since = now
        if state.global_step == SETTLED_STEPS + MEASURED_STEPS:
            step_s = (now - self._since) / MEASURED_STEPS
            last = min(state.max_steps, state.global_step + int((self._end - now) / step_s))
            state.max_steps = last
            inner = getattr(lr_scheduler, "scheduler", lr_scheduler)
            warm = args.warmup_steps
            inner.lr_lambdas = [lambda n: min(1.0, n / max(1, warm), max(0.0, (last - n) / max(1, last - warm)))]
            inner.lr_lambdas *= len(inner.base_lrs)
        control.should_training_stop = control.should_training_stop or now >= self._end
