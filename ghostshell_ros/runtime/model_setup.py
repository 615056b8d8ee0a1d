# SPDX-License-Identifier: Apache-2.0
"""Make the models that a planning node is configured with."""

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rclpy.parameter import Parameter as RosParameter

from ghostshell_ros.runtime.data import config_folder, model_config
from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode
from ghostshell_ros.runtime.robot_setup import RobotSetup
from planners.models.base import ModelClient, ModelError
from planners.models.config import ConfigError, Deadlines, ModelConfig, require_key
from planners.models.factory import make_client
from planners.models.hedge import HedgedClient
from planners.strategy import Parameter

ANSWER = (
    Parameter("deadline_s", 60.0, "one answer may take so long [s]", 0.1, 3600.0),
    Parameter("max_output_tokens", 2048, "length of one answer at most [tokens]", 16, 1_000_000),
)
"""Settings that any strategy may read."""


def declare_model(node: RuntimeNode, robot: RobotSetup) -> ModelClient:
    """Declare the parameters `model` and `models_file`, and return the client of that model. Raises NodeStartError."""
    spec = node.declare("model", "offline", "a name in models_file, or provider:model such as openai:gpt-4.1 or replay:FILE")
    return _made(node, "model", spec, robot)


def model_if_any(node: RuntimeNode, robot: RobotSetup, without: str) -> ModelClient | None:
    """Return what `declare_model` does. Where that fails, log what becomes of it and return None: the node can go on."""
    try:
        return declare_model(node, robot)
    except NodeStartError as error:
        node.get_logger().error(f"{without}: {error}")
        return None


def optional_model(node: RuntimeNode, parameter: str, description: str, robot: RobotSetup) -> ModelClient | None:
    """Declare a parameter and `models_file`; return the model, None where none is named. Raises NodeStartError."""
    spec = node.declare(parameter, "", description)
    _models_file(node)
    return _made(node, parameter, spec, robot) if spec else None


def hedged(node: RuntimeNode, model: ModelClient, fast: ModelClient | None) -> ModelClient:
    """Return the client of the parameter `model`, which is asked again through the fast one when it stays silent."""
    after_s = config_of(node, "model").hedge_s
    if fast is None or not after_s or not (model.is_language_model and fast.is_language_model) or fast.name == model.name:
        return model
    return HedgedClient(model, fast, after_s)


def deadlines_of(node: RuntimeNode, *parameters: str) -> Deadlines:
    """Return the deadlines of the model that the first of these parameters with a value names. Raises NodeStartError."""
    return config_of(node, *parameters).deadlines


def config_of(node: RuntimeNode, *parameters: str) -> ModelConfig:
    """Return what is known of the model that the first of these parameters with a value names. Raises NodeStartError."""
    parameter = next((name for name in parameters if node.get_parameter(name).value), parameters[-1])
    config = _config(node, parameter, node.get_parameter(parameter).value)
    return config.inner or config


def _models_file(node: RuntimeNode) -> str:
    name = "models_file"
    if not node.has_parameter(name):
        node.declare(name, "", "file of named models; empty: config/models.yaml of this package")
    return str(node.get_parameter(name).value)


def _config(node: RuntimeNode, parameter: str, spec: str) -> ModelConfig:
    try:
        return model_config(spec, _models_file(node))
    except ConfigError as error:
        raise NodeStartError(f"parameter {parameter}: {error}") from error


def _made(node: RuntimeNode, parameter: str, spec: str, robot: RobotSetup) -> ModelClient:
    config = _config(node, parameter, spec)

    def offline() -> ModelClient:
        from planners.language.client import OfflineClient

        return OfflineClient(robot.facts(), robot.routines)

    try:
        require_key(config, os.environ)
        return make_client(config, offline=offline)
    except (ConfigError, ModelError) as error:
        raise NodeStartError(f"parameter {parameter}: {error}") from error


def declare_settings(node: RuntimeNode, parameters: Iterable[Parameter], **of_model: float) -> dict[str, Any]:
    """Declare the parameters of a planner, those of its model with the model's values as defaults; return their values by
    name, kept as they are now."""
    settings: dict[str, Any] = {}
    for p in parameters:
        default: Any = of_model.get(p.name, p.default)
        bounds = (p.minimum, p.maximum)
        settings[p.name] = node.declare(p.name, default, p.description, *bounds, choices=p.choices, read_only=not p.live)

    def changed(values: Iterable[RosParameter]) -> None:
        settings.update({p.name: p.value for p in values if p.name in settings})

    node.add_post_set_parameters_callback(changed)
    return settings


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


def shipped_file(kind: str, robot: str, parameter: str, named: str) -> Path | None:
    """Return the file that a parameter names, else the one shipped for a robot, if any. Raises NodeStartError."""
    file = Path(named) if named else config_folder() / kind / f"{robot}.yaml"
    if named and not file.is_file():
        raise NodeStartError(f"parameter {parameter}: there is no file {file}")
    return file if file.is_file() else None
