# SPDX-License-Identifier: Apache-2.0
"""How many examples a property test tries: a quarter at each commit, all with the profile `thorough`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

FULL = 100
"""Examples of a property test that names no number, with the profile `thorough`."""


def register() -> None:
    """Register both profiles and load the quick one; `pytest --hypothesis-profile thorough` loads the other."""
    # No property test is judged by the time that an example takes: the machine is shared.
    always = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("quick", always, max_examples=FULL // 4)
    settings.register_profile("thorough", always, max_examples=FULL)
    settings.load_profile("quick")


def examples(thorough: int) -> int:
    """Return the number of examples in the profile that is loaded, given that of the thorough one."""
    return max(1, thorough * settings().max_examples // FULL)
