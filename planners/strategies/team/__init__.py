# SPDX-License-Identifier: Apache-2.0
"""Strategy `team`: five agents plan for robots and people together (InteractGen III)."""
