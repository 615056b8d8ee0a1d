# SPDX-License-Identifier: Apache-2.0
"""Keep live calls in order on their channels, tell which may start (laws C1, C2, C3, C6), and queue steps (TypeGo 6)."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineError, to_source
from function_tokens.scheduling.calls import Call, CallState
from skill_kernel.skills.skill import MAIN

MOST_SHOWN = 20
"""Waiting steps that a report shows; it counts the others."""
MOST_TOKENS = 50
"""Function tokens of a step that a report shows."""
MOST_SOURCE = 4000
"""Characters of a step that a report shows."""


@dataclass(frozen=True)
class StepQueue:
    """Show the living steps by their source text, in which elements still open are closed, and their streams (StepQueue.msg).

    `queued` ones have not begun, the oldest first, MOST_SHOWN at most, `more` of them are not shown; `done` counts those that
    have begun and ended; `reading` is true until the end tag of the last one has been read.
    """

    running: str = ""
    running_stream: str = ""
    queued: tuple[str, ...] = ()
    queued_streams: tuple[str, ...] = ()
    done: int = 0
    reading: bool = False
    more: int = 0


class StepLine:
    """Keep the living steps of a process; `report` publishes all changes of one instant at once."""

    def __init__(self, on_change: Callable[[StepQueue], None]) -> None:
        self._on_change = on_change
        self._steps: OrderedDict[Call, list[FunctionToken]] = OrderedDict()  # in token order
        self._written: dict[Call, str] = {}  # as they were shown, until another token of them is read
        self._done = 0
        self._told = StepQueue()
        self._changed = False

    def opened(self, step: Call, token: FunctionToken) -> None:
        """Add a step whose start tag, or empty tag, has been read."""
        self._steps[step] = [token]
        self._changed = True

    def wrote(self, step: Call, token: FunctionToken) -> None:
        """Add a token inside a step, or its end tag."""
        if step in self._steps and len(self._steps[step]) < MOST_TOKENS:
            self._steps[step].append(token)
            self._written.pop(step, None)

    def changed(self, call: Call) -> None:
        """Note that a call has begun, has ended, or has been read to its end."""
        if call in self._steps:
            self._changed = True
            if not call.live:
                self._done += call.start_s is not None
                del self._steps[call]
                self._written.pop(call, None)

    def report(self) -> None:
        """Publish the queue if it has changed since the last time."""
        if not self._changed:
            return
        self._changed = False
        first = list(islice(self._steps, MOST_SHOWN + 1))  # one that has begun is among them: steps run in order
        running = next((step for step in first if step.state is not CallState.QUEUED), None)
        queued = [step for step in first if step.state is CallState.QUEUED][:MOST_SHOWN]
        sources, streams = tuple(map(self._shown, queued)), tuple(step.stream_id for step in queued)
        reading = any(not step.closed for step in (*first, *islice(reversed(self._steps), MOST_SHOWN)))
        more = len(self._steps) - len(queued) - (running is not None)
        performed = (self._shown(running), running.stream_id) if running is not None else ("", "")
        now = StepQueue(*performed, sources, streams, self._done, reading, more)
        if now != self._told:
            self._told = now
            self._on_change(now)

    def _shown(self, step: Call) -> str:
        if step not in self._written:
            source = source_of(self._steps[step])
            self._written[step] = source if len(source) <= MOST_SOURCE else f"{source[:MOST_SOURCE]}…"
        return self._written[step]


def source_of(tokens: list[FunctionToken]) -> str:
    """Return the canonical text of tokens that may not be complete yet."""
    opened: list[str] = []
    for token in tokens:
        if token.kind is TokenKind.AF:
            opened.append(token.name)
        elif token.kind is TokenKind.RF and opened:
            opened.pop()
    closing = [FunctionToken(TokenKind.RF, name) for name in reversed(opened)]
    try:
        return to_source([*tokens, *closing])
    except RoutineError as error:
        return f"<!-- a step that cannot be shown: {error} -->"


class ChannelQueues:
    """Keep all live calls of a process in token order on each channel they claim.

    A call waits for every earlier live call that is not one of its ancestors and either shares a channel with it (C1)
    or claims main (C3); calls on a `parallel` channel do not wait for one another. One stream may go on inside an element
    behind which calls of another stream wait already: calls inside that element do not wait for those.

    So on each serial channel at most one call of a stream can be next, and it is enough to look at those; of a parallel
    channel only the waiting calls are kept. A call that runs for hours, or thousands that wait, cost the others nothing.
    """

    def __init__(self, parallel: frozenset[str] = frozenset()) -> None:
        self._parallel = parallel
        # Ordered dictionaries, because the head of a plain one is found slowly once many have been taken from it.
        self._serial: dict[str, OrderedDict[int, Call]] = {MAIN: OrderedDict()}
        self._waiting: dict[tuple[str, str], OrderedDict[int, Call]] = {}

    def add(self, call: Call) -> None:
        """Append a new call to the queues of its channels; calls come in the order of their tokens."""
        for channel in call.channels:
            self._waiting.setdefault((channel, call.stream_id), OrderedDict())[call.seq] = call
            if channel not in self._parallel:
                self._serial.setdefault(channel, OrderedDict())[call.seq] = call

    def running(self, call: Call) -> None:
        """Take a call that has begun out of the line of those that wait."""
        for channel in call.channels:
            key = (channel, call.stream_id)
            queue = self._waiting.get(key)
            if queue is not None:
                queue.pop(call.seq, None)
                if not queue:
                    del self._waiting[key]

    def remove(self, call: Call) -> None:
        """Take out a call that has ended."""
        self.running(call)
        for channel in call.channels - self._parallel:
            queue = self._serial.get(channel)
            if queue is not None:
                queue.pop(call.seq, None)
                if not queue and channel != MAIN:
                    del self._serial[channel]

    def candidates(self) -> list[Call]:
        """Return the next waiting call of each channel and stream, in token order."""
        found = {call.seq: call for key, queue in self._waiting.items() for call in self._next(key[0], queue)}
        return [found[seq] for seq in sorted(found)]

    def _next(self, channel: str, queue: OrderedDict[int, Call]) -> Iterator[Call]:
        for call in queue.values():
            if call.state is CallState.QUEUED:
                yield call
                if channel not in self._parallel or self._blocker_on(MAIN, call) is not None:
                    return  # main holds back all later calls of the same stream too
            elif channel not in self._parallel and channel != MAIN:
                return

    def blocker(self, call: Call) -> Call | None:
        """Return the first live call that `call` has to wait for by order, or None."""
        for channel in {*(call.channels - self._parallel), MAIN}:
            other = self._blocker_on(channel, call)
            if other is not None:
                return other
        return None

    def _blocker_on(self, channel: str, call: Call) -> Call | None:
        for seq, other in self._serial[channel].items():
            if seq >= call.seq:
                break
            if other not in call.ancestors and not self._waits_for_one_around(other, call):
                return other
        return None

    def _waits_for_one_around(self, other: Call, call: Call) -> bool:
        """Return whether `other`, or an element around it, cannot begin before an element around `call` has ended."""
        if call.parent is None or other.stream_id == call.stream_id or not other.unbegun:
            return False
        waiting = [other, *(node for node in other.ancestors if node.unbegun)]
        return any(
            around.state is CallState.RUNNING
            and around.seq < node.seq
            and (MAIN in around.channels or not (around.channels & node.channels) <= self._parallel)
            and around not in node.ancestors
            for around in call.ancestors
            for node in waiting
        )
