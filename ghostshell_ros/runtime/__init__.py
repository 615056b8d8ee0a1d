# SPDX-License-Identifier: Apache-2.0
"""Provide what every node uses: executor, lifecycle, parameters, services, actions."""
