# SPDX-License-Identifier: Apache-2.0
"""Writes requirements/constraints.txt: what pip resolves for each Python given (`scripts/lock.py python3.10 …`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
HEAD = "# All packages, also those the named ones pull in. Written by scripts/lock.py; run it to raise versions.\n"


def resolve(python: str) -> tuple[str, dict[str, str]]:
    """Return the Python's version (`3.11`) and the version of each package that pip would install."""
    files = [
        word for name in ("ros-wheels", "run", "page", "console", "dev") for word in ("-r", str(REQUIREMENTS / f"{name}.txt"))
    ]
    pip = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-", *files]
    report = json.loads(subprocess.run(pip, check=True, stdout=subprocess.PIPE, text=True).stdout)
    packages = [item["metadata"] for item in report["install"]]
    pins = {package["name"].lower().replace("_", "-"): package["version"] for package in packages}
    return ".".join(report["environment"]["python_full_version"].split(".")[:2]), pins


def merge(resolved: dict[str, dict[str, str]]) -> list[str]:
    """Return one line per package where all Pythons agree, otherwise one per version with the Pythons it is for."""
    lines = []
    for name in sorted(set().union(*resolved.values())):
        pythons: dict[str, list[str]] = {}
        for python, pins in resolved.items():
            if name in pins:
                pythons.setdefault(pins[name], []).append(f'python_version == "{python}"')
        for version, markers in pythons.items():
            lines.append(f"{name}=={version}" + (f" ; {' or '.join(markers)}" if len(pythons) > 1 else ""))
    return lines


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: scripts/lock.py PYTHON…   (one interpreter of each version to lock for)")
    pins = merge(dict(resolve(python) for python in sys.argv[1:]))
    (REQUIREMENTS / "constraints.txt").write_text(HEAD + "\n".join(pins) + "\n", encoding="utf-8")
