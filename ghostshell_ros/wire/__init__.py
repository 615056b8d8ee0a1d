# SPDX-License-Identifier: Apache-2.0
"""Convert between messages and the types of the cores."""
