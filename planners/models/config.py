# SPDX-License-Identifier: Apache-2.0
"""Read which model to use and how: the entries of config/models.yaml and the short form `provider:model` of the command
line."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from planners.models.base import ModelError, Usage
from planners.models.scrubber import looks_removed
from skill_kernel.codes import ModelCode
from skill_kernel.config.plugins import MODELS, PluginError, how_to_install, load_plugin, plugins
from skill_kernel.config.sections import Section, nearest
from skill_kernel.config.yaml_text import RecordError, checked, read_mapping

MAX_SPEC = 1000
"""Characters of a model as the command line names it."""

Provider = Literal["openai", "anthropic", "replay", "record", "offline"]
Seconds = Annotated[float, Field(gt=0.0, le=3600.0)]
Usd = Annotated[float, Field(ge=0.0)]

OFFICIAL_URL: Mapping[str, str] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
OFFICIAL_KEY: Mapping[str, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


class ConfigError(ValueError):
    """Report an invalid model configuration. The message names the entry, the key and what to do. It never repeats a value
    that could be a key."""

    def __init__(self, message: str) -> None:
        super().__init__(looks_removed(message))


class _Entry(Section):
    """Hold a part of models.yaml. Its errors show no value, which could be a key."""

    model_config = ConfigDict(hide_input_in_errors=True)


class Prices(_Entry):
    """Hold US dollars per million tokens, from the provider's price list. Cache prices that are not given default to
    `input`."""

    input: Usd
    output: Usd
    cached_input: Usd | None = None
    cache_write: Usd | None = None

    def cost_usd(self, usage: Usage) -> float:
        """Return the cost of one answer in US dollars."""
        cached_price = self.input if self.cached_input is None else self.cached_input
        write_price = self.input if self.cache_write is None else self.cache_write
        cached, written = usage.cached_tokens, usage.cache_write_tokens
        plain = max(0, usage.prompt_tokens - cached - written)
        prompt = plain * self.input + cached * cached_price + written * write_price
        return (prompt + usage.completion_tokens * self.output) / 1_000_000


class Retry(_Entry):
    """Bound the attempts before the first token: exponential backoff, each wait multiplied by a random factor of 0.5 to 1."""

    max_retries: int = Field(default=3, ge=0, le=10)
    first_wait_s: Seconds = 0.5
    max_wait_s: Seconds = 8.0


class Deadlines(_Entry):
    """Bound a whole answer by what it is for, retries and repairs included [s]; the repair of a reflex has its time anew.
    `first_action_s` 0 asks for no first action."""

    answer_s: Seconds = 60.0
    steps_s: Seconds = 20.0
    first_action_s: Annotated[float, Field(ge=0.0, le=3600.0)] = 3.0
    plan_s: Seconds = 12.0
    advice_s: Seconds = 3.0
    judge_s: Seconds = 3.5
    reflex_s: Seconds = 60.0


class ModelConfig(_Entry):
    """Describe one model. Keys are never written here: `api_key_env` names the environment variable that holds one.

    `connect_s`, `first_token_s` and `silence_s` bound the wait for the connection, for the first token and between two
    tokens. A model that has written nothing for `hedge_s` is asked again through the fast one, where there is one; 0: never.
    `context_tokens` is the length of the model's context, where it is known. `grammar` names the server that is to
    keep the model to the robot's grammar.
    """

    provider: Provider
    model: str = ""
    base_url: str | None = None
    api_key_env: str | None = None
    connect_s: Seconds = 5.0
    first_token_s: Seconds = 15.0
    silence_s: Seconds = 10.0
    hedge_s: Annotated[float, Field(ge=0.0, le=3600.0)] = 2.0
    context_tokens: Annotated[int, Field(ge=256, le=1_000_000_000)] | None = None
    grammar: Literal["off", "llama.cpp", "vllm", "ollama"] = "off"
    deadlines: Deadlines = Deadlines()
    retry: Retry = Retry()
    prices: Prices | None = None
    path: Path | None = None
    speed: Annotated[float, Field(gt=0.0)] | Literal["instant"] = 1.0
    inner: ModelConfig | None = None

    @field_validator("grammar", mode="before")
    @classmethod
    def _is_off(cls, value: object) -> object:
        return "off" if value is False else value  # YAML takes off for a truth value

    @field_validator("api_key_env")
    @classmethod
    def _is_a_variable_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch("[A-Z_][A-Z0-9_]{0,63}", value):
            raise ValueError("must be the NAME of an environment variable, in capitals; a key itself never belongs into a file")
        return value

    @field_validator("base_url")
    @classmethod
    def _is_a_plain_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must begin with http:// or https:// and name a host, as in http://127.0.0.1:11434/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError("must hold neither a password nor a query; keys come from the environment")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _is_complete(self) -> ModelConfig:
        if self.provider in ("openai", "anthropic") and not self.model:
            raise ValueError(f"provider {self.provider} needs `model`, the provider's name of it")
        if self.provider in ("replay", "record") and self.path is None:
            raise ValueError(f"provider {self.provider} needs `path`, the file of the recorded stream")
        if self.provider == "record" and self.inner is None:
            raise ValueError("provider record needs `inner`, the model to record")
        return self

    @property
    def name(self) -> str:
        """Return the short form, for logs: `openai:gpt-4.1`, `offline`."""
        if self.provider == "record" and self.inner is not None:
            return f"record:{self.inner.name}"
        if self.provider == "replay":
            return f"replay:{self.path}"
        return self.provider if not self.model else f"{self.provider}:{self.model}"

    @property
    def url(self) -> str:
        """Return where requests go."""
        return self.base_url or OFFICIAL_URL.get(self.provider, "")


class ModelsFile(_Entry):
    """config/models.yaml: models by name, and the one that is used when none is named."""

    default: str
    models: dict[str, ModelConfig]

    @model_validator(mode="after")
    def _default_exists(self) -> ModelsFile:
        if self.default not in self.models:
            raise ValueError(f"`default` must be one of the names in `models`: {', '.join(sorted(self.models))}")
        return self


def load_models(path: Path) -> ModelsFile:
    """Read config/models.yaml. Raises ConfigError naming file, key and nearest known key."""
    try:
        return checked(ModelsFile, read_mapping(path, strict=False), path)
    except RecordError as error:
        raise ConfigError(str(error)) from None


def parse_spec(spec: str, models: ModelsFile | None = None) -> ModelConfig:
    """Return the model that a command-line argument names.

    `""` is the default of models.yaml and a name there is that entry; installed packages add names (plugins.MODELS).
    The rest is spelt out: `offline`, `openai:MODEL[@BASE_URL]`,
    `anthropic:MODEL[@BASE_URL]`, `replay:FILE`, `record:FILE=SPEC`. Raises ConfigError.
    """
    text = spec.strip()
    if len(text) > MAX_SPEC:
        raise ConfigError(f"the name of a model has {len(text)} characters; {MAX_SPEC} are allowed")
    if models is not None and (not text or text in models.models):
        return models.models[text or models.default]
    try:
        if text in plugins(MODELS):
            return ModelConfig.model_validate(load_plugin(MODELS, text)())
    except (PluginError, ValueError) as error:
        raise ConfigError(f"model {text!r}: {error}") from error
    provider, _, rest = text.partition(":")
    try:
        if provider == "offline" and not rest:
            return ModelConfig(provider="offline")
        if provider == "replay" and rest:
            return ModelConfig(provider="replay", path=Path(rest))
        if provider == "record" and "=" in rest:
            file, _, inner = rest.partition("=")
            return ModelConfig(provider="record", path=Path(file), inner=parse_spec(inner, models))
        if provider in ("openai", "anthropic") and rest:
            model, at, url = rest.partition("@http")
            if "@" in model[1:]:
                why = "what follows the @ is the server's address and begins with http:// or https://"
                raise ConfigError(f"model {provider}:…: {why}; a name with an @ in it belongs into models.yaml")
            entry = {"provider": provider, "model": model, "base_url": "http" + url if at else None}
            return checked(ModelConfig, entry, f"model {provider}:…")
    except RecordError as error:
        raise ConfigError(str(error)) from None
    if (text == "local" or text.startswith("simulated")) and (missing := how_to_install(text)):
        raise ConfigError(missing)
    names = sorted({"offline", *(models.models if models is not None else [])})
    known = [*names, "openai:MODEL[@BASE_URL]", "anthropic:MODEL[@BASE_URL]", "replay:FILE", "record:FILE=SPEC"]
    raise ConfigError(f"{text!r} names no model{nearest(text, names)}; use one of: {', '.join(known)}")


def fault_of_dialect(dialect: str, prompt: str, config: ModelConfig) -> str:
    """Return why strategy `stream` cannot speak a dialect with a model and a prompt; "" where it can."""
    if dialect == "tools" and config.provider == "offline":
        return f"the model {config.name} calls no tools; use dialect:=xml, or a model of the provider openai or anthropic"
    return "prompt:=short is for dialect:=xml; leave one of the two out" if dialect == "tools" and prompt == "short" else ""


NO_KEY = "no-key-needed"
"""Sent to a local server, because the SDKs insist on some key."""


def is_local(url: str, *, this_machine: bool = False) -> bool:
    """Return whether a URL's host is this machine or, unless `this_machine`, in a private network, where a server may want no
    key."""
    host = (urlsplit(url).hostname or "").lower()
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        near = host.endswith((".localhost", ".local", ".lan", ".internal")) or (host and "." not in host and ":" not in host)
        return host == "localhost" or (bool(near) and not this_machine)
    return address.is_loopback or ((address.is_private or address.is_link_local) and not this_machine)


def key_variable(config: ModelConfig) -> str | None:
    """Return the environment variable that holds the key, or None when none is to be sent.

    A provider's usual variable is used for that provider's own address only: a key is never sent to another host unless
    the configuration says so.
    """
    if config.api_key_env is not None:
        return config.api_key_env
    if urlsplit(config.url).hostname == urlsplit(OFFICIAL_URL[config.provider]).hostname:
        return OFFICIAL_KEY[config.provider]
    return None


def find_key(config: ModelConfig, environ: Mapping[str, str]) -> str:
    """Return the key to send. Raises ModelError MODEL_AUTH that says what to set; also for an address to which a key would go
    unencrypted over a network."""
    variable, why = key_variable(config), ""
    key = environ.get(variable, "").strip() if variable is not None else ""
    if not key and is_local(config.url):
        return NO_KEY
    if variable is None:
        why = f"no key is configured for {config.url}; set `api_key_env` to the name of the variable that holds one"
    elif not key:
        why = f"no key; set the environment variable {variable} (export {variable}=…) or choose the model `offline`"
    elif not (key.isascii() and key.isprintable()) or " " in key:
        why = f"{variable} holds spaces or characters that no key has; set it again"
    elif not (urlsplit(config.url).scheme == "https" or is_local(config.url, this_machine=True)):
        what = f"the key in {variable} would go to {config.url} unencrypted, for everybody on the way to read"
        why = f"{what}; use https:// or a tunnel to 127.0.0.1"
    if why:
        raise ModelError(ModelCode.MODEL_AUTH, f"{config.name}: {why}")
    return key


def require_key(config: ModelConfig, environ: Mapping[str, str]) -> None:
    """Raise ModelError MODEL_AUTH, as `find_key`, where a model wants a key that is not to be had."""
    for one in (config, config.inner):
        if one is not None and one.provider in OFFICIAL_KEY:
            find_key(one, environ)
