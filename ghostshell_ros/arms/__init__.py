# SPDX-License-Identifier: Apache-2.0
"""Arms: what stands around them, their ways through it, and what they do with things and doors. Without ROS."""
