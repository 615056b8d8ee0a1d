# SPDX-License-Identifier: Apache-2.0
"""State of one stream of function tokens: its open elements, its current utterance, how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from function_tokens.parsing.tokens import FunctionToken
from function_tokens.scheduling.calls import Call

PHRASE_BOUNDARY = re.compile(r"[.!?,;:…\n。！？，、；：—]|\s\S{0,40}\s\S{0,40}\s\S{0,40}\s")
"""Where speech may begin (law C4): behind punctuation, or after a few words of a sentence that goes on."""

PHRASE_REACH = 130
"""How many characters before a new piece can belong to a boundary that ends in it."""


class FrameKind(Enum):
    """Tell what an open element is to the calls inside it."""

    CALL = "call"
    WRAPPER = "wrapper"
    REFUSED = "refused"
    LEFT_OUT = "left out"
    """Inside an element that has ended already, so that nothing of it runs."""
    SAVE = "save"


@dataclass
class Frame:
    """Hold one open element.

    `recorded` collects the tokens inside `save`, `faults` what is wrong with them; in a refused element `faults` says why
    the turn ends with it. `branched` is true once an `if` has stood right inside it.
    """

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
    """Hold one answer of a model. `reason` tells how its turn ends once `closed`: end, observe, plan_done, failure, interrupt.

    A stream of a `turn` was planned without knowledge of what happened after that turn began. `plans` is true once it has
    written steps; `step` is the one being read, `unfinished` those whose end tag the parser had to add. `superseded` says
    why only the rest of what is open is still taken from it.
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
        """Return the frame of the innermost open call."""
        for frame in reversed(self.frames):
            if frame.kind is FrameKind.CALL:
                return frame
        return None

    @property
    def parent(self) -> Call | None:
        """Return the innermost open call, which is the parent of the next one."""
        inner = self.inner
        return inner.call if inner is not None else None

    @property
    def around(self) -> Iterator[Call]:
        """Yield the open calls around the next token, the innermost first."""
        parent = self.parent
        if parent is not None:
            yield parent
            yield from parent.ancestors

    @property
    def inside_refused(self) -> bool:
        """Return whether the next token stands inside a refused element."""
        return bool(self.frames) and self.frames[-1].kind is FrameKind.REFUSED

    @property
    def saving(self) -> Frame | None:
        """Return the open `save` element, if the stream is inside one."""
        return self.frames[-1] if self.frames and self.frames[-1].kind is FrameKind.SAVE else None
