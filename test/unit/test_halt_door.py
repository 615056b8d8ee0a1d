# SPDX-License-Identifier: Apache-2.0
"""The local socket by which programs of this machine halt a robot."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.first_line import first_line
from ghostshell_ros import halt_door
from ghostshell_ros.halt_door import LATER, HaltDoor, halt, robots_here

pytestmark = pytest.mark.component

DOMAIN = f"test{os.getpid()}"
CLIENT = [sys.executable, "-I", "-S", halt_door.__file__]


told: list[tuple[str, str]] = []
"""By whom coco was halted, and why."""
ME = f"user {pwd.getpwuid(os.getuid()).pw_name} of this machine"


@pytest.fixture
def halts() -> Iterator[list[str]]:
    """Return what was halted: coco confirms, deaf does not."""
    halted: list[str] = []

    def coco(who: str, cause: str, answer: Callable[[str], None]) -> None:
        halted.append("coco")
        told.append((who, cause))
        answer("halted; clear it")

    told.clear()
    doors = [HaltDoor(DOMAIN, "coco", coco), HaltDoor(DOMAIN, "team/deaf", lambda *_: halted.append("deaf"))]
    yield halted
    for door in doors:
        door.close()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the client as the wrapper does: without ROS, without any package."""
    return subprocess.run(
        [*CLIENT, *arguments], env={"ROS_DOMAIN_ID": DOMAIN, **environment}, capture_output=True, text=True, timeout=10
    )


def test_the_client_halts_the_robot_that_is_named_and_says_what_the_gate_says(halts: list[str]) -> None:
    for done in (run("--robot", "coco"), run("--robot=/coco/"), run(GHOSTSHELL_ROBOT="coco")):
        assert (done.returncode, done.stdout, done.stderr) == (0, "coco: halted; clear it\n", "")
    assert halts == ["coco"] * 3


def test_the_door_says_who_asks_and_passes_on_why(halts: list[str]) -> None:
    for words in (("a child on=the stairs", "--robot", "coco"), ("--robot=coco", "水在地上"), ("--robot", "coco")):
        assert run(*words).returncode == 0
    assert told == [(ME, "a child on=the stairs"), (ME, "水在地上"), (ME, "")]
    assert halt(DOMAIN, "coco", "x" * 5000) == "halted; clear it", "a long reason is cut, and halts"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_user_is_named_by_the_kernel_whatever_he_says(halts: list[str]) -> None:
    code = f"import os, sys; sys.path.insert(0, {str(Path(halt_door.__file__).parent)!r}); import halt_door\n"
    code += f"os.setuid(65534); halt_door.halt({DOMAIN!r}, 'coco', 'user root of this machine')"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=10)
    assert told == [("user nobody of this machine", "user root of this machine")]


def test_without_a_name_every_robot_is_halted_and_one_that_does_not_confirm_is_left_to_ros(halts: list[str]) -> None:
    assert robots_here(DOMAIN) == ["coco", "team/deaf"]
    done = run()
    assert (done.returncode, done.stdout) == (LATER, "coco: halted; clear it\n")
    assert sorted(halts) == ["coco", "deaf"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--as", "safety"),
        ("--help",),
        ("--robot",),
        ("--robot", ""),
        ("--robot", "kalos"),
        ("a", "b"),
        ("--robot=", "coco"),
        ("",),
    ],
)
def test_what_the_client_cannot_do_is_left_to_ros_and_nothing_is_printed(halts: list[str], arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr, halts) == (LATER, "", "", [])


def test_sockets_that_are_no_robots_keep_nobody_waiting(halts: list[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(f"\0{halt_door.PREFIX}/{DOMAIN}/0 bad")
        assert robots_here(DOMAIN) == ["coco", "team/deaf"]
    deaf = [HaltDoor(DOMAIN, f"deaf{n}", lambda *_: None) for n in range(8)]
    try:
        began_s = time.monotonic()
        assert run().stdout == "coco: halted; clear it\n" and time.monotonic() - began_s < 4 * halt_door.ANSWER_S
    finally:
        for door in deaf:
            door.close()


def test_another_domain_hears_nothing(halts: list[str]) -> None:
    assert robots_here("0") == robots_here(f"{DOMAIN}x") == [] and halt("0", "coco") is None and not halts


def test_a_second_gate_cannot_take_the_door_and_a_closed_one_is_free_again(halts: list[str]) -> None:
    with pytest.raises(OSError):
        HaltDoor(DOMAIN, "coco", print)
    first = HaltDoor(DOMAIN, "kalos", print)
    first.close()
    HaltDoor(DOMAIN, "kalos", lambda who, cause, answer: answer("the second")).close()


def test_noise_and_clients_that_cannot_be_answered_do_not_end_the_door(halts: list[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as nameless:
        nameless.connect(f"\0{halt_door.PREFIX}/{DOMAIN}/coco")
        for noise in (b"", b"\xff" * 1000, b"clear", b"halt\n", halt_door.HALT):
            nameless.send(noise)
    assert halt(DOMAIN, "coco") == "halted; clear it"
    assert halts == ["coco"] * 2


IMPOSTOR = r"""
import os, socket, sys
os.setuid(65534)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
    door.bind("\0" + sys.argv[1])
    print("up", flush=True)
    door.sendto(b"halted, believe me", door.recvfrom(100)[1])
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_an_answer_of_another_user_confirms_nothing() -> None:
    name = f"{halt_door.PREFIX}/{DOMAIN}/taken"
    command = [sys.executable, "-I", "-S", "-c", IMPOSTOR, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as impostor:
        assert first_line(impostor, 5.0) == "up\n"
        assert halt(DOMAIN, "taken") is None
        assert impostor.wait(5.0) == 0


def test_the_client_imports_nothing_that_is_slow() -> None:
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", str(Path(halt_door.__file__)), "--robot", "nobody"],
        env={"ROS_DOMAIN_ID": DOMAIN},
        capture_output=True,
        text=True,
    ).stderr
    assert "socket" in loaded and not any(name in loaded for name in ("typer", "rclpy", "typing_extensions", "subprocess"))
