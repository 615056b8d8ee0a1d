# SPDX-License-Identifier: Apache-2.0
"""Strategy `closed_loop`: observer, memory, planner and critic of CLEA, for one robot or several."""
