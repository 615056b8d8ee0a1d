# SPDX-License-Identifier: Apache-2.0
"""Recordings: one MCAP file a run, written beside the robot and performed again by its own nodes."""
