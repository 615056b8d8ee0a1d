# SPDX-License-Identifier: Apache-2.0
"""Observe: typed fields with their age, and the accessors that prompts, conditions and reflexes share."""
