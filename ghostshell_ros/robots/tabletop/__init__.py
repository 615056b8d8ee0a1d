# SPDX-License-Identifier: Apache-2.0
"""The arm Atlas at a table of blocks and bowls, whose skills a console calls."""
