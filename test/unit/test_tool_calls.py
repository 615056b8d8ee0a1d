# SPDX-License-Identifier: Apache-2.0
"""Native calls are function tokens in another dialect: the same calls, laws and refusals, through both SDKs over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shell_kit import mapper
from thorough import examples

from bench.dry_run import DryRun, dry_run
from bench.performing import SETTINGS
from bench.simulated_model.model_server import Answer, Fault, ModelServer, ToolUse
from bench.simulated_model.prompt import results_of
from bench.simulated_model.service import serve
from bench.simulated_model.table import load_table
from bench.simulated_model.where import default_table
from function_tokens.mapper import Mapped, Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import TokenKind
from planners.models.base import (
    CancelToken,
    Finished,
    Message,
    ModelError,
    ModelRequest,
    NativeCall,
    Surroundings,
    TextDelta,
    prompt_tokens,
)
from planners.models.config import ModelConfig
from planners.models.factory import make_client
from planners.models.providers import _Translator
from planners.models.tool_calls import MAX_ARGUMENTS, CallWriter, answered, with_results
from planners.prompts.grammar import StreamGrammar, Tool
from planners.prompts.prompt import CallReport, GrammarOptions, RobotFacts
from planners.strategies.stream.stream_planner import StreamPlanner
from planners.strategies.turns import PlanEnded, TurnResult
from skill_kernel.codes import CallCode, ModelCode
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

WALK = Tool("walk", "Walk.", {"type": "object", "properties": {"s": {"type": "number"}}})
REQUEST = ModelRequest("You are a robot.", (Message("user", "walk"),), tools=(WALK,))


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def asked(provider: str, server: ModelServer, request: ModelRequest = REQUEST) -> Iterator[Any]:
    url = server.openai_url if provider == "openai" else server.anthropic_url
    client = make_client(
        ModelConfig.model_validate({"provider": provider, "model": "m", "base_url": url}), surroundings=Surroundings(environ={})
    )
    try:
        yield from client.stream(request, cancel=CancelToken())
    finally:
        client.close()


def written(provider: str, *calls: ToolUse, text: str = "", finish: str = "", limit: int = 2048) -> tuple[str, str]:
    """Return the function tokens of an answer, and how it ended."""
    with ModelServer(Answer(text, tool_calls=calls, finish=finish)) as server:
        events = list(asked(provider, server, replace(REQUEST, max_output_tokens=limit)))
    return "".join(e.text for e in events if isinstance(e, TextDelta)), next(
        e.reason for e in events if isinstance(e, Finished)
    )


# -- the answer --------------------------------------------------------------------------------------------------------


def test_text_and_calls_become_one_stream_and_the_functions_are_offered(provider: str) -> None:
    calls = (ToolUse("walk", {"s": 2, "sync": True}), ToolUse("nod", {}))
    with ModelServer(Answer("Well < then.", tool_calls=calls)) as server:
        events = list(asked(provider, server))
    text = "".join(e.text for e in events if isinstance(e, TextDelta))
    assert text == 'Well < then.<walk s="2" sync="true"/><nod/>' and events[-1] == Finished("stop")
    (tool,) = server.requests[0].body["tools"]
    if provider == "openai":
        assert tool == {"type": "function", "function": {"name": "walk", "description": "Walk.", "parameters": WALK.parameters}}
    else:
        shown = {"name": "walk", "description": "Walk.", "input_schema": WALK.parameters}
        assert tool == {**shown, "eager_input_streaming": True}


def test_a_call_is_written_as_soon_as_its_arguments_are_complete(provider: str) -> None:
    with ModelServer(Answer(tool_calls=(ToolUse("walk", {"s": 2}), ToolUse("nod", {"s": 1})))) as server:
        server.inject(Fault.silence(after_chars=8, seconds=30.0))  # the length of the first call's arguments
        events = asked(provider, server)
        assert next(e.text for e in events if isinstance(e, TextDelta)) == '<walk s="2"/>' and not server.completed
        events.close()


def test_native_calls_of_a_model_that_was_offered_no_tools_are_nothing(provider: str) -> None:
    with ModelServer(Answer("Hello", tool_calls=(ToolUse("walk", {}),))) as server:
        events = list(asked(provider, server, replace(REQUEST, tools=())))
    assert [e for e in events if isinstance(e, TextDelta | Finished)][1:] == [TextDelta("o"), Finished("tool_calls")]
    assert "tools" not in server.requests[0].body


HOSTILE = {
    "unfinished": ("walk", '{"s": 2, "', CallCode.UNKNOWN_ARGUMENT),
    "no object": ("walk", "[1, 2]", CallCode.UNKNOWN_ARGUMENT),
    "a text": ("walk", '"s"', CallCode.UNKNOWN_ARGUMENT),
    "no JSON": ("walk", "s=2", CallCode.UNKNOWN_ARGUMENT),
    "not finite": ("walk", '{"s": NaN}', CallCode.UNKNOWN_ARGUMENT),
    "nested without end": ("walk", '{"s": ' + "[" * 5_000, CallCode.UNKNOWN_ARGUMENT),
    "nested deeply": ("walk", '{"s": ' + "[" * 5_000 + "]" * 5_000 + "}", CallCode.UNKNOWN_ARGUMENT),
    "tags in a name": ("walk", '{"s=\\"1\\"/><nod/><walk s": 2}', CallCode.UNKNOWN_ARGUMENT),
    "a nameless argument": ("walk", '{"": 2}', CallCode.UNKNOWN_ARGUMENT),
    "another type": ("walk", '{"s": {"a": [1]}}', CallCode.INVALID_ARGUMENT),
    "null": ("walk", '{"s": null}', CallCode.INVALID_ARGUMENT),
    "unknown function": ("fly", '{"s": 2}', CallCode.UNKNOWN_FUNCTION),
    "tags in a function": ("walk/><nod", "{}", CallCode.UNKNOWN_FUNCTION),
    "a nameless function": ("", "{}", CallCode.UNKNOWN_FUNCTION),
    "a thought": ("thinking", "{}", CallCode.UNKNOWN_FUNCTION),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_nobody_understands_is_refused_and_ends_the_turn_as_in_xml(provider: str, case: str) -> None:
    name, arguments, code = HOSTILE[case]
    text, _ = written(provider, ToolUse(name, arguments), ToolUse("nod", {"s": 1}))
    run = dry_run(text, mapper())
    assert [(call.outcome, call.code) for call in run.calls if call.function != "nod"] == [("REFUSED", code)]
    assert run.reason == "failure" and all(call.outcome != "DONE" for call in run.calls)
    assert max(len(call.message) for call in run.calls) < 600


ENDLESS = '{"s": "' + "9" * (MAX_ARGUMENTS + 5000)


def test_arguments_without_end_end_the_stream_at_the_limit_of_an_attribute() -> None:
    ends_at_the_limit(parts((0, "", "walk", ""), *((0, "", "", ENDLESS[at : at + 50]) for at in range(0, len(ENDLESS), 50))))


@pytest.mark.slow
def test_arguments_without_end_of_a_provider_end_the_stream_there_too(provider: str) -> None:
    with ModelServer(Answer(tool_calls=(ToolUse("walk", ENDLESS), ToolUse("nod", {})))) as server:
        request = replace(REQUEST, max_output_tokens=1_000_000)
        ends_at_the_limit("".join(e.text for e in asked(provider, server, request) if isinstance(e, TextDelta)))


def ends_at_the_limit(text: str) -> None:
    assert len(text) < MAX_ARGUMENTS + 200
    run = dry_run(text, mapper())
    assert not run.calls and run.repairs == ["attribute_length is over its limit of 65536; raise it or write less"]


def test_a_call_that_is_cut_off_is_refused_and_not_begun_with_half_its_arguments(provider: str) -> None:
    for limit in (1, 2):  # behind the name, and within the arguments
        text, reason = written(provider, ToolUse("walk", {"s": 2}), limit=limit)
        (call,) = dry_run(text, mapper()).calls
        assert (reason, call.outcome) == ("length", "REFUSED")


def test_a_function_without_arguments_needs_none(provider: str) -> None:
    assert written(provider, ToolUse("nod", ""), ToolUse("nod", ""))[0] == "<nod/><nod/>"


@pytest.mark.parametrize(("text", "says"), [("<think>I will", "reasoning block <think>"), ('Well <walk s="1', "tag <walk")])
def test_a_call_behind_unfinished_markup_in_the_text_is_lost_with_a_report(text: str, says: str) -> None:
    run = dry_run(text + parts((0, "", "nod", "{}")), mapper())
    assert not any(call.function == "nod" for call in run.calls) and says in run.repairs[-1]


def test_arguments_that_a_server_gives_with_the_beginning_of_a_call_are_not_lost() -> None:
    block = SimpleNamespace(type="tool_use", id="a", name="walk", input={"s": 2})
    translate = _Translator(CallWriter())
    assert translate(SimpleNamespace(type="content_block_start", index=0, content_block=block)) == [TextDelta('<walk s="2"/>')]
    assert translate(SimpleNamespace(type="message_stop"))[0] == TextDelta("")


def parts(*deltas: tuple[Any, str, str, str]) -> str:
    writer = CallWriter()
    return "".join(writer.feed(*delta) for delta in deltas) + writer.end()


def test_ids_do_not_matter_and_each_call_counts() -> None:
    assert parts((0, "a", "nod", "{}"), (1, "a", "nod", "{}")) == "<nod/><nod/>"
    assert parts((0, "a", "nod", "{}"), (0, "b", "nod", "{}")) == "<nod/><nod/>", "one index for all, as some servers have it"
    assert parts((None, "", "nod", "{}"), (None, "", "nod", "{}")) == "<nod/><nod/>"
    assert parts((0, "a", "nod", ""), (0, "a", "nod", '{"s"'), (0, "", "", ":1}"), (0, "a", "nod", "")) == '<nod s="1"/>'


def test_what_follows_complete_arguments_is_refused_by_itself() -> None:
    first, second = dry_run(parts((0, "a", "nod", "{}"), (0, "", "", '{"s": 1}')), mapper()).calls
    assert (first.outcome, second.outcome) == ("DONE", "REFUSED")


def test_calls_whose_parts_come_mixed_are_refused() -> None:
    text = parts((0, "a", "nod", '{"s"'), (1, "b", "walk", '{"s"'), (0, "", "", ":1}"), (1, "", "", ":1}"))
    assert [call.outcome for call in dry_run(text, mapper()).calls] == ["REFUSED", *["DROPPED"] * 3]


JSONISH = st.one_of(
    st.text(max_size=20),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ).map(json.dumps),
)


@settings(max_examples=examples(1000))
@given(st.text(max_size=8), JSONISH)
def test_whatever_a_call_holds_it_is_one_tag_and_nothing_beside_it(name: str, arguments: str) -> None:
    parser = StreamingParser()
    tokens = [*parser.feed(parts((0, "", name, arguments))), *parser.close()]
    assert [token.kind for token in tokens] == [TokenKind.SCF]


@pytest.mark.parametrize("delta", [(0, "a", "nod", {"s": 1}), (0, "a", None, "{}"), (0, 7, "nod", "{}")])
def test_a_part_that_is_no_text_is_no_valid_answer(delta: Any) -> None:
    with pytest.raises(ValueError, match="no text"):
        CallWriter().feed(*delta)


def test_many_ends_of_arguments_take_no_long_time() -> None:
    writer, began = CallWriter(), time.perf_counter()
    writer.feed(0, "", "walk", '{"s": "')
    for _ in range(MAX_ARGUMENTS // 8):
        writer.feed(0, "", "", "}" * 7)
    assert time.perf_counter() - began < 5.0


# -- the same calls in both dialects -----------------------------------------------------------------------------------

VALUES = st.one_of(
    st.floats(0, 5).map(lambda x: round(x, 2)),
    st.integers(-3, 3),
    st.booleans(),
    st.sampled_from(["left", "right", "", "1.5", "2 s", "a \"b\" <c> & 'd'\n\t", "ü 一", "}{"]),
    st.lists(st.integers(0, 3), max_size=2),
)
CALLS = st.tuples(
    st.sampled_from(["walk", "turn", "nod", "swing", "both_ears", "music", "ping", "sleep", "stop", "observe", "fly"]),
    st.dictionaries(st.sampled_from(["s", "side", "seconds", "channel", "sync", "speed"]), VALUES, max_size=2),
)


def as_xml(name: str, arguments: dict[str, Any]) -> str:
    shown = {k: v if isinstance(v, str) else json.dumps(v) for k, v in arguments.items()}
    return f"<{name}{''.join(f' {k}={quoteattr(v)}' for k, v in shown.items())}/>"


def facts(run: DryRun) -> list[Any]:
    return [run.reason, *((c.function, c.arguments, c.outcome, c.code, c.start_s, c.end_s) for c in run.calls)]


@settings(max_examples=examples(800))
@given(st.lists(st.one_of(CALLS, st.sampled_from(["Hello. ", "One, two. "])), max_size=8), st.data())
def test_any_list_of_calls_runs_as_it_does_in_xml_however_it_is_cut(said: Sequence[Any], data: st.DataObject) -> None:
    writer, native, plain = CallWriter(), "", ""
    for number, one in enumerate(said):
        if isinstance(one, str):
            native, plain = native + writer.end() + one, plain + one
            continue
        plain += as_xml(*one)
        text = json.dumps(one[1], ensure_ascii=data.draw(st.booleans()))
        ends = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
        native += writer.feed(number, f"id{number}", one[0], "")
        for begin, end in zip([0, *ends], [*ends, len(text)], strict=True):
            native += writer.feed(number, "", "", text[begin:end])
    assert facts(dry_run(native + writer.end(), mapper())) == facts(dry_run(plain, mapper()))


# -- the functions as tools --------------------------------------------------------------------------------------------


def tools_of(name: str) -> tuple[Mapper, tuple[Tool, ...], SkillRegistry]:
    config = RobotConfig.load(name)
    skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    grammar = StreamGrammar(skills, GrammarOptions(config.builtin_names, config.limits), ["greet"])
    return Mapper(config, skills), grammar.tools(), skills


def extremes(schema: dict[str, Any]) -> list[Any]:
    """Return values at the bounds of a schema."""
    if "enum" in schema:
        return list(schema["enum"])
    if schema.get("type") == "boolean":
        return [True, False]
    if schema.get("type") in ("number", "integer"):
        inside = 0.01 if schema["type"] == "number" else 1
        low = schema["exclusiveMinimum"] + inside if "exclusiveMinimum" in schema else schema.get("minimum", 0)
        return [low, schema.get("maximum", low)]
    return ["legs"] if schema.get("default") == "" else ["text"]


@pytest.mark.parametrize("robot", ["coco", "kalos"])
def test_all_that_a_tool_allows_maps_without_refusal(robot: str) -> None:
    mapped_by, tools, skills = tools_of(robot)
    built_in = {mapped_by.robot.builtin_names.get(tool.name, tool.name) for tool in tools} - set(skills.names)
    assert set(skills.names) < {tool.name for tool in tools} and built_in == {"sleep", "observe", "stop", "plan_done", "run"}
    for tool in tools:
        assert json.loads(json.dumps(tool.parameters)) == tool.parameters and len(tool.description) <= 1024
        properties = {k: v for k, v in tool.parameters["properties"].items() if tool.name != "stop"}
        least = {name: extremes(properties[name])[0] for name in tool.parameters["required"]}
        for name, value in [("sync", None), *((n, v) for n, p in properties.items() for v in extremes(p))]:
            given = {**least, **({} if value is None else {name: value})}
            attrs = {k: v if isinstance(v, str) else json.dumps(v) for k, v in given.items()}
            mapped = mapped_by.map(tool.name, attrs)
            assert isinstance(mapped, Mapped) and not mapped.clamped, (tool.name, attrs, mapped)


def test_the_robots_own_limits_bound_its_tools() -> None:
    tools = {tool.name: tool.parameters["properties"] for tool in tools_of("coco")[1]}
    yaw = tools["head_pose"]["yaw"]
    assert (yaw["minimum"], yaw["maximum"]) == (-65, 65)


# -- turns -------------------------------------------------------------------------------------------------------------


def planner(**more: Any) -> StreamPlanner:
    coco = RobotConfig.load("coco")
    skills = SkillRegistry.from_modules(coco.skills, text_skill=coco.text_skill)
    about = RobotFacts("coco", "A robot.", skills, GrammarOptions(coco.builtin_names, coco.limits))
    return StreamPlanner(about, list, {**SETTINGS, "dialect": "tools", **more})


def done(function: str, outcome: str = "DONE", **arguments: Any) -> CallReport:
    return CallReport(function, arguments, outcome)


def test_a_request_offers_tools_and_says_nothing_of_xml() -> None:
    request = planner().begin("nod")
    assert request.grammar is None and "head_act" in {tool.name for tool in request.tools}
    assert "<" not in request.system and "observe ends your answer" in request.system
    assert prompt_tokens(request) > prompt_tokens(replace(request, tools=())) + 1000
    assert request.sha256() != replace(request, tools=()).sha256()


EARS = '<ear_swing side="left"/><ear_swing side="right"/>'


def second_turn() -> ModelRequest:
    made = planner()
    made.begin("swing your ears")
    made.wrote(f"Look!{EARS}<observe/>")
    reports = [done("text"), done("ear_swing", "FAILED", side="right", speed=60.0), done("ear_swing", side="left", speed=60.0)]
    request = made.follow(TurnResult("observe", calls=reports))
    assert isinstance(request, ModelRequest)
    return request


def test_results_go_back_as_results_of_the_calls_they_are_of() -> None:
    request = second_turn()
    said = request.messages[1]
    assert said.text == "Look!" and [call.name for call in said.calls] == ["ear_swing", "ear_swing", "observe"]
    left, right = (json.loads(call.result) for call in said.calls[:2])
    assert (left["outcome"], left["arguments"]["side"]) == ("DONE", "left")
    assert (right["outcome"], right["arguments"]["side"]) == ("FAILED", "right")
    assert said.calls[2].result == "no result is known"
    assert [report.function for report in results_of(request.messages[-1].text)] == ["text"], "what belongs to no call"


def test_both_providers_are_given_calls_and_results_in_their_own_form(provider: str) -> None:
    with ModelServer("Fine.") as server:
        list(asked(provider, server, second_turn()))
    messages = server.requests[0].body["messages"]
    if provider == "openai":
        assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "tool", "tool", "user"]
        said, results = messages[2], messages[3:6]
        assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"side": "left"}
        assert [c["id"] for c in said["tool_calls"]] == [r["tool_call_id"] for r in results]
        assert said["content"] == "Look!" and '"DONE"' in results[0]["content"]
    else:
        assert [m["role"] for m in messages] == ["user", "assistant", "user"]
        said, then = messages[1]["content"], messages[2]["content"]
        assert [part["type"] for part in said] == ["text", "tool_use", "tool_use", "tool_use"]
        assert [part["type"] for part in then] == ["tool_result", "tool_result", "tool_result", "text"]
        assert said[1]["input"] == {"side": "left"} and '"DONE"' in then[0]["content"]
        assert [c["id"] for c in said[1:]] == [r["tool_use_id"] for r in then[:3]]


def test_the_next_plan_knows_what_became_of_the_calls_of_the_last_one() -> None:
    made = planner()
    made.begin("nod")
    made.wrote('<head_act action="nod"/>')
    assert made.follow(TurnResult("end", calls=[done("head_act", action="nod", duration=1.5)])) == PlanEnded()
    (call,) = made.begin("again").messages[1].calls
    assert (call.name, json.loads(call.result)["outcome"]) == ("head_act", "DONE")


def test_an_answer_of_thoughts_alone_leaves_no_empty_turn() -> None:
    made = planner()
    made.begin("nod")
    made.wrote("<think>Shall I nod?</think>")
    assert [message.role for message in made.begin("again").messages] == ["user"]


def test_history_is_bounded_with_its_calls() -> None:
    made = planner(history_tokens=300)
    for number in range(30):
        made.begin(f"instruction {number}")
        made.wrote(f'<head_act action="nod" duration="{number}"/>' * 3)
    request = made.begin("stand up")
    assert prompt_tokens(replace(request, system="", tools=())) < 400
    assert any("29" in str(call) for message in request.messages for call in message.calls)


def test_an_answer_is_read_back_with_typed_arguments_and_open_elements_as_they_stand() -> None:
    message = answered('Hi <b>you</b> &amp;<walk s="2" side="left" odd="NaN" n="007"/> there<nod')
    assert message.text == "Hi <b>you</b> &amp; there"
    assert message.calls == (NativeCall("walk", {"s": 2, "side": "left", "odd": "NaN", "n": "007"}),)


def test_a_built_in_under_the_robots_own_name_gets_its_result() -> None:
    calls, left = with_results([NativeCall("RUN", {"name": "greet"})], [done("run", name="greet")], {"RUN": "run"})
    assert "DONE" in calls[0].result and not left


# -- servers that take no tools ----------------------------------------------------------------------------------------


def test_the_simulated_model_takes_no_tools(provider: str) -> None:
    with serve(load_table(default_table())) as server, pytest.raises(ModelError, match="dialect:=xml"):
        list(asked(provider, server))


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (500, "tools param requires --jinja flag"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    ],
)
def test_a_server_that_takes_no_tools_is_told_of_at_once_with_the_remedy(provider: str, status: int, said: str) -> None:
    with ModelServer("Hello", faults=[Fault.status(status, said=said, times=9)]) as server:
        began = time.monotonic()
        with pytest.raises(ModelError, match="dialect:=xml") as caught:
            list(asked(provider, server))
    assert time.monotonic() - began < 3.0 and len(server.requests) == 1
    assert caught.value.code is ModelCode.MODEL_REFUSED and "--jinja" in caught.value.message
