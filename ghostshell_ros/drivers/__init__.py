# SPDX-License-Identifier: Apache-2.0
"""Drive the robot: action servers, their ROS-free cores, and the clients that skills use."""
