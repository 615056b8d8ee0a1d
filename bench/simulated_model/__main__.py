# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.simulated_model``: serves until interrupted; its first line is JSON with its address
and the names of its rows."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
from pathlib import Path
from typing import get_args

from bench.simulated_model.service import serve
from bench.simulated_model.table import ErrorModel, Planning, TableError, load_table
from bench.simulated_model.where import default_table

FAST = "fast"


def main() -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="A simulated language model for the planning layers.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 picks a free one (default)")
    parser.add_argument("--errors", type=float, help="share of the answers that is spoiled, 0 to 1; default: the table's")
    parser.add_argument("--error-model", choices=get_args(ErrorModel), help="what goes wrong; default: the table's")
    parser.add_argument("--planning", choices=get_args(Planning), help="policy of System 2; default: the table's")
    parser.add_argument("--seed", type=int, help="seed of delays and errors; default: the table's")
    parser.add_argument("--fast-scale", type=float, default=1.0, help="latency of the row 'fast' times this (default 1)")
    parser.add_argument("--table", type=Path, help="YAML file of rows; default: bench/typego_models.yaml")
    given = parser.parse_args()
    try:
        table = load_table(given.table or default_table())
        scales = {FAST: given.fast_scale} if given.fast_scale != 1.0 else {}
        table = table.with_options(
            seed=given.seed, errors=given.errors, scales=scales, error_model=given.error_model, planning=given.planning
        )
        server = serve(table, port=given.port)
    except (TableError, OSError) as error:
        print(f"simulated model: {error}", file=sys.stderr)
        return 2
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    rows = list(table.rows)
    with contextlib.suppress(KeyboardInterrupt), server:
        told = {
            "url": server.openai_url,
            "anthropic": server.anthropic_url,
            "model": rows[0],
            "fast_model": FAST if FAST in rows else rows[0],
        }
        print(json.dumps(told), flush=True)
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
