# SPDX-License-Identifier: Apache-2.0
"""End a training in time on a machine whose speed is not known beforehand."""

from __future__ import annotations

import time
from typing import Any

from transformers import TrainerCallback

MEASURED_STEPS = 8
"""Steps, after the first ones, by which the pace is measured."""
SETTLED_STEPS = 4


class UntilThen(TrainerCallback):  # type: ignore[misc]
    """Lower the number of steps to what the minutes allow, so that the learning rate has fallen when they are over."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + minutes * 60.0
        self._since = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Measure the pace once, and end at the last moment in any case."""
        now = time.monotonic()
        if state.global_step == SETTLED_STEPS:
            self._since = now
        if state.global_step == SETTLED_STEPS + MEASURED_STEPS:
            step_s = (now - self._since) / MEASURED_STEPS
            state.max_steps = min(state.max_steps, state.global_step + int((self._end - now) / step_s))
        control.should_training_stop = control.should_training_stop or now >= self._end
