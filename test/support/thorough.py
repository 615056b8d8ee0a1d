# SPDX-License-Identifier: Apache-2.0
"""Set the number of examples of a property test: a tenth at each commit, all with hypothesis's profile `thorough`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

THOROUGH = "thorough"
FEW = 20
"""Examples at each commit of a property that names no number, and at least of one that names four times so many."""


def register() -> None:
    """Register both profiles and load the quick one; `pytest --hypothesis-profile thorough` loads the other."""
    # No property test is judged by the time that an example takes: the machine is shared.
    for name, number in ("quick", FEW), (THOROUGH, 100):
        settings.register_profile(name, max_examples=number, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("quick")


def examples(thorough: int) -> int:
    """Return the number of examples in the profile that is loaded, given that of the thorough one."""
    return thorough if settings.get_current_profile_name() == THOROUGH else min(thorough // 4, max(FEW, thorough // 10))
