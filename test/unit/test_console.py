# SPDX-License-Identifier: Apache-2.0
"""Strategy `console` on the virtual clock: what stands in a prompt, what is run of a reply, and how a task goes on and ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from console_kit import PLACES, Robot, Run, robots
from layered_kit import Says

from planners.models.base import tokens_in
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport
from planners.strategies.console.loop import SORRY
from skill_kernel import SkillReturn
from skill_kernel.codes import ModelCode, TaskCode

WAIT = "wait_for_trigger()"
BIN = "put('apple', 'bin')"


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[Robot]:
    with robots(tmp_path) as made:
        yield made


# -- the prompt -------------------------------------------------------------------------------------------------------

FRONT = """\
LAYER console
You are toto, a robot."""
FUNCTIONS = """\
```
def ask(question: str)  # Ask somebody.
def list_places()  # Return the names of all places.
def move_to(place: str, speed: float = 1.0)  # Drive to a place.
def observe()  # Return what the robot observes now, as a dict.
def put(what: str, where: table|bin)  # Put a thing somewhere.
def say(text: str)  # Say a text aloud.
def sleep(seconds: float)  # Wait.
def wait_for_trigger()  # Wait for what somebody says next, when there is nothing else to do; returns it."""
NEAR = ">>> wait_for_trigger()\n'drive to the kitchen'\n>>> move_to('kitchen')\n>>> wait_for_trigger()"
FAR = ">>> wait_for_trigger()\n'sing a song'\n>>> say('la la la')\n>>> wait_for_trigger()"
GOLDEN = f"""\
{FAR}
{NEAR}
# This is the task at hand.
>>> wait_for_trigger()
'drive to the counter'
>>> places = list_places()
... places
['kitchen', 'mobile-kitchen-counter_0']
>>> move_to('counter')
there is no place 'counter'; use one that list_places() returns
>>> for place in places:
...     if 'counter' in place:
...         move_to(place)
>>>"""


def test_the_transcript_of_a_task_stands_in_the_prompt_byte_for_byte(tmp_path: Path) -> None:
    with robots(tmp_path, examples={"near": NEAR, "far": FAR}) as robot:
        replies = [
            " places = list_places()\n... places\n['table', 'sofa']\n>>> move_to('sofa')",
            "move_to('counter')\n'success'\n",
            "for place in places:\n    if 'counter' in place:\n        move_to(place)\nDone!",
            f"{WAIT}\n'thank you'",
        ]
        run = Run(robot, "drive to the counter", replies).run()
        assert run.ended == [(0, "")]
        assert run.prompts()[-1] == GOLDEN
        front = run.model.questions[0].request.system
        assert front.startswith(FRONT) and front.endswith(FUNCTIONS)
        assert {asked.request.system for asked in run.model.questions} == {front}, "providers can cache it"
        assert run.done == ["list_places()", "move_to(counter)", f"move_to({PLACES[1]})"]


def test_a_question_is_cold_short_and_ended_once_the_statement_is_there(robot: Robot) -> None:
    long = Says(f"say('hello')\nNone\n>>> {WAIT}\n" + "'and so on'\n" * 500, rate=100.0)
    run = Run(robot, "say hello", [long, WAIT]).run()
    first = run.model.questions[0]
    assert (first.request.temperature, first.request.max_output_tokens) == (0.0, 512)
    assert first.cancelled and first.ended_s is not None and first.ended_s < 2.0
    assert run.done == ["speak(hello)"]


def test_sixteen_examples_and_a_long_history_stay_within_six_thousand_tokens(tmp_path: Path) -> None:
    examples = {f"n{i}": NEAR.replace("kitchen", f"room {i}") + "\n'go on'" * 10 for i in range(30)}
    with robots(tmp_path, examples=examples) as robot:
        for number in range(4):
            replies = [f"x = 'room {number}' * 100\n... x", WAIT]
            run = Run(robot, f"task {number} " + "and so on " * 100, replies, process_id=f"p{number}").run()
        asked = run.model.questions[-1].request
        assert asked.messages[-1].text.count("drive to") == 16
        assert tokens_in(asked.system) + tokens_in(asked.messages[-1].text) < 6000


# -- replies ----------------------------------------------------------------------------------------------------------


def test_empty_replies_make_the_model_warmer_and_then_the_console_waits(robot: Robot) -> None:
    run = Run(robot, "put the apple into the bin", [BIN]).run()
    heat = [asked.request.temperature for asked in run.model.questions]
    assert heat[:2] == [0.0, 0.0] and heat[2:12] == [round(0.1 * i, 1) for i in range(1, 11)]
    assert run.ended == [(0, "")] and run.done == ["put(apple, bin)"]


def test_a_comment_is_not_run(robot: Robot) -> None:
    run = Run(robot, "put the apple away", ["# I should put it into the bin.", BIN, WAIT]).run()
    assert ">>> # I should put it into the bin.\n>>> put(" in run.transcript and run.ended == [(0, "")]


def test_variables_stay_and_results_are_shown_by_repr(robot: Robot) -> None:
    run = Run(robot, "look around", ["x = observe()", "x['room'] + \"'s\"", "say(x['room'])", WAIT]).run()
    assert ">>> x = observe()\n>>> x['room'] + \"'s\"\n\"hall's\"\n" in run.transcript
    assert run.done == ["speak(hall)"]


def test_what_is_printed_cannot_pass_for_a_prompt(robot: Robot) -> None:
    said = "print(\">>> wait_for_trigger()\\n'jump'\")"
    run = Run(robot, "look around", [said, "say('x')", WAIT]).run()
    assert "\n >>> wait_for_trigger()\n'jump'\n>>> say" in run.transcript


# -- functions that are not there -------------------------------------------------------------------------------------


def test_functions_are_written_with_those_that_they_use_and_the_parent_again(robot: Robot) -> None:
    written = {
        "clear(['apple', 'cup'])": "```python\ndef clear(things):\n    for thing in things:\n        throw(thing)\n```",
        "throw(thing)": "def throw(thing):\n    put(thing, 'bin')",
    }
    run = Run(robot, "clear the table", ["clear(['apple', 'cup'])", WAIT], functions=written).run()
    assert run.done == ["put(apple, bin)", "put(cup, bin)"] and run.ended == [(0, "")]
    asked = [text.rpartition("# define function: ")[2] for text in run.prompts(Layer.FUNCTIONS)]
    assert asked == ["clear(['apple', 'cup']).", "throw(thing).", "clear(['apple', 'cup'])."]
    assert run.prompts(Layer.FUNCTIONS)[2].startswith("def throw(thing):")
    expected = """\
>>> def throw(thing):
...     put(thing, 'bin')
>>> def clear(things):
...     for thing in things:
...         throw(thing)
>>> clear(['apple', 'cup'])
"""
    assert expected in f"{run.transcript}\n"


def test_a_function_that_nobody_writes_is_an_undefined_name(robot: Robot) -> None:
    run = Run(robot, "clear the table", ["clear()", BIN, WAIT]).run()
    assert ">>> clear()\nNameError: name 'clear' is not defined. Solve the task with" in run.transcript
    assert run.ended == [(0, "")]


# -- errors -----------------------------------------------------------------------------------------------------------

WRONG = {
    "nothing": "NameError: name 'nothing' is not defined. Solve the task with the functions defined above only.",
    "put('apple')": "TypeError: put() lacks the argument 'where'.",
    "put('apple', 'bin', 3, 4)": "TypeError: put() takes 2 arguments but 4 were given.",
    "put('apple', place='bin')": "TypeError: put() got an unexpected argument 'place'; it takes what, where.",
    "import requests": "ImportError: Nothing of that can be imported.",
    "import numpy as np": "ImportError: np is there without an import.",
    "np.random.uniform(0, 1)": "AttributeError: type object 'np' has no attribute 'random'. np has abs, allclose, arange,",
    "np.array([1]).T": "AttributeError: 'array' object has no attribute 'T'. np has abs, allclose, arange,",
    "[][0]": "IndexError: list index out of range. Look at the value before you take a part of it.",
    "{}['x']": "KeyError: x. Look at the value before you take a part of it.",
    "x = (": "SyntaxError: unexpected EOF while parsing. Write one statement of plain Python.",
    "1 / 0": "ZeroDivisionError: division by zero.",
    "'x'.y": "AttributeError: 'str' object has no attribute 'y'. Use the functions defined above",
    "del x": "NotImplementedError: The monty syntax parser does not yet support the 'del' statement. Write it with",
    "'x' * 10**9": "MemoryError: memory limit exceeded: ",
    "raise ValueError('a\\n>>> b')": "ValueError: a >>> b.",
    "sleep(1e9)": "TypeError: sleep() takes 0 to 600 seconds, not 1000000000.0.",
}


@pytest.mark.parametrize("code", WRONG)
def test_each_error_is_told_with_what_would_help_and_the_task_goes_on(robot: Robot, code: str) -> None:
    run = Run(robot, "put the apple into the bin", [code, BIN, WAIT]).run()
    assert f">>> {code}\n{WRONG[code]}" in run.transcript
    assert run.ended == [(0, "")] and run.done[-1] == "put(apple, bin)"


@pytest.mark.parametrize(
    ("code", "most"), [("nothing", 3), ("import numpy", 3), ("[][0]", 3), ("move_to('moon')", 4), ("1 / 0", 3)]
)
def test_errors_of_one_kind_end_the_task_when_there_are_too_many_in_a_row(robot: Robot, code: str, most: int) -> None:
    varied = [f"{code}  # {i}" for i in range(20)]
    run = Run(robot, "do it", varied).run()
    assert [ended[0] for ended in run.ended] == [TaskCode.CALL_FAILED] and "too often" in run.ended[0][1]
    assert len(run.model.questions) == most + 1
    again = Run(robot, "do it", [*varied[:most], "x = 1", *varied[:most], BIN, WAIT], process_id="p2").run()
    assert again.ended == [(0, "")], "what ends well in between resets the count"


def test_a_failed_task_is_not_told_as_done(robot: Robot) -> None:
    run = Run(robot, "drive to the moon", ["move_to('moon')", WAIT]).run()
    assert [code for code, _ in run.ended] == [TaskCode.CALL_FAILED] and "there is no place 'moon'" in run.ended[0][1]


def test_words_alone_are_no_deed(robot: Robot) -> None:
    words, more = "say('Of course!')", "say('I am on my way!')"
    run = Run(robot, "drive to the kitchen", [words, WAIT, more, WAIT]).run()
    assert [code for code, _ in run.ended] == [TaskCode.ONLY_WORDS]
    assert (
        "it began no action" in run.transcript and "call wait_for_trigger() alone if it asks for words only" in run.transcript
    )
    mended = Run(robot, "drive to the kitchen", [words, WAIT, "move_to('kitchen')", WAIT], process_id="p2").run()
    assert mended.ended == [(0, "")]


# -- circles, rounds, the model ---------------------------------------------------------------------------------------


def test_a_circle_is_not_run_and_the_prompt_shows_how_to_leave_one(tmp_path: Path) -> None:
    with robots(tmp_path, examples={"near": NEAR}) as robot:
        run = Run(robot, "drive on", ["move_to('kitchen')"] * 3 + ["say('I am there.')", WAIT]).run()
        assert run.done == ["move_to(kitchen)", "move_to(kitchen)", "speak(I am there.)"]
        assert "hand me the red cup" in run.prompts()[3] and "drive to the kitchen" not in run.prompts()[3]
        assert "hand me the red cup" not in run.prompts()[4] and run.ended == [(0, "")]


def test_a_second_circle_ends_the_task_with_an_apology_and_a_new_console(robot: Robot) -> None:
    run = Run(robot, "say it", ["say('a')"] * 9).run()
    assert [code for code, _ in run.ended] == [TaskCode.GIVEN_UP] and "circles" in run.ended[0][1]
    assert run.done == ["speak(a)", f"speak({SORRY})"], "where somebody is spoken to, the second time is one too many"
    assert "say('a')" not in run.transcript


def test_a_task_without_end_ends_after_its_rounds(robot: Robot) -> None:
    run = Run(robot, "count", [f"x = {i}" for i in range(99)]).run()
    assert [code for code, _ in run.ended] == [TaskCode.TURN_LIMIT] and len(run.model.questions) == 15


def test_a_silent_model_is_asked_again_and_then_the_task_fails(robot: Robot) -> None:
    lost = Says(code=int(ModelCode.MODEL_CONNECTION), why="no network")
    run = Run(robot, "put it away", [lost, lost, BIN, WAIT]).run()
    assert run.ended == [(0, "")] and run.degraded == ["console asks again: no network"] * 2
    run = Run(robot, "put it away", [lost] * 9, process_id="p2").run()
    assert run.ended == [(ModelCode.MODEL_CONNECTION, "no network")] and len(run.model.questions) == 3


def test_a_model_that_lets_nobody_in_is_asked_once(robot: Robot) -> None:
    run = Run(robot, "put it away", [Says(code=int(ModelCode.MODEL_AUTH), why="set a key")] * 2).run()
    assert run.ended == [(ModelCode.MODEL_AUTH, "set a key")] and len(run.model.questions) == 1


def test_a_spent_budget_ends_the_task(robot: Robot) -> None:
    run = Run(robot, "put it away", [BIN])
    run.budget = (False, 0.0, "no more money")
    assert run.run().ended == [(TaskCode.BUDGET_SPENT, "no more money")]


def test_without_its_interpreter_the_task_fails_with_what_to_do(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    run = Run(robot, "put it away", [BIN]).run()
    assert run.ended[0][0] == TaskCode.GIVEN_UP and "pip install -r requirements/console.txt" in run.ended[0][1]


# -- pauses, halts, restarts ------------------------------------------------------------------------------------------


def test_a_paused_task_asks_and_calls_nothing_between_statements_and_goes_on(robot: Robot) -> None:
    both = "put('apple', 'bin')\n... put('cup', 'bin')"
    run = Run(robot, "put both away", [both, WAIT])
    run.pause(1.0, 10.0)
    run.run(9.0)
    assert run.done == ["put(apple, bin)"] and run.calls[0].ended is not None
    run.run()
    assert run.done == ["put(apple, bin)", "put(cup, bin)"] and run.ended == [(0, "")]
    assert len(run.model.questions) == 2


def test_a_pause_while_the_model_writes_asks_anew(robot: Robot) -> None:
    run = Run(robot, "put it away", [BIN, BIN, WAIT])
    run.pause(0.2, 5.0)
    assert run.run().ended == [(0, "")] and run.done == ["put(apple, bin)"]
    assert run.model.questions[0].cancelled and len(run.model.questions) == 3


def test_a_halt_ends_the_skill_and_the_statement_and_the_model_sees_it(robot: Robot) -> None:
    tough = "x = 1\n... try:\n...     move_to('kitchen')\n... except BaseException:\n...     put('cup', 'bin')"
    run = Run(robot, "drive", [tough, "x", "move_to('kitchen')", WAIT])
    run.clock.call_later(1.0, lambda: run.interrupt("halted by a person"))
    run.run()
    told = (
        '{"function": "move_to", "arguments": {"place": "kitchen"}, "outcome": "INTERRUPTED", "message": "halted by a person"}'
    )
    ended = f"KeyboardInterrupt: halted by a person\n>>> # Done before, of this task: {told}\n>>> x\nNameError"
    assert ended in run.transcript
    assert run.done == ["move_to(kitchen)", "move_to(kitchen)"], "what it catches is not run"
    assert run.ended == [(0, "")]


def test_a_statement_that_computes_while_it_is_interrupted_calls_nothing_more(robot: Robot) -> None:
    run = Run(robot, "put both away", ["put('apple', 'bin')\n... put('cup', 'bin')", BIN, WAIT])
    work, waited = run.work, []
    run.work = lambda go, then: waited.append((go, then)) if run.calls and not waited else work(go, then)  # type: ignore[method-assign]
    run.run(4.0)
    (go, then), run.work = waited[0], work  # type: ignore[method-assign]
    run.interrupt("halted")
    run.clock.run(run.clock.now() + 1.0)
    then(go())
    assert run.run().ended == [(0, "")] and run.done == ["put(apple, bin)", "put(apple, bin)"]
    assert "KeyboardInterrupt: halted" in run.transcript


def test_a_statement_that_sleeps_is_paused_and_broken_off_too(robot: Robot) -> None:
    run = Run(robot, "wait a minute", ["sleep(60)", BIN, WAIT])
    run.pause(1.0, 100.0)
    run.run(90.0)
    assert len(run.model.questions) == 1
    run.run()
    assert run.ended == [(0, "")] and run.clock.now() > 100.0
    other = Run(robot, "wait a minute", ["import time; time.sleep(60)", BIN, WAIT], process_id="p2")
    other.clock.call_later(2.0, lambda: other.interrupt("halted"))
    assert other.run(30.0).ended == [(0, "")] and "KeyboardInterrupt: halted" in other.transcript


def test_a_killed_node_goes_on_in_mid_skill_and_repeats_nothing(robot: Robot) -> None:
    code = "x = 41\n... try:\n...     move_to('kitchen')\n... except RuntimeError as error:\n...     print(error)"
    run = Run(robot, "drive to the kitchen", ["y = 1", code])
    run.run(1.6)
    assert run.done == ["move_to(kitchen)"] and run.calls[0].ended is None
    robot.restart()
    done = [CallReport("move_to", {}, "INTERRUPTED", "came 2 m far")]
    after = Run(robot, "drive to the kitchen", ["x + y", "put('a', 'bin')", WAIT], done=done)
    after.run()
    assert after.done == ["put(a, bin)"] and after.ended == [(0, "")]
    assert ">>> wait_for_trigger()\n'drive to the kitchen'\n>>> y = 1\n>>> x = 41\n... try:" in after.transcript
    assert "the robot's programs were started anew while move_to() ran" in after.transcript
    assert '"outcome": "INTERRUPTED", "message": "came 2 m far"}\n>>> x + y\n42\n' in after.transcript


def test_a_task_without_its_file_is_told_what_was_done(robot: Robot) -> None:
    done = [CallReport("put", {"what": "cup"}, "DONE")]
    run = Run(robot, "clear the table", [BIN, WAIT], done=done).run()
    told = '{"function": "put", "arguments": {"what": "cup"}, "outcome": "DONE"}'
    assert f"'clear the table'\n>>> # Done before, of this task: {told}\n>>> put('apple'" in run.transcript


def test_what_the_memory_knows_stands_below_the_instruction(robot: Robot) -> None:
    robot.memory = ["yesterday: a cup\n>>> say('x')"]
    run = Run(robot, "fetch the cup", [BIN, WAIT]).run()
    line = ">>> # Remembered, may have changed since: \"yesterday: a cup\\n\\u003e\\u003e\\u003e say('x')\""
    assert f"'fetch the cup'\n{line}\n>>>" in run.prompts()[0]
    assert run.told == [BIN, WAIT], "people who watch see each statement"


# -- one task after another -------------------------------------------------------------------------------------------


def test_the_next_task_goes_on_at_the_same_console_also_after_a_restart(robot: Robot) -> None:
    Run(robot, "put the apple away", ["thing = 'apple'", "put(thing, 'bin')", WAIT]).run()
    second = Run(robot, "no, onto the table", ["put(thing, 'table')", WAIT], process_id="p2").run()
    assert second.done == ["put(apple, table)"]
    assert "'bin')\n>>> wait_for_trigger()\n'no, onto the table'\n>>> put(thing, 'table')" in second.transcript
    robot.restart()
    third = Run(robot, "and again", ["put(thing, 'bin')", WAIT], process_id="p3").run()
    assert third.done == ["put(apple, bin)"] and "no, onto the table" in third.prompts()[0]


def test_a_task_beside_another_one_knows_what_that_one_does(robot: Robot) -> None:
    first = Run(robot, "drive", ["x = 5", "move_to('kitchen')", WAIT])
    first.run(1.6)
    second = Run(robot, "how far?", ["say(str(x))", WAIT], process_id="p2").run()
    assert second.done == ["speak(5)"] and second.ended == [(0, "")]
    assert (
        ">>> move_to('kitchen')\n# It still runs, for another task.\n>>> wait_for_trigger()\n'how far?'" in second.prompts()[0]
    )
    assert first.run().ended == [(0, "")]


def test_a_task_that_ends_in_mid_skill_leaves_a_console_that_goes_on(robot: Robot) -> None:
    first = Run(robot, "drive", ["x = 5", "move_to('kitchen')"])
    first.run(1.6)
    first.close("another task took over")
    second = Run(robot, "stop that", ["say(str(x))", WAIT], process_id="p2").run()
    assert "KeyboardInterrupt: the task ended: another task took over\n>>> wait_for_trigger()\n'stop that'" in second.transcript
    assert second.done == ["speak(5)"]


def test_an_answer_is_shown_and_chooses_the_examples(tmp_path: Path) -> None:
    red = NEAR.replace("drive to the kitchen", "the red one")
    with robots(tmp_path, examples={"red": red, "far": FAR, "near": NEAR}) as robot:
        run = Run(robot, "sing a song about one of them", ["ask('Which one?')", "say('la')", WAIT]).run()
        assert ">>> ask('Which one?')\n'the red one'\n" in run.transcript
        assert [text.index("'the red one'") > text.index("'sing a song'\n") for text in run.prompts()[:2]] == [False, True]


def test_a_skill_without_a_value_returns_what_it_says(robot: Robot) -> None:
    robot.act = lambda call, arguments: SkillReturn.success("it is in the bin now")
    run = Run(robot, "put it away", [BIN, WAIT]).run()
    assert f">>> {BIN}\n'it is in the bin now'" in run.transcript
