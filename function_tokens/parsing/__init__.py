# SPDX-License-Identifier: Apache-2.0
"""Parse a stream of text into function tokens (GhostShell 3.3)."""
