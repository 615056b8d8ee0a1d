# SPDX-License-Identifier: Apache-2.0
"""Hold the executable `monitor`."""
