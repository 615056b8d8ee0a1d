# SPDX-License-Identifier: Apache-2.0
"""Moving a base by odometry and lidar: relative moves, a rolling map, paths through it. Without ROS."""
