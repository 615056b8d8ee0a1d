# SPDX-License-Identifier: Apache-2.0
"""An instruction that is nothing but a stop word is recognised in any dress, and nothing else is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from planners.language.stop_words import is_stop

ROOT = Path(__file__).resolve().parents[2]
ORDINARY = (Path(__file__).parent / "texts" / "ordinary_sentences.txt").read_text(encoding="utf-8").splitlines()
TASKS = yaml.safe_load((ROOT / "bench" / "coco_tasks.yaml").read_text(encoding="utf-8"))["tasks"]

WORDS = ["stop", "halt", "freeze", "abort", "emergency stop", "停", "停下", "停止", "别动", "站住", "alto", "arrêt", "stopp"]

STOPS = [
    "sotp",
    "STPO!",
    "hatl",
    "hold on",
    "cancel!",
    "stop!",
    "STOP NOW",
    "please stop",
    "robot, stop",
    "coco stop",
    "Stop it.",
    "stop stop stop",
    "STOPPPP!!!",
    "sto\u200bp",
    "ｓｔｏｐ",
    "ＳＴＯＰ！",
    "  stop\n",
    "🛑",
    "stop 🛑🛑",
    "Stop?",
    "停！停！停！",
    "停停停",
    "马上停下",
    "请停下来",
    "快停下！",
    "紧急停止",
    "别动！",
    "不要动",
    "机器人，停",
    "E-Stop",
    "don't move",
    "don’t move!",
    "no, stop!",
    "ARRÊTE",
    "arre\u0302t",
    "Стой!",
    "止まって",
    "멈춰",
    "hey robot, please stop right now",
    "I said STOP",
    "stop, robot",
    "can you stop?",
    "«stop»",
    "*stop*",
    "stop_",
    "_stop_",
    "coco停",
    "stop-stop!",
    "Stop-stop-stop!",
    "stopstop",
    "S.T.O.P.",
    "s t o p",
    "S-T-O-P now!",
    "STOOOP!!!",
    "HAAAALT!",
    "freeeeze",
    "стоооой!",
    "Stop—stop—STOP",
    "stop_stop",
    "emergency!",
    "EMERGENCY STOP",
    "stop walking",
    "stop moving, robot",
    "please stop driving now",
    "enough!",
    "st0p",
    "$top",
    "5T0P",
    "sтоp",
    "ЅТОР",
    "ΣΤΟΠ",
    "ꜱᴛᴏᴘ",
    "🆂🆃🅾🅿",
    "🇸🇹🇴🇵",
    "st̶o̶p",
    "st️o󠅴p",
    "Halt an!",
    "Bleib stehen!",
    "Not-Aus",
    "arrêtez-vous",
    "Arrête-toi !",
    "Ne bouge plus !",
    "Non, arrête !",
    "¡Alto!",
    "¡Párate ya!",
    "Fermati subito!",
    "Não se mexa!",
    "sta stil",
    "Zatrzymaj się!",
    "Стоп-стоп!",
    "С Т О П",
    "dur!",
    "قـــف",
    "रुको!",
    "멈춰멈춰!",
    "ストーーップ",
    "別動",
    "别 动",
]

OTHERS = [
    "",
    "   ",
    "🙂",
    "please",
    "robot",
    "coco",
    "now",
    "!!!",
    "stop, check what is on your left, then resume",
    "don't stop",
    "don’t stop",
    "do not stop",
    "never stop",
    "non-stop",
    "nonstop",
    "stop by the kitchen",
    "bus stop",
    "stop the music",
    "stop talking",
    "stop following me",
    "stop walking when you see me",
    "s t o r y",
    "non-stop!",
    "emergency exit",
    "para mí",
    "halt mal",
    "unstoppable",
    "不要停",
    "别停",
    "停车场在哪里",
    "dance",
    "say stop",
    "'stop' is a word",
    "stop in 5 seconds",
    "stop 5",
    "go",
    "no-stop",
    "stops",
    "stop or I walk",
    "停一下然后走",
    "1",
    "halt at the door",
]


@pytest.mark.parametrize("text", WORDS + STOPS)
def test_a_bare_stop_word_in_any_dress_is_a_stop(text: str) -> None:
    assert is_stop(text, robot_name="CoCo")


@pytest.mark.parametrize("text", OTHERS)
def test_anything_more_than_a_stop_word_is_none(text: str) -> None:
    assert not is_stop(text, robot_name="CoCo")


def test_no_ordinary_sentence_and_no_task_of_the_paper_is_a_stop() -> None:
    said = {*ORDINARY, *(task["instruction"] for task in TASKS)}
    assert len(set(ORDINARY)) >= 500 and len(TASKS) == 34
    assert not {text for text in said if is_stop(text, "CoCo")}
    shouted = {text.upper() + "!!!" for text in said}
    assert not {text for text in shouted if is_stop(text, "CoCo")}


def test_only_the_robots_own_name_is_a_form_of_address() -> None:
    assert is_stop("Mr. Spock, stop", robot_name="mr spock")
    assert not is_stop("kalos stop", robot_name="coco")


DRESS = st.text(alphabet=" \t\n.!?,;…—🙂❗️\u200b\u2060\ufeff\u3000！。、", max_size=8)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), DRESS, DRESS, st.booleans())
def test_repetition_punctuation_emoji_and_case_change_nothing(words: list[str], before: str, after: str, upper: bool) -> None:
    text = f"{before}{(' ' + after).join(words)}{after}"
    assert is_stop(text.upper() if upper else text)


@given(
    st.lists(st.sampled_from(WORDS), max_size=4),
    st.sampled_from(["walk", "not", "kitchen", "跳舞", "7", "resume"]),
    st.integers(0, 4),
)
def test_one_word_more_makes_it_an_instruction(words: list[str], extra: str, at: int) -> None:
    assert not is_stop(" ".join([*words[:at], extra, *words[at:]]))


SHOUTED = st.sampled_from(["stop", "halt", "freeze", "стой", "arrete", "alto", "fermati", "ferma"])


@given(SHOUTED, st.data())
def test_letters_drawn_out_spelt_or_said_on_and_on_change_nothing(word: str, data: st.DataObject) -> None:
    drawn = "".join(letter * data.draw(st.integers(1, 5)) for letter in word)
    joint = data.draw(st.sampled_from(["", " ", "-", ".", ", ", "!"]))
    spelt = data.draw(st.sampled_from([" ", ".", "-", " . "])).join(word)
    assert is_stop(joint.join([drawn] * data.draw(st.integers(1, 4)))) and is_stop(spelt.upper())


ALIKE = {word[0]: word for word in "sѕ$5ꜱｓ tтτ7ᴛ𝐭 oоο0ᴏⓞ pрρᴘ𝗽 hһн aа4@á l1ӏ fғ rʀ eеε3é".split()}


@given(st.sampled_from(["stop", "halt", "freeze"]), st.data())
def test_letters_that_look_alike_change_nothing(word: str, data: st.DataObject) -> None:
    assert is_stop("".join(data.draw(st.sampled_from(ALIKE.get(letter, letter))) for letter in word))


@pytest.mark.parametrize("text", ["stop", "stop ", "para", "haltstop", "s ", "s.t.o.p.", "no-", "o", "停", "e-"])
def test_a_text_of_any_length_is_told_in_linear_time(text: str) -> None:
    begin = time.process_time()
    is_stop(text * (100_000 // len(text)) + "x")
    assert time.process_time() - begin < 1.0


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    assert is_stop(text) in (True, False)


def test_it_costs_less_than_50_microseconds() -> None:
    for text in (
        "robot, please stop right now!",
        "马上停下！",
        "walk 40 cm forward, then turn left and say hello to everybody",
    ):
        best = min(_seconds(text) for _ in range(5))
        assert best < 50e-6, (text, best)


def _seconds(text: str, rounds: int = 200) -> float:
    begin = time.perf_counter()
    for _ in range(rounds):
        is_stop(text, "coco")
    return (time.perf_counter() - begin) / rounds
