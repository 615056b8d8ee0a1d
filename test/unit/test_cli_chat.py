# SPDX-License-Identifier: Apache-2.0
"""Commands and completion of a chat, the keys of teleop, and the sentences that a person can say to a robot."""

from __future__ import annotations

import os
import pty
import queue
import signal
import stat
import subprocess
import sys
import termios
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ghostshell.msg import Question, QuestionArray

from ghostshell_ros.cli import chat
from ghostshell_ros.cli.chat import Conversation, _run, completions, history, history_file
from ghostshell_ros.cli.run_view import RunView
from ghostshell_ros.cli.skills import phrases_of, skill_of
from ghostshell_ros.cli.teleop import SILENT, AskedOfGate, Keyboard, goes_on
from ghostshell_ros.nodes.skill_kernel.node import _info
from planners.prompts.prompt import declared
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry


@pytest.fixture
def obeyed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what a conversation with coco did: halts, commands and instructions."""
    done: list[Any] = []
    monkeypatch.setattr(chat.halt_door, "halt", lambda domain, robot, cause: done.append("halt") or "halted")
    monkeypatch.setattr(chat, "_run", lambda words: done.append(tuple(words)))
    return done


def conversation(done: list[Any], *, beside: bool = False) -> Conversation:
    view = RunView()
    view._numbers["f00c1234"] = 9
    answer = lambda question_id, text, tell: done.append((question_id, text))  # noqa: E731
    client: Any = SimpleNamespace(robot="coco", send=done.append, answer=answer, view=view)
    screen: Any = SimpleNamespace(say=lambda text: None, begin=lambda: None)
    return Conversation(client, screen, beside=beside)


@pytest.mark.parametrize(
    ("line", "does"),
    [
        ("stop", "halt"),
        ("STOOOP!", "halt"),
        ("停下", "halt"),
        ("coco, stop please", "halt"),
        ("stop 0fffa1ec", ("stop", "0fffa1ec", "--robot", "coco")),
        ("clear", ("clear", "--robot", "coco")),
        ("ps --all", ("ps", "--all", "--robot", "coco")),
        ("stop 9", ("stop", "f00c1234", "--robot", "coco")),
        ("ghostshell stop", "halt"),
        ("./ghostshell clear", ("clear", "--robot", "coco")),
        ("resume 0fff", ("resume", "0fff", "--robot", "coco")),
        ("pause the music", "pause the music"),
        ("clear the table", "clear the table"),
        ("nod", "nod"),
    ],
)
def test_a_line_is_a_halt_a_command_or_an_instruction(line: str, does: Any, obeyed: list[Any]) -> None:
    assert conversation(obeyed).obey(line) is True
    assert obeyed == [does]


def asked(*ids: str, process_id: str = "") -> QuestionArray:
    questions = [Question(id=one, process_id=process_id, text="Shall I?", choices=["yes", "no"]) for one in ids]
    return QuestionArray(questions=questions)


def test_a_line_answers_the_only_open_question_where_it_was_begun_after_that_was_shown(obeyed: list[Any]) -> None:
    talk = conversation(obeyed)
    (shown,) = talk.client.view.hear("questions", asked("3fa2"), 5.0)
    assert "asks: Shall I? (yes or no)" in shown and "ghostshell answer 3fa2" in shown
    assert talk.client.view.hear("questions", asked("3fa2"), 6.0) == [], "it is shown once"
    for begun_s, line in ((4.9, "nod"), (5.1, "yes, please"), (5.1, "! nod twice"), (5.1, "stop"), (5.1, "ps")):
        talk.begun_s = begun_s
        assert talk.obey(line)
    assert obeyed == ["nod", ("3fa2", "yes, please"), "nod twice", "halt", ("ps", "--robot", "coco")]


def test_with_several_open_only_the_command_answers_and_names_which(obeyed: list[Any]) -> None:
    talk = conversation(obeyed)
    talk.client.view.hear("questions", asked("3fa2", "1eef"), 5.0)
    talk.begun_s = 6.0
    for line in ("yes", "answer 1eef yes", "ghostshell answer 3fa2 no", "answer yes"):
        talk.obey(line)
    assert obeyed == ["yes", ("1eef", "yes"), ("3fa2", "no"), ("", "yes")]
    talk.obey("private: no, I see a doctor")
    assert obeyed[-1] == ("", "private: no, I see a doctor"), "an instruction could be read by all"
    talk.obey("answer --private 3fa2 no, I see a doctor")
    assert obeyed[-1] == ("3fa2", "private: no, I see a doctor")
    talk.client.view.hear("questions", asked(), 7.0)
    talk.obey("answer the phone")
    assert obeyed[-1] == "answer the phone"


def test_a_line_is_begun_with_its_first_letter_typed_or_pasted() -> None:
    clock = iter(range(1, 9))
    line = chat.Line(lambda: float(next(clock)))
    seen = []
    for text in ("y", "ye", "yes", "", "", "pasted whole", "pasted whole!"):
        line.changed(text)
        seen.append(line.begun_s)
    assert seen == [1, 1, 1, 1, 1, 2, 2]


def test_a_question_of_somebody_elses_task_is_not_shown_to_who_follows_his_own() -> None:
    view = RunView(shows=lambda process_id: process_id == "own")
    assert view.hear("questions", asked("3fa2", process_id="other"), 1.0) == [] and view.questions == {}
    assert len(view.hear("questions", asked("1eef", process_id="own"), 2.0)) == 1


def test_a_stop_word_is_heard_while_a_command_waits_for_its_answer(obeyed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    answered, began = threading.Event(), threading.Event()

    def waits(words: list[str]) -> None:
        began.set()
        answered.wait(10.0)

    monkeypatch.setattr(chat, "_run", waits)
    talk = conversation(obeyed, beside=True)
    assert talk.obey("pause") and began.wait(5.0)
    assert talk.obey("stop") and obeyed == ["halt"] and not answered.is_set()
    answered.set()


@pytest.mark.parametrize(("confirmed", "status"), [(True, 0), (False, 1)])
def test_a_chat_ends_when_it_is_known_whether_a_halt_through_ros_was_confirmed(
    confirmed: bool, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat.halt_door, "halt", lambda *_: None)
    talk: Any = conversation([])
    told: list[str] = []
    halting: Any = SimpleNamespace(asking=False, halt=lambda cause: setattr(halting, "asking", True))
    inbox: Any = queue.Queue()
    answers = threading.Timer(0.2, lambda: (setattr(halting, "asking", not confirmed), talk._unconfirmed()))
    about = {"inbox": inbox, "running": [], "sent": [], "halting": halting, "heard_s": 0.0}
    for name, value in about.items():
        setattr(talk.client, name, value)
    talk.client.call_soon, talk.client.call_later = lambda work, *args: work(*args), lambda delay_s, work: answers.start()
    talk.say = told.append
    talk._screen.refresh = lambda waiting: None
    lines = iter(["stop"])

    def read() -> str:
        for line in lines:
            return line
        raise EOFError

    assert talk.hold(read) == status and len(told) == 1
    assert ("halted" in told[0]) is confirmed


def test_a_signal_ends_the_chat_also_from_within_a_command(obeyed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "_run", _run)
    monkeypatch.setattr("ghostshell_ros.cli.main.app", lambda words: chat._leave(15))
    with pytest.raises(chat.AskedToEndError):
        conversation(obeyed).obey("ps")


@pytest.mark.parametrize(("line", "goes_on"), [("quit", False), ("exit", False), ("help", True), ("", True)])
def test_leaving_help_and_an_empty_line_do_nothing_else(line: str, goes_on: bool, obeyed: list[Any]) -> None:
    assert conversation(obeyed).obey(line) is goes_on and not obeyed


def test_a_line_or_its_last_word_is_completed() -> None:
    words = ["stop", "walk forward 20 cm", "go to the kitchen", "go to the lounge"]
    assert completions("WALK", words) == [("walk forward 20 cm", "WALK")]
    assert completions("then go to the ki", words) == [("kitchen", "ki")]
    assert completions("nothing ", words) == []


def test_nobody_else_may_read_the_lines_typed_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GHOSTSHELL_DATA", str(tmp_path / "new"))
    assert stat.S_IMODE(Path(history_file()).stat().st_mode) == 0o600
    Path(history_file()).chmod(0o644)
    assert stat.S_IMODE(Path(history_file()).stat().st_mode) == 0o600


def test_a_private_answer_is_not_kept_among_the_lines_typed_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prompt_toolkit")
    monkeypatch.setenv("GHOSTSHELL_DATA", str(tmp_path))
    typed = history()
    for line in (
        "private: no, I see a doctor",
        " 私下：我去看 doctor",
        "answer 3fa2 Private: a doctor",
        "ghostshell answer --private a doctor",
        "go to the doctor",
    ):
        typed.append_string(line)
    assert Path(history_file()).read_text().count("doctor") == 1
    assert list(history().load_history_strings()) == ["go to the doctor"]


@pytest.mark.parametrize("robot", ["coco", "kalos"])
def test_a_skill_that_a_robot_tells_is_the_one_it_has(robot: str) -> None:
    config = RobotConfig.load(robot)
    for skill in SkillRegistry.from_modules(config.skills, text_skill=config.text_skill):
        again = skill_of(_info(skill, -1.0))
        assert (again.name, again.description, again.subsystems) == (skill.name, skill.description, skill.subsystems)
        # Whether text is an enumeration of the robot's own class does not show in its schema.
        kept = ("name", "kind", "required", "default", "choices", "lower", "upper", "description", "content")
        told, has = ([{k: getattr(p, k) for k in kept} for p in declared(one)] for one in (again, skill))
        assert told == has


def test_sentences_are_listed_for_a_skill_of_ones_own() -> None:
    schema = '{"properties": {"colour": {"enum": ["red", "blue"], "type": "string"}}, "required": ["colour"]}'
    told = {"name": "shine", "description": "Shine in a colour.", "subsystems": ["lamp"], "on_failure": "continue"}
    info = SimpleNamespace(**told, parameters_json=schema, takes_content=False)
    (shine, _) = phrases_of([info], "lamp")
    assert shine.skill == "shine" and "red" in " ".join(shine.english) and shine.does == "Shine in a colour."


def test_q_leaves_and_no_key_that_leaves_moves_the_base() -> None:
    for key in ("q", "x", "\x03", "\x04"):
        keyboard = Keyboard(0.4, 0.8)
        keyboard.press("w", 0.0)
        assert keyboard.press(key, 0.1) == "leave" and keyboard.velocity(0.2) == (0.0, 0.0, 0.0)


def test_j_and_l_move_sideways_and_the_speed_is_told() -> None:
    keyboard = Keyboard(0.4, 0.8)
    for key, lateral in (("j", 0.4), ("l", -0.4)):
        assert keyboard.press(key, 0.0) == "" and keyboard.velocity(0.1) == (0.0, lateral, 0.0)
    keyboard.press("+", 0.0)
    assert keyboard.shown() == "0.50 m/s, 1.00 rad/s"


def test_what_the_gate_refuses_or_does_not_answer_is_told_once() -> None:
    answered = lambda **said: SimpleNamespace(done=lambda: True, result=lambda: SimpleNamespace(**said))  # noqa: E731
    of_gate = AskedOfGate()
    of_gate.add(answered(success=True, message="halted"), 0.0, "silent")
    of_gate.add(answered(success=False, message="only safety may clear that"), 0.0, "silent")
    of_gate.add(SimpleNamespace(done=lambda: False), 0.0, SILENT["halt"])
    assert of_gate.news(0.1) == ["only safety may clear that"] and of_gate.news(0.9) == []
    (lost,) = of_gate.news(1.1)
    assert "NO GATE HAS CONFIRMED THE HALT" in lost and of_gate.news(2.0) == []


def test_a_signal_leaves_the_terminal_as_it_was() -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    program = "import os, signal; from ghostshell_ros.cli.teleop import _raw_terminal\n"
    program += "with _raw_terminal():\n    os.kill(os.getpid(), signal.SIGTERM)"
    ended = subprocess.run([sys.executable, "-c", program], stdin=theirs, timeout=60.0, check=False)
    assert ended.returncode == 128 + signal.SIGTERM and termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_what_lives_goes_on_when_the_base_is_given_back() -> None:
    ended, lives = (SimpleNamespace(process_id=str(s), instruction=f"walk {s}", ended=SimpleNamespace(sec=s)) for s in (5, 0))
    assert goes_on([ended, lives]) == {"0": "walk 0"}
