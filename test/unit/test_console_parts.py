# SPDX-License-Identifier: Apache-2.0
"""Parts of the strategy `console`: replies, transcripts, circles, functions that are missing, and the choice of examples."""

from __future__ import annotations

import ast
import math

import pytest

from bench.tabletop.table import Table
from function_tokens.mapper import Mapper, Refusal
from function_tokens.markup import value_text
from planners.learned import Lesson, Level, State
from planners.models.base import tokens_in
from planners.prompts.prompt import GrammarOptions, RobotFacts
from planners.strategies.console.api import Api, SkillCall
from planners.strategies.console.examples import Example, Vector, most_similar, similarity, word_embedding
from planners.strategies.console.functions import bound_names, definition, undefined_calls
from planners.strategies.console.lessons import LEARNING, contradicted, fault_of, level_of, tidied
from planners.strategies.console.prompts import Prompts
from planners.strategies.console.rehearsal import rehearsed
from planners.strategies.console.replies import complete, is_circle, statement, unfenced
from planners.strategies.console.transcript import Entry, instructions, newest, read, written
from skill_kernel import SkillReturn
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

WAIT = "wait_for_trigger()"


@pytest.mark.parametrize(
    ("reply", "taken"),
    [
        (" put(1)\n'success'\n", "put(1)"),
        (">>> put(1)\n>>> put(2)", "put(1)"),
        ("```python\nput(1)\n```\nThat is all.", "put(1)"),
        ("<think>put(3)?</think>\nput(1)", "put(1)"),
        ("x = 1\n... y = 2\n... x + y\n3", "x = 1\ny = 2\nx + y"),
        ("for x in y:\n    put(x)\n    put(x)\n'success'", "for x in y:\n    put(x)\n    put(x)"),
        (
            "for x in y:\n...     put(x)\n... else:\n...     say('done')\nNone",
            "for x in y:\n    put(x)\nelse:\n    say('done')",
        ),
        ("def f(x):\n    return x\nf(1)", "def f(x):\n    return x"),
        (
            "if x:\n    put(1)\nelif y:\n    put(2)\nelse:\n    put(3)\n'done'",
            "if x:\n    put(1)\nelif y:\n    put(2)\nelse:\n    put(3)",
        ),
        ("try:\n    put(1)\nexcept RuntimeError:\n    put(2)\nput(3)", "try:\n    put(1)\nexcept RuntimeError:\n    put(2)"),
        ("def f(x):\n    y = x\n\n    return y\n\nf(1)", "def f(x):\n    y = x\n\n    return y"),
        ("put(1)\nelse:\n    put(2)", "put(1)"),
        ("x = 1 + \\\n  2\n3", "x = 1 + \\\n  2"),
        ("put(1)\n    'indented output'", "put(1)"),
        ("put(1)\n'more:'\n    put(2)", "put(1)"),
        ("# I will put it.\nput(1)", "# I will put it."),
        ("", ""),
        ("\n \n", ""),
        (">>> ", ""),
        ("```", ""),
    ],
)
def test_a_reply_holds_one_statement_and_invented_output(reply: str, taken: str) -> None:
    assert statement(reply) == taken


def asked(instruction: str, question: str, answer: str, code: str) -> list[Entry]:
    return [Entry(WAIT, repr(instruction)), Entry(f"ask({question!r})", repr(answer)), Entry(code)]


def test_an_answer_to_a_question_is_no_instruction_of_a_lesson() -> None:
    text = written([*asked("dance", "which side?", "left", "turn(90)"), Entry(WAIT)])
    dance = Lesson(text, "to the left", Level.PLAN, id=1, state=State.CONFIRMED)
    first = asked("bring a cup", "which hand?", "left", "pick('cup', 'left', speed=1.0)")
    better = [*asked("bring a cup", "which hand?", "left", "pick('cup', 'left', speed=0.5)"), Entry(WAIT)]
    corrected = [Entry(WAIT, "'hello'"), Entry("say('hi')"), *first, Entry(WAIT, "'slower'")]
    assert contradicted(better, [dance]) == [] and contradicted([*asked("dance", "which side?", "left", "turn(180)")], [dance])
    assert level_of(better, corrected, {"pick"}) is Level.SKILL and fault_of(better, corrected) == ""
    assert "is the one that was corrected" in fault_of([*first, Entry(WAIT)], corrected)
    told = [*first, Entry("ask('well?')", "'slower'")]
    assert level_of(better, told, {"pick"}) is Level.SKILL and "was corrected" in fault_of([*first, Entry(WAIT)], told)


