# SPDX-License-Identifier: Apache-2.0
"""Tell a running skill what comes from the kernel: its character data, piece by piece or whole, and that it is to pause."""

import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue


class ContentLost(Exception):
    """Report that no further character data came in time, though the last piece had not been seen."""


class ContentBuffer(Iterator[str]):
    """Hold pieces in the order of their numbers, which start at 0. One skill reads; the kernel writes, with its lock."""

    def __init__(self, timeout_s: float, first: str = "") -> None:
        self.received = ""
        """The text so far, what was read included."""
        self._pieces: SimpleQueue[str] = SimpleQueue()
        self._next_seq = 0
        self._ended = False
        self._timeout_s = timeout_s
        self._add(first)

    def put(self, seq: int, text: str, last: bool) -> bool:
        """Add a piece; return false when one before it is missing. A piece that came before is ignored."""
        if seq > self._next_seq:
            return False
        if seq == self._next_seq and not self._ended:
            self._next_seq += 1
            self._add(text)
            if last:
                self.close()
        return True

    def close(self) -> None:
        """Note that nothing more will come; a reader gets what is there and then the end."""
        self._ended = True
        self._pieces.put("")

    def _add(self, text: str) -> None:
        if text:
            self.received += text
            self._pieces.put(text)

    def __next__(self) -> str:
        """Return the next piece, waiting for it. Raises StopIteration behind the last, ContentLost after the time-out."""
        try:
            piece = self._pieces.get(timeout=self._timeout_s)
        except Empty:
            raise ContentLost(f"no further text within {self._timeout_s:g} s, though the element was not closed") from None
        if piece:
            return piece
        self._pieces.put("")  # it stays at its end, however often it is asked
        raise StopIteration


class PauseEvent(threading.Event):
    """Tell, while it is set, that the call is to pause.

    The skill looks at it in its loop, brings the body to rest, then calls `rest`.
    """

    def __init__(self, on_rest: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._on_rest = on_rest
        self._changed = threading.Condition()
        self._pauses = 0

    def set(self) -> None:
        """Ask for a pause, as the kernel."""
        with self._changed:
            if not self.is_set():
                self._pauses += 1
            super().set()

    def clear(self) -> None:
        """Let the skill go on, as the kernel."""
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
