# SPDX-License-Identifier: Apache-2.0
"""Hold a strategy and a verdict of one's own."""
