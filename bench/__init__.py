# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: each is a command that measures the project beside a reference in the same run."""
