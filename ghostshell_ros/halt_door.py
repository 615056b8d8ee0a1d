# SPDX-License-Identifier: Apache-2.0
"""Halt a robot of this machine at once: a local socket of its safety gate, and a client without ROS or any other import.

A command that joins the ROS graph needs a second or more before it is heard; this one needs a datagram. The socket halts and
does nothing else, so whoever may start a program here may use it. Who asks and who answers is known from the kernel: a halt
counts as confirmed only when the answer comes from a process of the same user or of root.

`./ghostshell halt` runs this file by its path before it prepares anything. A halt that is not confirmed here goes through ROS.
"""

import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

PREFIX = "ghostshell/halt"
HALT = b"halt"
MAX_BYTES = 1024
"""Longest datagram that is read."""
MAX_ROBOTS = 64
ANSWER_S = 0.3
"""Time in which the gate confirms. It takes a few milliseconds."""
LATER = 75
"""Exit status of a halt that is not confirmed here and must go through ROS (EX_TEMPFAIL)."""

_SOCKETS = "/proc/net/unix"
_CREDENTIALS = struct.Struct("3i")


def _name(domain: str, robot: str) -> str:
    return f"{PREFIX}/{domain}/{robot.strip('/')}"


class HaltDoor:
    """Serve halts of one robot on this machine, on a thread of its own.

    `on_halt(who, cause, answer)` is called on that thread for each request: `who` is the user as the kernel knows him, and
    `cause` what he gives as his reason. `answer(text)` confirms it and may be called on any thread.
    The next request is read when this one is confirmed, or after ANSWER_S. Raises OSError when another process serves this
    robot, or where the machine has no such sockets.
    """

    def __init__(self, domain: str, robot: str, on_halt: Callable[[str, str, Callable[[str], None]], None]) -> None:
        self._on_halt, self._closed = on_halt, False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            self._socket.bind(f"\0{_name(domain, robot)}")
        except OSError:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._serve, name="halt_door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Serve no more."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(2 * ANSWER_S)
        self._socket.close()

    def _serve(self) -> None:
        while not self._closed:
            try:
                asked, more, _, address = self._socket.recvmsg(MAX_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
            except OSError:
                return
            command, _, cause = asked.partition(b" ")
            if command == HALT:
                confirmed = threading.Event()
                user = _user(more)
                self._on_halt(
                    "a program of this machine" if user is None else f"user {_user_name(user)} of this machine",
                    cause.decode(errors="replace"),
                    partial(self._answer, address, confirmed),
                )
                confirmed.wait(ANSWER_S)

    def _answer(self, address: str | bytes | None, confirmed: threading.Event, text: str) -> None:
        confirmed.set()
        with suppress(OSError):  # the client has gone
            if address:
                self._socket.sendto(text.encode()[:MAX_BYTES], socket.MSG_DONTWAIT, address)


def _user(more: Sequence[tuple[int, int, bytes]]) -> int | None:
    """Return the user whose process sent a datagram, from its ancillary data; None where the kernel does not tell."""
    return next(
        (
            _CREDENTIALS.unpack(data)[1]
            for level, kind, data in more
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(data) == _CREDENTIALS.size
        ),
        None,
    )


def _user_name(user: int) -> str:
    import pwd  # only the gate needs names

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def ros_domain(environment: Mapping[str, str] = os.environ) -> str:
    """Return the ROS domain of this process as the gates name it."""
    return environment.get("ROS_DOMAIN_ID", "").strip().lstrip("0") or "0"


def robots_here(domain: str) -> list[str]:
    """Return the namespaces of the robots on this machine whose gates serve halts in a ROS domain, at most MAX_ROBOTS."""
    beginning = f"@{_name(domain, '')}"
    try:
        with open(_SOCKETS, encoding="utf-8", errors="replace") as file:
            names = {line.rstrip("\n").partition(" @")[2] for line in file}
    except OSError:
        return []
    robots = (f"@{name}".removeprefix(beginning) for name in names if f"@{name}".startswith(beginning))
    return sorted(robot for robot in robots if is_namespace(robot))[:MAX_ROBOTS]


def is_namespace(robot: str) -> bool:
    """Return whether a robot can be called so; "" is the one without a namespace."""
    return robot.isascii() and all(part.isidentifier() for part in robot.split("/") if robot)


def halt(domain: str, robot: str, cause: str = "") -> str | None:
    """Halt a robot of this machine. Return what its gate says, or None when no gate of this user or of root confirms it."""
    asked = b" ".join(filter(None, (HALT, cause.encode(errors="replace"))))[:MAX_BYTES]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        client.settimeout(ANSWER_S)
        try:
            client.bind("")  # a name for the answer, made by the kernel
            client.connect(f"\0{_name(domain, robot)}")
            client.send(asked, socket.MSG_DONTWAIT)
            told, more, _, _ = client.recvmsg(MAX_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
        except OSError:
            return None
    return told.decode(errors="replace") if _user(more) in (0, os.getuid()) else None


def asked(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the robot that `halt` names, "" for none, and the cause; None for options that this client does not know."""
    robot, rest = environment.get("GHOSTSHELL_ROBOT", ""), [*arguments]
    causes: list[str] = []
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if option == "--robot":
            robot = value if equals else rest.pop(0) if rest else ""
            if not robot:
                return None
        elif word.startswith("-") or causes or not word.strip():
            return None
        else:
            causes.append(word)
    return robot, "".join(causes)


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Halt the robot that is named, or else each one on this machine. Return 0, or LATER where this is left to ROS."""
    domain, wanted = ros_domain(environment), asked(arguments, environment)
    if wanted is None:
        return LATER
    robot, cause = wanted
    robots = [robot.strip("/")] if robot else robots_here(domain)
    told_by: dict[str, str | None] = dict.fromkeys(robots)
    asking = [threading.Thread(target=lambda name=name: told_by.update({name: halt(domain, name, cause)})) for name in robots]
    for thread in asking:  # all at once: one that does not answer must not keep the others waiting
        thread.start()
    for thread in asking:
        thread.join()
    answers = list(told_by.items())
    for name, told in answers:
        if told is not None:
            sys.stdout.write(f"{name}: {told}\n")
    return 0 if answers and all(told is not None for _, told in answers) else LATER


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
