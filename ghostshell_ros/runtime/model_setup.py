# SPDX-License-Identifier: Apache-2.0
"""The model a planning node is configured with."""

from __future__ import annotations

from pathlib import Path

from ghostshell_ros.runtime.data import config_folder
from ghostshell_ros.runtime.node_runtime import NodeStartError, RuntimeNode
from ghostshell_ros.runtime.robot_setup import RobotSetup
from planners.models.base import ModelClient
from planners.models.config import ConfigError, load_models, parse_spec
from planners.models.factory import make_client
from planners.prompts.prompt import GrammarOptions


def declare_model(node: RuntimeNode, robot: RobotSetup) -> ModelClient:
    """Declare the parameters `model` and `models_file` and build what they name. Raises NodeStartError with the reason."""
    spec = node.declare("model", "offline", "a name in models_file, or provider:model such as openai:gpt-4.1 or replay:FILE")
    return _made("model", spec, _declare_file(node), robot)


def declare_models(node: RuntimeNode, robot: RobotSetup) -> tuple[ModelClient, ModelClient]:
    """The same and `fast_model`, for what must be answered at once; the same client where it is empty."""
    spec = node.declare("model", "offline", "a name in models_file, or provider:model such as openai:gpt-4.1 or replay:FILE")
    fast = node.declare("fast_model", "", "what asks for the first action of a process; empty: model")
    file = _declare_file(node)
    client = _made("model", spec, file, robot)
    return client, _made("fast_model", fast, file, robot) if fast else client


def declare_verdict_model(node: RuntimeNode, robot: RobotSetup) -> ModelClient | None:
    """Declare `verdict_model` and `models_file`; return the model, None where none is named."""
    spec = node.declare("verdict_model", "", "model that verdicts may ask; empty: none")
    file = _declare_file(node)
    return _made("verdict_model", spec, file, robot) if spec else None


def _declare_file(node: RuntimeNode) -> str:
    return node.declare("models_file", "", "file of named models; empty: config/models.yaml of this package")


def declare_fleet_model(node: RuntimeNode) -> ModelClient | None:
    """Declare `model` and `models_file` of a node that serves no robot alone; return the model, None for none or `offline`."""
    spec = node.declare("model", "", "language model for free questions and summaries, as in models.yaml; empty: none")
    file = _declare_file(node)
    return _made("model", spec, file, None) if spec not in ("", "offline") else None


def _made(parameter: str, spec: str, file: str, robot: RobotSetup | None) -> ModelClient:
    try:
        config = parse_spec(spec, load_models(Path(file) if file else shipped_config() / "models.yaml"))
        return make_client(config, offline=(lambda: _offline(robot)) if robot is not None else None)
    except ConfigError as error:
        raise NodeStartError(f"parameter {parameter}: {error}") from error


def _offline(robot: RobotSetup) -> ModelClient:
    from planners.language import OfflineClient

    options = GrammarOptions(robot.config.builtin_names, robot.config.limits)
    return OfflineClient(robot.registry, robot.routines, options=options, robot_name=robot.config.name)


def shipped_config() -> Path:
    """The project's `config` folder, beside the sources or in the installed share. Raises NodeStartError without one."""
    folder = config_folder()
    if folder is None:
        raise NodeStartError("the package ghostshell is not installed; build it, or set the parameter models_file")
    return folder
