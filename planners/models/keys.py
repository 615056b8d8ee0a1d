# SPDX-License-Identifier: Apache-2.0
"""Where a model's key comes from, to whom it may be sent, and how it is kept out of every text."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from planners.models.base import ModelError
from planners.models.config import OFFICIAL_KEY, OFFICIAL_URL, ModelConfig
from skill_kernel.codes import ModelCode

NO_KEY = "no-key-needed"
"""Sent to a local server, because the SDKs insist on some key."""

_LOOKS_LIKE_A_KEY = re.compile(r"(?i)\bbearer\s+[^\s\"',}]+|\b(?:sk|gsk|pk|rk)-[A-Za-z0-9_\-*.]{6,}")
_PLACEHOLDER = "[key removed]"


def is_local(url: str) -> bool:
    """Whether a URL's host is this machine or a private network, where a server may want no key."""
    host = (urlsplit(url).hostname or "").lower()
    if (
        host == "localhost"
        or host.endswith((".localhost", ".local", ".lan", ".internal"))
        or (host and "." not in host and ":" not in host)
    ):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_private or address.is_link_local


def key_variable(config: ModelConfig) -> str | None:
    """The environment variable that holds the key, or None when none is to be sent.

    A provider's usual variable is used for that provider's own address only: a key is never sent to another host unless
    the configuration says so.
    """
    if config.api_key_env is not None:
        return config.api_key_env
    if urlsplit(config.url).hostname == urlsplit(OFFICIAL_URL[config.provider]).hostname:
        return OFFICIAL_KEY[config.provider]
    return None


def find_key(config: ModelConfig, environ: Mapping[str, str]) -> str:
    """The key to send. Raises ModelError MODEL_AUTH that names the variable to set."""
    variable = key_variable(config)
    if variable is None:
        if is_local(config.url):
            return NO_KEY
        raise ModelError(
            ModelCode.MODEL_AUTH,
            f"{config.name}: no key is configured for {config.url}; "
            "set `api_key_env` to the name of the variable that holds one",
        )
    key = environ.get(variable, "").strip()
    if not key:
        if is_local(config.url):
            return NO_KEY
        raise ModelError(
            ModelCode.MODEL_AUTH,
            f"{config.name}: no key; "
            f"set the environment variable {variable} (export {variable}=…) or choose the model `offline`",
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelError(
            ModelCode.MODEL_AUTH, f"{config.name}: {variable} holds spaces or characters that no key has; set it again"
        )
    return key


def scrub(text: str, key: str, *, limit: int = 300) -> str:
    """The text on one line without the key, its quoted forms or anything else that looks like one, cut to `limit`
    characters."""
    if key and key != NO_KEY:
        for form in sorted({key, quote(key, safe=""), json.dumps(key)[1:-1], repr(key)[1:-1]}, key=len, reverse=True):
            text = text.replace(form, _PLACEHOLDER)
    text = " ".join(_LOOKS_LIKE_A_KEY.sub(_PLACEHOLDER, text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
