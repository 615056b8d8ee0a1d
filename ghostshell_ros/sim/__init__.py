# SPDX-License-Identifier: Apache-2.0
"""MuJoCo worlds and what runs on them."""
