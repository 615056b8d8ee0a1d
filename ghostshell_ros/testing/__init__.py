# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests and benchmarks that more than one folder uses; they need neither ROS nor a network beyond this
machine."""
