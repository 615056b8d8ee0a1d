# SPDX-License-Identifier: Apache-2.0
"""The embedded default where no language model is configured: a deterministic parser of direct commands, labelled as
that."""

from planners.language.client import NAME, OfflineClient
from planners.language.parser import CommandParser, Reading

__all__ = ["NAME", "CommandParser", "OfflineClient", "Reading"]
