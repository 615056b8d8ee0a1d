# SPDX-License-Identifier: Apache-2.0
"""Define faults of the local model server, on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["status", "reset", "cut", "end", "silence", "malformed", "error_event", "slow", "reject_option"]


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong in the next `times` requests. Build one with its class methods."""

    kind: Kind
    times: int = 1
    code: int = 0
    after_chars: int = 0
    seconds: float = 0.0
    retry_after: str | None = None
    word: str = ""
    echo_key: bool = False
    location: str | None = None
    said: str = ""

    @classmethod
    def status(
        cls,
        code: int,
        *,
        times: int = 1,
        retry_after_s: float | str | None = None,
        kind: str = "",
        echo_key: bool = False,
        location: str | None = None,
        said: str = "",
    ) -> Fault:
        """Answer with an HTTP error or redirect; `kind` is the provider's word for it, `said` its words,
        `echo_key` repeats the request's key in them, `retry_after_s` may be a date as well."""
        after = None if retry_after_s is None else str(retry_after_s)
        return cls("status", times, code, retry_after=after, word=kind, echo_key=echo_key, location=location, said=said)

    @classmethod
    def drop(cls, after_chars: int, *, how: Literal["reset", "cut", "end"] = "reset", times: int = 1) -> Fault:
        """End the connection after some characters of text: by RST, in the midst of the HTTP body, or as if all were
        said."""
        return cls(how, times, after_chars=after_chars)

    @classmethod
    def silence(cls, after_chars: int, seconds: float, *, times: int = 1) -> Fault:
        """Nothing is sent for a time, or until the client leaves."""
        return cls("silence", times, after_chars=after_chars, seconds=seconds)

    @classmethod
    def malformed(cls, after_chars: int, *, times: int = 1) -> Fault:
        """Send an event that is no JSON."""
        return cls("malformed", times, after_chars=after_chars)

    @classmethod
    def error_event(cls, after_chars: int, kind: str, *, times: int = 1) -> Fault:
        """Send the provider's own error event inside the stream, such as `overloaded_error`."""
        return cls("error_event", times, after_chars=after_chars, word=kind)

    @classmethod
    def slow_first_token(cls, seconds: float, *, times: int = 1) -> Fault:
        """Delay the first token."""
        return cls("slow", times, seconds=seconds)

    @classmethod
    def reject_option(cls, name: str, *, times: int = 1) -> Fault:
        """Answer with a 400 a request that holds the option `name`; others pass."""
        return cls("reject_option", times, word=name)
