# SPDX-License-Identifier: Apache-2.0
"""Read natural language without a model: words, numbers, conditions and direct commands, in English and plain Chinese."""

from planners.language.client import NAME, OfflineClient
from planners.language.parser import CommandParser, Reading

__all__ = ["NAME", "CommandParser", "OfflineClient", "Reading"]
