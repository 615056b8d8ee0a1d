# SPDX-License-Identifier: Apache-2.0
"""Plan with one stream of function tokens (GhostShell)."""
