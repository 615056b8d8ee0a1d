# SPDX-License-Identifier: Apache-2.0
"""The parameter files of a run: the shipped ones, with the few things set that a measurement needs otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

APART = {"process_tokens": 0, "hour_tokens": 0, "memory_tokens": 0}
"""Trials follow one another for hours; what one costs must not slow the next one down, and its world not be remembered."""
TRUTH_HZ = 20.0


def settings(
    shipped: Path,
    folder: Path,
    models: Mapping[str, Mapping[str, Any]],
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
) -> Path:
    """Copy the configuration `shipped` to `folder`, with trials kept apart and true poses told often enough to count nods,
    `models` known by name, and further `parameters` of nodes; its path."""
    shutil.copytree(shipped, folder, dirs_exist_ok=True)
    named = folder / "models.yaml"
    listed = yaml.safe_load(named.read_text(encoding="utf-8"))
    listed["models"].update({name: dict(entry) for name, entry in models.items()})
    named.write_text(yaml.safe_dump(listed, sort_keys=False), encoding="utf-8")
    for file in folder.glob("*.yaml"):
        nodes = yaml.safe_load(file.read_text(encoding="utf-8"))
        changed = False
        for name, node in nodes.items() if isinstance(nodes, dict) else ():
            known = node.get("ros__parameters") if isinstance(node, dict) else None
            if isinstance(known, dict):
                wanted: dict[str, object] = {name: value for name, value in APART.items() if name in known}
                wanted |= {"ground_truth_rate_hz": TRUTH_HZ} if "ground_truth_rate_hz" in known else {}
                wanted |= (parameters or {}).get(name.removeprefix("/**/"), {})
                known.update(wanted)
                changed = changed or bool(wanted)
        if changed:
            file.write_text(yaml.safe_dump(nodes, sort_keys=False), encoding="utf-8")
    return folder
