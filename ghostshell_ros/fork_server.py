# SPDX-License-Identifier: Apache-2.0
"""Start nodes as forks of one process that has imported what all of them need.

A node's imports take half a second of a core and 40 MB; a fork has them at once and shares most of that memory. The server
imports and forks, nothing else: it has no thread and no ROS context, so a fork inherits no lock that somebody holds.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO

from setproctitle import setproctitle

from ghostshell_ros import executables

COMMON = (
    "ghostshell_ros.runtime.node_runtime",
    "ghostshell_ros.runtime.lifecycle",
    "ghostshell_ros.runtime.goal_client",
    "ghostshell_ros.runtime.service_client",
    "ghostshell_ros.wire.events",
    "nav_msgs.msg",
    "sensor_msgs.msg",
    "skill_kernel.robot",
    "skill_kernel.skills.registry",
)
"""Modules that most nodes import."""
MAX_REQUEST = 65_536
"""Bytes of a command line and a folder."""
UP_S = 30.0
"""Time within which the server has imported and forked, on a machine however busy."""
_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_NUMBER = struct.Struct("i")
_PROGRAM = f"import sys; del sys.path[0]; from {__name__} import main; main()"
"""The folder it is started in is not searched for modules."""


def die_with(parent: int) -> None:
    """Have this process killed when the thread that started it ends; `parent` is the process of that thread."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def forkable(argv: Sequence[str]) -> bool:
    """Return whether a command line is that of one of the project's nodes."""
    path = Path(argv[0])
    return path.parts[-3:-1] == ("lib", "ghostshell") and path.name in (*executables.NODES, "drivers", "mind")


class Forked:
    """A running node, with the part of `subprocess.Popen` that a launch needs."""

    def __init__(self, pid: int, status: IO[bytes], stdout: IO[str], stderr: IO[str]) -> None:
        self.pid, self.stdout, self.stderr = pid, stdout, stderr
        self.returncode: int | None = None
        self._status = status
        self._reading = threading.Lock()

    def wait(self) -> int:
        """Return the exit code once the node has ended; a negative one is minus the signal."""
        with self._reading:
            if self.returncode is None:
                with self._status:
                    told = self._status.read(_NUMBER.size)
                # A server that dies takes its nodes along before they could tell anything.
                self.returncode = _NUMBER.unpack(told)[0] if len(told) == _NUMBER.size else -signal.SIGKILL
        return self.returncode


class ForkServer:
    """The server as its client sees it. It ends, and its nodes with it, with the thread that made this.

    Its forks have its environment: what the interpreter or a library reads only once cannot be another's.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Start the server; it imports meanwhile. Raises OSError."""
        self.environment = dict(environment)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(UP_S)
        parent = os.getpid()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno())],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=lambda: die_with(parent),
            )

    def start(self, argv: Sequence[str], folder: str | None) -> Forked:
        """Start a node. Raises OSError where the server has died or does not answer."""
        request = json.dumps([list(argv), folder]).encode()
        pipes = [os.pipe() for _ in range(3)]
        readers, writers = ([pipe[end] for pipe in pipes] for end in (0, 1))
        try:
            socket.send_fds(self._socket, [request], writers)
            answer = self._socket.recv(_NUMBER.size)
            if len(answer) != _NUMBER.size:
                raise ConnectionError("the fork server has ended")
        except OSError:
            for reader in readers:
                os.close(reader)
            raise
        finally:
            for writer in writers:
                os.close(writer)
        out, err = (os.fdopen(reader, encoding="utf-8", errors="replace") for reader in readers[:2])
        return Forked(_NUMBER.unpack(answer)[0], os.fdopen(readers[2], "rb"), out, err)

    def close(self) -> None:
        """End the server; nodes that still run are killed."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


class _Server:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._nodes: dict[int, int] = {}
        """Pids, and the pipes on which their exit codes are told."""
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._own = (self._woken, wake)
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def serve(self) -> None:
        """Fork at each request until the client is gone."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == self._woken:
                    self._reap()
                    continue
                request, fds, _, _ = socket.recv_fds(self._control, MAX_REQUEST, 3)
                if not request:
                    return
                self._fork(request, fds)

    def _fork(self, request: bytes, fds: Sequence[int]) -> None:
        out, err, status = fds
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                die_with(server)
                os.dup2(out, 1)
                os.dup2(err, 2)
                self._selector.close()
                for fd in (*self._own, *fds, *self._nodes.values()):
                    os.close(fd)
                # Only now: a signal to its group would meet none before.
                self._control.send(_NUMBER.pack(os.getpid()))
                self._control.close()
                _become(*json.loads(request))
            finally:
                os._exit(1)
        self._nodes[pid] = status
        os.close(out)
        os.close(err)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._woken, 512):
                pass
        for pid, status in list(self._nodes.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                continue
            # What it left in its group; until it is reaped, the group's number cannot belong to another.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(BrokenPipeError):
                os.write(status, _NUMBER.pack(code))
            os.close(status)
            del self._nodes[pid]


def _become(argv: list[str], folder: str | None) -> None:
    """Run a node as if this process had been started with that command line; does not return."""
    code = 1
    try:
        if folder is not None:
            os.chdir(folder)
        sys.argv = argv
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        setproctitle(" ".join(argv))
        code = executables.run(Path(argv[0]).name)
    except Exception:  # noqa: BLE001 - as the interpreter reports it
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Serve the client whose end of a socket pair is named on the command line."""
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as a node begins, until it sets its own
    executables.without_generator()
    for module in COMMON:
        import_module(module)
    gc.collect()
    gc.freeze()  # or the garbage collector's marks would unshare every page
    setproctitle("fork_server")
    _Server(control).serve()


if __name__ == "__main__":
    main()
