# SPDX-License-Identifier: Apache-2.0
"""Robots: their skills, bodies and models."""
