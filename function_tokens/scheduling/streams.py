# SPDX-License-Identifier: Apache-2.0
"""State of one stream of function tokens: its open elements, its current utterance, how it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from function_tokens.parsing.tokens import FunctionToken
from function_tokens.scheduling.calls import Call

PHRASE_BOUNDARY = re.compile(r"[.!?,;:…\n。！？，、；：—]|\s\S{0,40}\s\S{0,40}\s\S{0,40}\s")
"""Where speech may begin (law C4): behind punctuation, or after a few words of a sentence that goes on."""

PHRASE_REACH = 130
"""How many characters before a new piece can belong to a boundary that ends in it."""


class FrameKind(Enum):
    """What an open element is to the calls inside it."""

    CALL = "call"
    WRAPPER = "wrapper"
    REFUSED = "refused"
    LEFT_OUT = "left out"
    """Inside an element that has ended already, so that nothing of it runs."""
    SAVE = "save"


@dataclass
class Frame:
    """One open element. `recorded` collects the tokens inside `save`, `faults` what is wrong with them, or why the turn
    ends with the end of a refused element. `branched`: an `if` has stood right inside it."""

    kind: FrameKind
    name: str
    call: Call | None = None
    recorded: list[FunctionToken] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    depth: int = 0
    text_seen: bool = False
    branched: bool = False


@dataclass(eq=False)
class Stream:
    """One answer of a model. `reason` tells how its turn ends once `closed`: end, observe, plan_done, failure, interrupt.

    `turn`: what its writer knew of; streams of one turn or an earlier one were planned without what happened behind it.
    `plans`: it has written steps. `step` is the one that is being read, `unfinished` those whose end tag only the parser
    set. `superseded`: why nothing is taken of it any more but the rest of what is open.
    """

    stream_id: str
    epoch: int = 0
    strict: bool = False
    turn: int = 0
    frames: list[Frame] = field(default_factory=list)
    utterance: Call | None = None
    held_space: str = ""
    phrase: str = ""
    late_text: bool = False
    closed: bool = False
    reason: str = ""
    code: int = 0
    error: str = ""
    live: int = 0
    run_stack: list[str] = field(default_factory=list)
    last_token_s: float = 0.0
    watched: bool = False
    turn_over: bool = False
    deadline_passed: bool = False
    plans: bool = False
    step: Call | None = None
    unfinished: list[Call] = field(default_factory=list)
    superseded: str = ""

    @property
    def inner(self) -> Frame | None:
        """The frame of the innermost open call."""
        for frame in reversed(self.frames):
            if frame.kind is FrameKind.CALL:
                return frame
        return None

    @property
    def parent(self) -> Call | None:
        """The innermost open call, which is the parent of the next one."""
        inner = self.inner
        return inner.call if inner is not None else None

    @property
    def inside_refused(self) -> bool:
        """Whether what comes now stands inside a refused element."""
        return bool(self.frames) and self.frames[-1].kind is FrameKind.REFUSED

    @property
    def saving(self) -> Frame | None:
        """The open `save` element, if the stream is inside one."""
        return self.frames[-1] if self.frames and self.frames[-1].kind is FrameKind.SAVE else None
