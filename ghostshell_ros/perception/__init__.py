# SPDX-License-Identifier: Apache-2.0
"""What a robot sees; no ROS in here."""
