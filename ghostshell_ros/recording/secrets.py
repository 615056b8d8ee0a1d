# SPDX-License-Identifier: Apache-2.0
"""Leaves out of what is recorded what is, or may be, a key: by its name, its form, or because a variable that holds one has
this value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

HIDDEN = "(not recorded)"

_SECRET = re.compile(
    r"(?i)(^|[^a-z0-9])(key|token|secret|password|passwd|passphrase|pwd|credential|authorization)s?($|[^a-z0-9])"
    r"|(api|access|auth|private|secret)[-_.]?(key|token)"
)
_SECRET_VARIABLE = re.compile(r"(?i)(key|token|secret|password)")
_LOGIN = re.compile(r"(://)[^/@\s\"']+@")
_QUERY = re.compile(r"([?&;])([^=&;\s#\"']+)=([^&;\s#\"']*)")
_BEARER = re.compile(r"(?i)\b(bearer\s+|sk-)[\w.~+/=-]{8,}")
LEAST = 8
"""Shorter values of variables are words that occur by themselves."""


def presentable(values: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Parameters, also nested ones, without keys. Only texts can be one: `max_output_tokens` stays."""
    known = _known(environment)
    return {name: _shown(value, _secret(name), known) for name, value in values.items()}


def presentable_text(text: str, environment: Mapping[str, str], load: Callable[[str], Any], dump: Callable[[Any], str]) -> str:
    """A file as it is where it holds no key, else written anew without. `load` raises ValueError for what it cannot read."""
    known = _known(environment)
    try:
        read = load(text)
    except ValueError:
        return _masked(text, known)
    shown = _shown(read, False, known)
    return dump(shown) if shown != read else _masked(text, known)


def _known(environment: Mapping[str, str]) -> list[str]:
    return [v for k, v in environment.items() if _SECRET_VARIABLE.search(k) and len(v) >= LEAST]


def _secret(name: object) -> bool:
    return bool(_SECRET.search(str(name)))


def _shown(value: Any, secret: bool, known: list[str]) -> Any:
    """`secret`: by its name, or that of what it stands in."""
    if isinstance(value, Mapping):
        return {name: _shown(one, secret or _secret(name), known) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(one, secret, known) for one in value]
    if not isinstance(value, str):
        return value
    hide = (secret and value) or any(one in value for one in known)
    return HIDDEN if hide else _masked(value, known)


def _masked(text: str, known: list[str]) -> str:
    for one in known:
        text = text.replace(one, HIDDEN)
    text = _LOGIN.sub(rf"\1{HIDDEN}@", text)
    text = _QUERY.sub(lambda found: f"{found[1]}{found[2]}={HIDDEN}" if _secret(found[2]) else found[0], text)
    return _BEARER.sub(HIDDEN, text)
