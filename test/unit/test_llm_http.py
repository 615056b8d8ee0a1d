# SPDX-License-Identifier: Apache-2.0
"""Both SDKs over real HTTP: streams, usage, images, cancellation, deadlines and back-pressure."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from types import ModuleType
from typing import Any

import pytest

from bench.simulated_model.model_server import Answer, Fault, ModelServer
from planners.models.base import CancelToken, Finished, Image, Message, ModelError, ModelRequest, Surroundings, TextDelta, Usage
from planners.models.config import ModelConfig, Prices
from planners.models.factory import make_client
from planners.models.http_stream import HttpModelClient, Item
from skill_kernel.codes import ModelCode

pytestmark = pytest.mark.component

ANSWER = '<walk distance="20"/>Hello, <nod/>how are you?'
REQUEST = ModelRequest("You are a robot.", (Message("user", "greet me"),))
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 16
JPEG = b"\xff\xd8\xff\xe0" + b"\x01" * 16


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(ANSWER) as running:
        yield running


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def client_for(provider: str, server: ModelServer, **settings: Any) -> HttpModelClient:
    url = server.openai_url if provider == "openai" else server.anthropic_url
    config = ModelConfig.model_validate({"provider": provider, "model": "test-model", "base_url": url, **settings})
    client = make_client(config, surroundings=Surroundings(environ={}))
    assert isinstance(client, HttpModelClient)
    return client


@pytest.fixture
def client(provider: str, server: ModelServer) -> Iterator[HttpModelClient]:
    made = client_for(provider, server)
    yield made
    made.close()


def text_of(events: list[Any]) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def fails(client: HttpModelClient, request: ModelRequest = REQUEST) -> tuple[str, ModelError]:
    """Return the text that came and the error that ended it."""
    events: list[Any] = []
    with pytest.raises(ModelError) as caught:
        for event in client.stream(request, cancel=CancelToken()):
            events.append(event)
    return text_of(events), caught.value


def test_the_text_arrives_whole_and_in_order_and_the_stream_ends_with_finished(client: HttpModelClient) -> None:
    events = list(client.stream(REQUEST, cancel=CancelToken()))
    assert text_of(events) == ANSWER
    assert events[-1] == Finished("stop")
    assert len([e for e in events if isinstance(e, TextDelta)]) > 5


def test_the_first_text_is_there_while_the_server_still_waits_with_the_rest(
    client: HttpModelClient, server: ModelServer
) -> None:
    server.inject(Fault.silence(after_chars=21, seconds=30.0))
    with_text = (e.text for e in client.stream(REQUEST, cancel=CancelToken()) if isinstance(e, TextDelta))
    got = ""
    while len(got) < 21:
        got += next(with_text)
    assert got == ANSWER[:21] and server.completed == 0


def test_usage_is_the_providers_and_costs_follow_the_configured_prices(provider: str, server: ModelServer) -> None:
    server.answer = Answer(ANSWER, prompt_tokens=1000, cached_tokens=600)
    prices = Prices(input=2.0, output=8.0, cached_input=0.5)
    client = client_for(provider, server, prices=prices)
    usage = [e for e in client.stream(REQUEST, cancel=CancelToken()) if isinstance(e, Usage)][-1]
    client.close()
    tokens = -(-len(ANSWER) // 4)
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (1000, 600, tokens)
    assert usage.cost_usd == pytest.approx((400 * 2.0 + 600 * 0.5 + tokens * 8.0) / 1e6)


def test_without_prices_the_cost_is_unknown(client: HttpModelClient) -> None:
    usages = [e for e in client.stream(REQUEST, cancel=CancelToken()) if isinstance(e, Usage)]
    assert usages and all(u.cost_usd is None for u in usages)


def test_the_server_receives_system_text_images_and_options(
    client: HttpModelClient, server: ModelServer, provider: str
) -> None:
    messages = (Message("user", "look", (Image(PNG), Image(JPEG))), Message("assistant", "I see."), Message("user", "now?"))
    request = ModelRequest("static part", messages, max_output_tokens=77, temperature=0.0, schema={"type": "object"})
    list(client.stream(request, cancel=CancelToken()))
    list(client.stream(REQUEST, cancel=CancelToken()))
    seen = server.requests[0]
    assert seen.body.get("temperature") == (0.0 if provider == "openai" else None)
    assert "temperature" not in server.requests[1].body
    assert seen.images == [PNG, JPEG]
    assert seen.prompt.split("\n") == ["static part", "look", "I see.", "now?"]
    assert seen.body["model"] == "test-model"
    if provider == "anthropic":
        assert seen.body["system"][0]["cache_control"] == {"type": "ephemeral"}
        assert seen.body["max_tokens"] == 77
    else:
        assert seen.body["messages"][0] == {"role": "system", "content": "static part"}
        assert seen.body["max_tokens"] == 77
        assert seen.body["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_reasoning_is_not_delivered_as_text(client: HttpModelClient, server: ModelServer) -> None:
    server.answer = Answer("<nod/>", reasoning="The user wants a nod, so I nod.")
    assert text_of(list(client.stream(REQUEST, cancel=CancelToken()))) == "<nod/>"


def test_a_model_that_reasons_is_not_taken_for_a_silent_one(provider: str, server: ModelServer) -> None:
    server.answer = Answer("<nod/>", reasoning="Let me think about it. " * 10)
    # Every wait seems to take 0.4 s, so the reasoning takes far longer than first_token_s.
    now_s = itertools.count(step=0.4)
    url = server.openai_url if provider == "openai" else server.anthropic_url
    client = make_client(
        ModelConfig.model_validate({"provider": provider, "model": "m", "base_url": url, "first_token_s": 4.0}),
        surroundings=Surroundings(environ={}, monotonic_s=lambda: next(now_s)),
    )
    assert text_of(list(client.stream(REQUEST, cancel=CancelToken()))) == "<nod/>"
    client.close()
    assert next(now_s) > 20.0


def test_an_answer_cut_at_its_length_says_so(client: HttpModelClient) -> None:
    request = ModelRequest("", (Message("user", "greet me"),), max_output_tokens=3)
    events = list(client.stream(request, cancel=CancelToken()))
    assert text_of(events) == ANSWER[:12] and events[-1] == Finished("length")


def test_half_a_surrogate_pair_becomes_a_replacement_character(client: HttpModelClient, server: ModelServer) -> None:
    server.answer = "ab\ud83dc"
    assert text_of(list(client.stream(REQUEST, cancel=CancelToken()))) == "ab\ufffdc"


def test_cancel_ends_a_blocked_read_at_once_and_closes_the_connection(client: HttpModelClient, server: ModelServer) -> None:
    client.prepare()
    delays_s: list[float] = []
    for _ in range(4):
        server.inject(Fault.silence(after_chars=4, seconds=30.0))
        cancel = CancelToken()
        reading = threading.Event()
        ended: list[tuple[float, ModelError]] = []

        def read(cancel: CancelToken = cancel, reading: threading.Event = reading, ended: Any = ended) -> None:
            try:
                for event in client.stream(REQUEST, cancel=cancel):
                    if isinstance(event, TextDelta):
                        reading.set()
            except ModelError as error:
                ended.append((time.perf_counter(), error))

        thread = threading.Thread(target=read)
        thread.start()
        assert reading.wait(10.0)
        cancelled_at = time.perf_counter()
        cancel.cancel()
        thread.join(10.0)
        assert ended[0][1].code is ModelCode.MODEL_CANCELLED and ended[0][1].partial
        assert server.wait_until(lambda s: s.disconnects > len(delays_s))
        delays_s.append(ended[0][0] - cancelled_at)
    assert min(delays_s) < 0.05


def test_cancelled_before_it_begins_nothing_is_sent(client: HttpModelClient, server: ModelServer) -> None:
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(ModelError) as caught:
        next(client.stream(REQUEST, cancel=cancel))
    assert caught.value.code is ModelCode.MODEL_CANCELLED and not server.requests


def test_closing_the_iterator_ends_the_generation(client: HttpModelClient, server: ModelServer) -> None:
    server.inject(Fault.silence(after_chars=4, seconds=30.0))
    events = client.stream(REQUEST, cancel=CancelToken())
    next(e for e in events if isinstance(e, TextDelta))
    events.close()
    assert server.wait_until(lambda s: s.disconnects == 1)


def test_closing_the_client_ends_its_streams(client: HttpModelClient, server: ModelServer) -> None:
    server.inject(Fault.silence(after_chars=4, seconds=30.0))
    events = client.stream(REQUEST, cancel=CancelToken())
    next(e for e in events if isinstance(e, TextDelta))
    client.close()
    with pytest.raises(ModelError) as caught:
        list(events)
    assert caught.value.code is ModelCode.MODEL_CANCELLED
    assert server.wait_until(lambda s: s.disconnects == 1)


def test_a_late_first_token_is_a_timeout_that_names_the_setting(provider: str, server: ModelServer) -> None:
    server.inject(Fault.slow_first_token(30.0))
    client = client_for(provider, server, first_token_s=0.15, retry={"max_retries": 0})
    text, error = fails(client)
    client.close()
    assert (text, error.code, error.partial) == ("", ModelCode.MODEL_TIMEOUT, False)
    assert "first_token_s" in error.message and "0.15 s" in error.message
    assert server.wait_until(lambda s: s.disconnects == 1)


def test_silence_between_tokens_is_a_timeout_and_not_repeated(provider: str, server: ModelServer) -> None:
    server.inject(Fault.silence(after_chars=21, seconds=30.0))
    client = client_for(provider, server, silence_s=0.3)
    text, error = fails(client)
    client.close()
    assert ANSWER.startswith(text) and text
    assert (error.code, error.partial) == (ModelCode.MODEL_TIMEOUT, True)
    assert "silence_s" in error.message and len(server.requests) == 1


def test_the_deadline_bounds_an_answer_that_only_dribbles(provider: str, server: ModelServer) -> None:
    server.answer, server.rate = "word " * 2000, 50.0
    client = client_for(provider, server)
    client.prepare()
    text, error = fails(client, ModelRequest("", (Message("user", "talk"),), deadline_s=0.3))
    client.close()
    assert error.code is ModelCode.MODEL_TIMEOUT and "deadline of 0.3 s" in error.message
    assert len(text) < 1000 and not error.retryable
    assert server.wait_until(lambda s: s.disconnects == 1)


def test_the_readers_own_time_does_not_count_against_the_deadline(server: ModelServer) -> None:
    now_s = 0.0
    client = make_client(
        ModelConfig(provider="openai", model="m", base_url=server.openai_url),
        surroundings=Surroundings(environ={}, monotonic_s=lambda: now_s),
    )
    got = ""
    for event in client.stream(REQUEST, cancel=CancelToken()):
        now_s += 1000.0
        got += event.text if isinstance(event, TextDelta) else ""
    client.close()
    assert got == ANSWER


class CountingClient(HttpModelClient):
    """A provider that has everything to say at once; counts what was taken from it."""

    package = "json"
    total = 5000
    taken = 0

    def _connect(self, sdk: ModuleType, key: str) -> Any:
        return object()

    async def _items(self, client: Any, request: ModelRequest) -> AsyncGenerator[Item, None]:
        for _ in range(self.total):
            self.taken += 1
            yield TextDelta("x")


def test_a_slow_reader_holds_the_network_back_and_loses_nothing() -> None:
    config = ModelConfig(provider="openai", model="m", base_url="http://127.0.0.1:9/v1")
    client = CountingClient(config, surroundings=Surroundings(environ={}))
    ahead, got = 0, 0
    with pytest.raises(ModelError) as caught:
        for _ in client.stream(REQUEST, cancel=CancelToken()):
            got += 1
            ahead = max(ahead, client.taken - got)
    client.close()
    assert caught.value.code is ModelCode.MODEL_CONNECTION
    assert got == client.total and ahead <= 1
