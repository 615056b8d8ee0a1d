# SPDX-License-Identifier: Apache-2.0
"""The ROS 2 nodes: each translates messages to calls of a core and back."""
