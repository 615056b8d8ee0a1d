# SPDX-License-Identifier: Apache-2.0
"""What of System 1's answer goes to the robot, and where reading stops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function_tokens.parsing.parser import StreamingParser
from planners.strategies.layered.step_answer import StepAnswer


class Writer:
    """Keep what is sent, and the kinds of what was found; a step without its end tag is `cut`."""

    def __init__(self, room: int, live: bool) -> None:
        self._room, self._live = room, live
        self.sent, self.found = "", list[str]()
        self._begun = 0

    def has_room(self) -> bool:
        return self._begun < self._room

    def is_live(self) -> bool:
        return self._live

    def begin(self) -> None:
        self._begun += 1

    def text(self, text: str) -> None:
        self.sent += text

    def step(self, source: str) -> None:
        assert source.endswith("</step>")
        self.found.append("step" if self.sent.endswith("</step>") else "cut")

    def complete(self) -> None:
        self.found.append("complete")

    def replace(self) -> None:
        self.found.append("replace")


def read(
    text: str, *, room: int = 3, live: bool = False, known: tuple[str, ...] = ("go", "nod", "spin", "wait"), piece: int = 0
) -> tuple[str, list[str], StepAnswer]:
    """Return what is sent, the kinds of what was found, and the reader."""

    def check(name: str, attrs: object) -> str:
        return "" if name in known else f"there is no function '{name}'"

    writer = Writer(room, live)
    answer = StepAnswer(check, writer)  # type: ignore[arg-type]
    size = piece or max(1, len(text))
    for i in range(0, len(text), size):
        answer.feed(text[i : i + size])
    answer.close()
    return writer.sent, writer.found, answer


STEPS = {
    "<step><go to='a'/></step><step><nod/></step>": ('<step><go to="a"/></step><step><nod/></step>', ["step", "step"]),
    "```xml\n<step><go/></step>\n```": ("<step><go/></step>", ["step"]),
    "<think>first go</think><step><go/>Hello &amp; bye</step>": ("<step><go/>Hello &amp; bye</step>", ["step"]),
    "<response><step><go/></step></response>": ("<step><go/></step>", ["step"]),
    "<steps>\n<step><go/></step>\n<subtask_complete/></steps>": ("<step><go/></step>", ["step", "complete"]),
    "<Step><If cond='x'><go/></If><ELSE><nod/></ELSE></Step><Subtask-Complete/>": (
        '<step><if cond="x"><go/></if><else><nod/></else></step>',
        ["step", "complete"],
    ),
    '<step><if cond="visible("ball")"><go/></if></step>': (
        '<step><if cond="visible(&quot;ball&quot;)"><go/></if></step>',
        ["step"],
    ),
    "<go/>": ("<step><go/></step>", ["step"]),
    "<go/><nod/>": ("<step><go/></step><step><nod/></step>", ["step", "step"]),
    "<spin>Wheee</spin>": ("<step><spin>Wheee</spin></step>", ["step"]),
    "<if cond='x'><go/></if> <else><nod/></else><spin/>": (
        '<step><if cond="x"><go/></if><else><nod/></else></step><step><spin/></step>',
        ["step", "step"],
    ),
    "<step><go/><step><nod/></step></step>": ("<step><go/></step><step><nod/></step>", ["step", "step"]),
    "<step><go/><subtask_complete/></step>": ("<step><go/></step>", ["step", "complete"]),
    "<step><if cond='x'><subtask_complete/></if></step>": ('<step><if cond="x"><subtask_complete/></if></step>', ["step"]),
    "<step><go/></step><subtask_complete/>": ("<step><go/></step>", ["step", "complete"]),
    "<step><go/></step><subtask_complete></subtask_complete>": ("<step><go/></step>", ["step", "complete"]),
    "<replace_steps/><step><go/></step>": ("<step><go/></step>", ["replace", "step"]),
    "<step><go/></step><replace_steps/>": ("<step><go/></step>", ["step"]),
    "<step><go/><replace_steps/></step>": ("<step><go/></step>", ["step"]),
    "<step><spin><go/></step>": ("<step><spin><go/></spin></step>", ["step"]),
    "<plan_done/>": ("", ["complete"]),
    "<step/><step></step><step>  </step>": ("", []),
    "I will go to the kitchen.": ("", []),
    "": ("", []),
}


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("piece", [0, 1, 5])
@pytest.mark.parametrize("text", STEPS)
def test_only_steps_and_marks_reach_the_robot_however_they_are_written(text: str, piece: int, live: bool) -> None:
    sent, found, _ = read(text, live=live, piece=piece)
    assert (sent, found) == STEPS[text]


@pytest.mark.parametrize("live", [False, True])
def test_reading_stops_before_the_step_there_is_no_room_for(live: bool) -> None:
    sent, found, answer = read("<step><go/></step><step><nod/></step><step><spin/></step>", room=2, live=live)
    assert sent == "<step><go/></step><step><nod/></step>" and found == ["step", "step"] and answer.over


def test_a_mark_behind_the_last_step_is_read_although_there_is_no_room() -> None:
    _, found, _ = read("<step><go/></step><subtask_complete/>", room=1)
    assert found == ["step", "complete"]


def test_a_step_with_a_call_that_cannot_be_performed_is_not_begun() -> None:
    sent, found, answer = read("<step><go/></step><step><nod/><fly/></step><step><nod/></step>")
    assert sent == "<step><go/></step>" and found == ["step"]
    assert answer.over and answer.faults == ["there is no function 'fly'"]


def test_of_a_step_that_has_begun_no_more_is_sent_than_could_be_performed() -> None:
    sent, found, answer = read("<step><spin>Hi<nod/><fly/><go/></spin></step>", live=True)
    assert sent == "<step><spin>Hi<nod/></spin></step>" and found == ["step"] and answer.faults


UNCLOSED = [
    "<step><go/>",
    "<step>Hello <go/>",
    "<step><spin>Hi",
    "<spin>Hi",
    "<step><go/><subtask_complete/>",
    "<step><go/><no",
]


@pytest.mark.parametrize("text", UNCLOSED)
def test_a_step_that_ends_with_the_answer_and_not_with_its_tag_is_left_out(text: str) -> None:
    sent, found, answer = read(text)
    assert (sent, found) == ("", []) and any("</step>" in fault for fault in answer.faults)


@pytest.mark.parametrize("text", UNCLOSED)
def test_one_that_is_sent_while_it_is_read_gets_no_end_tag(text: str) -> None:
    sent, found, answer = read(text, live=True)
    assert sent.startswith("<step>") and "</" not in sent and found == ["cut"]
    assert any("</step>" in fault for fault in answer.faults)


def test_nothing_to_add_is_no_fault() -> None:
    _, found, answer = read("<nothing/>")
    assert found == [] and answer.nothing and answer.over and not answer.faults


def test_text_outside_a_step_is_told_to_the_model_and_not_spoken() -> None:
    sent, _, answer = read("Sure! <step>Hello</step> Done.")
    assert sent == "<step>Hello</step>"
    assert "Sure!" in answer.faults[-1]


PIECES = [
    "<step>",
    "</step>",
    "<go/>",
    "<go a='1'>",
    "</go>",
    "<fly/>",
    "text ",
    "<if cond='a'>",
    "</if>",
    "<else>",
    "</else>",
    "<subtask_complete/>",
    "<replace_steps/>",
    "<nothing/>",
    "<nothing>",
    "</nothing>",
    "<step/>",
    "<",
    "&",
    "]]>",
    "é<a b=>",
    "<think>",
    "</think>",
    "<subtask_complete>",
    "<!-- x -->",
    "```",
    "<observe/>",
    "<wait>",
    "</wait>",
]


@given(st.lists(st.sampled_from(PIECES), max_size=25), st.booleans(), st.integers(1, 9), st.integers(0, 3))
def test_whatever_is_written_what_is_sent_is_well_formed_and_within_its_room(
    pieces: list[str], live: bool, size: int, room: int
) -> None:
    sent, found, answer = read("".join(pieces), live=live, piece=size, room=room)
    assert "cut" not in found or (live and found[-1] == "cut")
    parser = StreamingParser("strict")
    parser.feed(sent)
    if "cut" not in found:
        parser.close()
    assert sent.count("<step>") <= room
    assert found.count("step") + found.count("cut") == sent.count("<step>")
    assert found.count("step") == sent.count("</step>")
    assert answer.over
    assert "<fly" not in sent


def test_a_function_with_the_name_of_a_wrapper_is_called() -> None:
    assert read("<answer>yes</answer>", known=("answer",))[0] == "<step><answer>yes</answer></step>"
    assert read("<answer><go/></answer>")[0] == "<step><go/></step>"
    sent, _, _ = read("<step><Answer text='hi'>there</Answer></step>", known=("Answer",))
    assert sent == '<step><Answer text="hi">there</Answer></step>'
