# SPDX-License-Identifier: Apache-2.0
"""Build the model client that a configuration names. No SDK is imported before the client needs it."""

from collections.abc import Callable

from planners.models.base import ModelClient, Surroundings
from planners.models.config import OFFICIAL_URL, ConfigError, ModelConfig
from skill_kernel.config.plugins import CLIENTS, PluginError, load_plugin


def make_client(
    config: ModelConfig, *, offline: Callable[[], ModelClient] | None = None, surroundings: Surroundings | None = None
) -> ModelClient:
    """Return the client for `config` (see `load_models` and `parse_spec`).

    `offline` builds the command parser for the robot that is loaded. A missing key is no error here: `prepare` and
    the first request raise it. Raises ConfigError when the configuration needs something that was not given.
    """
    around = surroundings or Surroundings()
    if config.provider in OFFICIAL_URL:
        from planners.models.providers import PROVIDERS

        return PROVIDERS[config.provider](config, surroundings=around)
    if config.provider in ("replay", "record"):
        inner = make_client(config.inner, offline=offline, surroundings=around) if config.inner is not None else None
        try:
            client: ModelClient = load_plugin(CLIENTS, config.provider)(config, around, inner)
        except PluginError as error:
            raise ConfigError(str(error)) from error
        return client
    if offline is None:
        raise ConfigError("the model `offline` parses commands with a robot's skills, but no robot is loaded here")
    return offline()
