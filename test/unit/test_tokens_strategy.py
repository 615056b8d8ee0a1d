# SPDX-License-Identifier: Apache-2.0
"""Strategy `tokens`: what is performed is the instruction itself, once, and its end says what became of its calls."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import to_source
from planners.language.controls import read_control
from planners.language.stop_words import is_stop
from planners.prompts.prompt import CallReport
from planners.strategies.tokens import Tokens
from planners.strategy import Restarted, Task
from skill_kernel.codes import Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind, StreamEvent, StreamKind

WALK = '<walk distance="1.0"/>'


class Desk:
    """The door of one process; what is written becomes `written`."""

    def __init__(self, instruction: str = WALK, done: Sequence[CallReport] = ()) -> None:
        self.written: list[str] = []
        self.ended: tuple[int, str] | None = None
        self.planning = Tokens().start(Task("p", instruction, done=done), None, self)  # type: ignore[arg-type]

    def open(self, turn: int) -> Desk:
        self.stream_id = f"s{len(self.written)}"
        return self

    def text(self, text: str) -> None:
        self.written.append(text)

    def end(self, code: int = 0, why: str = "") -> None:
        """Do nothing: nobody reads the stream."""

    def finish(self, code: int = 0, why: str = "") -> None:
        self.ended = self.ended or (code, why)

    def called(self, outcome: Outcome, error: str = "", *, parent_id: str = "") -> None:
        """Tell of a call's end."""
        same = {"function": "walk", "stream_id": self.stream_id, "parent_id": parent_id, "error_msg": error}
        self.planning.on(CallEvent(kind=CallKind.ENDED, args_json=json.dumps({}), outcome=outcome, **same))

    def turn_ended(self, stream_id: str = "") -> None:
        """Tell that all calls of the stream have ended."""
        self.planning.on(StreamEvent(kind=StreamKind.TURN_ENDED, stream_id=stream_id or self.stream_id, end="end"))


def test_the_instruction_is_performed_as_it_stands() -> None:
    desk = Desk()
    desk.called(Outcome.DONE)
    assert desk.written == [WALK] and desk.ended is None
    desk.turn_ended("another")
    assert desk.ended is None
    desk.turn_ended()
    assert desk.ended == (0, "")


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.REFUSED, Outcome.INTERRUPTED, Outcome.DROPPED])
def test_a_call_that_was_not_done_fails_the_task_with_its_reason(outcome: Outcome) -> None:
    desk = Desk()
    desk.called(outcome, "the way is blocked")
    desk.turn_ended()
    assert desk.ended == (TaskCode.CALL_FAILED, f"walk {outcome.value}: the way is blocked")


def test_what_a_skill_calls_itself_is_its_own_matter() -> None:
    desk = Desk()
    desk.called(Outcome.FAILED, "a first try", parent_id="composite")
    desk.called(Outcome.DONE)
    desk.turn_ended()
    assert desk.ended == (0, "")


def test_an_instruction_without_tokens_fails() -> None:
    desk = Desk(" ")
    desk.turn_ended()
    assert desk.ended == (TaskCode.CALL_FAILED, "the instruction holds no function token")


def test_what_was_cut_off_is_not_begun_a_second_time_and_what_was_not_begun_is() -> None:
    desk = Desk()
    desk.planning.on(Restarted(()))
    assert desk.written == [WALK, WALK]
    desk.planning.on(Restarted((CallReport("walk", {}, "INTERRUPTED"),)))
    assert len(desk.written) == 2 and desk.ended is not None and "cut off after walk INTERRUPTED" in desk.ended[1]
    late = Desk(done=(CallReport("walk", {}, "DONE"),))
    assert not late.written and late.ended is not None and late.ended[0] == TaskCode.CALL_FAILED


@pytest.mark.parametrize("name", ["stop", "halt", "wait", "pause", "resume", "sit", "stand", "speak"])
def test_one_token_is_never_taken_for_a_sentence_about_running_tasks(name: str) -> None:
    """A skill may have any name; only the word "stop" alone halts, which is the safe side."""
    source = to_source([FunctionToken(TokenKind.SCF, name, {"text": "never mind, stop walking"})])
    assert read_control(source, "kalos") is None
    assert not is_stop(source, "kalos")
