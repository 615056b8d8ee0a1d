# SPDX-License-Identifier: Apache-2.0
"""The node of the reflexes, which also keeps when its rounds came; a process of its own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ghostshell_ros.nodes.reflexes.node import ReflexesNode
from ghostshell_ros.runtime.node_runtime import run

ROUNDS = "GHOSTSHELL_BENCH_ROUNDS"
"""Environment variable that names the file of its rounds, in seconds of the steady clock."""


class TimedReflexes(ReflexesNode):
    """Keeps when each of its rounds came."""

    def __init__(self) -> None:
        self._rounds_s: list[float] = []
        super().__init__()

    def _tick(self) -> None:
        self._rounds_s.append(self.steady_now())
        super()._tick()

    def close(self) -> None:
        """Write them down."""
        Path(os.environ[ROUNDS]).write_text(json.dumps(self._rounds_s))
        super().close()


if __name__ == "__main__":
    sys.exit(run(TimedReflexes))
