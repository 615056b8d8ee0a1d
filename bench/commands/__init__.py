# SPDX-License-Identifier: Apache-2.0
"""Add the commands `bench`, `replay` and `simulated-model` to the command line."""
