# SPDX-License-Identifier: Apache-2.0
"""Attach parameters, robot files and routines to a recording, without anything that may be a key."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.parameter import parameter_value_to_python

from ghostshell_ros.runtime.data import data_folder
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.service_client import ServiceClient
from planners.models.scrubber import Secrets, known_secrets, looks_removed
from skill_kernel.robot import RobotConfigError, find_file

HIDDEN = "(not recorded)"

_SECRET = re.compile(
    r"(?i)(^|[^a-z0-9])(key|token|secret|password|passwd|passphrase|pwd|credential|authorization)s?($|[^a-z0-9])"
    r"|(api|access|auth|private|secret)[-_.]?(key|token)"
)
_LOGIN = re.compile(r"(://)[^/@\s\"']+@")
_QUERY = re.compile(r"([?&;])([^=&;\s#\"']+)=([^&;\s#\"']*)")


def presentable(values: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return parameters, also nested ones, without keys. Only a text can be a key: `max_output_tokens` stays."""
    known = Secrets(known_secrets(environment))
    return {name: _shown(value, _secret(name), known) for name, value in values.items()}


def presentable_text(name: str, text: str, environment: Mapping[str, str]) -> str:
    """Return the text of a YAML or JSON file, rewritten without keys where it holds any."""
    known, is_json = Secrets(known_secrets(environment)), name.endswith(".json")
    try:
        read = json.loads(text) if is_json else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return _masked(text, known)
    shown = _shown(read, False, known)
    if shown == read:
        return _masked(text, known)
    return json.dumps(shown) if is_json else str(yaml.safe_dump(shown, allow_unicode=True, sort_keys=False))


def _secret(name: object) -> bool:
    return bool(_SECRET.search(str(name)))


def _shown(value: Any, secret: bool, known: Secrets) -> Any:
    """Return a value without keys. `secret` says that its name, or that of a section around it, is a key's."""
    if isinstance(value, Mapping):
        return {name: _shown(one, secret or _secret(name), known) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(one, secret, known) for one in value]
    if not isinstance(value, str):
        return value
    hide = (secret and value) or known.hidden(value) != value
    return HIDDEN if hide else _masked(value, known)


def _masked(text: str, known: Secrets) -> str:
    text = _LOGIN.sub(rf"\1{HIDDEN}@", known.hidden(text, HIDDEN))
    text = _QUERY.sub(lambda found: f"{found[1]}{found[2]}={HIDDEN}" if _secret(found[2]) else found[0], text)
    return looks_removed(text, HIDDEN)


class Configuration:
    """Ask each node below a robot's namespace once for its parameters, and keep them by `attach(name, text)`.

    On the executor's thread.
    """

    def __init__(self, node: RuntimeNode, attach: Callable[[str, str], None]) -> None:
        self._node, self._attach = node, attach
        self._asked: set[str] = set()
        self._files: set[str] = set()

    def look(self, robots: Iterable[str]) -> None:
        """Ask the nodes that have appeared since the last call."""
        known = tuple(robots)
        for name, namespace in self._node.get_node_names_and_namespaces():
            full = f"{namespace.rstrip('/')}/{name}"
            if namespace in known and full not in self._asked:
                self._asked.add(full)
                listing = ServiceClient(self._node, ListParameters, f"{full}/list_parameters")
                listing.prove(ListParameters.Request, partial(self._listed, full, namespace, listing))

    def _listed(self, full: str, robot: str, listing: ServiceClient, response: Any) -> None:
        self._node.destroy_client(listing.client)
        names = sorted(n for n in response.result.names if not n.startswith("qos_overrides."))
        getting = ServiceClient(self._node, GetParameters, f"{full}/get_parameters")
        getting.prove(lambda: GetParameters.Request(names=names), partial(self._got, full, robot, getting, names))

    def _got(self, full: str, robot: str, getting: ServiceClient, names: list[str], response: Any) -> None:
        self._node.destroy_client(getting.client)
        values = {n: parameter_value_to_python(v) for n, v in zip(names, response.values, strict=False)}
        plain = {n: list(v) if isinstance(v, (tuple,)) or hasattr(v, "tolist") else v for n, v in values.items()}
        shown = presentable(plain, os.environ)
        self._attach(f"parameters{full}.yaml", yaml.safe_dump(shown, allow_unicode=True))
        if isinstance(shown.get("robot"), str):
            self._files_of(robot, str(shown["robot"]), str(shown.get("data_dir", "")))

    def _files_of(self, robot: str, file: str, data_dir: str) -> None:
        """Attach the robot's own file and its routines, where this machine has them."""
        try:
            path = find_file(file)
            text = path.read_text(encoding="utf-8")
        except (RobotConfigError, OSError, UnicodeDecodeError):
            return
        self._keep(f"robots{robot}.yaml", text)
        name = (yaml.safe_load(text) or {}).get("name", path.stem)
        routines = Path(data_folder(data_dir)) / str(name) / "routines.json"
        try:
            kept = routines.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return
        self._keep(f"routines{robot}.json", kept)

    def _keep(self, name: str, text: str) -> None:
        if name not in self._files:
            self._files.add(name)
            self._attach(name, presentable_text(name, text, os.environ))
