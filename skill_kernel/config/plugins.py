# SPDX-License-Identifier: Apache-2.0
"""Find what installed packages add under a name of their own: strategies, verdicts, models, detectors, commands.

A package offers something by an entry point (https://packaging.python.org/en/latest/specifications/entry-points/).
"""

from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import Any

COMMANDS = "ghostshell.commands"
"""Group of the sub-commands of `ghostshell`: a function, or a typer application with commands of its own."""
MODELS = "ghostshell.models"
"""Group of the named models that need no line in models.yaml: a function that returns the entry."""
CLIENTS = "ghostshell.model_clients"
"""Group of the providers of models that are not built in: a function of a ModelConfig, its Surroundings and the client
of its `inner` model, which is None without one."""
DETECTORS = "ghostshell.detectors"
"""Group of the detectors that are not built in: a function of the parameters model, confidence, overlap, threads and looks."""
RECORDINGS = "ghostshell.recordings"
"""Group of the readers of recorded runs, by the ending of their files: a function of a path and of what says which topics are
wanted, which returns the messages."""

_BENCH = ("bench", "colour", "demo", "dry-run", "mcap", "record", "replay", "simulated", "simulated-model", "tokens")
ADD_ONS = {**dict.fromkeys(_BENCH, "ghostshell-bench"), **dict.fromkeys(("local", "local-model"), "ghostshell-training")}
"""Names that a package beside this one provides; `simulated` stands for all models whose name begins so."""


class PluginError(ValueError):
    """Report that a plug-in is missing, ambiguous or broken; the message says which one and what to do."""


@cache
def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group that were installed when this process first asked: to read them takes 25 ms."""
    return tuple(metadata.entry_points(group=group))


def plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, in the order of their names.

    The same entry point may be installed more than once. Raises PluginError when two packages use one name.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda p: p.name):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise PluginError(f"{group}: '{point.name}' is both {other.value} and {point.value}; uninstall one of the two")
    return found


def load_plugin(group: str, name: str) -> Any:
    """Return what the plug-in `name` of a group is. Raises PluginError."""
    found = plugins(group)
    if name not in found:
        raise PluginError(how_to_install(name) or f"there is no '{name}' in {group}; installed: {', '.join(found) or 'none'}")
    try:
        return found[name].load()
    except Exception as error:
        raise PluginError(f"{group}: '{name}' ({found[name].value}) cannot be loaded: {error}") from error


def how_to_install(name: str) -> str:
    """Return how to get the package that provides `name`; "" for a name that no known package provides."""
    package = ADD_ONS.get(name) or (ADD_ONS["simulated"] if name.startswith("simulated") else None)
    if package is None:
        return ""
    how = "run make setup, or pip install -e bench" if package == "ghostshell-bench" else "pip install -e training"
    return f"'{name}' is part of the package {package}: {how}, in the source folder"
