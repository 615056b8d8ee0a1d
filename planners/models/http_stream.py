# SPDX-License-Identifier: Apache-2.0
"""Share among providers over HTTP: deadlines, retries before the first token, cancellation at once, costs."""

from __future__ import annotations

import abc
import asyncio
import concurrent.futures
import contextlib
import importlib
import logging
import math
import ssl
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import attrgetter
from types import ModuleType
from typing import Any, TypeVar

from planners.models.base import (
    CancelToken,
    Finished,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reading,
    Retrying,
    Surroundings,
    TextDelta,
    Usage,
)
from planners.models.config import NO_KEY, ModelConfig, find_key, is_local
from planners.models.faults import translate
from planners.models.scrubber import Scrubber, Secrets, known_secrets
from skill_kernel.codes import ModelCode

T = TypeVar("T")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all clients, which runs on a daemon thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="models", daemon=True).start()
    return loop


_STARTING = threading.Lock()


def _submit(coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start a coroutine; cancelling the future cancels it inside the loop."""
    with _STARTING:
        return asyncio.run_coroutine_threadsafe(coroutine, _loop())


MAX_ANSWER_BYTES = 64_000_000
"""Body of a response, as it is on the wire: longer than any model writes."""
MAX_EVENT_BYTES = 1_000_000
"""One event of a stream, or what says why there is none."""


@cache
def _bounded(kind: type) -> type:
    """Return the kind of byte stream that ends by an error where it is too long."""

    class Bounded(kind):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncGenerator[bytes, None]:
            left, event, tail = MAX_ANSWER_BYTES, MAX_EVENT_BYTES, b""
            async with contextlib.aclosing(super().__aiter__()) as pieces:
                async for piece in pieces:
                    seen, left = tail + piece, left - len(piece)
                    ends = any(blank in seen for blank in (b"\n\n", b"\r\n\r\n", b"\r\r"))
                    event, tail = MAX_EVENT_BYTES if ends else event - len(piece), seen[-3:]
                    if min(left, event) < 0:
                        raise ValueError(f"more than {MAX_EVENT_BYTES} bytes in a piece or {MAX_ANSWER_BYTES} in all")
                    yield piece

    return Bounded


async def _bound(response: Any) -> None:
    """Bound the body of a response; unpacked, a compressed one would have no bound."""
    if (packed := response.headers.get("content-encoding", "identity")) != "identity":
        raise ValueError(f"the answer is compressed ({packed[:20]}), which it must not be")
    kind: Any = type(response.stream)
    response.stream.__class__ = _bounded(kind)


USAGE_GRACE_S = 1.0
"""Longest wait for the usage and the end of the connection once the answer itself is complete."""


Item = TextDelta | Usage | Reading | Finished
NO_TEXT = TextDelta("")
"""The model works, but sent nothing to deliver (reasoning, arguments of a tool call)."""


class HttpModelClient(abc.ABC):
    """Ask a provider through its SDK, which is imported by `prepare` or by the first request: that takes a second or more."""

    package = sdk_client = resource = ""
    """Names of the SDK's module, of its asynchronous client and of that client's part that answers."""
    is_language_model = True

    def __init__(self, config: ModelConfig, *, surroundings: Surroundings | None = None) -> None:
        self._config = config
        self._around = surroundings or Surroundings()
        self._lock = threading.Lock()
        self._sdk: Any = None
        self._key = ""
        self._secrets = Secrets(())
        self._running: set[CancelToken] = set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._config.url!r})"

    @property
    def name(self) -> str:
        return self._config.name

    def prepare(self) -> None:
        self._client()

    def stream(self, request: ModelRequest, *, cancel: CancelToken) -> Generator[ModelEvent, None, None]:
        """Make all attempts. `own` is cancelled by the caller's token, by `close` and by closing this iterator."""
        own = CancelToken()
        unlink = cancel.on_cancel(own.cancel)
        with self._lock:
            self._running.add(own)
        try:
            client = self._client()
            budget = _Budget(request.deadline_s)
            attempt = 0
            while True:
                attempt += 1
                try:
                    yield from self._scrubbed(self._attempt(client, request, own, budget))
                    return
                except ModelError as error:
                    failure = error
                if failure.too_long and len(request.messages) > 1:
                    failure.message += "; now it is asked without the earlier messages"
                    yield Retrying(attempt, 0.0, failure)
                    request = replace(request, messages=request.messages[-1:])
                    continue
                wait_s = self._wait_before_retry(failure, attempt, budget)
                if wait_s is None:
                    if attempt > 1:
                        failure.message = f"{failure.message} (after {attempt} attempts)"
                        failure.args = (failure.message,)
                    raise failure
                yield Retrying(attempt, wait_s, failure)
                budget.left_s -= wait_s
                if self._around.wait(wait_s, own):
                    raise self._cancelled(partial=False)
        finally:
            unlink()
            with self._lock:
                self._running.discard(own)

    def close(self) -> None:
        with self._lock:
            running, self._running = set(self._running), set()
            sdk, self._sdk = self._sdk, None
        for token in running:
            token.cancel()
        if sdk is not None:
            with contextlib.suppress(Exception):
                _submit(sdk.close()).result(1.0)

    def _no_page(self, response: Any) -> None:
        """Raise ModelError where what was read to its end is a page, as of a login of the network, and no stream."""
        if "html" in response.headers.get("content-type", ""):
            what = f"{self._config.url} answers, but with a web page and not as the API of provider {self._config.provider}"
            remedy = "check `base_url`, and whether a proxy or a login page of the network stands between"
            raise ModelError(ModelCode.MODEL_SERVER, f"{self.name}: {what}; {remedy}")

    @abc.abstractmethod
    def _items(self, client: Any, request: ModelRequest) -> AsyncGenerator[Item, None]:
        """Yield the answer to one request, with a Finished where the provider says that it is complete."""

    def _client(self) -> Any:
        """Return the SDK's client, made by the first who asks. Raises ModelError."""
        with self._lock:
            if self._sdk is None:
                key = find_key(self._config, self._around.environ)
                try:
                    module = importlib.import_module(self.package)
                except ImportError as error:
                    raise ModelError(
                        ModelCode.MODEL_REFUSED,
                        f"{self.name}: the Python package {self.package} is missing; install it (pip install {self.package})",
                    ) from error
                self._key, self._secrets = key, Secrets({key, *known_secrets(self._around.environ)} - {NO_KEY})
                self._sdk = self._connect(module, key)
            return self._sdk

    def _connect(self, sdk: ModuleType, key: str) -> Any:
        """Return the SDK's client: no redirects, which could carry a key elsewhere, and no proxy for local servers.

        What the transport would log of each answer's headers is left out: a server may echo a key there.
        """
        for name in (self.package, "httpx", "httpx2", "httpcore", "httpcore2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        url = self._config.url
        verify: ssl.SSLContext | bool = True
        if url.startswith("http:"):
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # Trusts nobody; saves 60 ms of reading certificates.
        http = sdk.DefaultAsyncHttpxClient(
            follow_redirects=False,
            trust_env=not is_local(url),
            verify=verify,
            headers={"Accept-Encoding": "identity"},
            event_hooks={"response": [_bound]},
        )
        timeout = sdk.Timeout(None, connect=self._config.connect_s)
        make = getattr(sdk, self.sdk_client)
        client = make(api_key=key, base_url=url, max_retries=0, timeout=timeout, http_client=http)
        attrgetter(self.resource)(client)  # Imported by the SDK when it is first touched: now, not in the first request.
        return client

    def _wait_before_retry(self, failure: ModelError, attempt: int, budget: _Budget) -> float | None:
        """Return the seconds until the next attempt, or None when there is to be none."""
        retry = self._config.retry
        if failure.partial or not failure.retryable or attempt > retry.max_retries:
            return None
        backoff = min(retry.max_wait_s, retry.first_wait_s * 2.0 ** (attempt - 1))
        wait_s = max(backoff * (0.5 + 0.5 * self._around.random()), failure.retry_after_s or 0.0)
        return wait_s if wait_s < budget.left_s else None

    def _scrubbed(self, events: Generator[ModelEvent, None, None]) -> Iterator[ModelEvent]:
        """Yield an attempt's events without any key that this process knows. Nothing that a server says enters elsewhere."""
        text = Scrubber(self._secrets)
        try:
            for event in events:
                last = isinstance(event, Finished)
                if said := text.feed(event.text if isinstance(event, TextDelta) else "", last=last):
                    yield TextDelta(said)
                if not isinstance(event, TextDelta):
                    words = {f.name: getattr(event, f.name) for f in fields(event)}
                    words = {k: well_formed(self._secrets.hidden(v)) for k, v in words.items() if isinstance(v, str)}
                    yield replace(event, **words)
        except ModelError as error:
            if error.code is not ModelCode.MODEL_CANCELLED and (said := text.feed("", last=True)):
                yield TextDelta(said)
            error.message = self._secrets.hidden(error.message)
            error.args = (error.message,)
            raise
        finally:
            events.close()

    def _attempt(
        self, client: Any, request: ModelRequest, cancel: CancelToken, budget: _Budget
    ) -> Generator[ModelEvent, None, None]:
        """Take item by item from the loop's thread, so that a slow reader slows the server."""
        items = self._items(client, request)
        setting, left_s = "first_token_s", self._config.first_token_s
        delivered = False
        complete: Finished | None = None
        try:
            while True:
                asked_at = self._around.monotonic_s()
                item = self._next(items, cancel, max(0.0, min(left_s, budget.left_s)))
                waited_s = self._around.monotonic_s() - asked_at
                left_s -= waited_s
                budget.left_s -= waited_s
                if cancel.cancelled:
                    raise self._cancelled(partial=delivered)
                if complete is not None and (item is None or isinstance(item, ModelError)):
                    yield complete
                    return
                if item is None:
                    raise self._timed_out(request, budget, setting, delivered)
                if isinstance(item, ModelError):
                    item.partial = delivered
                    raise item
                if isinstance(item, Usage):
                    prices = self._config.prices
                    yield item if prices is None else replace(item, cost_usd=prices.cost_usd(item))
                elif isinstance(item, Finished):
                    complete = item
                    left_s = USAGE_GRACE_S
                elif isinstance(item, Reading):
                    # How long a prompt takes is no sign of trouble: the wait for the first token begins when it is read.
                    left_s = math.inf if item.read < item.total else self._config.first_token_s
                    yield item
                else:
                    setting, left_s = "silence_s", self._config.silence_s
                    if isinstance(item, TextDelta):
                        item = TextDelta(well_formed(item.text))
                    if item != NO_TEXT:
                        delivered = True
                        yield item
        finally:
            _submit(_closed(items))

    def _next(self, items: AsyncGenerator[Item, None], cancel: CancelToken, timeout_s: float) -> Item | ModelError | None:
        """Return the next item, or why there is none; None when it did not come in time or was cancelled."""
        if cancel.cancelled:
            return None
        future = _submit(_next_of(items))
        unsubscribe = cancel.on_cancel(future.cancel)
        with contextlib.suppress(Exception):
            future.result(timeout_s)
        unsubscribe()
        if future.cancel():
            return None
        if (error := future.exception()) is not None:
            return translate(error, self._config, self._key, self._secrets, wall_s=self._around.wall_s())
        why = f"{self.name}: {self._config.url} closed the connection before the answer was complete; check the server's log"
        return future.result() or ModelError(ModelCode.MODEL_CONNECTION, why, retryable=True)

    def _cancelled(self, *, partial: bool) -> ModelError:
        return ModelError(ModelCode.MODEL_CANCELLED, f"{self.name}: cancelled", partial=partial)

    def _timed_out(self, request: ModelRequest, budget: _Budget, setting: str, delivered: bool) -> ModelError:
        if budget.left_s <= 0.0:
            text = (
                f"no complete answer within the deadline of {request.deadline_s:g} s; "
                "allow more time or ask for a shorter answer"
            )
            return ModelError(ModelCode.MODEL_TIMEOUT, f"{self.name}: {text}", partial=delivered)
        which, limit_s = "next" if setting == "silence_s" else "first", getattr(self._config, setting)
        text = (
            f"{self.name}: the {which} token did not come within {limit_s:g} s; check {self._config.url} or raise `{setting}`"
        )
        return ModelError(ModelCode.MODEL_TIMEOUT, text, retryable=True, partial=delivered)


@dataclass
class _Budget:
    """Count the seconds that may still be spent waiting for the model."""

    left_s: float


async def _next_of(items: AsyncGenerator[Item, None]) -> Item | None:
    return await anext(items, None)


async def _closed(items: AsyncGenerator[Item, None]) -> None:
    """Close what nobody reads any more; a reading that was cancelled closes it by itself."""
    with contextlib.suppress(Exception):
        await items.aclose()


def well_formed(text: str) -> str:
    """Return the text with halves of surrogate pairs replaced by U+FFFD, because neither UTF-8 nor a ROS string can carry
    them."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
