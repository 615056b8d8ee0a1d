# SPDX-License-Identifier: Apache-2.0
"""Measuring a whole robot against what is published of others."""
