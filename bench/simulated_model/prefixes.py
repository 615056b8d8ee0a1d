# SPDX-License-Identifier: Apache-2.0
"""How much of a prompt a provider has seen before: its longest front, in whole steps of tokens."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from bench.simulated_model.model_dialects import CHARS_PER_TOKEN
from bench.simulated_model.table import Cache

KEPT = 20_000
"""Steps that are remembered at most."""


class PrefixCache:
    """Counts the tokens of a prompt that were sent before, to the same row, within the time that they are kept."""

    def __init__(self, options: Cache) -> None:
        self._options = options
        self._seen: OrderedDict[bytes, float] = OrderedDict()

    def cached_tokens(self, row: str, prompt: str, now: float) -> int:
        """How many tokens of this prompt's front are known; from now on all of it is."""
        size = self._options.step_tokens * CHARS_PER_TOKEN
        known, unbroken = 0, True
        digest = row.encode()
        for start in range(0, len(prompt) - size + 1, size):
            digest = hashlib.sha256(digest + prompt[start : start + size].encode("utf-8", "surrogatepass")).digest()
            last = self._seen.pop(digest, None)
            unbroken = unbroken and last is not None and now - last <= self._options.keep_s
            known += self._options.step_tokens if unbroken else 0
            self._seen[digest] = now
        while len(self._seen) > KEPT:
            self._seen.popitem(last=False)
        return known if known >= self._options.least_tokens else 0
