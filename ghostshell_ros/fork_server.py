# SPDX-License-Identifier: Apache-2.0
"""Start nodes as forks of one process that has imported what most of them need.

A node's imports take half a second of a core and 50 MB; a fork gets them immediately and shares most of that memory. The
server imports and forks, nothing else: it runs no Python thread and has no ROS context, so no fork inherits a held lock.
"""

import contextlib
import ctypes
import errno
import gc
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO

from setproctitle import setproctitle

from ghostshell_ros import executables

COMMON = (
    "function_tokens.builtins",
    "function_tokens.routines",
    "function_tokens.scheduling.scheduler",
    "geometry_msgs.msg",
    "ghostshell.action",
    "ghostshell_ros.runtime.goal_client",
    "ghostshell_ros.runtime.goal_server",
    "ghostshell_ros.runtime.layer_model",
    "ghostshell_ros.runtime.lifecycle",
    "ghostshell_ros.runtime.model_setup",
    "ghostshell_ros.runtime.node_runtime",
    "ghostshell_ros.runtime.robot_setup",
    "ghostshell_ros.runtime.service_client",
    "ghostshell_ros.runtime.signing",
    "ghostshell_ros.wire.codec",
    "ghostshell_ros.wire.events",
    "ghostshell_ros.wire.images",
    "ghostshell_ros.wire.observation_messages",
    "ghostshell_ros.wire.sensing",
    "nav_msgs.msg",
    "planners.language.client",
    "planners.prompts.prompt",
    "reflexes.rule",
    "sensor_msgs.msg",
    "skill_kernel.processes.process",
    "skill_kernel.robot",
    "skill_kernel.roles",
    "skill_kernel.safety.base_gate",
    "skill_kernel.skills.drivers",
    "skill_kernel.skills.registry",
    "std_msgs.msg",
    "std_srvs.srv",
    "vision_msgs.msg",
)
"""Modules that two processes of a robot or more import, directly or not."""
MAX_REQUEST = 65_536
"""Maximum size of a request, a command line [bytes]."""
REPLY_TIMEOUT_S = 30.0
"""Timeout of a request. The first one waits for the server's imports."""
_INT32 = struct.Struct("i")
_PROGRAM = f"import sys; sys.path[0] or sys.path.pop(0); from {__name__} import main; main()"
"""The working directory, which `-c` adds to the path, is not searched for modules."""
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def die_with(parent: int, number: signal.Signals) -> None:
    """Ask the kernel for a signal when the thread that started this process exits; `parent` is the process of that thread."""
    if _PRCTL is not None:
        _PRCTL(1, number)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it exited before it could be watched
            os._exit(1)


def forkable(argv: Sequence[str]) -> bool:
    """Return whether a command line is that of one of the project's nodes."""
    path = Path(argv[0])
    return path.parts[-3:-1] == ("lib", "ghostshell") and path.name in (*executables.NODES, "drivers", "mind")


class Forked:
    """A running node, with the part of `subprocess.Popen` that a launch needs."""

    def __init__(self, pid: int, status_pipe: IO[bytes], stdout: IO[str]) -> None:
        self.pid, self.stdout = pid, stdout
        self.returncode: int | None = None
        self._status_pipe = status_pipe

    def wait(self) -> int:
        """Return the exit code once the node has ended, or minus the signal number. One thread at a time may wait."""
        if self.returncode is None:
            with self._status_pipe:
                data = self._status_pipe.read(_INT32.size)
            if len(data) == _INT32.size:
                self.returncode = _INT32.unpack(data)[0]
            else:
                # The server died: the kernel killed its nodes, and nobody has killed what they had started.
                kill_group(self.pid)
                self.returncode = -signal.SIGKILL
        return self.returncode


