# SPDX-License-Identifier: Apache-2.0
"""Kalos, a quadruped the size of a dog that walks through a building."""
