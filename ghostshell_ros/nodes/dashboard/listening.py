# SPDX-License-Identifier: Apache-2.0
"""Listen where the page is to be served."""

from __future__ import annotations

import socket

TRIES = 20
"""Ports that are tried."""


def listening(host: str, port: int, tries: int = TRIES) -> socket.socket:
    """Return a socket that listens at a port, or the first free one of those behind it. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for n in range(tries):
        one = socket.socket(family, socket.SOCK_STREAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, port + n))
        except OSError:
            one.close()
            if n == tries - 1:
                raise
            continue
        one.listen(128)
        return one
    raise AssertionError("unreachable")
