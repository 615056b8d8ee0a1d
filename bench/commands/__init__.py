# SPDX-License-Identifier: Apache-2.0
"""Add the commands `bench`, `demo`, `replay` and `simulated-model` to the command line."""
