# SPDX-License-Identifier: Apache-2.0
"""A server is told the grammar and tells of its reading, through the real SDK over HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bench.dry_run import skills_of
from bench.performing import SETTINGS
from bench.simulated_model.model_server import ModelServer
from planners.models.base import CancelToken, Message, ModelError, ModelRequest, Reading, Surroundings, TextDelta
from planners.models.config import ConfigError, ModelConfig, load_models
from planners.models.factory import make_client
from planners.prompts.grammar import StreamGrammar
from planners.prompts.prompt import GrammarOptions, RobotFacts
from planners.strategies.stream.stream_planner import StreamPlanner
from skill_kernel.codes import ModelCode

pytestmark = pytest.mark.component

SKILLS = skills_of(Path(__file__).parent / "skillsets" / "quadruped.py")
GRAMMAR = StreamGrammar(SKILLS, GrammarOptions())
SERVERS = ["llama.cpp", "vllm", "ollama", "off"]


def asked(url: str, request: ModelRequest, **settings: Any) -> tuple[str, list[Any], ModelError | None]:
    """Return the text of an answer, its other events, and the error that ended it."""
    entry = {"provider": "openai", "model": "m", "base_url": url, "retry": {"max_retries": 0}, **settings}
    client = make_client(ModelConfig.model_validate(entry), surroundings=Surroundings(environ={}))
    text, others, error = "", list[Any](), None
    try:
        for event in client.stream(request, cancel=CancelToken()):
            if isinstance(event, TextDelta):
                text += event.text
            else:
                others.append(event)
    except ModelError as failure:
        error = failure
    finally:
        client.close()
    return text, others, error


def request_of(grammar: StreamGrammar | None = GRAMMAR) -> ModelRequest:
    return ModelRequest("static", (Message("user", "greet me"),), grammar=grammar)


@pytest.mark.parametrize("server", SERVERS)
def test_each_server_gets_the_grammar_under_its_own_name(server: str) -> None:
    with ModelServer("Hello") as running:
        assert asked(running.openai_url, request_of(), grammar=server)[0] == "Hello"
        asked(running.openai_url, request_of(None), grammar=server)
    bound, free = (request.body for request in running.requests)
    schema = {"type": "json_schema", "json_schema": {"name": "stream", "schema": GRAMMAR.json_schema()}}
    told = {name: bound.get(name) for name in ("grammar", "structured_outputs", "response_format", "return_progress")}
    assert {name: value for name, value in told.items() if value is not None} == {
        "llama.cpp": {"grammar": GRAMMAR.gbnf(), "return_progress": True},
        "vllm": {"structured_outputs": {"grammar": GRAMMAR.gbnf()}},
        "ollama": {"response_format": schema},
        "off": {},
    }[server]
    assert not {"grammar", "structured_outputs", "response_format"} & free.keys()


def test_the_strategy_stream_sends_the_grammar_of_its_robot() -> None:
    planner = StreamPlanner(RobotFacts("quadruped", "", SKILLS), list, SETTINGS)
    with ModelServer("Hello") as running:
        asked(running.openai_url, planner.begin("greet me"), grammar="llama.cpp")
    assert running.requests[0].body["grammar"] == GRAMMAR.gbnf()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("\"Hello, <nod times='2'/>du\"", "Hello, <nod times='2'/>du"),
        (' "a \\u00fc \\"b\\" \\\\ c"\n', 'a ü "b" \\ c'),
        ("Hello, <nod/>", "Hello, <nod/>"),
        ('""', ""),
    ],
)
def test_what_comes_as_a_json_string_is_performed_as_the_text_in_it(written: str, meant: str) -> None:
    with ModelServer(written) as running:
        assert asked(running.openai_url, request_of(), grammar="ollama")[0] == meant
        assert asked(running.openai_url, request_of(None), grammar="ollama")[0] == written


@pytest.mark.parametrize("written", ["off", "'off'", "vllm"])
def test_the_entry_of_a_model_says_which_server_it_is(written: str, tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(f"default: a\nmodels:\n  a: {{provider: offline, grammar: {written}}}\n")
    assert load_models(tmp_path / "models.yaml").models["a"].grammar == written.strip("'")


def test_a_server_that_is_not_known_is_named(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text("default: a\nmodels:\n  a: {provider: offline, grammar: sglang}\n")
    with pytest.raises(ConfigError, match=r"models\.a\.grammar.*llama\.cpp"):
        load_models(tmp_path / "models.yaml")


@contextmanager
def reading_server(parts: int, part_s: float, then_s: float) -> Iterator[str]:
    """Serve one answer as llama.cpp does: progress for each part of the prompt, and the text some time after it."""
    left = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for n in range(parts + 1):
                progress = {"total": parts * 100, "cache": 0, "processed": n * 100, "time_ms": 1}
                self.event({"role": "assistant", "content": None}, prompt_progress=progress)
                left.wait(part_s if n < parts else then_s)
            self.event({"content": "Hello"}, finish="stop")

        def event(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> None:
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", **more}
            chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        left.set()
        server.shutdown()
        server.server_close()


def test_the_wait_for_the_first_token_begins_when_the_prompt_is_read() -> None:
    with reading_server(parts=3, part_s=0.4, then_s=0.0) as url:
        began = time.monotonic()
        text, others, error = asked(url, request_of(), grammar="llama.cpp", first_token_s=0.3)
    assert (text, error) == ("Hello", None) and time.monotonic() - began > 1.0
    assert [e for e in others if isinstance(e, Reading)] == [Reading(n * 100, 300) for n in range(4)]


def test_a_server_that_has_read_and_says_nothing_is_given_up() -> None:
    with reading_server(parts=1, part_s=0.1, then_s=30.0) as url:
        began = time.monotonic()
        text, _, error = asked(url, request_of(), grammar="llama.cpp", first_token_s=0.5)
    assert text == "" and error is not None and error.code is ModelCode.MODEL_TIMEOUT and "first_token_s" in error.message
    assert 0.5 < time.monotonic() - began < 5.0


def test_a_reading_without_end_ends_at_the_deadline_of_the_request() -> None:
    with reading_server(parts=1, part_s=30.0, then_s=0.0) as url:
        request = ModelRequest("static", (Message("user", "greet me"),), deadline_s=1.0)
        _, _, error = asked(url, request, grammar="llama.cpp", first_token_s=0.3)
    assert error is not None and error.code is ModelCode.MODEL_TIMEOUT and "deadline of 1 s" in error.message
