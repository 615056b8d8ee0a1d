# SPDX-License-Identifier: Apache-2.0
"""Renders the simulated world's cameras on a thread of its own, so that a picture never delays physics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ghostshell_ros.sim.world import Image, SimWorld, SimWorldError


@dataclass
class Shot:
    """A camera to render: every `period_s` seconds while `wanted()`; `deliver` gets the picture, on the thread here."""

    camera: str
    width: int
    height: int
    period_s: float
    wanted: Callable[[], bool]
    deliver: Callable[[Image], None]
    due_at: float = 0.0


class PictureThread:
    """Owns a second world of the same model, into which the state of the first is copied for each picture.

    `copy_state(world)` copies the current state into that world. A picture that comes late pushes the next ones back:
    frames are left out, never queued. When rendering is not possible, `failed` gets one sentence and the thread ends.
    `over` says that the node is shut down, after which delivering may fail.
    """

    def __init__(
        self,
        model: Path,
        copy_state: Callable[[SimWorld], None],
        shots: list[Shot],
        failed: Callable[[str], None],
        over: Callable[[], bool],
        world: str = "desk",
    ) -> None:
        self._model = model
        self._copy_state = copy_state
        self._shots = shots
        self._failed = failed
        self._over = over
        self._world = world
        self._face: tuple[str, Image] | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pictures", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def set_face(self, name: str, image: Image) -> None:
        """What the robot's display shows from the next picture on. From any thread."""
        self._face = (name, image)

    def close(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        world = SimWorld(self._model, world=self._world)
        shown = None
        try:
            while not self._ending.is_set():
                now = time.monotonic()
                due = [shot for shot in self._shots if shot.due_at <= now]
                wanted = [shot for shot in due if shot.wanted()]
                for shot in due:
                    shot.due_at = max(shot.due_at + shot.period_s, now)
                if wanted:
                    self._copy_state(world)
                    if self._face is not shown and self._face is not None:
                        shown = self._face
                        world.set_face(*shown)
                for shot in wanted:
                    shot.deliver(world.render(shot.camera, shot.width, shot.height))
                next_due = min(shot.due_at for shot in self._shots)
                self._ending.wait(max(next_due - time.monotonic(), 0.005))
        except SimWorldError as error:
            self._failed(str(error))
        except Exception:
            if not self._over():
                raise
        finally:
            world.close()
