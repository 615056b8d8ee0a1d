# SPDX-License-Identifier: Apache-2.0
"""A model server on this machine for tests and benchmarks: both providers' streaming protocols, a set token rate,
faults on demand.

In a test::

    with ModelServer("<nod/>Hello", rate=50.0, faults=[Fault.status(429, retry_after_s=2)]) as server:
        client = make_client(ModelConfig(provider="openai", model="any", base_url=server.openai_url))

As a process: ``python -m bench.simulated_model.model_server --rate 50 --answer FILE`` prints one line of JSON with
its addresses.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.simulated_model.model_dialects import Answer, RecordedRequest, ToolUse, anthropic_events, error_body, openai_events
from bench.simulated_model.model_faults import Fault

__all__ = ["Answer", "Fault", "ModelServer", "RecordedRequest", "ToolUse"]


class ModelServer:
    """Listens on the loopback interface from `start` (or `with`) to `stop`.

    `answer` is a text, an Answer, or a function of the request that returns either. `rate` is in tokens of four
    characters a second, None for as fast as possible; `first_token_s` is the delay before the first. `key` refuses
    any other key with 401; without `takes_tools` a request that offers any is refused. `requests` holds what arrived,
    of it the last `keep` (None: all); `disconnects` counts clients that left before their answer was complete.
    """

    def __init__(
        self,
        answer: str | Answer | Callable[[RecordedRequest], str | Answer] = "Hello",
        *,
        rate: float | None = None,
        first_token_s: float = 0.0,
        faults: Iterable[Fault] = (),
        key: str | None = None,
        takes_tools: bool = True,
        port: int = 0,
        keep: int | None = None,
    ) -> None:
        self.answer = answer
        self.rate = rate
        self.first_token_s = first_token_s
        self.key = key
        self.takes_tools = takes_tools
        self._keep = keep
        self.requests: list[RecordedRequest] = []
        self.completed = 0
        self.disconnects = 0
        self._faults = list(faults)
        self._changed = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._stop_read, self._stop_write = os.pipe()
        self._http = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), name="model-server", daemon=True)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def openai_url(self) -> str:
        """`base_url` for the OpenAI protocol."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic_url(self) -> str:
        """`base_url` for the Anthropic protocol."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> ModelServer:
        self._thread.start()
        return self

    def stop(self) -> None:
        """End every stream and connection, and the listening."""
        os.close(self._stop_write)
        self._http.shutdown()
        with self._changed:
            sockets = list(self._sockets)
        for connection in sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()
        self._thread.join(2.0)
        os.close(self._stop_read)

    def __enter__(self) -> ModelServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def inject(self, *faults: Fault) -> None:
        """Add faults for the requests to come, in this order."""
        with self._changed:
            self._faults += faults

    def wait_until(self, condition: Callable[[ModelServer], bool], timeout_s: float = 5.0) -> bool:
        """Wait for something about `requests`, `completed` or `disconnects`; tells whether it came."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self), timeout_s)

    def _take_fault(self, request: RecordedRequest) -> Fault | None:
        with self._changed:
            self.requests.append(request)
            if self._keep is not None:
                del self.requests[: -self._keep]
            self._changed.notify_all()
            for index, fault in enumerate(self._faults):
                if fault.kind == "reject_option" and fault.word not in request.body:
                    continue
                if fault.times > 1:
                    self._faults[index] = replace(fault, times=fault.times - 1)
                else:
                    del self._faults[index]
                return fault
            return None

    def _count(self, *, completed: bool) -> None:
        with self._changed:
            if completed:
                self.completed += 1
            else:
                self.disconnects += 1
            self._changed.notify_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], owner: ModelServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Count a client that leaves where it matters, and print nothing."""


class _ClientLeftError(Exception):
    """The client closed its connection, or the server stops."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.server.owner._changed:
            self.server.owner._sockets.add(self.connection)

    def finish(self) -> None:
        with self.server.owner._changed:
            self.server.owner._sockets.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Record requests and print nothing."""

    def do_POST(self) -> None:
        owner = self.server.owner
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        dialect = {"/v1/chat/completions": "openai", "/v1/messages": "anthropic"}.get(self.path.partition("?")[0], "")
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        if not dialect or not isinstance(body, dict):
            self._refuse(
                404 if not dialect else 400, error_body("openai", "invalid_request_error", f"{self.path}: no such request")
            )
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = RecordedRequest(self.path, headers, body, time.monotonic())
        fault = owner._take_fault(request)
        sent_key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if owner.key is not None and sent_key != owner.key:
            self._refuse(401, error_body(dialect, "authentication_error", "invalid key"))
        elif fault is not None and fault.kind == "status":
            said = fault.said or f"injected {fault.code}" + (f" for the key {sent_key} ({headers})" if fault.echo_key else "")
            extra = {"Retry-After": fault.retry_after, "Location": fault.location}
            self._refuse(fault.code, error_body(dialect, fault.word or "injected", said), extra)
        elif fault is not None and fault.kind == "reject_option":
            self._refuse(400, error_body(dialect, "invalid_request_error", f"Unsupported parameter: {fault.word}"))
        elif body.get("tools") and not owner.takes_tools:
            self._refuse(400, error_body(dialect, "invalid_request_error", "the simulated model does not support tools"))
        elif not body.get("stream"):
            self._refuse(400, error_body(dialect, "invalid_request_error", "this server only streams"))
        else:
            self._stream(dialect, request, fault)

    def _refuse(self, status: int, body: dict[str, object], extra: Mapping[str, str | None] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (extra or {}).items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, dialect: str, request: RecordedRequest, fault: Fault | None) -> None:
        owner = self.server.owner
        answer = owner.answer(request) if callable(owner.answer) else owner.answer
        if isinstance(answer, str):
            answer = Answer(answer)
        fault = fault or answer.fault
        rate = owner.rate if answer.rate is None else answer.rate
        make = anthropic_events if dialect == "anthropic" else openai_events
        events = make(request, answer, (fault.after_chars,) if fault is not None else ())
        due_s = request.at_s + (owner.first_token_s if answer.first_token_s is None else answer.first_token_s)
        if fault is not None and fault.kind == "slow":
            due_s += fault.seconds
        pending = None if fault is None or fault.kind == "slow" else fault
        chars = tokens = 0
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in events:
                tokens += event.tokens
                if pending is not None and (chars >= pending.after_chars and (event.chars or not pending.after_chars)):
                    if not self._break(dialect, pending):
                        return
                    due_s += pending.seconds
                    pending = None
                if event.tokens:
                    self._wait_until(due_s + (tokens - 1) / rate if rate else due_s)
                self._send(event.data)
                chars += event.chars
            self._send(b"")
            owner._count(completed=True)
        except (_ClientLeftError, OSError):
            self.close_connection = True
            owner._count(completed=False)

    def _break(self, dialect: str, fault: Fault) -> bool:
        """Do what the fault says; tells whether the answer goes on."""
        if fault.kind == "silence":
            self._wait_until(time.monotonic() + fault.seconds)
            return True
        if fault.kind == "malformed":
            name = "event: content_block_delta\n" if dialect == "anthropic" else ""
            self._send(f"{name}data: {{not json\n\n".encode())
        elif fault.kind == "error_event":
            head = "event: error\n" if dialect == "anthropic" else ""
            body = json.dumps(error_body(dialect, fault.word, f"injected {fault.word}"))
            self._send(f"{head}data: {body}\n\n".encode())
        if fault.kind == "reset":
            # Linger of 0 s: close() sends RST. The descriptor is detached because the handler's files still refer to
            # the socket.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())
        elif fault.kind != "cut":
            self._send(b"")
        self.close_connection = True
        return False

    def _send(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _wait_until(self, due_s: float) -> None:
        """Sleep until a monotonic time; raises _ClientLeftError as soon as the client leaves or the server stops."""
        watched = [self.connection.fileno(), self.server.owner._stop_read]
        while True:
            rest_s = due_s - time.monotonic()
            readable = select.select(watched, [], [], max(0.0, rest_s))[0]
            if watched[-1] in readable:
                raise _ClientLeftError
            if readable:
                if not self.connection.recv(1, socket.MSG_PEEK):
                    raise _ClientLeftError
                del watched[0]  # The client sent its next request early; that is no news until this one is done.
            if rest_s <= 0.0:
                return


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        description="A local model server that speaks the OpenAI and Anthropic streaming protocols."
    )
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 picks a free one (default)")
    parser.add_argument(
        "--rate", type=float, default=None, help="tokens a second, 4 characters each; default: as fast as possible"
    )
    parser.add_argument("--first-token-s", type=float, default=0.0, help="delay of the first token in seconds (default 0)")
    parser.add_argument("--answer", type=Path, help="file with the text of every answer; default: a short greeting")
    arguments = parser.parse_args()
    if arguments.rate is not None and not 0.0 < arguments.rate < float("inf"):
        parser.error(f"--rate must be a number above 0, not {arguments.rate}")
    text = arguments.answer.read_text(encoding="utf-8") if arguments.answer else "Hello"
    server = ModelServer(text, rate=arguments.rate, first_token_s=arguments.first_token_s, port=arguments.port, keep=64)
    with contextlib.suppress(KeyboardInterrupt), server:
        print(json.dumps({"openai": server.openai_url, "anthropic": server.anthropic_url}), flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