def test_a_reply_is_complete_once_the_next_prompt_or_a_fence_follows() -> None:
    text = "```python\n>>> put(1)\n'success'\n>>> put(2)"
    done = [complete(text[:n]) for n in range(len(text) + 1)]
    assert done.index(True) == text.index("\n>>> put(2)") + 4 and all(done[done.index(True) :])
    assert not complete("for x in y:\n    put(x)") and complete("put(1)\n```")


def test_a_transcript_is_read_as_it_was_written() -> None:
    entries = [
        Entry(WAIT, "'go'"),
        Entry("x = 1\n\ny = 2"),
        Entry("# so"),
        Entry("ask('what?')", "'the \"red\" one'"),
        Entry("x", "1"),
    ]
    text = written(entries)
    assert text.startswith(">>> wait_for_trigger()\n'go'\n>>> x = 1\n... \n... y = 2\n>>> # so\n>>> ask(")
    assert read(f"above\n{text}") == entries
    assert instructions(entries) == ["go", 'the "red" one']
    assert read(">>> ") == [Entry("")] and read("nothing") == []


def test_only_what_a_person_said_is_an_instruction() -> None:
    lying = [
        Entry("print('>>> x')", "x"),
        Entry("x = ask('what?')", "'no'"),
        Entry(WAIT, "5"),
        Entry(WAIT, "open('x')"),
        Entry(WAIT),
    ]
    assert instructions(lying) == []
    assert instructions([Entry(f"say('a')\n{WAIT}", "'go'")]) == ["go"], "also at the end of several lines"


def test_whole_interactions_are_left_out_the_oldest_first() -> None:
    entries = [Entry(WAIT, "'a'"), Entry("x"), Entry(WAIT, "'b'"), Entry("y"), Entry(WAIT, "'c'"), Entry("z")]
    assert newest(entries, 1000) == entries
    assert newest(entries, len(written(entries)) - 1) == entries[2:]
    assert newest(entries, 1) == entries[4:], "the last one stays"


@pytest.mark.parametrize(
    ("statements", "circle"),
    [
        ("a", False),
        ("aa", False),
        ("aaa", True),
        ("abab", False),
        ("ababab", True),
        ("xabcabcabc", True),
        ("aba", False),
        ("aab", False),
    ],
)
def test_a_circle_is_three_rounds_of_any_length(statements: str, circle: bool) -> None:
    assert is_circle(list(statements)) is circle


def test_two_rounds_are_a_circle_where_somebody_is_spoken_to() -> None:
    assert is_circle(["say('a')", "say('a')"]) and is_circle(["ask('a')", "x", "ask('a')", "x"])
    assert not is_circle(["say('a')", "say('b')"]) and not is_circle(["essay('a')", "essay('a')"])


def test_undefined_calls_are_found_with_the_call_that_needs_them() -> None:
    code = "y = far(near(x), k=2)\nfor z in y: known(z); len(z)\ndef own(a): return own(a) + deep(a)"
    found = undefined_calls(code, {"known"})
    assert found == {"far": "y = far(near(x), k=2)", "near": "near(x)", "deep": "deep(a)"}
    assert undefined_calls("x.method()\nf = 1\nf()\n(lambda g: g())(1)", ()) == {}
    assert undefined_calls("not python", ()) == {} and undefined_calls("(" * 3000, ()) == {}
    assert bound_names("import a.b as c, d.e\nfor x, (y, *z) in (w := q): pass") == {"c", "d", "x", "y", "z", "w"}


