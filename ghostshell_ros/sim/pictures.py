# SPDX-License-Identifier: Apache-2.0
"""Have the simulated world's cameras drawn in a process of its own, so that none delays physics."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from ghostshell_ros.executables import drop_code
from ghostshell_ros.sim.world import Image, SimWorld, SimWorldError, State

NICE = 5
"""Niceness for where the kernel does not share its time by session (CONFIG_SCHED_AUTOGROUP), as in a container."""
IDLE_S = 1.0
"""Time without a request after which the process gives back memory: a renderer in software keeps a compiler's 50 MB."""
SAME = 0.002
"""Movement [m, rad] below which a picture looks the same."""
ANSWER_S = 60.0
"""Time after which a picture is given up; the first one waits until the process has started."""


class PictureProcess:
    """Draw on request. One thread at a time may use it.

    The process has a session of its own, so that the kernel's scheduler gives it a share of its own. It ends with this one.
    """

    def __init__(self, models: Mapping[str, Path], world: str) -> None:
        """Start the process; it comes up by itself meanwhile. Raises OSError when it cannot be started."""
        here, there = socket.socketpair()
        named = [f"{name}={model}" for name, model in models.items()]
        with there:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(there.fileno()), world, *named],
                pass_fds=[there.fileno()],
                start_new_session=True,
            )
        self._line = Connection(here.detach())

    def draw(self, camera: str, size: tuple[int, int], state: State, faces: Mapping[str, Image] | None = None) -> Image:
        """Return what a camera of the model sees of a state, `size` wide and high in pixels, robots' faces shown from now on.

        Raises SimWorldError when the world cannot be drawn or the process has ended or is silent.
        """
        try:
            self._line.send((camera, size, state, faces or {}))
            if not self._line.poll(ANSWER_S):
                raise SimWorldError(f"the process that draws them has not answered for {ANSWER_S:g} s")
            answer = self._line.recv()
        except (EOFError, OSError) as error:
            raise SimWorldError(f"the process that draws them has ended (status {self.process.poll()})") from error
        if isinstance(answer, str):
            raise SimWorldError(answer)
        return np.frombuffer(answer, dtype=np.uint8).reshape(size[1], size[0], 3)

    def close(self) -> None:
        """End the process. From any thread; a picture that is being drawn is lost."""
        self.process.kill()
        self.process.wait()


def serve(line: Connection, world_name: str, models: Mapping[str, str]) -> None:
    """Answer requests until the other end is gone."""
    world = SimWorld(models, world=world_name)
    os.nice(NICE)
    with suppress(EOFError, OSError):
        while True:
            if not line.poll(IDLE_S):
                drop_code()
                line.poll(None)
            camera, size, state, faces = line.recv()
            world.set_state(state)
            try:
                for robot, face in faces.items():
                    world.set_face(face, robot)
                line.send(world.render(camera, *size).tobytes())
            except SimWorldError as error:
                line.send(str(error))


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), sys.argv[2], dict(named.split("=", 1) for named in sys.argv[3:]))


Stamp = TypeVar("Stamp")


@dataclass
class Shot(Generic[Stamp]):
    """Name a camera to draw every `period_s` seconds while `wanted()`.

    `deliver` gets the picture and the stamp of the moment that it shows, on the thread that takes pictures.
    """

    camera: str
    size: tuple[int, int]
    """Width and height in pixels."""
    period_s: float
    wanted: Callable[[], bool]
    deliver: Callable[[Image, Stamp], None]
    due_at: float = 0.0
    begun: bool = False
    drawn: tuple[Image, State, object] | None = None
    """Last picture, with the appearance and the face that it shows. The very first one lacks textures that it loads."""


class PictureThread(Generic[Stamp]):
    """Ask the process that draws for one picture after the other.

    `snapshot()` gives the world's current state, its appearance and its stamp; one that looks the same is not drawn again.
    A picture that comes late pushes the next ones back: frames are left out, never queued. When drawing
    is not possible, `failed` gets one sentence and the thread ends.
    """

    def __init__(
        self,
        models: Mapping[str, Path],
        snapshot: Callable[[], tuple[State, State, Stamp]],
        shots: list[Shot[Stamp]],
        failed: Callable[[str], None],
        world: str = "desk",
    ) -> None:
        self._snapshot = snapshot
        self._shots = shots
        self._failed = failed
        self._faces: Mapping[str, Image] = {}
        self._shown: Mapping[str, Image] = self._faces
        self._ending = threading.Event()
        self._start = partial(PictureProcess, models, world)
        self._process: PictureProcess | None = None
        """None before the first picture: it takes 40 MB."""
        self._thread = threading.Thread(target=self._run, name="pictures", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def set_face(self, image: Image, robot: str = "") -> None:
        """Show a face on a robot's display from the next picture on; one thread at a time may call it."""
        self._faces = {**self._faces, robot: image}

    def close(self) -> None:
        self._ending.set()
        if self._process is not None:
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
        except (SimWorldError, OSError) as error:
            if not self._ending.is_set():
                self._failed(str(error))
        except Exception:
            if not self._ending.is_set():  # what it delivers to may be gone
                raise

    def _take(self, shot: Shot[Stamp]) -> None:
        state, appearance, stamp = self._snapshot()
        faces = self._faces
        if shot.drawn is not None and shot.drawn[2] is faces and np.abs(shot.drawn[1] - appearance).max() < SAME:
            shot.deliver(shot.drawn[0], stamp)
            return
        if self._process is None:
            self._process = self._start()
            if self._ending.is_set():
                self._process.close()
        picture = self._process.draw(shot.camera, shot.size, state, faces if faces is not self._shown else None)
        shot.begun, shot.drawn = True, (picture, appearance, faces) if shot.begun else None
        self._shown = faces
        shot.deliver(picture, stamp)
