# SPDX-License-Identifier: Apache-2.0
"""A camera head of two servos: its skills, its body and its servo node."""
