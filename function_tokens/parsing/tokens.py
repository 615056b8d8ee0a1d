# SPDX-License-Identifier: Apache-2.0
"""Function tokens, the Shell's unit of exchange (GhostShell 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

NO_ATTRS: Mapping[str, str] = MappingProxyType({})


class TokenKind(str, Enum):
    """The five kinds of function token (GhostShell 3.3)."""

    AF = "AF"
    """Activation: `<name a="v">`."""
    RF = "RF"
    """Reset: `</name>`."""
    SCF = "SCF"
    """Self-contained: `<name a="v"/>`."""
    CHAR = "CHAR"
    """Character data; CDATA too."""
    REF = "REF"
    """Reference such as `&lt;`, resolved in `text`."""


class FunctionToken(NamedTuple):
    """One token. `start` and `end` are character offsets in the stream, `end` behind the last character; `seq` counts
    from 0 within the stream. `text` is the character data, or what a reference stands for."""

    kind: TokenKind
    name: str = ""
    attrs: Mapping[str, str] = NO_ATTRS
    text: str = ""
    start: int = 0
    end: int = 0
    seq: int = 0
    stream_id: str = ""
