# SPDX-License-Identifier: Apache-2.0
"""Hosts of a test in network namespaces of their own, and the air between them: one switch that delays and loses frames.

The kernel's own `netem` does the same where it is built in; here frames go through a process, so that any kernel does, and what
is lost is drawn from a seed. Needs root and /dev/net/tun.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from types import TracebackType

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TAP_NO_PI = 0x400454CA, 0x1002
LINK, NET = "air0", "10.77.0"
LONGEST_FRAME = 1522
UP_S = 10.0

_libc = ctypes.CDLL(None, use_errno=True)


def possible() -> bool:
    """Return whether this machine lets the test make hosts."""
    return os.geteuid() == 0 and os.access("/dev/net/tun", os.R_OK | os.W_OK)


class Host:
    """A machine of its own as far as the network goes: its interfaces, its ports, and its shared memory (/dev/shm).

    It is gone with the last program in it. `enter` is the beginning of a command line that runs in it.
    """

    def __init__(self, name: str, number: int) -> None:
        self.name, self.address = name, f"{NET}.{number}"
        begin = "mount -t tmpfs shm /dev/shm && ip link set lo up && echo up && exec cat"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", begin], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None and self._holder.stdout.readline() == b"up\n", f"no host {name}"
        self.enter = ("nsenter", "--target", str(self._holder.pid), "--net", "--mount", f"--wdns={os.getcwd()}")

    def run(self, *command: str) -> str:
        """Run a command in it to its end and return what it prints. Raises CalledProcessError where it fails."""
        return subprocess.run([*self.enter, *command], check=True, text=True, capture_output=True, timeout=UP_S).stdout

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Make sockets of this thread, and of those that it starts, belong to the host."""
        with open("/proc/thread-self/ns/net") as home, open(f"/proc/{self._holder.pid}/ns/net") as there:
            _set_net(there.fileno())
            try:
                yield
            finally:
                _set_net(home.fileno())

    def plug(self) -> int:
        """Give it an interface and return the file whose frames are that interface's."""
        with self.inside():
            tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", LINK.encode(), IFF_TAP_NO_PI))
        self.run("ip", "address", "add", f"{self.address}/24", "dev", LINK)
        self.join()
        return tap

    def cut(self) -> None:
        """Take its interface down."""
        self.run("ip", "link", "set", LINK, "down")

    def join(self) -> None:
        """Take its interface up; multicast goes out by it."""
        self.run("ip", "link", "set", LINK, "up")
        self.run("ip", "route", "replace", "default", "dev", LINK)

    def close(self) -> None:
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait(UP_S)


def _set_net(namespace: int) -> None:
    if _libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class LossyNet:
    """Hosts on one switch. Each frame to each host comes `delay_s` late, or, with the chance `loss`, not at all.

    `pass_all` tells the switch for how long to lose nothing yet, so that nodes find each other. `counts` are, after the end,
    the frames that came to the switch, that it handed on, and that it lost.
    """

    def __init__(self, names: Sequence[str], *, loss: float, delay_s: float, seed: int) -> None:
        numbers = count(1)
        self.hosts = {name: Host(name, next(numbers)) for name in names}
        taps = [host.plug() for host in self.hosts.values()]
        command = [sys.executable, __file__, str(loss), str(delay_s), str(seed), *map(str, taps)]
        self._air = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=taps, text=True)
        for tap in taps:
            os.close(tap)
        self.counts = ""

    def __enter__(self) -> LossyNet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.counts = self._air.communicate(timeout=UP_S)[0].strip()
        for host in self.hosts.values():
            host.close()


def switch(loss: float, delay_s: float, seed: int, taps: Sequence[int]) -> str:
    """Hand frames on until the standard input ends; return what it counted."""
    chance, order = random.Random(seed), count()
    late: list[tuple[float, int, int, bytes]] = []
    known: dict[bytes, int] = {}
    came = passed = lost = 0
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    while not ended.is_set():
        now = time.monotonic()
        while late and late[0][0] <= now:
            _, _, tap, frame = heapq.heappop(late)
            try:
                os.write(tap, frame)
                passed += 1
            except OSError:  # the interface is down
                lost += 1
        wait_s = min(0.2, late[0][0] - now) if late else 0.2
        for tap in select.select(taps, [], [], max(0.0, wait_s))[0]:
            try:
                frame = os.read(tap, LONGEST_FRAME)
            except OSError:
                continue
            came += 1
            known[frame[6:12]] = tap
            to = known.get(frame[:6])
            for other in [to] if to is not None else taps:
                if other == tap:
                    continue
                if chance.random() < loss:
                    lost += 1
                else:
                    heapq.heappush(late, (time.monotonic() + delay_s, next(order), other, frame))
    return f"{came} came, {passed} passed, {lost} lost"


if __name__ == "__main__":
    print(switch(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), [int(tap) for tap in sys.argv[4:]]))
