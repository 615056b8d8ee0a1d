# SPDX-License-Identifier: Apache-2.0
"""Hebe, two arms on a base that rolls through a kitchen."""
