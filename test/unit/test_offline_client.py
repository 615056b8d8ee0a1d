# SPDX-License-Identifier: Apache-2.0
"""The offline model speaks the protocol of the models, says what it is, and ends in named errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from bench.dry_run import skills_of
from function_tokens.routines import RoutineStore
from planners.language.client import NAME, OfflineClient
from planners.models.base import CancelToken, Finished, Message, ModelError, ModelRequest, TextDelta, Usage
from planners.prompts.prompt import CallReport, GrammarOptions, RobotFacts, build_turn_prompt
from skill_kernel.codes import ModelCode
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

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


def test_a_robot_that_does_not_speak_is_given_nothing_to_say_of_what_failed() -> None:
    silent = OfflineClient(RobotFacts("desk", "", []))
    assert _text(silent, _request("nod", turn=1, done=[CallReport("nod", {}, "FAILED", "stuck")])) == "<plan_done/>"


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


@cache
def _of(robot: str) -> OfflineClient:
    config = RobotConfig.load(robot)
    skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    return OfflineClient(RobotFacts(config.name, "", skills, GrammarOptions(config.builtin_names, config.limits)))


@pytest.mark.parametrize(
    ("said", "robot", "source"),
    [
        ("can you knock twice?", "coco", '<spider_arm_knock times="2"/>'),
        ("can you nod once", "coco", '<head_act action="nod"/>'),
        ("will you bark twice?", "kalos", '<bark times="2"/>'),
        ("could you please sit down?", "kalos", "<sit/>"),
        ("would you nod", "kalos", "<nod/>"),
        ("can you please take a picture", "kalos", "<take_pic/>"),
        ("can you dance for me?", "coco", _of("coco").answer(_request("dance"))),
        ("坐下好吗？", "kalos", "<sit/>"),
        ("你能敲两下桌子吗？", "coco", '<spider_arm_knock times="2"/>'),
        ("请你坐下行吗", "coco", "<spider_sit/>"),
    ],
)
def test_a_question_that_only_asks_politely_is_done(said: str, robot: str, source: str) -> None:
    assert _of(robot).answer(_request(said)) == source


@pytest.mark.parametrize(
    ("said", "robot", "answer"),
    [
        ("can you walk?", "coco", "Yes, say “walk”."),
        ("can you walk", "kalos", "Yes, say “walk”."),
        ("Coco, can you walk 20 cm", "coco", "Yes, say “walk 20 cm”."),
        ("will you sit down?", "kalos", "Yes, say “sit down”."),
        ("can you jump?", "kalos", "Not that I know; you can say: "),
        ("can you fly three times?", "coco", "Not that I know; you can say: "),
        ("你能坐下吗？", "kalos", "可以，请说“坐下”。"),
    ],
)
def test_a_question_about_ability_is_answered_and_moves_nothing(said: str, robot: str, answer: str) -> None:
    assert _of(robot).answer(_request(said)).startswith(answer)


@pytest.mark.parametrize("robot", ["coco", "kalos"])
@pytest.mark.parametrize(
    "said", ["你能不能坐下", "你可以走吗", "did you sit down twice?", "sit down?", "你坐下了两次吗", "can you not walk"]
)
def test_a_doubtful_question_moves_nothing(said: str, robot: str) -> None:
    try:
        answer = _of(robot).answer(_request(said))
    except ModelError as error:
        assert error.code is ModelCode.MODEL_NOT_UNDERSTOOD
    else:
        assert not answer.startswith("<") or answer.startswith("<query_memory ")


@pytest.mark.parametrize(
    ("said", "robot", "other"),
    [
        ("kalos, sit down", "coco", "kalos"),
        ("Kalos sit down", "coco", "Kalos"),
        ("tell kalos to bark", "coco", "kalos"),
        ("Kalos，坐下", "coco", "Kalos"),
        ("coco坐下", "kalos", "coco"),
        ("hey rex, sit down", "kalos", "rex"),
    ],
)
def test_what_is_said_to_another_robot_names_it(said: str, robot: str, other: str) -> None:
    with pytest.raises(ModelError) as caught:
        _of(robot).answer(_request(said))
    assert f"ghostshell chat --robot {other}" in caught.value.message and robot in caught.value.message
    assert len(caught.value.message) <= 160 and "\n" not in caught.value.message


@pytest.mark.parametrize(
    "said", ["go on", "go ahead", "proceed", "wait", "never mind", "pause the music", "keep barking", "继续", "继续前进"]
)
def test_what_would_steer_a_task_moves_nothing_where_none_runs(said: str) -> None:
    with pytest.raises(ModelError, match="There is no task|没有任务"):
        _of("kalos").answer(_request(said))
    assert _of("kalos").read_wholly(said) == ""


@pytest.mark.parametrize("said", ["carefully, sit down", "sit down, kalo, then fly", "kalos is nice", "tell me, sit"])
def test_no_other_robot_is_taken_for_meant(said: str) -> None:
    with pytest.raises(ModelError) as caught:
        _of("kalos").answer(_request(said))
    assert "--robot" not in caught.value.message


@pytest.mark.parametrize(
    ("said", "robot", "told"),
    [
        ("walk forward", "kalos", "<move_forward/>You did not say how far; I take 1 m."),
        ("take two steps back", "coco", '<spider_run_distance distance="-10"/>You did not say how far; I take 10 cm.'),
        ("walk and say hello", "coco", "You did not say how far; I take 20 cm.<spider_run_distance/>hello"),
        ("往前走", "kalos", "<move_forward/>没说多远，我按1 m走。"),
        ("walk 1 m", "kalos", '<move_forward distance_m="1"/>'),
        ("turn left", "kalos", '<rotate angle_deg="90"/>'),
    ],
)
def test_a_way_whose_length_was_not_said_is_told_while_it_is_walked(said: str, robot: str, told: str) -> None:
    assert _of(robot).answer(_request(said)) == told


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
