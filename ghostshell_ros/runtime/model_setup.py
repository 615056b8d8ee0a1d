# SPDX-License-Identifier: Apache-2.0
"""Make the models that a planning node is configured with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from ghostshell_ros.runtime.data import config_folder
from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode
from ghostshell_ros.runtime.robot_setup import RobotSetup
from planners.models.base import ModelClient, ModelError
from planners.models.config import ConfigError, load_models, parse_spec
from planners.models.factory import make_client


def declare_model(node: RuntimeNode, robot: RobotSetup) -> ModelClient:
    """Declare the parameters `model` and `models_file`, and return the client of that model. Raises NodeStartError."""
    spec = node.declare("model", "offline", "a name in models_file, or provider:model such as openai:gpt-4.1 or replay:FILE")
    return _made(node, "model", spec, robot)


def optional_model(node: RuntimeNode, parameter: str, description: str, robot: RobotSetup | None = None) -> ModelClient | None:
    """Declare a parameter and `models_file`; return the model, None where none is named. Raises NodeStartError.

    Without a robot, `offline` names none.
    """
    spec = node.declare(parameter, "", description)
    _models_file(node)
    return _made(node, parameter, spec, robot) if spec and (robot is not None or spec != "offline") else None


def _models_file(node: RuntimeNode) -> Path | None:
    name = "models_file"
    if not node.has_parameter(name):
        node.declare(name, "", "file of named models; empty: config/models.yaml of this package")
    return Path(file) if (file := node.get_parameter(name).value) else None


def _made(node: RuntimeNode, parameter: str, spec: str, robot: RobotSetup | None) -> ModelClient:
    file = _models_file(node)

    def offline() -> ModelClient:
        from planners.language.client import OfflineClient

        assert robot is not None
        return OfflineClient(robot.facts(), robot.routines)

    try:
        models = load_models(file or shipped_config() / "models.yaml")
        return make_client(parse_spec(spec, models), offline=None if robot is None else offline)
    except ConfigError as error:
        raise NodeStartError(f"parameter {parameter}: {error}") from error


def prepare_models(node: RuntimeNode, clients: Iterable[ModelClient], then: Callable[[], None] = lambda: None) -> None:
    """Import SDKs and look for keys on a thread of its own, before the first task needs them; then call `then` there."""

    def prepare() -> None:
        for client in dict.fromkeys(clients):
            try:
                client.prepare()
            except ModelError as error:
                node.get_logger().warning(f"model {client.name}: {error.message}")
            else:
                node.get_logger().info(f"model {client.name} is ready")
        then()

    threading.Thread(target=prepare, name="prepare-model", daemon=True).start()


def shipped_config() -> Path:
    """Return the project's `config` folder, beside the sources or in the installed share. Raises NodeStartError without one."""
    folder = config_folder()
    if folder is None:
        raise NodeStartError("the package ghostshell is not installed; build it, or set the parameter models_file")
    return folder
