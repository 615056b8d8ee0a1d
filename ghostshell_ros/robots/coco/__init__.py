# SPDX-License-Identifier: Apache-2.0
"""CoCo, the servo robot."""
