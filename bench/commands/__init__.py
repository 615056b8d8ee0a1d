# SPDX-License-Identifier: Apache-2.0
"""Add the commands `bench` and `simulated-model` to the command line."""
