# SPDX-License-Identifier: Apache-2.0
"""Limit what reaches a body: the gates of the base and the joints."""
