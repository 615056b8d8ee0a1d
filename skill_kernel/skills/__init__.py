# SPDX-License-Identifier: Apache-2.0
"""Describe skills: declaration, registry, arguments, return values. Imports no ROS."""
