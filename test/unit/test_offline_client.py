# SPDX-License-Identifier: Apache-2.0
"""The offline model speaks the protocol of the models, says what it is, and ends in named errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.dry_run import skills_of
from function_tokens.routines import RoutineStore
from planners.language.client import NAME, OfflineClient
from planners.models.base import CancelToken, Finished, Message, ModelError, ModelRequest, TextDelta, Usage
from planners.prompts.prompt import CallReport, RobotFacts, build_turn_prompt
from skill_kernel.codes import ModelCode

SETS = Path(__file__).parent / "skillsets"


def _client(routines: RoutineStore | None = None) -> OfflineClient:
    return OfflineClient(RobotFacts("pup", "", skills_of(SETS / "quadruped.py")), routines)


def _request(instruction: str, *, before: str = "", turn: int = 0, done: Sequence[CallReport] = ()) -> ModelRequest:
    history = (Message("user", "x"), Message("assistant", before)) if before else ()
    prompt = Message("user", build_turn_prompt(instruction, turn=turn, results=done))
    return ModelRequest("", (*history, prompt), instruction=instruction, turn=turn, done=done)


def _text(client: OfflineClient, request: ModelRequest) -> str:
    return "".join(e.text for e in client.stream(request, cancel=CancelToken()) if isinstance(e, TextDelta))


def test_the_answer_streams_tag_by_tag_and_finishes() -> None:
    events = list(_client().stream(_request("sit, then nod"), cancel=CancelToken()))
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["<wait>", "<sit/>", "</wait>", "<nod/>"]
    assert isinstance(events[-2], Usage) and events[-2].cost_usd == 0.0
    assert events[-1] == Finished()


def test_it_is_labelled_as_what_it_is() -> None:
    assert _client().name == NAME
    assert "no language model" in NAME


def test_it_reads_the_instruction_alone_and_no_prompt() -> None:
    with pytest.raises(ModelError, match="no command"):
        _text(_client(), ModelRequest("", (Message("user", "nod"),)))


@pytest.mark.parametrize("instruction", ["tell me a joke", "don't walk", "walk?", "if it rains, sit", "", "🙂"])
def test_nothing_understood_is_a_named_error_that_says_what_can_be_said(instruction: str) -> None:
    with pytest.raises(ModelError) as caught:
        _text(_client(), _request(instruction))
    assert caught.value.code is ModelCode.MODEL_NOT_UNDERSTOOD
    assert len(caught.value.message) <= 160 and "\n" not in caught.value.message
    examples = re.fullmatch(r".*Try: (.+); (.+); (.+)\. All: ghostshell skills", caught.value.message)
    assert examples and all(_text(_client(), _request(said)) for said in examples.groups())


def test_of_what_is_understood_in_part_nothing_is_done() -> None:
    with pytest.raises(ModelError, match="I did not understand “twirl”. Try: "):
        _text(_client(), _request("sit, then twirl"))


def test_a_value_out_of_range_is_an_error_and_nothing_moves() -> None:
    with pytest.raises(ModelError, match=r"at most 3 m.* Nothing was done\.$"):
        _text(_client(), _request("walk 9 m"))


def test_an_instruction_that_is_too_long_is_refused() -> None:
    with pytest.raises(ModelError, match="1000"):
        _text(_client(), _request("nod and " * 400))


def test_a_cancelled_stream_ends_at_once() -> None:
    cancel = CancelToken()
    stream = _client().stream(_request("sit, then nod"), cancel=cancel)
    assert isinstance(next(stream), TextDelta)
    cancel.cancel()
    with pytest.raises(ModelError) as caught:
        next(stream)
    assert caught.value.code is ModelCode.MODEL_CANCELLED and caught.value.partial


def test_a_closed_client_gives_no_answer() -> None:
    client = _client()
    client.close()
    with pytest.raises(ModelError) as caught:
        _text(client, _request("nod"))
    assert caught.value.code is ModelCode.MODEL_CANCELLED


def test_a_later_turn_reports_what_failed_instead_of_doing_it_again() -> None:
    results = [CallReport("move_forward", {}, "FAILED", "a leg <slipped>"), CallReport("nod", {}, "DONE")]
    answer = _text(_client(), _request("walk 1 m", turn=1, done=results))
    assert answer == "That did not work: move forward.<plan_done/>"
    assert _text(_client(), _request("nod", turn=1, done=[CallReport("nod", {}, "DONE")])) == "<plan_done/>"


def test_a_plan_made_anew_leaves_out_what_is_done_and_begins_nothing_anew_that_could_go_too_far() -> None:
    said = "say hello, then walk forward 1 m, then nod"
    whole = _text(_client(), _request(said))
    done = [CallReport(name, {}, "DONE") for name in ("text", "move_forward", "wait")]
    rest = _text(_client(), _request(said, done=done))
    assert rest and whole.endswith(rest) and "move_forward" in whole and "move_forward" not in rest and "nod" in rest
    everything = [*done, CallReport("nod", {}, "DONE")]
    assert _text(_client(), _request(said, done=everything)) == "<plan_done/>"
    halfway = [CallReport("text", {}, "INTERRUPTED"), CallReport("move_forward", {}, "INTERRUPTED", "0.4 m")]
    with pytest.raises(ModelError, match="move_forward.*how far it came"):
        _text(_client(), _request(said, done=halfway))


def test_the_last_answer_can_be_repeated() -> None:
    assert _text(_client(), _request("do that twice instead", before="<nod/>")) == "<wait><nod/></wait><nod/>"


def test_routines_are_those_of_the_store_at_that_moment(tmp_path: Path) -> None:
    store = RoutineStore(tmp_path / "r.json", clock=lambda: 0.0)
    client = _client(store)
    with pytest.raises(ModelError):
        _text(client, _request("perform bow"))
    store.save("bow", "", "<nod/>")
    assert _text(client, _request("perform bow")) == '<run name="bow"/>'


def test_an_exchanged_skill_set_is_followed() -> None:
    skills = skills_of(SETS / "quadruped.py")
    client = OfflineClient(RobotFacts("", "", skills))
    with pytest.raises(ModelError):
        _text(client, _request("smile"))
    skills.replace(skills_of(SETS / "desk_spider.py"))
    assert _text(client, _request("smile")) == '<display_face face="smile"/>'
