# SPDX-License-Identifier: Apache-2.0
"""A model server that sends without end, or nonsense, costs an error and little memory."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from planners.models import http_stream
from planners.models.base import CancelToken, Finished, Message, ModelError, ModelRequest, Surroundings, TextDelta, Usage
from planners.models.config import ModelConfig
from planners.models.factory import make_client
from skill_kernel.codes import ModelCode

pytestmark = pytest.mark.component

Send = Callable[[bytes], object]
REQUEST = ModelRequest("", (Message("user", "greet me"),), deadline_s=20.0)
SSE = {"content-type": "text/event-stream"}


class Server(ThreadingHTTPServer):
    """Answers every request with `status`, `headers` and what `body` sends, until the client leaves."""

    daemon_threads = True
    status, headers, wished = 200, SSE, ""
    body: Callable[[Send], object] = staticmethod(lambda send: None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Be silent: the client left."""


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        server.wished = self.headers["accept-encoding"]
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(server.status)
        for name, value in server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        server.body(self.wfile.write)

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(params=["openai", "anthropic"])
def ask(running: Server, request: pytest.FixtureRequest) -> Iterator[Callable[..., tuple[list[Any], ModelError | None]]]:
    url = f"http://127.0.0.1:{running.server_port}/v1"
    config = {"provider": request.param, "model": "m", "base_url": url, "retry": {"max_retries": 0}}
    client = make_client(ModelConfig.model_validate(config), surroundings=Surroundings(environ={}))

    def asked(body: Callable[[Send], object], status: int = 200, **headers: str) -> tuple[list[Any], ModelError | None]:
        running.body, running.status = body, status
        running.headers = {**SSE, **{name.replace("_", "-"): value for name, value in headers.items()}}
        events: list[Any] = []
        try:
            for event in client.stream(REQUEST, cancel=CancelToken()):
                events.append(event)
        except ModelError as error:
            return events, error
        return events, None

    yield asked
    client.close()


def event(**data: Any) -> bytes:
    return f"event: {data.get('type', '')}\ndata: {json.dumps(data)}\n\n".encode()


class Endless:
    """Sends a piece again and again, and counts."""

    def __init__(self, piece: bytes) -> None:
        self.piece, self.sent = piece, 0

    def __call__(self, send: Send) -> None:
        while self.sent < 300_000_000:
            send(self.piece)
            self.sent += len(self.piece)


@pytest.mark.parametrize("status", [pytest.param(200, marks=pytest.mark.slow), 400, pytest.param(500, marks=pytest.mark.slow)])
def test_a_body_without_end_is_an_error_of_the_server(ask: Any, status: int) -> None:
    body = Endless(b"data: " + b"x" * 60_000)
    events, error = ask(body, status)
    assert not events and error is not None and error.code in (ModelCode.MODEL_SERVER, ModelCode.MODEL_CONNECTION)
    assert len(error.message) < 700 and body.sent < 20_000_000


@pytest.mark.parametrize("header", [b"x: " + b"y" * 60_000, b"x: y\r\n" * 10_000])
def test_headers_without_end_are_refused(ask: Any, running: Server, header: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    body = Endless(header)

    def do_post(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        body(handler.wfile.write)

    monkeypatch.setattr(Handler, "do_POST", do_post)
    events, error = ask(body)
    assert not events and error is not None and error.code is ModelCode.MODEL_CONNECTION
    assert len(error.message) < 700 and body.sent < 20_000_000


def test_events_without_end_are_an_error_too(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_stream, "MAX_ANSWER_BYTES", 2_000_000)
    _, error = ask(Endless(b": still here\n\n" * 1000))
    assert error is not None and "2000000 in all" in error.message


def test_a_compressed_answer_is_refused_before_it_is_unpacked(ask: Any, running: Server) -> None:
    packed = gzip.compress(bytes(50_000_000))
    events, error = ask(lambda send: send(packed), content_encoding="gzip")
    assert not events and error is not None and "compressed (gzip)" in error.message
    assert running.wished == "identity"


@pytest.mark.parametrize("after", ["1e308", "inf", "nan", "-5", "x" * 60_000])
def test_a_time_to_wait_is_a_day_at_most(ask: Any, after: str) -> None:
    _, error = ask(lambda send: send(b"{}"), 429, retry_after=after)
    assert error is not None and error.code is ModelCode.MODEL_RATE_LIMITED
    assert (error.retry_after_s or 0.0) <= 86_400.0 and len(error.message) < 700


@pytest.mark.parametrize("told", [float("inf"), float("nan"), -3, "many", [1], {"a": 1}, True, 10**30])
def test_a_count_that_is_none_does_not_spoil_the_answer(ask: Any, told: Any) -> None:
    usage = {"prompt_tokens": told, "completion_tokens": 7, "input_tokens": told, "output_tokens": 7}

    def body(send: Send) -> None:
        delta = {"content": "<nod/>", "type": "text_delta", "text": "<nod/>"}
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        send(event(type="message_start", message={"usage": usage}, choices=[]))
        send(event(type="content_block_delta", index=0, delta=delta, choices=[choice]))
        ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
        send(event(type="message_delta", delta={"stop_reason": "end_turn"}, usage=usage, choices=[ended]))
        send(event(type="message_stop", choices=[]))

    events, error = ask(body)
    assert error is None and [e for e in events if isinstance(e, TextDelta)] == [TextDelta("<nod/>")]
    used = [e for e in events if isinstance(e, Usage)][-1]
    assert (used.prompt_tokens, used.completion_tokens) == (int(told is True), 7) and events[-1] == Finished("stop")


@pytest.mark.parametrize("content", [{"a": 1}, ["<nod/>"], 7])
def test_a_text_that_is_none_is_named_as_such(ask: Any, content: Any) -> None:
    delta = {"content": content, "type": "text_delta", "text": content}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    _, error = ask(lambda send: send(event(type="content_block_delta", index=0, delta=delta, choices=[choice])))
    assert error is not None and error.code is ModelCode.MODEL_SERVER
    assert f"no text but {type(content).__name__}" in error.message