class ForkServer:
    """The client of the server. Server and nodes end with this object's process, the nodes by SIGTERM: motion stops first.

    All nodes have the server's environment, because some variables are read only at interpreter start.
    """

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        """Start the server; its imports go on in the background. At its end it removes `folder`. Raises OSError."""
        self.environment = dict(environment)
        path = os.pathsep.join(filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)))
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), str(folder)],
                    env=self.environment | {"PYTHONPATH": path},  # an empty entry is the current folder
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(0.05)

    def start(self, argv: Sequence[str], cancelled: Callable[[], bool]) -> Forked:
        """Start a node. Raises OSError when the server is dead, does not reply or cannot fork, or when `cancelled` says so.

        After an error, no other node can be started; those that run go on.
        """
        request = json.dumps(list(argv)).encode()
        if len(request) > MAX_REQUEST:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        ends = [*os.pipe()]  # to read and to write: of the output, then of the status
        try:
            ends += os.pipe()
            socket.send_fds(self._socket, [request], ends[1::2])
            pid = self._reply(cancelled)
        except OSError:
            for reader in ends[::2]:
                os.close(reader)
            raise
        finally:
            for writer in ends[1::2]:
                os.close(writer)
        return Forked(pid, os.fdopen(ends[2], "rb"), os.fdopen(ends[0], encoding="utf-8", errors="replace"))

    def close(self) -> None:
        """End the server, and with it nodes that still run."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _reply(self, cancelled: Callable[[], bool]) -> int:
        deadline_s = time.monotonic() + REPLY_TIMEOUT_S
        while not cancelled() and time.monotonic() < deadline_s:
            try:
                data = self._socket.recv(_INT32.size)
            except TimeoutError:
                continue
            pid = int(_INT32.unpack(data)[0]) if data else -errno.ECONNRESET
            if pid < 0:
                raise OSError(-pid, os.strerror(-pid))
            return pid
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))


class _Server:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        """Waits for requests and for the ends of the nodes, whose data are the pid and the write end of the status pipe."""
        self._selector.register(control, selectors.EVENT_READ)

    def serve(self) -> None:
        """Fork at each request until the client is gone."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._control:
                    self._reap(key.fd, *key.data)
                    continue
                request, fds, _, _ = socket.recv_fds(self._control, MAX_REQUEST, 2)
                if not request:
                    return
                try:
                    if len(fds) != 2:
                        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                    self._fork(request, *fds)
                except OSError as error:  # the nodes that run must not end for it
                    for fd in fds:
                        os.close(fd)
                    self._control.send(_INT32.pack(-(error.errno or errno.EIO)))

    def _fork(self, request: bytes, out: int, status: int) -> None:
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_node(server, request, out, status)
            except BaseException:  # noqa: BLE001 - as the interpreter reports it
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(out)
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))

    def _become_node(self, server: int, request: bytes, out: int, status: int) -> None:
        """Run a node as if this process had been started with its command line; does not return."""
        os.setsid()
        for number in executables.ENDING:
            signal.signal(number, signal.SIG_DFL)
        if not executables.outlives():
            die_with(server, signal.SIGTERM)  # it stops its motion first; `executables.run` sees that it ends
        os.dup2(out, 1)
        os.dup2(out, 2)
        others = [fd for key in self._selector.get_map().values() if key.data for fd in (key.fd, key.data[1])]
        self._selector.close()
        for fd in (out, status, *others):
            os.close(fd)
        # Reply only after setsid, so that the client can signal the process group.
        self._control.send(_INT32.pack(os.getpid()))
        self._control.close()
        argv = sys.argv = json.loads(request)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        setproctitle(" ".join(argv))
        code = executables.run(Path(argv[0]).name)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _reap(self, ended: int, pid: int, status: int) -> None:
        # Kill leftovers in its group; the unreaped leader keeps the number of the group reserved.
        kill_group(pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(BrokenPipeError):
            os.write(status, _INT32.pack(code))
        self._selector.unregister(ended)
        os.close(ended)
        os.close(status)


def _load_type_support() -> None:
    """Load what converts the messages of the modules that were imported, as each node would at its first topic."""
    for name in [name for name in sys.modules if name.endswith((".msg", ".srv", ".action"))]:
        for kind in [*vars(sys.modules[name]).values()]:
            if hasattr(type(kind), "__import_type_support__"):
                kind.__import_type_support__()


def kill_group(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process and everything in its group, as far as there is something that may be sent one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def main() -> None:
    """Serve requests on the socket whose descriptor the command line names; remove the folder that it names at the end."""
    control, folder = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    for number in executables.ENDING:  # what ends a whole service at once ends each node, and the client ends the server
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as some supervisors hand it down, it would reap the nodes
    executables.without_generator()
    for module in COMMON:
        import_module(module)
    _load_type_support()
    gc.collect()
    executables.drop_code()
    gc.freeze()  # or the garbage collector's marks would unshare every page
    setproctitle("fork_server")
    _Server(control).serve()
    shutil.rmtree(folder, ignore_errors=True)
