# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with a provider ends in the right code with a sentence that helps, is retried only where that is
safe, and shows no key."""

from __future__ import annotations

import email.utils
import logging
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from bench.replay.recording import RecordingModelClient
from bench.simulated_model.model_server import Fault, ModelServer
from planners.models.base import (
    CancelToken,
    Finished,
    Message,
    ModelClient,
    ModelError,
    ModelRequest,
    Retrying,
    Surroundings,
    TextDelta,
)
from planners.models.config import ModelConfig
from planners.models.factory import make_client
from skill_kernel.codes import ModelCode

pytestmark = pytest.mark.component

ANSWER = 'Hi <walk distance="20"/> there'
KEY = "sk-test-5ecret/0123456789+abcdef"
VARIABLE = "TEST_MODEL_KEY"
REQUEST = ModelRequest("You are a robot.", (Message("user", "greet me"),))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(ANSWER) as running:
        yield running


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Lab:
    """A client whose waits are noted and take no time, with a key in its environment."""

    def __init__(self, provider: str, server: ModelServer) -> None:
        self.provider = provider
        self.server = server
        self.waits_s: list[float] = []
        self.random = 1.0
        self.wall_s = 1_800_000_000.0
        self.environ = {VARIABLE: KEY}
        self.made: list[ModelClient] = []

    def client(self, **settings: Any) -> ModelClient:
        url = self.server.openai_url if self.provider == "openai" else self.server.anthropic_url
        data = {"provider": self.provider, "model": "m", "base_url": url, "api_key_env": VARIABLE, **settings}
        around = Surroundings(wait=self._wait, random=lambda: self.random, wall_s=lambda: self.wall_s, environ=self.environ)
        self.made.append(make_client(ModelConfig.model_validate(data), surroundings=around))
        return self.made[-1]

    def _wait(self, seconds: float, cancel: CancelToken) -> bool:
        self.waits_s.append(seconds)
        return cancel.cancelled

    def read(self, client: ModelClient, request: ModelRequest = REQUEST) -> tuple[str, ModelError | None]:
        text = ""
        try:
            for event in client.stream(request, cancel=CancelToken()):
                text += event.text if isinstance(event, TextDelta) else ""
        except ModelError as error:
            return text, error
        return text, None


@pytest.fixture
def lab(provider: str, server: ModelServer) -> Iterator[Lab]:
    made = Lab(provider, server)
    yield made
    for client in made.made:
        client.close()


@pytest.mark.parametrize(
    ("status", "code", "attempts", "advice"),
    [
        (401, ModelCode.MODEL_AUTH, 1, f"check that {VARIABLE} holds a valid key"),
        (403, ModelCode.MODEL_AUTH, 1, f"check that {VARIABLE} holds a valid key"),
        (404, ModelCode.MODEL_REFUSED, 1, "check `model` and `base_url`"),
        (400, ModelCode.MODEL_REFUSED, 1, "check `model` and the request's size"),
        (408, ModelCode.MODEL_TIMEOUT, 4, "try again"),
        (429, ModelCode.MODEL_RATE_LIMITED, 4, "choose another model"),
        (500, ModelCode.MODEL_SERVER, 4, "try again later"),
        (529, ModelCode.MODEL_SERVER, 4, "try again later"),
    ],
)
def test_a_status_becomes_its_code_with_advice(lab: Lab, status: int, code: ModelCode, attempts: int, advice: str) -> None:
    lab.server.inject(Fault.status(status, times=10))
    text, error = lab.read(lab.client())
    assert error is not None and (text, error.code, error.partial) == ("", code, False)
    assert advice in error.message and f"{status}: injected {status}" in error.message
    assert len(lab.server.requests) == attempts and len(lab.waits_s) == attempts - 1
    assert error.retryable == (attempts > 1)


def test_waits_double_up_to_the_longest_and_chance_halves_them_at_most(lab: Lab) -> None:
    for lab.random, expected in ((1.0, [0.5, 1.0, 2.0, 3.0, 3.0]), (0.0, [0.25, 0.5, 1.0, 1.5, 1.5])):
        lab.waits_s.clear()
        lab.server.inject(Fault.status(500, times=6))
        lab.read(lab.client(retry={"max_retries": 5, "first_wait_s": 0.5, "max_wait_s": 3.0}))
        assert lab.waits_s == expected


def test_after_a_rate_limit_the_answer_comes_and_each_retry_is_an_event(lab: Lab) -> None:
    lab.server.inject(Fault.status(429, times=2, retry_after_s=7))
    events = list(lab.client().stream(REQUEST, cancel=CancelToken()))
    retries = [e for e in events if isinstance(e, Retrying)]
    assert [(r.attempt, r.wait_s, r.error.code) for r in retries] == [
        (1, 7.0, ModelCode.MODEL_RATE_LIMITED),
        (2, 7.0, ModelCode.MODEL_RATE_LIMITED),
    ]
    assert lab.waits_s == [7.0, 7.0] and events[-1] == Finished("stop")


def test_a_dated_retry_after_is_honoured(lab: Lab) -> None:
    lab.server.inject(Fault.status(429, retry_after_s=email.utils.formatdate(lab.wall_s + 9.0, usegmt=True)))
    assert lab.read(lab.client())[1] is None
    assert lab.waits_s == [9.0]


def test_a_retry_after_beyond_the_deadline_ends_it_and_names_the_time(lab: Lab) -> None:
    lab.server.inject(Fault.status(429, retry_after_s=3600))
    _, error = lab.read(lab.client())
    assert error is not None and error.code is ModelCode.MODEL_RATE_LIMITED and error.retry_after_s == 3600.0
    assert "wait 3600 s" in error.message and lab.waits_s == [] and len(lab.server.requests) == 1


def test_a_used_up_quota_is_not_retried(lab: Lab) -> None:
    lab.server.inject(Fault.status(429, kind="insufficient_quota", times=9))
    _, error = lab.read(lab.client())
    assert error is not None and "quota is used up" in error.message and len(lab.server.requests) == 1


def test_cancelling_during_the_wait_before_a_retry_ends_it(server: ModelServer) -> None:
    server.inject(Fault.status(500, times=9))
    cancel = CancelToken()

    def wait(seconds: float, token: CancelToken) -> bool:
        cancel.cancel()
        return token.cancelled

    config = ModelConfig(provider="openai", model="m", base_url=server.openai_url)
    client = make_client(config, surroundings=Surroundings(wait=wait, environ={}))
    with pytest.raises(ModelError) as caught:
        list(client.stream(REQUEST, cancel=cancel))
    client.close()
    assert caught.value.code is ModelCode.MODEL_CANCELLED and len(server.requests) == 1


MID_TAG = 10


@pytest.mark.parametrize("how", ["reset", "cut", "end"])
def test_a_connection_lost_in_mid_tag_is_an_error_and_never_retried(lab: Lab, how: Any) -> None:
    lab.server.inject(Fault.drop(MID_TAG, how=how))
    text, error = lab.read(lab.client())
    assert text == ANSWER[:MID_TAG]
    assert error is not None and (error.code, error.partial) == (ModelCode.MODEL_CONNECTION, True)
    assert "check" in error.message and len(lab.server.requests) == 1 and lab.waits_s == []


@pytest.mark.parametrize("how", ["reset", "cut", "end"])
def test_a_connection_lost_before_the_first_token_is_retried(lab: Lab, how: Any) -> None:
    lab.server.inject(Fault.drop(0, how=how))
    assert lab.read(lab.client()) == (ANSWER, None)
    # A connection that ends as if all were said is used once more, which may fail before a request is heard.
    assert len(lab.server.requests) == 2 and len(lab.waits_s) in ((1, 2) if how == "end" else (1,))


def test_an_event_that_is_no_json_is_a_server_error(lab: Lab) -> None:
    lab.server.inject(Fault.malformed(MID_TAG))
    text, error = lab.read(lab.client())
    assert text == ANSWER[:MID_TAG] and error is not None
    assert (error.code, error.partial) == (ModelCode.MODEL_SERVER, True)
    assert "no valid answer" in error.message and len(lab.server.requests) == 1


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("overloaded_error", ModelCode.MODEL_SERVER),
        ("rate_limit_error", ModelCode.MODEL_RATE_LIMITED),
        ("authentication_error", ModelCode.MODEL_AUTH),
        ("invalid_request_error", ModelCode.MODEL_REFUSED),
    ],
)
def test_an_error_event_inside_the_stream_has_the_code_of_its_type(lab: Lab, kind: str, code: ModelCode) -> None:
    lab.server.inject(Fault.error_event(MID_TAG, kind))
    text, error = lab.read(lab.client())
    assert text == ANSWER[:MID_TAG] and error is not None
    assert (error.code, error.partial) == (code, True) and f"injected {kind}" in error.message


class Page(BaseHTTPRequestHandler):
    """Answer whatever is asked with a page, as a network's login does."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"<!DOCTYPE html>\n<title>Sign in</title>\n\n<p>data: none</p>")


