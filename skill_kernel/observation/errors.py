# SPDX-License-Identifier: Apache-2.0
"""Why an observation cannot answer: the field is stale or missing, or it was asked in a way that nobody understands."""

from __future__ import annotations


class ObservationError(RuntimeError):
    """An accessor gave no value; the message says what to do."""


class StaleFieldError(ObservationError):
    """The field is stale, missing, or does not tell what was asked. `age_s` is inf when it was never measured."""

    def __init__(self, field: str, age_s: float, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.age_s = age_s


class UnknownAccessorError(ObservationError):
    """The robot has no accessor of this name."""


class ArgumentError(ObservationError):
    """An accessor was called with too many or too few arguments, or one that does not fit."""
