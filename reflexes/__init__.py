# SPDX-License-Identifier: Apache-2.0
"""Reflexes (S0): what the robot does at once, without any language model. Imports no ROS."""
