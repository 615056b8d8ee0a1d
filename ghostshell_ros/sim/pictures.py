# SPDX-License-Identifier: Apache-2.0
"""Has the simulated world's cameras drawn in a process of its own and hands the pictures on, so that none delays physics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from ghostshell_ros.sim.picture_process import PictureProcess, Request
from ghostshell_ros.sim.world import Image, SimWorldError, State

Stamp = TypeVar("Stamp")


@dataclass
class Shot(Generic[Stamp]):
    """A camera to draw: every `period_s` seconds while `wanted()`; `deliver` gets the picture and the stamp of the moment
    that it shows, on the thread here."""

    camera: str
    width: int
    height: int
    period_s: float
    wanted: Callable[[], bool]
    deliver: Callable[[Image, Stamp], None]
    due_at: float = 0.0


class PictureThread(Generic[Stamp]):
    """Asks the process that draws for one picture after the other.

    `snapshot()` gives the world's current state and its stamp. A picture that comes late pushes the next ones back: frames
    are left out, never queued. When drawing is not possible, `failed` gets one sentence and the thread ends.
    """

    def __init__(
        self,
        model: Path,
        snapshot: Callable[[], tuple[State, Stamp]],
        shots: list[Shot[Stamp]],
        failed: Callable[[str], None],
        world: str = "desk",
    ) -> None:
        self._snapshot = snapshot
        self._shots = shots
        self._failed = failed
        self._face: tuple[str, Image] | None = None
        self._shown: tuple[str, Image] | None = None
        self._ending = threading.Event()
        self._process = PictureProcess(model, world)
        self._thread = threading.Thread(target=self._run, name="pictures", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def set_face(self, name: str, image: Image) -> None:
        """Set what the robot's display shows from the next picture on; may be called from any thread."""
        self._face = (name, image)

    def close(self) -> None:
        self._ending.set()
        self._process.close()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                now = time.monotonic()
                due = [shot for shot in self._shots if shot.due_at <= now]
                for shot in due:
                    shot.due_at = max(shot.due_at + shot.period_s, now)
                    if shot.wanted():
                        self._take(shot)
                next_due = min(shot.due_at for shot in self._shots)
                self._ending.wait(max(next_due - time.monotonic(), 0.005))
        except SimWorldError as error:
            if not self._ending.is_set():
                self._failed(str(error))
        except Exception:
            if not self._ending.is_set():  # what it delivers to may be gone
                raise
        finally:
            self._process.release()

    def _take(self, shot: Shot[Stamp]) -> None:
        state, stamp = self._snapshot()
        face = self._face
        request = Request(shot.camera, shot.width, shot.height, state, face if face is not self._shown else None)
        shot.deliver(self._process.draw(request), stamp)
        self._shown = face
