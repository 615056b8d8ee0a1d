# SPDX-License-Identifier: Apache-2.0
"""Runs every benchmark, one after the other, each in a process of its own, and sums their targets up (`make bench`)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import OUT, ROOT

NAMES = (
    "parser",
    "scheduler",
    "arbitration",
    "memory",
    "table3",
    "coco_tasks",
    "ros_latency",
    "console",
    "halt",
    "processes",
    "sim",
    "detection",
    "observer",
    "reflexes",
    "lateness",
    "way",
    "page",
)


def main() -> int:
    """Exit status 1 when a benchmark could not run or missed a target."""
    failed = []
    began = time.monotonic()
    lines = []
    for name in NAMES:
        print(f"\n== {name}", flush=True)
        (OUT / f"{name}.json").unlink(missing_ok=True)
        code = subprocess.run([sys.executable, str(ROOT / "bench" / f"bench_{name}.py")], cwd=ROOT, check=False).returncode
        path = OUT / f"{name}.json"
        if code or not path.is_file():
            failed.append(name)
            lines.append(f"{name}: did not run to its end (exit status {code})")
            continue
        for target in json.loads(path.read_text(encoding="utf-8"))["targets"]:
            lines.append(
                f"{name}: {target['what']}: {target['value']:g} ({target['bound']} {target['unit']})"
                f" {'met' if target['met'] else 'MISSED'}"
            )
            failed += [] if target["met"] else [name]
    print(f"\n== {time.monotonic() - began:.0f} s in all\n" + "\n".join(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
