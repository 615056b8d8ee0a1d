# SPDX-License-Identifier: Apache-2.0
"""Name what is done in an office: a robot's skill with its arguments, or a deed that a person is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.office.world import Deed


@dataclass(frozen=True)
class Act:
    """One action: a robot's skill, or with `deed` what a person is asked to do (`skill` is then `ask`)."""

    actor: str
    skill: str
    arguments: Mapping[str, str]
    deed: Deed | None = None
