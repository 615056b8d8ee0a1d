# SPDX-License-Identifier: Apache-2.0
"""Keep what was done and what is believed: a first-in-first-out buffer, and a summary that is made anew for each of its entries
(CLEA IV-C)."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from planners.prompts.prompt import CallReport
from planners.strategies.closed_loop.actions import Action
from planners.strategies.closed_loop.pictures import Pictures

CAPACITY = 30
"""Newest entries that are kept."""


@dataclass(frozen=True)
class Entry:
    """Hold one action, what was observed after it, and its feedback. `step` counts all actions of the process."""

    step: int
    observation: str
    action: str
    feedback: str


class Question(Protocol):
    """A question that can be taken back."""

    def cancel(self) -> None:
        """End it without a word."""


class Memory:
    """Observe and summarise once for each action, one after the other, while the next action may run already.

    `observe` describes pictures and `summarize` sums up the buffer. Each answers by its callback, later, with "" where its
    model gave no answer.
    """

    def __init__(
        self,
        observe: Callable[[Pictures, Callable[[str], None]], Question],
        summarize: Callable[[Sequence[Entry], Callable[[str], None]], Question],
        settled: Callable[[], None],
    ) -> None:
        self._observe, self._summarize, self._settled = observe, summarize, settled
        self.entries: deque[Entry] = deque(maxlen=CAPACITY)
        self.seen = self.belief = ""
        """What the observer and the summarizer said last."""
        self._step = 0
        self._waiting: deque[tuple[Action | None, str, Pictures]] = deque()
        self._described: Pictures | None = None
        """Those that `seen` describes: actions that ended together have one look."""
        self._unsummarized = False
        self._question: Question | None = None
        self._stopped = False

    @property
    def busy(self) -> bool:
        """Return whether something is still to be observed or summarised."""
        return bool(self._waiting) or self._unsummarized

    def adopt(self, done: Iterable[CallReport]) -> None:
        """Take in what was done before the process was planned here."""
        for call in done:
            self._insert("", f"{call.function}({call.arguments})", f"{call.outcome}: {call.message}")
        self.belief = self._told() if self.entries else ""

    def record(self, action: Action | None, feedback: str, pictures: Pictures) -> None:
        """Take in an action that has ended and the pictures right after it, or pictures alone."""
        self._waiting.append((action, feedback, pictures))
        self._go_on()

    def stop(self) -> None:
        """Ask nothing until `resume`; what was being asked is asked again then."""
        self._stopped = True
        if self._question is not None:
            self._question.cancel()
            self._question = None

    def resume(self) -> None:
        """Go on."""
        self._stopped = False
        self._go_on()

    def _go_on(self) -> None:
        if self._stopped or self._question is not None:
            return
        if self._unsummarized:
            self._question = self._summarize(tuple(self.entries), self._summarized)
        elif self._waiting and self._waiting[0][2] is self._described:
            self._observed(self.seen)
        elif self._waiting:
            self._question = self._observe(self._waiting[0][2], self._observed)

    def _observed(self, text: str) -> None:
        self._question = None
        action, feedback, self._described = self._waiting.popleft()
        self.seen = text
        if action is not None:
            self._insert(text, str(action), feedback)
            self._unsummarized = True
        self._next()

    def _insert(self, observation: str, action: str, feedback: str) -> None:
        self._step += 1
        self.entries.append(Entry(self._step, observation, action, feedback))

    def _summarized(self, text: str) -> None:
        self._question, self._unsummarized = None, False
        self.belief = text or self._told()
        self._next()

    def _told(self) -> str:
        """Return what is believed where nobody has summed it up."""
        told = "".join(f"\nstep {e.step}: {e.action}: {e.feedback}" for e in self.entries)
        return f"Trajectory:{told}\nSpatial: nobody has summed it up; see SEEN and OBSERVATION"

    def _next(self) -> None:
        self._go_on()
        if not self.busy:
            self._settled()
