# SPDX-License-Identifier: Apache-2.0
"""The ROS 2 nodes: each translates messages to calls of a core and back. docs/architecture.md lists the topics, services
and actions of each, as read from running robots."""
