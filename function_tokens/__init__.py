# SPDX-License-Identifier: Apache-2.0
"""Turn a stream of function tokens into scheduled calls (the Shell, GhostShell 3.4). Imports no ROS."""
