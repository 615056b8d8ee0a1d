# SPDX-License-Identifier: Apache-2.0
"""The OpenAI client with llama.cpp's own server and a real small model: its answers are poor, what comes of them is not."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("xllamacpp", reason="make test-extras installs it")
from gbnf import Gbnf
from small_model import SmallModel

from bench.bench_table3 import patterns
from bench.performing import SETTINGS
from function_tokens.mapper import Mapped, Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import TokenKind
from planners.models.base import CancelToken, Finished, Message, ModelError, ModelRequest, Reading, TextDelta, Usage
from planners.models.config import ModelConfig
from planners.models.factory import make_client
from planners.prompts.grammar import StreamGrammar
from planners.prompts.prompt import GrammarOptions, RobotFacts
from planners.strategies.stream.stream_planner import StreamPlanner
from skill_kernel.codes import ModelCode
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

pytestmark = pytest.mark.timeout(900)
SYSTEM = "You are a friendly robot."
PATIENT = {"first_token_s": 200.0, "silence_s": 60.0}
"""On a machine that is busy with something else a small model is slow, too."""
WORDS = ("Nod twice.", "Walk forward and sing.", "What is your name?", "Dance!", "Show me that you are happy.")


@pytest.fixture(scope="module")
def model() -> Iterator[SmallModel]:
    with SmallModel() as running:
        yield running


class Robot:
    """Hold a shipped robot as far as it writes prompts and reads streams."""

    def __init__(self, name: str) -> None:
        config = RobotConfig.load(name)
        skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
        options = GrammarOptions(config.builtin_names, config.limits)
        self.skills = skills
        self.facts = RobotFacts(config.name, config.description, skills, options)
        self.mapper = Mapper(config, skills)
        self.grammar = StreamGrammar(skills, options)

    def request(self, words: str, prompt: str = "short", tokens: int = 120) -> ModelRequest:
        """Return the question of strategy `stream`."""
        return StreamPlanner(self.facts, list, {**SETTINGS, "prompt": prompt, "max_output_tokens": tokens}).begin(words)

    def refused(self, stream: str) -> list[Any]:
        """Return what the mapper refuses of a stream. A half-written end is dropped, as on a robot."""
        parser = StreamingParser("lenient")
        tokens = [*parser.feed(stream), *parser.close()]
        mapped = [self.mapper.map(token.name, token.attrs) for token in tokens if token.name and token.kind is not TokenKind.RF]
        return [one for one in mapped if not isinstance(one, Mapped)]


ROBOTS = {name: Robot(name) for name in ("coco", "kalos")}


def answer(model: SmallModel, request: ModelRequest, **settings: Any) -> list[Any]:
    """Return the events of an answer, each with the seconds until it came."""
    entry = {
        "provider": "openai",
        "model": "smollm2",
        "base_url": model.url,
        "retry": {"max_retries": 0},
        **PATIENT,
        **settings,
    }
    client = make_client(ModelConfig.model_validate(entry))
    client.prepare()
    began = time.monotonic()
    try:
        return [
            (time.monotonic() - began, event)
            for event in client.stream(replace(request, deadline_s=240.0), cancel=CancelToken())
        ]
    finally:
        client.close()


def text_of(events: list[Any]) -> str:
    return "".join(event.text for _, event in events if isinstance(event, TextDelta))


def last(events: list[Any], kind: type) -> Any:
    return [event for _, event in events if isinstance(event, kind)][-1]


def test_the_text_comes_while_it_is_written_and_the_counts_are_the_models_own(model: SmallModel) -> None:
    request = ModelRequest(SYSTEM, (Message("user", "Tell me a story about a dog."),), max_output_tokens=60)
    events = answer(model, request)
    times = [at for at, event in events if isinstance(event, TextDelta)]
    usage = last(events, Usage)
    # Of 60 tokens, those that come while the reader waits for a processor come as one piece: 20 pieces on a busy machine.
    assert len(times) > 10 and times[-1] - times[0] > 0.2
    assert usage.prompt_tokens == model.prompt_tokens(("system", SYSTEM), ("user", "Tell me a story about a dog."))
    assert usage.completion_tokens == 60 and abs(model.tokens(text_of(events)) - 60) <= 2
    assert last(events, Finished) == Finished("length")


def test_an_answer_that_is_complete_stops_by_itself(model: SmallModel) -> None:
    only = replace(ROBOTS["coco"].request("Nod."), grammar=_Fixed('root ::= "<plan_done/>"\n'))
    events = answer(model, only, grammar="llama.cpp")
    assert text_of(events) == "<plan_done/>" and last(events, Finished) == Finished("stop")


class _Acting(StreamGrammar):
    """Leave a model that would rather talk nothing but to act first."""

    @property
    def rules(self) -> Mapping[str, str]:
        return {**super().rules, "root": "part part part text? end?"}


class _Fixed(StreamGrammar):
    def __init__(self, text: str) -> None:
        self._text = text

    def gbnf(self) -> str:
        return self._text


def test_a_cancelled_answer_is_generated_no_further(model: SmallModel) -> None:
    entry = {"provider": "openai", "model": "smollm2", "base_url": model.url, "grammar": "llama.cpp", **PATIENT}
    client, cancel, heard = make_client(ModelConfig.model_validate(entry)), CancelToken(), 0
    endless = _Fixed("root ::= word root\nword ::= [a-z]+ [ ]\n")
    request = ModelRequest(SYSTEM, (Message("user", "Count."),), max_output_tokens=4000, grammar=endless)
    with pytest.raises(ModelError) as caught:
        for event in client.stream(request, cancel=cancel):
            heard += isinstance(event, TextDelta)
            if heard == 10:
                assert model.busy()
                cancel.cancel()
    client.close()
    assert caught.value.code is ModelCode.MODEL_CANCELLED and heard < 40
    assert model.idle_within(2.0), "the server goes on generating for nobody"


def test_a_prompt_that_is_read_slowly_is_waited_for(model: SmallModel) -> None:
    with SmallModel(batch=32) as slow:
        story = " ".join(f"On day {n} the robot counted {n * 37 % 101} apples." for n in range(60))
        request = ModelRequest(SYSTEM, (Message("user", story),), max_output_tokens=5)
        events = answer(slow, request, grammar="llama.cpp", first_token_s=1.0)
        read = [event for _, event in events if isinstance(event, Reading)]
        first_s = next(at for at, event in events if isinstance(event, TextDelta))
        assert first_s > 1.5 and len(read) > 10 and read[-1].read == read[-1].total == last(events, Usage).prompt_tokens
        assert [r.read for r in read] == sorted(r.read for r in read)
        unlike = ModelRequest("Another one.", (Message("user", story),), max_output_tokens=5)
        with pytest.raises(ModelError, match="first_token_s"):
            answer(slow, unlike, first_token_s=1.0)


@pytest.mark.parametrize("server", ["llama.cpp", "ollama"])
@pytest.mark.parametrize("name", ROBOTS)
def test_nothing_that_a_bound_model_writes_is_refused(model: SmallModel, name: str, server: str) -> None:
    robot = ROBOTS[name]
    asked = [replace(robot.request(words, tokens=90), grammar=_Acting(robot.skills, robot.facts.options)) for words in WORDS]
    written = [text_of(answer(model, request, grammar=server)) for request in asked]
    assert [refused for stream in written for refused in robot.refused(stream)] == [], written
    # As much as it takes for the law above to say something: one tag a question, whatever so small a model makes of them.
    assert sum(stream.count("<") for stream in written) >= len(WORDS), written


@pytest.mark.parametrize("name", ROBOTS)
def test_the_grammar_library_of_vllm_reads_the_grammar(name: str) -> None:
    xgrammar = pytest.importorskip("xgrammar")
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo([bytes([n]) for n in range(256)]))
    text = ROBOTS[name].grammar.gbnf()
    compiled, strings, chance = compiler.compile_grammar(text), Gbnf(text), random.Random(1)
    for _ in range(100):
        assert xgrammar.GrammarMatcher(compiled).accept_string(stream := strings.draw(chance)), stream
    for wrong in ("<fly/>", '<sit speed="1"/>', "<"):
        assert not xgrammar.GrammarMatcher(compiled).accept_string(wrong + " "), wrong


@pytest.mark.parametrize("name", ROBOTS)
def test_the_short_prompt_is_short_and_its_first_token_comes_soon_once_it_is_cached(model: SmallModel, name: str) -> None:
    robot, figures = ROBOTS[name], []
    for prompt in ("short", "full"):
        firsts = []
        for n in range(21):
            request = robot.request(f"{WORDS[n % len(WORDS)]} This is request {n}.", prompt, tokens=4)
            events = answer(model, request, grammar="llama.cpp")
            firsts.append(next(at for at, event in events if isinstance(event, TextDelta)))
        tokens = model.prompt_tokens(("system", request.system), ("user", request.messages[-1].text))
        middle, high = statistics.median(firsts[1:]), sorted(firsts[1:])[-2]
        figures.append((prompt, tokens, middle))
        print(
            f"\n{name} {prompt}: {tokens} tokens, first token uncached {firsts[0]:.2f} s, cached {middle:.2f} s ({high:.2f} s)"
        )
    (_, short_tokens, short_s), (_, full_tokens, _) = figures
    assert short_tokens <= 600 < full_tokens
    assert short_s <= 1.0, "0.5 s is the aim on two quiet cores; a loaded machine takes longer"


def test_native_calls_in_the_frame_of_open_models_have_more_tokens_than_tags(model: SmallModel) -> None:
    for pattern in patterns():
        framed = [f'<tool_call>\n{{"name": "{c.name}", "arguments": {c.written}}}\n</tool_call>\n' for c in pattern.calls]
        assert 2.0 < model.tokens("".join(framed)) / model.tokens(pattern.stream) < 3.5
        tag = pattern.stream[: pattern.stream.index(">") + 1]
        assert 2.0 < model.tokens(framed[0].removesuffix("\n</tool_call>\n")) / model.tokens(tag) < 3.0
