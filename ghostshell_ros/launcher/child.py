# SPDX-License-Identifier: Apache-2.0
"""One started process: its own session, its output cut into lines, its end without leaving anything behind."""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ghostshell_ros.launcher.specs import ProcessSpec

_MAX_LINE = 65536
_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def first_line(process: subprocess.Popen[str], limit_s: float) -> str:
    """Return the first line a process prints, "" when it ended instead. Raises TimeoutError after `limit_s`."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(limit_s):
            raise TimeoutError(f"process {process.pid} ({process.args!r}) printed nothing within {limit_s:g} s")
    return process.stdout.readline()


class LineCutter:
    """Cuts the bytes of a stream into lines; a line without end is given out at 64 KiB."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed(self, data: bytes, *, last: bool = False) -> list[str]:
        """Return the lines that `data` completes; with `last` also the unfinished one."""
        *lines, self._rest = (self._rest + self._decoder.decode(data, final=last)).split("\n")
        if self._rest and (last or len(self._rest) > _MAX_LINE):
            lines.append(self._rest)
            self._rest = ""
        return [line.removesuffix("\r") for line in lines]


class Child:
    """A running process of `spec`.

    It dies with the thread that constructs it (Linux), so that must be one that lives as long as the processes do.
    Raises OSError when the command cannot be started.
    """

    def __init__(self, spec: ProcessSpec, folder: Path, on_exit: Callable[[Child], None]) -> None:
        argv = spec.argv(folder)
        self.spec = spec
        self.command = " ".join(argv)
        parent = os.getpid()
        self._process = subprocess.Popen(
            self.command if spec.shell else argv,
            shell=spec.shell,
            cwd=spec.cwd,
            env=dict(spec.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: _prepare(parent),
        )
        self.pid = self._process.pid
        self.streams = {"stdout": _unblocked(self._process.stdout), "stderr": _unblocked(self._process.stderr)}
        self.cutters = {"stdout": LineCutter(), "stderr": LineCutter()}
        self._on_exit = on_exit
        threading.Thread(target=self._watch, name=f"wait-{spec.name}", daemon=True).start()

    def _watch(self) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self._on_exit(self)

    def signal(self, number: int) -> None:
        """Send a signal to the process and everything in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def reap(self) -> int:
        """Return the exit code of a process that has ended, after killing what it left in its group.

        The group is killed before the process is reaped because until then its number cannot belong to another.
        """
        self.signal(signal.SIGKILL)
        return self._process.wait()


def _unblocked(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    os.set_blocking(stream.fileno(), False)
    return stream


def _prepare(parent: int) -> None:
    """Prepare the new process: it dies with the runner, and a Ctrl-C reaches it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
