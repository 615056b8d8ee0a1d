# SPDX-License-Identifier: Apache-2.0
"""Measure what a console learns at a table of blocks and bowls (incremental learning from interaction, section 4)."""
