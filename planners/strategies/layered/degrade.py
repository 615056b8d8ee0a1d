# SPDX-License-Identifier: Apache-2.0
"""How System 1 goes on when its model does not: once more with the error, the rest of the queue, direct commands, a stop."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import IntEnum
from xml.sax.saxutils import escape

from planners.prompts.prompt import CallReport
from skill_kernel.codes import ModelCode, TaskCode

HOPELESS = frozenset({int(ModelCode.MODEL_AUTH), int(ModelCode.MODEL_REFUSED), int(TaskCode.BUDGET_SPENT)})
"""Why asking once more helps nobody."""
MAX_SAID = 160

Commands = Callable[[str, Sequence[CallReport]], str]
"""The direct commands in a text, without what was done already; "" when it is not understood wholly."""


class Rung(IntEnum):
    """Where on the way down it stands."""

    MODEL = 0
    ONCE_MORE = 1
    QUEUE = 2
    COMMANDS = 3
    STOPPED = 4


HOW = {
    Rung.ONCE_MORE: "asks once more, with the error shown",
    Rung.QUEUE: "goes on with the rest of the queue",
    Rung.COMMANDS: "follows the direct commands in the task, without a language model",
    Rung.STOPPED: "stops and says so",
}


class Ladder:
    """One step down with each answer that came to nothing; up again with one that can be used."""

    def __init__(self) -> None:
        self.rung = Rung.MODEL
        self.code = 0
        self.why = ""

    def useful(self) -> None:
        """An answer could be used."""
        if self.rung < Rung.COMMANDS:
            self.rung, self.code, self.why = Rung.MODEL, 0, ""

    def useless(self, code: int, why: str, *, idle: bool) -> Rung:
        """An answer came to nothing, `code` 0 when it was there but could not be used. What is next: while nothing is left
        in the queue, direct commands."""
        self.code, self.why = code or int(ModelCode.MODEL_NOT_UNDERSTOOD), why
        if self.rung is Rung.MODEL and code not in HOPELESS:
            self.rung = Rung.ONCE_MORE
        else:
            self.rung = Rung.COMMANDS if idle else Rung.QUEUE
        return self.rung

    def run_out(self) -> None:
        """The queue has nothing left: the model is asked one last time, unless that is hopeless."""
        if self.rung is Rung.QUEUE:
            self.rung = Rung.COMMANDS if self.code in HOPELESS else Rung.ONCE_MORE

    def fall(self, rung: Rung) -> None:
        """Go down to a rung."""
        self.rung = rung


def stop_sentence(instruction: str, why: str = "") -> str:
    """What the robot says when it ends without having done it, in the language of the instruction."""
    if re.search(r"[\u4e00-\u9fff]", instruction):
        return "我停在这里，因为我的语言模型没有给出可用的回答。" if not why else f"我没能做到：{short(why)}"
    return "I stop here, because my model gives me no usable answer." if not why else f"I could not do it: {short(why)}"


def spoken(sentence: str) -> str:
    """A step that says a sentence and drops what is queued."""
    return f"<replace_steps/><step>{escape(sentence)}</step>"


def short(text: str) -> str:
    """What can be said aloud in some ten seconds."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SAID else f"{text[:MAX_SAID].rsplit(' ', 1)[0]} …"
