# SPDX-License-Identifier: Apache-2.0
"""Prescriptions: tasks, guidelines and reflexes in plain sentences, each at the layer whose latency fits (TypeGo 4)."""
