# SPDX-License-Identifier: Apache-2.0
"""Run skills: admission, leases, pauses, preemption, outcomes (TypeGo 5.1)."""