@pytest.mark.parametrize("deep", ["-" * 900 + "x", "x" + ".a" * 900, "f" + "()" * 900, "1" + "+1" * 900, "not " * 900 + "x"])
def test_what_is_too_deep_to_be_looked_at_is_no_error(deep: str) -> None:
    """A model may write it, and a lesson may hold it."""
    assert undefined_calls(f"y = g({deep})", ()) == {} and not bound_names(f"y = {deep}")
    assert definition(f"def f(x):\n    return {deep}", "f") == ""
    old = [Entry(WAIT, "'dance'"), Entry("dance()"), Entry(WAIT, "'no'")]
    assert fault_of([Entry(WAIT, "'dance'"), Entry(deep), Entry(WAIT)], old) == ""
    assert undefined_calls("y = g(" + "1+" * 50 + "1)", ()).keys() == {"g"}


def test_a_definition_is_taken_alone() -> None:
    answer = "import os\ndef f(x):\n    # why\n    return x\nos.remove('x')\ndef g(): pass"
    assert definition(answer, "f") == "def f(x):\n    return x"
    assert definition(answer, "h") == definition("def f(", "f") == ""
    assert (
        unfenced("Sure:\n```python\ndef f(): pass\n```\nHave fun") == "def f(): pass"
        and unfenced("def f(): pass") == "def f(): pass"
    )


# -- the choice of examples -------------------------------------------------------------------------------------------


def by_hand(sentence: str) -> Vector:
    """Return vectors that can be reckoned with by hand."""
    return {"north": {0: 1.0}, "east": {1: 1.0}, "north-east": {0: 0.6, 1: 0.8}, "south": {0: -1.0}}[sentence]


def example(*said: str) -> Example:
    return Example("\n".join(f">>> {WAIT}\n{text!r}\n>>> x" for text in said))


def test_similarity_decays_with_the_age_of_what_was_said() -> None:
    now = ["east", "north-east", "north"]  # 1·(1, 0) + 0.6·(0.6, 0.8) + 0.36·(0, 1) = (1.36, 0.84)
    assert similarity(now, example("north"), by_hand) == pytest.approx(1.36)
    assert similarity(now, example("east"), by_hand) == pytest.approx(0.84)
    assert similarity(now, example("north-east"), by_hand) == pytest.approx(1.36 * 0.6 + 0.84 * 0.8)
    assert similarity(now, example("south"), by_hand) == pytest.approx(-1.36)
    assert similarity(now, example("south", "east"), by_hand) == pytest.approx(0.84), "the best of an example counts"
    assert similarity(["north"], Example(">>> x"), by_hand) == similarity([], example("north"), by_hand) == float("-inf")


def test_the_most_similar_examples_come_last() -> None:
    all_of_them = [example("north-east"), example("south"), example("north"), example("east")]
    chosen = most_similar(["north"], all_of_them, 3, by_hand)
    assert [one.said[0] for one in chosen] == ["east", "north-east", "north"]
    assert most_similar(["north"], all_of_them[:1] * 2, 16, by_hand) == all_of_them[:1] * 2


def test_sentences_of_like_words_are_alike() -> None:
    examples = [example("put the red block into the bowl"), example("dance for me"), example("去厨房拿杯子")]
    for said, nearest in [("move all blocks to the red bowl", 0), ("please dance", 1), ("拿杯子", 2)]:
        assert most_similar([said], examples, 1) == [examples[nearest]], said
    assert math.hypot(*word_embedding("put it there").values()) == pytest.approx(1.0)
    assert not word_embedding("…")


# -- the robots -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["coco", "kalos"])
def test_the_examples_of_a_robot_call_what_it_can_do(name: str) -> None:
    config = RobotConfig.load(name)
    registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    api, mapper = Api(RobotFacts(name, "", list(registry)), learns=True), Mapper(config, registry)
    assert len(config.examples["console"]) >= 4
    for text in config.examples["console"].values():
        entries = read(text.rstrip("\n"))
        assert written(entries) == text.rstrip("\n") and Example(text).said and entries[-1] == Entry(WAIT)
        code = "\n".join(entry.code for entry in entries)
        assert undefined_calls(code, api.names) == {}
        for call in [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]:
            if isinstance(call.func, ast.Name) and api.skill(call.func.id):
                args = [literal(value, config) for value in call.args]
                wanted = api.call(call.func.id, args, {str(k.arg): literal(k.value, config) for k in call.keywords})
                attributes = {name: value_text(value) for name, value in wanted.arguments.items()}
                assert not isinstance(refused := mapper.map(wanted.skill, attributes), Refusal), refused


