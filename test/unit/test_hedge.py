# SPDX-License-Identifier: Apache-2.0
"""Two models as one, over both real SDKs: who says something first answers, and the other one stops writing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bench.simulated_model.model_faults import Fault
from bench.simulated_model.model_server import Answer, ModelServer
from planners.models.base import (
    CancelToken,
    Finished,
    Message,
    ModelClient,
    ModelError,
    ModelRequest,
    Surroundings,
    TextDelta,
    Usage,
    prompt_tokens,
)
from planners.models.config import ModelConfig
from planners.models.factory import make_client
from planners.models.hedge import HedgedClient
from skill_kernel.codes import ModelCode

pytestmark = pytest.mark.component

REQUEST = ModelRequest("You are a robot.", (Message("user", "greet me"),))
AFTER_S = 0.2
LONG = "word " * 400


def client_for(provider: str, server: ModelServer) -> ModelClient:
    url = server.openai_url if provider == "openai" else server.anthropic_url
    retry = {"max_retries": 0, "first_wait_s": 0.01, "max_wait_s": 0.01}
    entry = {"provider": provider, "model": "test-model", "base_url": url, "retry": retry}
    return make_client(ModelConfig.model_validate(entry), surroundings=Surroundings(environ={}))


@pytest.fixture
def servers() -> Iterator[tuple[ModelServer, ModelServer]]:
    with ModelServer("first") as first, ModelServer("second") as second:
        yield first, second


# Both clients are threads over HTTP; what a provider's own does is tried in test_llm_http and test_llm_faults.
@pytest.fixture(params=["openai", pytest.param("anthropic", marks=pytest.mark.slow)])
def hedged(request: pytest.FixtureRequest, servers: tuple[ModelServer, ModelServer]) -> Iterator[HedgedClient]:
    clients = [client_for(str(request.param), server) for server in servers]
    made = HedgedClient(clients[0], clients[1], AFTER_S)
    made.prepare()
    yield made
    made.close()


def said(client: ModelClient, request: ModelRequest = REQUEST) -> str:
    return "".join(e.text for e in client.stream(request, cancel=CancelToken()) if isinstance(e, TextDelta))


def wait(condition: Any) -> None:
    deadline_s = time.monotonic() + 5.0
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come to that"
        time.sleep(0.01)


def test_a_model_that_answers_in_time_is_the_only_one_asked(hedged: HedgedClient, servers: Any) -> None:
    patient = HedgedClient(*hedged._clients, 30.0)
    assert said(patient) == "first" and not servers[1].requests


def test_a_silent_model_loses_to_the_second_and_stops_writing(hedged: HedgedClient, servers: Any) -> None:
    servers[0].answer = Answer(LONG, first_token_s=1.0, rate=20.0)
    events = list(hedged.stream(REQUEST, cancel=CancelToken()))
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "second"
    wait(lambda: servers[0].disconnects)
    assert not servers[0].completed
    used = [e for e in events if isinstance(e, Usage)][-1]
    alone = client_usage(servers[1])[-1]
    assert used.prompt_tokens == alone.prompt_tokens + prompt_tokens(REQUEST)


def client_usage(server: ModelServer) -> list[Usage]:
    client = client_for("openai", server)
    try:
        return [e for e in client.stream(REQUEST, cancel=CancelToken()) if isinstance(e, Usage)]
    finally:
        client.close()


def test_the_first_one_still_wins_when_it_speaks_before_the_second(hedged: HedgedClient, servers: Any) -> None:
    servers[0].answer = Answer("first", first_token_s=3 * AFTER_S)
    servers[1].answer = Answer(LONG, first_token_s=5.0, rate=20.0)
    assert said(hedged) == "first"
    wait(lambda: servers[1].disconnects)


def test_a_model_that_fails_is_replaced_at_once(hedged: HedgedClient, servers: Any) -> None:
    servers[0].inject(Fault.status(500))
    begun_s = time.monotonic()
    assert said(hedged) == "second" and time.monotonic() - begun_s < 5.0


def test_when_both_fail_the_first_ones_error_is_told(hedged: HedgedClient, servers: Any) -> None:
    servers[0].inject(Fault.status(500))
    servers[1].inject(Fault.status(401))
    with pytest.raises(ModelError) as caught:
        said(hedged)
    assert caught.value.code is not ModelCode.MODEL_AUTH


def test_an_empty_answer_counts_where_nobody_says_more_and_tells_its_cost(hedged: HedgedClient, servers: Any) -> None:
    servers[0].answer = servers[1].answer = Answer("")
    events = list(hedged.stream(REQUEST, cancel=CancelToken()))
    assert [type(e) for e in events] == [Usage, Finished] and events[0].prompt_tokens > 0  # type: ignore[union-attr]


def test_the_second_model_has_the_time_that_is_left(hedged: HedgedClient, servers: Any) -> None:
    for server in servers:
        server.answer = Answer(LONG, first_token_s=30.0)
    begun_s = time.monotonic()
    with pytest.raises(ModelError):
        said(hedged, replace(REQUEST, deadline_s=1.0))
    assert time.monotonic() - begun_s < 1.8


def test_cancelling_stops_both_at_once(hedged: HedgedClient, servers: Any) -> None:
    for server in servers:
        server.answer = Answer(LONG, first_token_s=10.0)
    cancel, raised = CancelToken(), []

    def read() -> None:
        try:
            list(hedged.stream(REQUEST, cancel=cancel))
        except ModelError as error:
            raised.append(error.code)

    thread = threading.Thread(target=read)
    thread.start()
    wait(lambda: servers[1].requests)
    cancel.cancel()
    thread.join(2.0)
    assert raised == [ModelCode.MODEL_CANCELLED]
    wait(lambda: servers[0].disconnects and servers[1].disconnects)


def test_one_that_breaks_off_after_its_first_word_is_not_replaced(hedged: HedgedClient, servers: Any) -> None:
    servers[0].answer = LONG
    servers[0].inject(Fault.drop(20))
    with pytest.raises(ModelError) as caught:
        said(hedged)
    assert caught.value.partial and not servers[1].requests
