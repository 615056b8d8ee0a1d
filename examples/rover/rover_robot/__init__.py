# SPDX-License-Identifier: Apache-2.0
"""A base of two wheels: its skills, its body and the node of its motors."""
