# SPDX-License-Identifier: Apache-2.0
"""The robot's drivers: action servers, their ROS-free cores, and the clients that skills use."""
