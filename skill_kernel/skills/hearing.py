# SPDX-License-Identifier: Apache-2.0
"""What a running skill hears from the kernel: its character data, piece by piece or whole, and that it is to pause."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator


class ContentLost(Exception):
    """No further character data came in time, though the last piece had not been seen."""


class ContentBuffer(Iterator[str]):
    """Pieces in the order of their numbers, which start at 0. One skill reads; the kernel's threads write."""

    def __init__(self, timeout_s: float, first: str = "") -> None:
        self._pieces = deque([first] if first else [])
        self._received = [first]
        self._next_seq = 0
        self._ended = False
        self._timeout_s = timeout_s
        self._changed = threading.Condition()

    @property
    def received(self) -> str:
        """Return the text so far, what was read included."""
        return "".join(self._received)

    def put(self, seq: int, text: str, last: bool) -> bool:
        """Add a piece; false when one before it is missing. A piece that came before is ignored."""
        with self._changed:
            if seq > self._next_seq:
                return False
            if seq == self._next_seq and not self._ended:
                self._next_seq += 1
                self._received.append(text)
                if text:
                    self._pieces.append(text)
                self._ended = last
                self._changed.notify_all()
            return True

    def close(self) -> None:
        """Nothing more will come; a reader gets what is there and then the end."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def __next__(self) -> str:
        """Return the next piece, waiting for it. Raises StopIteration behind the last, ContentLost after the time-out."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._pieces or self._ended, self._timeout_s):
                raise ContentLost(f"no further text within {self._timeout_s:g} s, though the element was not closed")
            if self._pieces:
                return self._pieces.popleft()
            raise StopIteration

    def whole(self) -> str:
        """Return everything up to the last piece, waiting for it. Raises ContentLost."""
        return "".join(self)


class PauseEvent(threading.Event):
    """Set while the call is to pause. The skill looks at it in its loop, brings the body to rest, then calls `rest`."""

    def __init__(self, on_rest: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._on_rest = on_rest
        self._changed = threading.Condition()
        self._pauses = 0

    def set(self) -> None:
        """Ask for a pause. The kernel's."""
        with self._changed:
            if not self.is_set():
                self._pauses += 1
            super().set()

    def clear(self) -> None:
        """Let the skill go on. The kernel's."""
        with self._changed:
            super().clear()
            self._changed.notify_all()

    def rest(self) -> None:
        """Say that the body is at rest, and wait until the call goes on or is stopped; look at `stop_evt` then.

        From here on the subsystems may be another's. Returns at once when no pause is asked for.
        """
        while True:
            with self._changed:
                if not self.is_set():
                    return
                pause = self._pauses
            self._on_rest()
            with self._changed:
                while self.is_set() and self._pauses == pause:
                    self._changed.wait()  # no deadline: the kernel ends it by a resume or a stop
