# SPDX-License-Identifier: Apache-2.0
"""Wait for what a server process prints when it is up."""

from __future__ import annotations

import selectors
import subprocess


def first_line(process: subprocess.Popen[str], limit_s: float) -> str:
    """Return the first line a process prints, "" when it ended instead. Raises TimeoutError after `limit_s`."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(limit_s):
            raise TimeoutError(f"process {process.pid} ({process.args!r}) printed nothing within {limit_s:g} s")
    return process.stdout.readline()
