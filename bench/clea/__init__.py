# SPDX-License-Identifier: Apache-2.0
"""Measure two robots in a kitchen against what the CLEA paper tells."""