def literal(node: ast.expr, config: RobotConfig) -> object:
    """Return a literal; a variable stands for a place."""
    return next(iter(config.waypoints)) if isinstance(node, ast.Name) else ast.literal_eval(node)


@pytest.mark.parametrize("name", ["coco", "kalos", "hebe", "atlas"])
def test_each_function_of_a_robot_has_one_line(name: str) -> None:
    config = RobotConfig.load(name)
    registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    api = Api(RobotFacts(name, "", list(registry)))
    assert {*api.names} == {line.removeprefix("def ").partition("(")[0] for line in api.lines}
    assert api.lines == sorted(api.lines) and not any("\n" in line for line in api.lines)
    assert all(line.startswith("def ") and "#" in line for line in api.lines)


SCENE = {
    "white block": (-0.15, 0.30, 0.0),
    "black block": (0.1, 0.50, 0.0),
    "silver block": (0.2, 0.35, 0.0),
    "gold bowl": (0.0, 0.6, 0.0),
    "silver bowl": (-0.2, 0.6, 0.0),
}


def test_the_sixteen_examples_of_the_table_do_what_they_show_and_two_learn() -> None:
    config = RobotConfig.load("tabletop")
    registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    api = Api(RobotFacts("tabletop", "", registry))
    examples = {name: Example(text.rstrip("\n")) for name, text in config.examples["console"].items()}
    learns = [name for name, one in examples.items() if any(entry.code == LEARNING for entry in one.entries)]
    assert len(examples) == 18 and learns == ["learn how", "learn what"]
    for name, shown in examples.items():
        assert written(list(shown.entries)) == shown.text and shown.entries[-1] == Entry(WAIT) and shown.said
        if name in ("wrong name", "below"):
            continue  # they show what goes wrong
        table = Table(dict(SCENE))

        def execute(call: SkillCall, table: Table = table) -> object:
            done = table.call(call.skill, call.arguments) if call.skill != "speak" else SkillReturn.success()
            if not done.ok:
                raise RuntimeError(done.message)
            return done.value if done.value is not None else done.message or None

        rehearsed(tidied(shown.entries), api, execute, {})
        moved = {thing for thing, place in table.things.items() if place != SCENE[thing]}
        assert bool(moved) is ("put_first_on_second" in shown.text), (name, moved)


def test_a_prompt_of_sixteen_examples_and_a_long_past_has_at_most_six_thousand_tokens() -> None:
    config = RobotConfig.load("tabletop")
    registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    options = GrammarOptions(config.builtin_names, config.limits)
    robot = RobotFacts("tabletop", config.description, registry, options, examples=config.examples)
    prompts = Prompts(robot, Api(robot, learns=True), 3000)
    said = "put the red block into the top left corner"
    deed = f"put_first_on_second('block', denormalize_xy([0, 1]))  # {'as it was learned, ' * 24}"
    learned = [Example(f">>> {WAIT}\n'put the {n}th block into a corner'\n>>> {deed}\n>>> {WAIT}") for n in range(40)]
    huge = Example(f">>> {WAIT}\n{said!r}\n>>> {deed * 150}")
    past = [entry for n in range(60) for entry in (Entry(WAIT, f"'task {n} of many'"), Entry("get_obj_names()", "[]" * 100))]
    now = [*past, Entry(WAIT, repr(said))]
    text = prompts.console(now, [*learned, huge])
    assert text.count("th block into a corner") == 16 - 1, "the one that would fill the prompt alone is left out"
    assert 5000 < tokens_in(prompts.system) + tokens_in(text) <= 6000
    begun = [Entry(WAIT, repr(said))]
    shorter, longer = (prompts.console([*begun, *more], learned) for more in ((), (Entry("x = 1"),)))
    assert longer.startswith(shorter.removesuffix(">>>")), "providers can cache all but what is new"
