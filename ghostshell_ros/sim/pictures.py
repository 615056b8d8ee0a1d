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
        self._warm_up, self._warm = False, threading.Event()
        self._face: tuple[str, Image] | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pictures", daemon=True)

    def start(self, *, warm_up_s: float = 0.0) -> None:
        """Begin. With `warm_up_s` each camera is rendered once before this returns, or that time is over: making a GL
        context stops all of Python's threads for up to a second, which nobody may wait for once the robot moves."""
        self._warm_up = warm_up_s > 0
        self._thread.start()
        if self._warm_up:
            self._warm.wait(warm_up_s)

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
            for shot in self._shots if self._warm_up else ():
                world.render(shot.camera, shot.width, shot.height)
            self._warm.set()
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
            self._warm.set()
            world.close()
