# SPDX-License-Identifier: Apache-2.0
"""Strategy `layered`: System 1, 2 and 3 as loops of their own (TypeGo 6)."""