def test_a_web_page_is_told_as_no_api_and_not_asked_for_again(lab: Lab) -> None:
    with HTTPServer(("127.0.0.1", 0), Page) as portal:
        threading.Thread(target=portal.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{portal.server_port}"
        text, error = lab.read(lab.client(base_url=url))
        portal.shutdown()
    assert error is not None and (text, error.code, lab.waits_s) == ("", ModelCode.MODEL_SERVER, [])
    told = f"{url} answers, but with a web page and not as the API of provider {lab.provider}; check `base_url`"
    assert told in error.message


def test_nobody_listening_is_a_connection_error_with_the_address(lab: Lab) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    _, error = lab.read(lab.client(base_url=url, retry={"max_retries": 1}))
    assert error is not None and error.code is ModelCode.MODEL_CONNECTION and error.retryable
    assert url in error.message and "(after 2 attempts)" in error.message


@pytest.mark.parametrize("option", ["stream_options", "max_tokens", "temperature", "response_format"])
def test_an_option_that_an_openai_server_rejects_is_left_out_from_then_on(server: ModelServer, option: str) -> None:
    lab = Lab("openai", server)
    server.inject(Fault.reject_option(option, times=9))
    client = lab.client()
    request = ModelRequest("", (Message("user", "hi"),), temperature=0.5, schema={"type": "object"})
    assert [lab.read(client, request) for _ in range(2)] == [(ANSWER, None)] * 2
    client.close()
    assert [option in r.body for r in server.requests] == [True, False, False]
    assert lab.waits_s == []


def test_a_missing_key_names_the_variable_and_nothing_is_sent(lab: Lab) -> None:
    for address in ("https://api.example.com/v1", None):
        client = lab.client(base_url=address)
        lab.environ.clear()
        for attempt in (client.prepare, lambda client=client: list(client.stream(REQUEST, cancel=CancelToken()))):
            with pytest.raises(ModelError, match=f"set the environment variable {VARIABLE}") as caught:
                attempt()
            assert caught.value.code is ModelCode.MODEL_AUTH and not caught.value.retryable
        lab.environ[VARIABLE] = KEY


def test_a_local_server_needs_no_key_and_says_so_when_it_does(lab: Lab) -> None:
    assert lab.read(lab.client(api_key_env=None))[1] is None
    lab.server.key = "something else"
    _, error = lab.read(lab.client(api_key_env=None))
    assert error is not None and error.code is ModelCode.MODEL_AUTH and "set `api_key_env`" in error.message


def test_the_key_named_in_the_configuration_is_the_one_sent(lab: Lab) -> None:
    lab.server.key = KEY
    assert lab.read(lab.client())[1] is None


def test_the_providers_usual_key_never_goes_to_another_host(lab: Lab) -> None:
    lab.environ = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    lab.read(lab.client(api_key_env=None))
    assert KEY not in repr(lab.server.requests[0].headers)
    _, error = lab.read(lab.client(api_key_env=None, base_url="https://api.example.com/v1"))
    assert error is not None and error.code is ModelCode.MODEL_AUTH and "`api_key_env`" in error.message


def test_the_sdks_own_environment_variables_are_not_used(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, KEY)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")
    assert lab.read(lab.client(api_key_env=None)) == (ANSWER, None)
    assert KEY not in repr(lab.server.requests[0].headers)


def test_a_redirect_is_not_followed_so_that_the_key_stays(lab: Lab) -> None:
    with ModelServer("not here") as elsewhere:
        address = (elsewhere.openai_url + "/chat/completions", elsewhere.anthropic_url + "/v1/messages")
        lab.server.inject(Fault.status(307, location=address[lab.provider == "anthropic"]))
        _, error = lab.read(lab.client())
        assert elsewhere.requests == []
    assert error is not None and error.code is ModelCode.MODEL_REFUSED and "`base_url`" in error.message


def test_a_missing_sdk_says_what_to_install(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, lab.provider, None)
    with pytest.raises(ModelError, match=f"pip install {lab.provider}"):
        lab.client().prepare()


LEAKS = {
    "status 401": [Fault.status(401, echo_key=True)],
    "status 403": [Fault.status(403, echo_key=True)],
    "status 404": [Fault.status(404, echo_key=True)],
    "status 400": [Fault.status(400, echo_key=True)],
    "status 429": [Fault.status(429, echo_key=True, times=9)],
    "status 500": [Fault.status(500, echo_key=True, times=9)],
    "reset": [Fault.drop(MID_TAG)],
    "cut": [Fault.drop(MID_TAG, how="cut")],
    "end": [Fault.drop(MID_TAG, how="end")],
    "malformed": [Fault.malformed(MID_TAG)],
    "error event": [Fault.error_event(MID_TAG, "api_error")],
    "silence": [Fault.silence(MID_TAG, 30.0)],
    "nothing": [],
}


@pytest.mark.parametrize("faults", LEAKS.values(), ids=LEAKS)
def test_the_key_shows_nowhere(
    lab: Lab, faults: list[Fault], tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    lab.server.inject(*faults)
    recording = tmp_path / "stream.jsonl"
    client = RecordingModelClient(lab.client(silence_s=0.2), recording)
    shown = [repr(client), str(client)]
    error: BaseException | None = None
    try:
        for event in client.stream(REQUEST, cancel=CancelToken()):
            shown.append(repr(event))
    except ModelError as caught:
        error = caught
        shown += traceback.format_exception(caught)
    assert (error is not None) == bool(faults)
    while error is not None:
        shown += [str(error), repr(error), repr(error.args), repr(vars(error))]
        error = error.__cause__ or error.__context__
    client.close()
    shown += [record.getMessage() + repr(vars(record)) for record in caplog.records]
    shown += [recording.read_text(encoding="utf-8"), *capfd.readouterr()]
    assert KEY in repr(lab.server.requests[0].headers), "the test is void unless the key was really in use"
    everything = "\n".join(shown)
    assert KEY not in everything and KEY[8:] not in everything


EXCEEDED = {
    "openai": (
        400,
        "context_length_exceeded",
        "This model's maximum context length is 8192 tokens. However, you requested 9000.",
    ),
    "llama.cpp": (400, "exceed_context_size_error", "request (8303 tokens) exceeds the available context size (8192 tokens)"),
    "vLLM": (400, "BadRequestError", "This model's maximum context length is 4096 tokens, but 4151 were requested"),
    "anthropic": (400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
    "anthropic with output": (
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 190 + 20 > 200",
    ),
    "mistral": (400, "invalid_request", "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
}
LONG = ModelRequest("You are a robot.", (Message("user", "a"), Message("assistant", "b" * 900), Message("user", "greet me")))


@pytest.mark.parametrize(("status", "kind", "said"), EXCEEDED.values(), ids=EXCEEDED)
def test_a_request_beyond_the_context_is_asked_once_more_without_the_earlier_messages(
    lab: Lab, status: int, kind: str, said: str
) -> None:
    lab.server.inject(Fault.status(status, kind=kind, said=said))
    events = list(lab.client().stream(LONG, cancel=CancelToken()))
    told = [event for event in events if isinstance(event, Retrying)]
    assert [(retry.wait_s, retry.error.too_long) for retry in told] == [(0.0, True)] and lab.waits_s == []
    assert "without the earlier messages" in told[0].error.message and "OLLAMA_CONTEXT_LENGTH" in told[0].error.message
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == ANSWER
    first, second = (str(request.body["messages"]) for request in lab.server.requests)
    assert "bbb" in first and "bbb" not in second and "greet me" in second


def test_one_that_is_too_long_without_them_fails_at_once(lab: Lab) -> None:
    lab.server.inject(Fault.status(400, kind="exceed_context_size_error", said=EXCEEDED["llama.cpp"][2], times=9))
    text, error = lab.read(lab.client(), LONG)
    assert error is not None and (text, error.code, error.too_long) == ("", ModelCode.MODEL_REFUSED, True)
    assert len(lab.server.requests) == 2 and "history_tokens" in error.message


@pytest.mark.parametrize("said", ["max_tokens is too large: 5000", "Unknown model", "the image exceeds 5 MB"])
def test_another_refusal_drops_no_history(lab: Lab, said: str) -> None:
    lab.server.inject(Fault.status(400, kind="invalid_request_error", said=said))
    _, error = lab.read(lab.client(), LONG)
    assert error is not None and not error.too_long and len(lab.server.requests) == 1
