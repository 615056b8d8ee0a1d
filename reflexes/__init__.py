# SPDX-License-Identifier: Apache-2.0
"""Act at once and without any language model: reflexes (S0). Imports no ROS."""
