# SPDX-License-Identifier: Apache-2.0
"""Simulate robots in the place of hardware: MuJoCo worlds, what runs on them, and the node `sim`. No other package needs it."""
