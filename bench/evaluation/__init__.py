# SPDX-License-Identifier: Apache-2.0
"""TypeGo's eight tasks in Kalos's building: arranged, run by several strategies, judged by what was true (docs/typego.md)."""
