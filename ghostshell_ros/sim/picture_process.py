# SPDX-License-Identifier: Apache-2.0
"""The process that draws a simulated world, apart from the one that steps it: drawing in software takes what processor time
it gets, and sensors that come late halt the robot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from ghostshell_ros.sim.world import Image, SimWorld, SimWorldError, State

NICE = 5
"""Where the kernel does not share its time out by session (CONFIG_SCHED_AUTOGROUP), as in a container."""
ANSWER_S = 60.0
"""A picture that takes longer is given up; the first one waits until the process has started."""


@dataclass(frozen=True)
class Request:
    """Name what to draw: a camera of the model, width and height in pixels, the state of the world, a new face or None."""

    camera: str
    width: int
    height: int
    state: State
    face: tuple[str, Image] | None = None


class PictureProcess:
    """Draws on request. One thread at a time may use it.

    The process has a session of its own, so that the kernel's scheduler gives it a share of its own. It ends with this one.
    """

    def __init__(self, model: Path, world: str) -> None:
        """Start the process; it comes up by itself meanwhile. Raises OSError when it cannot be started."""
        here, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(there.fileno()), str(model), world],
                pass_fds=[there.fileno()],
                start_new_session=True,
            )
        self._line = Connection(here.detach())

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def draw(self, request: Request) -> Image:
        """Return the picture. Raises SimWorldError when the world cannot be drawn or the process has ended or is silent."""
        try:
            self._line.send(request)
            if not self._line.poll(ANSWER_S):
                raise SimWorldError(f"the process that draws them has not answered for {ANSWER_S:g} s")
            answer = self._line.recv()
        except (EOFError, OSError) as error:
            raise SimWorldError(f"the process that draws them has ended (status {self._process.poll()})") from error
        if isinstance(answer, str):
            raise SimWorldError(answer)
        return np.frombuffer(answer, dtype=np.uint8).reshape(request.height, request.width, 3)

    def close(self) -> None:
        """End the process. From any thread; a picture that is being drawn is lost."""
        self._process.kill()
        self._process.wait()

    def release(self) -> None:
        """Free the line, once nobody draws any more."""
        self._line.close()


def serve(line: Connection, model: Path, world_name: str) -> None:
    """Draw what is asked until the other end is gone."""
    world = SimWorld(model, world=world_name)
    os.nice(NICE)
    with suppress(EOFError, OSError):
        while True:
            request: Request = line.recv()
            world.set_state(request.state)
            try:
                if request.face is not None:
                    world.set_face(*request.face)
                line.send(world.render(request.camera, request.width, request.height).tobytes())
            except SimWorldError as error:
                line.send(str(error))


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), Path(sys.argv[2]), sys.argv[3])
