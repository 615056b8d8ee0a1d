# SPDX-License-Identifier: Apache-2.0
"""Define one action in the office: a robot's skill with its arguments, or a request to a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.office.world import Deed


@dataclass(frozen=True)
class Act:
    """One action of a robot or a person (`actor`); if `deed` is set, a person is asked to do it, and `skill` is `ask`."""

    actor: str
    skill: str
    arguments: Mapping[str, str]
    deed: Deed | None = None
