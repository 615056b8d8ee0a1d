# SPDX-License-Identifier: Apache-2.0
"""The simulated model over HTTP: delays, rates, errors and cached fronts come from the table, and are the same again."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kalos_fake import config, registry
from layer_prompts import S1P, S2, baseline, call, observed, thing
from typer.testing import CliRunner

from bench.baselines import ReactPlanner
from bench.dry_run import dry_run
from bench.simulated_model import service
from bench.simulated_model.model_dialects import RecordedRequest
from bench.simulated_model.model_server import ModelServer
from bench.simulated_model.prompt import Question
from bench.simulated_model.service import Given, PrefixCache, SimulatedModel, serve
from bench.simulated_model.spoiling import malformed, wrong_call
from bench.simulated_model.table import Cache, Draw, Rate, Table, TableError, load_table
from bench.simulated_model.where import default_table
from function_tokens.mapper import Mapper
from ghostshell_ros.cli.main import app
from planners.models.base import CancelToken, Message, ModelError, ModelRequest, Surroundings, TextDelta, Usage
from planners.models.config import load_models, parse_spec
from planners.models.factory import make_client
from planners.prompts.blocks import block
from planners.prompts.prompt import CallReport
from planners.strategies.layered.prompts import first_action_message
from planners.strategies.turns import Known
from skill_kernel.codes import ModelCode

pytestmark = pytest.mark.component

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("wrong_call", "malformed", "stale_belief", "silence")


def table(**changes: Any) -> Table:
    """Return the committed table without delays."""
    shipped = load_table(default_table())
    rows = {
        name: row.model_copy(update={"first_token": row.first_token.model_copy(update={"median_s": 0.0})})
        for name, row in shipped.rows.items()
    }
    return shipped.model_copy(update={"rows": rows, **changes})


def only(kind: str, rate: float = 1.0) -> Table:
    """Return a table whose answers go wrong in one way."""
    shares = {k: float(k == kind) for k in KINDS}
    return Table.model_validate({**table().model_dump(), "errors": {"rate": rate, "shares": shares}})


def request_of(system: str, user: str, model: str = "planner") -> RecordedRequest:
    body = {"model": model, "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]}
    return RecordedRequest("/v1/chat/completions", {}, body, time.monotonic())


def react(
    observation: dict[str, Any], instruction: str = "Check what is in front of you.", done: Sequence[CallReport] = ()
) -> RecordedRequest:
    request = baseline(ReactPlanner).begin(instruction, known=Known(observation), done=done)
    return request_of(request.system, request.messages[-1].text)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serve(table()) as running:
        yield running


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_it_answers_over_both_protocols_and_counts_tokens(provider: str, server: ModelServer) -> None:
    url = server.openai_url if provider == "openai" else server.anthropic_url
    client = make_client(parse_spec(f"{provider}:planner@{url}"), surroundings=Surroundings(environ={}))
    user = first_action_message("Turn around and face the person.", "", observed())
    events = list(client.stream(ModelRequest(S1P, (Message("user", user),)), cancel=CancelToken()))
    client.close()
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == '<rotate angle_deg="180"/>'
    usage = [e for e in events if isinstance(e, Usage)][-1]
    assert abs(usage.prompt_tokens - (len(S1P) + len(user)) / 4) < 3
    assert usage.completion_tokens == 7


def test_a_front_that_was_sent_before_is_cached_and_what_differs_is_not() -> None:
    given: list[Given] = []
    model = SimulatedModel(table(), given.append)
    for instruction in ("Go to the kitchen.", "Go to the office."):
        model(request_of(S2, block("TASK", [{"instruction": instruction}])))
    model(request_of("LAYER s2\nother rules", block("TASK", [{"instruction": "Go to the kitchen."}])))
    assert given[0].cached_tokens == 0 == given[2].cached_tokens
    assert len(S2) / 4 - 128 <= given[1].cached_tokens <= len(S2) / 4


def test_a_front_is_kept_for_a_time_and_by_each_model_for_itself() -> None:
    cache = PrefixCache(Cache(least_tokens=2, step_tokens=1, keep_s=10.0))
    assert cache.cached_tokens("planner", "abcdefgh", 0.0) == 0
    assert cache.cached_tokens("fast", "abcdefgh", 1.0) == 0
    assert cache.cached_tokens("planner", "abcdXfgh", 1.0) == 0  # one step is less than the least
    assert cache.cached_tokens("planner", "abcdefgh1234", 5.0) == 2
    assert cache.cached_tokens("planner", "abcdefgh", 15.5) == 0


def test_tokens_come_at_the_rate_of_the_row() -> None:
    slow = table()
    row = slow.rows["planner"].model_copy(update={"tokens_per_s": Rate(median=40.0)})
    with serve(slow.model_copy(update={"rows": {"planner": row}})) as running:
        client = make_client(parse_spec(f"openai:planner@{running.openai_url}"), surroundings=Surroundings(environ={}))
        user = first_action_message("Turn around.", "", observed())
        request = ModelRequest(S1P, (Message("user", user),))
        times = [time.monotonic() for e in client.stream(request, cancel=CancelToken()) if isinstance(e, TextDelta)]
        client.close()
    assert times[-1] - times[0] >= 0.8 * 6 / 40  # seven tokens


def test_delays_and_errors_are_the_same_again_with_the_same_seed_and_others_with_another() -> None:
    def run(seed: int) -> list[Given]:
        given: list[Given] = []
        model = SimulatedModel(load_table(default_table()).with_options(seed=seed, errors=0.4), given.append)
        for i in range(20):
            model(react(observed(at=(i, 0.0))))
        return given

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert {g.error for g in run(1)} > {None}


def test_the_same_prompt_asked_again_has_its_own_chances() -> None:
    given: list[Given] = []
    model = SimulatedModel(load_table(default_table()).with_options(errors=0.5), given.append)
    for _ in range(30):
        model(react(observed()))
    assert len({g.first_token_s for g in given}) == 30
    assert {g.error is None for g in given} == {True, False}


def test_what_it_remembers_is_bounded_however_long_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_PROMPTS", 3)
    monkeypatch.setattr(service, "SHOWN_REQUESTS", 2)
    given: list[Given] = []
    model = SimulatedModel(load_table(default_table()), given.append)
    prompts = [react(observed(battery=level)) for level in range(10, 20)]
    for request in [*prompts, *prompts[-3:]]:
        model(request)
    assert len(model._asked) == 3 and set(model._asked.values()) == {2}, "the newest are counted"
    assert not any(isinstance(key, str) for key in model._asked), "no prompt itself is kept"
    server = serve(load_table(default_table()))
    for request in prompts:
        server._take_fault(request)
    assert server.requests == prompts[-2:]
    server._http.server_close()


def test_delays_lie_about_the_median_of_their_row_and_scale() -> None:
    shipped = load_table(default_table())
    slow = shipped.with_options(scales={"fast": 3.0})
    for name, row in shipped.rows.items():
        drawn = [Draw(1, name, str(i), 0).first_token_s(row) for i in range(400)]
        assert statistics.median(drawn) == pytest.approx(row.first_token.median_s, rel=0.1)
        rates = [Draw(1, name, str(i), 0).tokens_per_s(row) for i in range(400)]
        assert statistics.median(rates) == pytest.approx(row.tokens_per_s.median, rel=0.1)
    assert slow.rows["fast"].first_token.median_s == pytest.approx(3 * shipped.rows["fast"].first_token.median_s)
    assert slow.rows["fast"].tokens_per_s.median == pytest.approx(shipped.rows["fast"].tokens_per_s.median / 3)
    assert slow.rows["planner"] == shipped.rows["planner"]


def test_so_many_answers_go_wrong_as_the_rate_says() -> None:
    errors = load_table(default_table()).with_options(errors=0.3).errors
    drawn = [Draw(7, "planner", str(i), 0).error(errors) for i in range(2000)]
    assert sum(e is not None for e in drawn) / len(drawn) == pytest.approx(0.3, abs=0.04)
    for kind, share in errors.shares.items():
        assert drawn.count(kind) / len(drawn) == pytest.approx(0.3 * share, abs=0.03)


def test_a_stale_belief_answers_from_what_was_seen_before() -> None:
    model = SimulatedModel(only("stale_belief"))
    model(react(observed(things=[thing("chair", 2.0)])))
    stale = model(react(observed(), done=[call("nod")]))
    honest = SimulatedModel(table())(react(observed(), done=[call("nod")]))
    assert "chair 2.0 metres" in stale.text
    assert "chair" not in honest.text


def test_silence_lasts_until_the_client_gives_up() -> None:
    with serve(only("silence")) as running:
        config = parse_spec(f"openai:planner@{running.openai_url}").model_copy(update={"first_token_s": 0.3})
        client = make_client(
            config.model_copy(update={"retry": config.retry.model_copy(update={"max_retries": 0})}),
            surroundings=Surroundings(environ={}),
        )
        with pytest.raises(ModelError) as raised:
            list(client.stream(ModelRequest(S1P, (Message("user", "hello"),)), cancel=CancelToken()))
        client.close()
        assert raised.value.code is ModelCode.MODEL_TIMEOUT
        assert running.wait_until(lambda s: s.disconnects == 1)


@pytest.mark.parametrize(
    "answer",
    [
        '<step><goto_waypoint waypoint="kitchen"/></step>',
        '<search target="ball"/>',
        '<rotate angle_deg="90"/>',
        "yes: I see one",
        '<relation process="p1" is="join"/>',
        "<none/>",
        "<nothing/>",
        "<keep/>",
        '<subtask criteria="x">Go to the kitchen</subtask>\n<subtask criteria="y">Look for a ball</subtask>',
    ],
)
def test_a_wrong_answer_is_another_one_that_could_be_meant(answer: str) -> None:
    robot = Question(S2, ("",)).robot
    spoiled = {wrong_call(answer, robot, random.Random(i)) for i in range(20)}
    assert answer not in spoiled
    mapper = Mapper(config(), registry())
    for text in (t for t in spoiled if "<step>" in t or t.startswith(("<search", "<rotate"))):
        assert all(call.outcome == "DONE" for call in dry_run(text, mapper, mode="strict").calls), text


def test_a_malformed_answer_is_cut_unknown_or_wrapped_in_prose() -> None:
    spoiled = {malformed("<step><sit/></step><step><stand/></step>", random.Random(i)) for i in range(30)}
    assert any("do_step_now" in text for text in spoiled)
    assert any("```" in text for text in spoiled)
    assert any(text.count("<") > text.count(">") for text in spoiled)


def test_a_model_name_that_the_table_lacks_is_answered_as_the_first_row() -> None:
    given: list[Given] = []
    SimulatedModel(table(), given.append)(request_of(S1P, "hello", model="gpt-4.1"))
    assert given[0].row == "planner"


def test_the_models_of_the_configuration_have_the_prices_of_the_table() -> None:
    models, rows = load_models(ROOT / "config" / "models.yaml"), load_table(default_table()).rows
    for name, row in (("simulated", "planner"), ("simulated-fast", "fast")):
        config = parse_spec(name, models)
        assert config.model == row
        assert config.prices == rows[row].prices


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"errors": {"rate": 0.1, "shares": {"silence": 0.5}}}, "add up"),
        ({"rows": {}}, "at least one"),
        ({"speed": 1}, "speed"),
    ],
)
def test_a_table_that_cannot_be_used_says_why(change: dict[str, Any], word: str, tmp_path: Path) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(json.dumps({**table().model_dump(), **change}), encoding="utf-8")
    with pytest.raises(TableError, match=word):
        load_table(path)


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(TableError, match="between 0 and 1"):
        table().with_options(errors=1.5)
    with pytest.raises(TableError, match="no row 'slow'"):
        table().with_options(scales={"slow": 2.0})
    result = CliRunner().invoke(app, ["simulated-model", "--table", "nowhere.yaml"])
    assert result.exit_code == 2
    assert "--table" in result.output


def test_as_a_process_of_its_own_its_first_line_says_where_it_is() -> None:
    command = [sys.executable, "-m", "bench.simulated_model", "--errors", "0.1", "--fast-scale", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            assert (told["model"], told["fast_model"]) == ("planner", "fast")
            assert told["url"].startswith("http://127.0.0.1:")
        finally:
            process.terminate()
            assert process.wait(5.0) == 0
