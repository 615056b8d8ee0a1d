# SPDX-License-Identifier: Apache-2.0
"""Find things in camera images, without ROS."""
