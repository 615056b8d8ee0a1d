# SPDX-License-Identifier: Apache-2.0
"""Listen where the page is to be served."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import partial

TRIES = 20
"""Ports that are tried."""


def listening(host: str, port: int, tries: int = TRIES) -> socket.socket:
    """Return a socket that listens at a port, or the first free one of those behind it. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    serve = partial(socket.create_server, family=family, backlog=128, dualstack_ipv6=family is socket.AF_INET6)
    for n in range(tries - 1):
        with suppress(OSError):
            return serve((host, port + n))
    return serve((host, port + tries - 1))
