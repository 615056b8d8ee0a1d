# SPDX-License-Identifier: Apache-2.0
"""What keeps a run from going on."""

from __future__ import annotations


class HungError(RuntimeError):
    """The robot does not do what it must do in time; the message says what."""
