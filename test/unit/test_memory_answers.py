# SPDX-License-Identifier: Apache-2.0
"""Questions are answered from what is remembered, with and without a model."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_kit import NOON, Clock, settle
from memory_model import observation
from thorough import examples

from planners.language.questions import ROWS, read
from planners.memory import Kind, Memory, Provenance, Record, Spot, Tier, Viewer, Visibility
from planners.memory.answers import clock


@pytest.mark.parametrize(
    ("question", "form", "answer"),
    [
        ("How many places have you explored?", "count_places", "I explored 3 places: hallway, kitchen and office."),
        (
            "Kalos, how many rooms did you visit today?",
            "count_places",
            "I explored 3 rooms since 2026-05-04 00:00:00: hallway, kitchen and office.",
        ),
        ("Where have you been so far?", "which_places", "I explored 3 places: hallway, kitchen and office."),
        ("Where did you last see the ball?", "last_seen", "I last saw the ball in the kitchen near (1.0, 2.0) at 12:00:09."),
        ("where is my red ball", "last_seen", "I last saw the ball in the kitchen near (1.0, 2.0) at 12:00:09."),
        ("When did you first see the apple?", "when_seen", "I first saw the apple in the office near (1.0, 2.0) at 12:00:41."),
        ("Have you seen a unicorn?", "whether_seen", "I remember no unicorn; show it to me, or send me to look."),
        (
            "Did you see the ball in the office?",
            "whether_seen",
            "Not in the office, as far as I remember. I last saw the ball in the kitchen near (1.0, 2.0) at 12:00:09.",
        ),
        (
            "How many balls have you seen?",
            "how_often_seen",
            "I saw a ball once, at most 1 at a time, last in the kitchen near (1.0, 2.0) at 12:00:09.",
        ),
        ("When were you in the kitchen?", "when_been", "I was last in the kitchen at 12:00:19."),
        ("have you been in the lobby", "whether_been", "I remember no visit to the lobby."),
        ("Who asked you to patrol?", "who_asked", "alice said through chat: “patrol the rooms” (at 12:00:00)."),
        ("What did Alice say?", "what_said", "alice said through chat: “patrol the rooms” (at 12:00:00)."),
        ("Who did you see?", "who_seen", "I saw a person (once, last at 12:00:59)."),
        (
            "how often did you visit the office in the last ten minutes",
            "how_often_been",
            "I came to the office once since 2026-05-04 11:52:00.",
        ),
        (
            "How many places did you explore yesterday?",
            "count_places",
            "I remember no place since 2026-05-03 00:00:00 until 2026-05-04 00:00:00.",
        ),
    ],
)
def test_the_usual_questions_are_answered_without_a_model(walked: Memory, question: str, form: str, answer: str) -> None:
    found = walked.ask(question, viewer=Viewer("kalos"), robot="kalos")
    assert (found.form, found.text) == (form, answer)
    assert bool(found.sources) == ("remember no" not in answer)


def test_an_answer_names_whose_memory_it_is(walked: Memory) -> None:
    found = walked.ask("where did you last see the ball?", viewer=Viewer("coco"), robot="coco")
    assert found.text.startswith("kalos last saw the ball in the kitchen")
    assert walked.ask("how many places have you explored?", robot="coco").text == "I remember no place."
    assert walked.ask("how many places have you explored?").text.startswith("kalos explored 3 places")


def test_a_place_reached_inside_a_room_is_the_place_and_not_one_more(memory: Memory) -> None:
    def reached(name: str, room: str, t: float) -> Record:
        return Record(
            Tier.M1,
            Kind.VISIT,
            NOON + t,
            f"kalos reached {name}.",
            {"place": name},
            Provenance("kalos", "events"),
            Spot(room=room),
        )

    memory.put(observation(NOON, "hallway"), observation(NOON + 1, "kitchen")).result()
    memory.put(reached("hallway_west", "hallway", 2), reached("hallway_east", "hallway", 3)).result()
    settle(memory)
    text = memory.ask("how many places have you explored?", robot="kalos").text
    assert text == "I explored 3 places: hallway east, hallway west and kitchen."
    assert memory.ask("how many rooms have you explored?", robot="kalos").text == "I explored 2 rooms: hallway and kitchen."


def test_what_no_form_fits_is_answered_by_the_best_passages_and_says_how_they_were_found(walked: Memory) -> None:
    walked.put(Record(Tier.M1, Kind.NOTE, NOON, "The spare key hangs behind the fridge.")).result()
    found = walked.ask("is there a spare key anywhere?", robot="kalos")
    assert found.form == "other" and "behind the fridge" in found.text and found.sources[0].kind == "note"
    assert "full text alone" in found.note
    assert walked.ask("xylophone quorum?", robot="kalos").text == "I remember nothing of that."


def test_questions_words_that_were_said_and_failures_are_no_evidence(memory: Memory) -> None:
    def record(kind: Kind, text: str, robot: str = "kalos", **data: object) -> Record:
        return Record(Tier.M1, kind, NOON, text, data, Provenance(robot, "events"))

    memory.put(
        record(Kind.HEARD, "alice said through chat: “find the unicorn”", instruction="find the unicorn"),
        record(Kind.OUTCOME, "coco ended “find the unicorn”: failed (no unicorn model)", "coco", status="FAILED"),
        record(Kind.CALL, "kalos did speak(text=I see a unicorn): done", arguments={"text": "I see a unicorn"}, outcome="DONE"),
        record(Kind.OUTCOME, "kalos ended “is there a unicorn?”: success", instruction="is there a unicorn?", status="SUCCESS"),
        record(Kind.EPISODE, "kalos worked on “where are you?”: success.", instruction="where are you?", status="SUCCESS"),
    ).result()
    assert (
        memory.ask("is there a unicorn in the lounge?", robot="kalos").text
        == "I remember no unicorn; show it to me, or send me to look."
    )
    assert memory.ask("why is a unicorn white?", robot="kalos").text == "I remember nothing of that."
    assert memory.ask("the unicorn?", robot="kalos").text == "I remember nothing of that."
    assert memory.ask("what have you done?", robot="kalos").text == "I remember no task."
    memory.put(record(Kind.EPISODE, "kalos worked on “bark”: success.", instruction="bark", status="SUCCESS")).result()
    assert memory.ask("what have you done?", robot="kalos").text == "kalos worked on “bark”: success."
    assert memory.ask("did you bark?", robot="kalos").text == "At 12:00:00: kalos worked on “bark”: success."


def test_a_passage_must_hold_most_words_of_the_question(walked: Memory) -> None:
    walked.put(Record(Tier.M1, Kind.NOTE, NOON, "The capital letter stands on the door.")).result()
    assert walked.ask("what is the capital of France?").text == "I remember nothing of that."
    assert "letter" in walked.ask("which capital letter is on the door?").text


BALL = "我最近一次看到球是在厨房（1.0, 2.0）附近，今天12:00:09。"


@pytest.mark.parametrize(
    ("question", "form", "answer"),
    [
        ("你最后在哪里看到球？", "last_seen", BALL),
        ("你今天在哪里看到球？", "last_seen", BALL),
        ("你还记得球在哪里吗？", "last_seen", BALL),
        ("你昨天在哪里看到球？", "last_seen", "我从昨天00:00:00到今天00:00:00不记得看到过球；请带我去看看。"),
        ("你什么时候看到苹果的？", "when_seen", "我最近一次看到苹果是在办公室（1.0, 2.0）附近，今天12:00:59。"),
        (
            "客厅里有苹果吗？",
            "whether_seen",
            "我不记得在客厅看到过。我最近一次看到苹果是在办公室（1.0, 2.0）附近，今天12:00:59。",
        ),
        ("客厅里有门吗？", "whether_seen", "我不记得看到过门；请带我去看看。"),
        ("你看到过几次球？", "how_often_seen", "我看到过球1次，一次最多1个，最近一次在厨房（1.0, 2.0）附近，今天12:00:09。"),
        ("你今天在厨房看到了什么？", "what_seen", "我从今天00:00:00起在厨房看到过球（1次，最近今天12:00:09）。"),
        ("你去过多少个地方？", "count_places", "我去过3个地方：办公室、厨房、走廊。"),
        ("你今天去了哪里？", "which_places", "我从今天00:00:00起去过3个地方：办公室、厨房、走廊。"),
        ("两个小时前你在哪里？", "which_places", "我从今天09:32:00到今天10:32:00不记得去过什么地方。"),
        ("你什么时候去的厨房？", "when_been", "我最近一次在厨房是今天12:00:19。"),
        ("你去过办公室吗？", "whether_been", "是的，我最近一次在办公室是今天12:00:59。"),
        ("你最近十分钟去过几次办公室？", "how_often_been", "我从今天11:52:00起去过办公室1次。"),
        ("谁让你巡逻的？", "who_asked", "alice说：“patrol the rooms”（今天12:00:00）。"),
        ("独角兽为什么是白色的？", "other", "这个我不记得。"),
    ],
)
def test_a_question_in_chinese_is_answered_in_chinese(walked: Memory, question: str, form: str, answer: str) -> None:
    found = walked.ask(question, viewer=Viewer("kalos"), robot="kalos")
    assert (found.form, found.text) == (form, answer)
    assert bool(found.sources) == ("不记得" not in answer or "最近一次" in answer)


def test_what_was_done_is_told_in_chinese(memory: Memory) -> None:
    told = {"instruction": "去厨房", "status": "SUCCESS"}
    memory.put(
        Record(Tier.M1, Kind.EPISODE, NOON, "kalos worked on “去厨房”: success.", told, Provenance("kalos", "events"))
    ).result()
    assert memory.ask("你今天做了什么？", robot="kalos").text == "“去厨房”（做完）。"
    assert memory.ask("你昨天做了什么？", robot="kalos").text == "我从昨天00:00:00到今天00:00:00不记得做过什么。"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Were you in the kitchen an hour ago?", "Yes: I was last in the kitchen at 13:30:00."),
        ("Did you see a ball an hour ago?", "Yes: I last saw the ball in the kitchen near (1.0, 2.0) at 13:30:00."),
        (
            "What did you see an hour ago?",
            "I saw a ball (once, last at 13:30:00) since 2026-05-04 12:30:00 until 2026-05-04 13:30:00.",
        ),
        ("When were you first in the kitchen?", "I was first in the kitchen at 12:00:00."),
        ("Did you see a ball 3 hours ago?", "I remember no ball since 2026-05-04 10:30:00 until 2026-05-04 11:30:00"),
    ],
)
def test_what_lasts_longer_than_the_time_that_is_asked_about_was_so_in_it(
    memory: Memory, clock: Clock, question: str, answer: str
) -> None:
    memory.put(*(observation(NOON + t, "kitchen", ["ball"]) for t in range(0, 7200, 15))).result()
    clock.now = NOON + 7200.0
    settle(memory)
    assert memory.ask(question, viewer=Viewer("kalos"), robot="kalos").text.startswith(answer)


def test_yesterday_is_the_day_before_also_where_it_has_23_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        now_s = time.mktime((2026, 3, 30, 0, 30, 0, 0, 0, -1))
        told = [clock(time.mktime((2026, 3, day, 20, 0, 0, 0, 0, -1)), now_s) for day in (28, 29)]
        assert told == ["on 2026-03-28 at 20:00:00", "yesterday at 20:00:00"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_private_records_stay_out_of_the_answers_of_others(memory: Memory) -> None:
    own = {"provenance": Provenance("kalos"), "visibility": Visibility.ROBOT}
    secret = Record(Tier.M1, Kind.NOTE, NOON, "the code of the safe is 1234", **own)
    memory.put(secret).result()
    assert "1234" in memory.ask("the code of the safe?", viewer=Viewer("kalos"), robot="kalos").text
    assert "1234" not in memory.ask("the code of the safe?", viewer=Viewer("coco"), robot="coco").text


@given(text=st.text(min_size=1, max_size=80))
@settings(max_examples=examples(300))
def test_any_question_is_read_as_one_form(text: str) -> None:
    if text.strip():
        assert read(text, NOON, ("kalos",)).form in {*dict(ROWS), ""}


@pytest.mark.parametrize("text", ["", "   ", "x" * 1001])
def test_a_question_that_is_none_says_so(memory: Memory, text: str) -> None:
    with pytest.raises(ValueError, match="1 to 1000 characters"):
        memory.ask(text)


def test_long_hostile_questions_are_read_at_once() -> None:
    began = time.perf_counter()
    for text in ("how many places " * 62, "where did you see a " * 50, "who asked " + "to " * 300, "when was " + "last " * 190):
        read(text[:1000], NOON)
    assert time.perf_counter() - began < 2.0
