# SPDX-License-Identifier: Apache-2.0
"""Native function calling: what a provider's own tool interface takes and gives, for the baselines that function
tokens are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ToolSpec:
    """A function offered to the model; `parameters` is its JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True)
class ToolCall:
    """A call as soon as the provider's SDK reports it complete; `arguments` is a JSON text that nobody has checked
    yet."""

    call_id: str
    name: str
    arguments: str
