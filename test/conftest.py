# SPDX-License-Identifier: Apache-2.0
"""Judge no property test by the time that an example takes: the machine is shared."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("ghostshell", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ghostshell")
