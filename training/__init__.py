# SPDX-License-Identifier: Apache-2.0
"""Train a small language model to write function tokens, and serve it on the robot's own computer. An extra."""
