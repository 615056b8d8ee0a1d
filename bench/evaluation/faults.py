# SPDX-License-Identifier: Apache-2.0
"""Define the errors that keep a run from going on."""

from __future__ import annotations

from bench.evaluation.trace import Trace


class HungError(RuntimeError):
    """The robot does not do what it must do in time; the message says what."""


class LostError(HungError):
    """It hung after it was told its task, which is a failure of the trial; `trace` is what happened until then."""

    def __init__(self, message: str, trace: Trace) -> None:
        super().__init__(message)
        self.trace = trace
