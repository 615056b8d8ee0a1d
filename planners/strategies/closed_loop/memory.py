# SPDX-License-Identifier: Apache-2.0
"""Keep what was done and what is believed: a first-in-first-out buffer, and a summary of it that follows behind (CLEA IV-C)."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
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
    """Observe each action that has ended, and sum up behind that, while the next action may run already.

    `observe` describes pictures and `summarize` sums up the buffer; the two may be asked at the same time. Each answers by its
    callback, later, with "" where its model gave no answer. `settled` is called when either has told something new.
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
        self._step = self._summed_up = 0
        """Steps that are in the buffer, and that the belief rests on."""
        self._waiting: deque[tuple[Action | None, str, Pictures]] = deque()
        self._described: Pictures | None = None
        """Those that `seen` describes: actions that ended together have one look."""
        self._looking: Question | None = None
        self._summing: Question | None = None
        self._stopped = False

    @property
    def observing(self) -> bool:
        """Return whether something is still to be observed."""
        return bool(self._waiting)

    @property
    def recent(self) -> list[Entry]:
        """Return what the belief does not know yet, oldest first; what nobody has described has no observation."""
        known = [entry for entry in self.entries if entry.step > self._summed_up]
        new = [(action, feedback) for action, feedback, _ in self._waiting if action is not None]
        return known + [Entry(self._step + n, "", str(action), feedback) for n, (action, feedback) in enumerate(new, 1)]

    def adopt(self, done: Iterable[CallReport]) -> None:
        """Take in what was done before the process was planned here."""
        for call in done:
            self._insert("", f"{call.function}({call.arguments})", f"{call.outcome}: {call.message}")
        self._summed_up = self._step
        self.belief = self._told() if self.entries else ""

    def record(self, action: Action | None, feedback: str, pictures: Pictures) -> None:
        """Take in an action that has ended and the pictures right after it, or pictures alone."""
        self._waiting.append((action, feedback, pictures))
        self._go_on()

    def stop(self) -> None:
        """Ask nothing until `resume`; what was being asked is asked again then."""
        self._stopped = True
        for question in (self._looking, self._summing):
            if question is not None:
                question.cancel()
        self._looking = self._summing = None

    def resume(self) -> None:
        """Go on."""
        self._stopped = False
        self._go_on()

    def _go_on(self) -> None:
        while not self._stopped and self._looking is None and self._waiting:
            if self._waiting[0][2] is not self._described:
                self._looking = self._observe(self._waiting[0][2], self._observed)
                break
            self._take(self.seen)
        if not self._stopped and self._summing is None and self._summed_up < self._step:
            self._summing = self._summarize(tuple(self.entries), partial(self._summarized, self._step))

    def _observed(self, text: str) -> None:
        self._looking = None
        self._take(text)
        self._go_on()
        self._settled()

    def _take(self, text: str) -> None:
        """Keep the first action that waits, with what was seen after it."""
        action, feedback, self._described = self._waiting.popleft()
        self.seen = text
        if action is not None:
            self._insert(text, str(action), feedback)

    def _insert(self, observation: str, action: str, feedback: str) -> None:
        self._step += 1
        self.entries.append(Entry(self._step, observation, action, feedback))

    def _summarized(self, step: int, text: str) -> None:
        self._summing, self._summed_up = None, step
        self.belief = text or self._told()
        self._go_on()
        self._settled()

    def _told(self) -> str:
        """Return what is believed where nobody has summed it up."""
        told = "".join(f"\nstep {e.step}: {e.action}: {e.feedback}" for e in self.entries if e.step <= self._summed_up)
        return f"Trajectory:{told}\nSpatial: nobody has summed it up; see SEEN and OBSERVATION"
