# SPDX-License-Identifier: Apache-2.0
"""Schedule processes: table, pauses, plans, storage (TypeGo 5.2)."""
