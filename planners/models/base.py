# SPDX-License-Identifier: Apache-2.0
"""The one protocol every language model is used through: a request goes in, events come out, and it can be cancelled
at once."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from skill_kernel.codes import ModelCode

if TYPE_CHECKING:
    from planners.prompts.grammar import StreamGrammar, Tool
    from planners.prompts.prompt import CallReport
    from planners.scene import Present

Role = Literal["user", "assistant"]
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
JPEG_MAGIC = b"\xff\xd8\xff"


@dataclass(frozen=True)
class Image:
    """A picture for the model, encoded as PNG or JPEG. Raises ValueError for anything else. `taken_s`: when it was taken,
    on the clock of observations; None where nobody says."""

    data: bytes
    taken_s: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.data.startswith((PNG_MAGIC, JPEG_MAGIC)):
            raise ValueError(f"an image must be PNG or JPEG, but these bytes begin with {self.data[:8]!r}; encode it first")

    @property
    def media_type(self) -> Literal["image/png", "image/jpeg"]:
        return "image/png" if self.data.startswith(PNG_MAGIC) else "image/jpeg"

    @property
    def base64(self) -> str:
        return b64encode(self.data).decode("ascii")


@dataclass(frozen=True)
class NativeCall:
    """A call of a tool in an earlier answer, with what came of it."""

    name: str
    arguments: Mapping[str, Any]
    result: str = "no result is known"

    def __str__(self) -> str:
        return f"{self.name} {json.dumps(self.arguments)}: {self.result}"


@dataclass(frozen=True)
class Message:
    """One turn of the conversation; its images stand before its text, and its calls behind it."""

    role: Role
    text: str
    images: tuple[Image, ...] = ()
    calls: tuple[NativeCall, ...] = ()

    @property
    def whole(self) -> str:
        """Return the text with its calls."""
        return "\n".join([self.text, *map(str, self.calls)])


@dataclass(frozen=True)
class ModelRequest:
    """Question to a model.

    `system` is the static front of the prompt (grammar, rules, skills): it is the same in every turn, so providers
    cache it. Whatever changes (state, results, the instruction) belongs into `messages`, whose last one is the user's.
    `instruction`, `turn` and `done` repeat the user's own words, the number of the turn and what became of the calls so far,
    and `present` what is known now, for a client that reads no prompt (the offline command parser); they are never sent to a
    provider.
    `grammar` describes the answers that are understood, for a server that keeps its model to one (`grammar` in models.yaml).
    `tools` are functions that the model may call in the provider's own way; the answer holds such calls as function tokens.
    `schema` is the JSON Schema of the object that is wanted, for a server that keeps its model to one; whoever asks checks the
    answer nevertheless.
    `temperature` is from 0, the likeliest answer, to 1; None leaves it to the provider, as does one that takes none.
    `deadline_s` is how long, in seconds, the client may wait for the model in all, retries included; the time its reader
    spends between two events does not count.
    """

    system: str
    messages: tuple[Message, ...]
    max_output_tokens: int = 2048
    deadline_s: float = 60.0
    instruction: str = ""
    turn: int = 0
    done: Sequence[CallReport] = ()
    present: Present | None = None
    grammar: StreamGrammar | None = field(default=None, compare=False)
    tools: tuple[Tool, ...] = ()
    temperature: float | None = None
    schema: Mapping[str, Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.messages or self.messages[-1].role != "user":
            raise ValueError("a request needs at least one message, and its last message must be the user's")
        if not 0.0 < self.deadline_s < float("inf"):
            raise ValueError(f"deadline_s must be a finite number of seconds above 0, not {self.deadline_s}")
        if self.max_output_tokens < 1:
            raise ValueError(f"max_output_tokens must be at least 1, not {self.max_output_tokens}")

    @property
    def front(self) -> str:
        """Return the static front as text: `system` and the tools."""
        return "\n".join([self.system, *(json.dumps(asdict(tool)) for tool in self.tools)])

    def sha256(self) -> str:
        """Hash of everything the model sees, as 64 hexadecimal digits; the same prompt has the same hash in every
        run."""
        seen = {
            "system": self.front,
            "messages": [[m.role, m.whole, [hashlib.sha256(i.data).hexdigest() for i in m.images]] for m in self.messages],
        }
        return hashlib.sha256(json.dumps(seen, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class TextDelta:
    """The next piece of the answer, never empty. Raises ValueError for what is no text."""

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ValueError(f"content that is no text but {type(self.text).__name__}")


MAX_COUNT = 10**12
"""No answer has more tokens."""


@dataclass(frozen=True)
class Usage:
    """Token counts so far, as the provider reports them; each Usage replaces the one before it.

    `prompt_tokens` includes `cached_tokens` (read from the provider's cache) and `cache_write_tokens`. `cost_usd` is
    None where no prices are configured.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cost_usd: float | None = None
    cache_write_tokens: int = 0


def count(told: Any) -> int:
    """Return a count of tokens as a provider tells it, 0 for what is none."""
    return int(told) if isinstance(told, (int, float)) and 0 <= told <= MAX_COUNT else 0


@dataclass(frozen=True)
class Retrying:
    """An attempt failed before its first token; the next begins in `wait_s` seconds. For logs and displays only."""

    attempt: int
    wait_s: float
    error: ModelError


@dataclass(frozen=True)
class Reading:
    """The server has read so many of the prompt's tokens, those of its cache included. For logs and displays only."""

    read: int
    total: int


@dataclass(frozen=True)
class Finished:
    """The answer is complete; nothing follows. `reason`: stop, length (cut at max_output_tokens), tool_calls, refused
    (the model or its provider declined), or the provider's own word."""

    reason: str = "stop"


ModelEvent = TextDelta | Usage | Retrying | Reading | Finished


class ModelError(Exception):
    """A model gave no answer, or none to its end.

    `retryable`: another attempt may succeed (the client has used up its own). `partial`: some text was already
    delivered. `too_long`: the request exceeds the model's context. The text says what to do and never contains a key.
    """

    def __init__(
        self,
        code: ModelCode,
        message: str,
        *,
        retryable: bool = False,
        partial: bool = False,
        retry_after_s: float | None = None,
        too_long: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.partial = partial
        self.retry_after_s = retry_after_s
        self.too_long = too_long

    def __repr__(self) -> str:
        return f"ModelError({self.code.name}, {self.message!r}, retryable={self.retryable}, partial={self.partial})"


class CancelToken:
    """Cancels what it was handed to, from any thread, once and for good."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def cancel(self) -> None:
        """Cancel now; every callback has run when this returns. Calling it again does nothing."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until cancelled or until `timeout_s` has passed; tells whether it was cancelled."""
        return self._event.wait(timeout_s)

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` (quick, raising nothing) on cancellation, at once if that was before; returns how to
        unsubscribe."""
        with self._lock:
            late = self._event.is_set()
            if not late:
                self._callbacks.append(callback)
        if late:
            callback()

        def unsubscribe() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return unsubscribe


class ModelClient(Protocol):
    """A language model, real or not."""

    @property
    def name(self) -> str:
        """Return its name for logs and prompts, such as `openai:gpt-4.1` or `offline`."""

    @property
    def is_language_model(self) -> bool:
        """Return whether it reads the prompt, and not only the instruction as the parser of direct commands does."""

    def prepare(self) -> None:
        """Do what can be done ahead of the first request (imports, key look-up). Raises ModelError when no request
        could succeed; a stream may be started without it."""

    def stream(self, request: ModelRequest, *, cancel: CancelToken) -> Iterator[ModelEvent]:
        """Ask the model; the iterator blocks its thread between events and ends after Finished.

        Raises ModelError from the iterator, MODEL_CANCELLED at once when `cancel` is used. Closing the iterator ends
        the generation as cancelling does. A failed attempt is repeated only while no text has been delivered.
        """

    def close(self) -> None:
        """Release threads and connections; running streams end with MODEL_CANCELLED."""


CHARACTERS_A_TOKEN = 4
"""A rough mean over English text and code."""

_NARROW = 0x250
"""Characters from here on, Greek, Cyrillic and Chinese among them, count as a token each: rather too many than too few."""

IMAGE_TOKENS = 1000
"""About what a picture of the robot's camera counts for."""


def tokens_in(text: str) -> int:
    """About how many tokens a text has."""
    narrow = sum(ord(char) < _NARROW for char in text)
    return math.ceil(narrow / CHARACTERS_A_TOKEN) + len(text) - narrow


def prompt_tokens(request: ModelRequest) -> int:
    """About how many tokens a request has."""
    images = sum(len(message.images) for message in request.messages)
    return tokens_in(request.front) + sum(tokens_in(m.whole) for m in request.messages) + images * IMAGE_TOKENS


def used(reported: Usage | None, request: ModelRequest, written: str, *, whole: bool) -> Usage:
    """Return what an answer used that came so far as `written`; `whole` when it came to its end.

    One that was cancelled or cut off was not counted to its end, or not at all, and has been paid for all the same: what is
    missing is estimated.
    """
    if reported is None or not reported.prompt_tokens:
        return Usage(prompt_tokens(request), tokens_in(written))
    if whole and reported.completion_tokens:
        return reported
    return replace(reported, completion_tokens=max(reported.completion_tokens, tokens_in(written)))


@dataclass(frozen=True)
class Surroundings:
    """Hold time, chance and environment of a client. `wait` sleeps some seconds and tells whether it was cancelled."""

    wait: Callable[[float, CancelToken], bool] = lambda seconds, cancel: cancel.wait(seconds)
    random: Callable[[], float] = random.random
    monotonic_s: Callable[[], float] = time.monotonic
    wall_s: Callable[[], float] = time.time
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
