# SPDX-License-Identifier: Apache-2.0
"""Schedule calls on channels (GhostShell 3.4.3)."""
