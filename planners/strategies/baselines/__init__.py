# SPDX-License-Identifier: Apache-2.0
"""Plan like ReAct or plan-and-execute, for comparison."""
