# SPDX-License-Identifier: Apache-2.0
"""What config/fastdds.xml asks of the middleware is what the nodes get; a middleware that hangs keeps nobody waiting."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ghostshell_ros.runtime import node_runtime as middleware
from ghostshell_ros.runtime.node import RuntimeNode
from ros_support import ROOT, Processes, wait_until

LEASE_S = 20.0


@pytest.mark.faults
def test_a_node_that_was_killed_leaves_the_graph(namespace: str, host: Callable[..., Any], processes: Processes) -> None:
    watcher = RuntimeNode("watcher", namespace=namespace)
    host(watcher)

    def there() -> bool:
        return ("token_parser", namespace) in watcher.get_node_names_and_namespaces()

    parser = processes.start("token_parser", env={middleware.PROFILES: ""})
    wait_until(there, 20.0, "it is in the graph")
    os.kill(parser.pid, signal.SIGKILL)
    parser.wait()
    took_s = wait_until(lambda: not there(), LEASE_S + 3.0, "it is gone")
    assert took_s > 0.5, "or it was never there"


def test_another_file_of_profiles_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(middleware.PROFILES, str(tmp_path / "mine.xml"))
    middleware.prefer_profiles()
    assert os.environ[middleware.PROFILES] == str(tmp_path / "mine.xml")
    monkeypatch.delenv(middleware.PROFILES)
    middleware.prefer_profiles()
    assert os.environ[middleware.PROFILES] == str(ROOT / "config" / "fastdds.xml")


def test_a_node_has_room_for_what_all_others_send_it_when_it_joins() -> None:
    program = (
        "import os, socket\nfrom contextlib import suppress\nfrom ghostshell_ros.cli import robot_client\n"
        "with robot_client.spun(lambda: robot_client.command_node('nobody')):\n"
        "    print('open', len(os.listdir('/dev/fd')))\n"
        "    for fd in map(int, os.listdir('/dev/fd')):\n"
        "        with suppress(OSError), socket.socket(fileno=os.dup(fd)) as one:\n"
        "            print(one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=15)
    allowed = int(Path("/proc/sys/net/core/rmem_max").read_text())  # the kernel takes twice what it is asked for
    _, files, *sizes = done.stdout.split()
    assert str(2 * min(1_000_000, allowed)) in sizes, done
    assert int(files) < 30, "looking for them leaves nothing open"


def test_the_profiles_of_a_process_that_sends_images_add_room_for_them_alone() -> None:
    some, all_nodes = (
        (ROOT / "config" / name).read_text().partition("<dds")[2] for name in ("fastdds_images.xml", "fastdds.xml")
    )
    assert some == all_nodes.replace(
        "      <rtps>\n", '      <rtps>\n        <builtinTransports sockets_size="4MB">DEFAULT</builtinTransports>\n'
    )


def test_the_profiles_for_a_network_differ_from_the_others_in_what_a_bad_link_needs() -> None:
    images, network = (
        (ROOT / "config" / name).read_text().partition("<dds")[2] for name in ("fastdds_images.xml", "fastdds_network.xml")
    )
    datagrams = images.replace("<builtinTransports sockets", '<builtinTransports max_msg_size="1400B" sockets')
    assert network == datagrams.replace("<heartbeatPeriod><nanosec>250000000<", "<heartbeatPeriod><nanosec>50000000<")


def test_a_node_that_sends_images_has_room_for_many_of_them(tmp_path: Path) -> None:
    """Else readers that are killed while they read use it up, and nobody gets a picture any more."""
    program = (
        "import os, signal, sys\nbefore = set(os.listdir('/dev/shm'))\n"
        "from ghostshell_ros.nodes.sim.node import Sim\nfrom ghostshell_ros.runtime.node import RuntimeNode\n"
        "from ghostshell_ros.runtime.node_runtime import run\n"
        "class Sends(RuntimeNode):\n    sends_images = Sim.sends_images and sys.argv[1] == 'images'\n"
        "    def __init__(self):\n        super().__init__('sends'); self.call_soon(self.tell)\n"
        "    def tell(self):\n"
        "        maps = [line.split() for line in open('/proc/self/maps') if '/dev/shm/fastrtps_' in line]\n"
        "        edges = [m[0].split('-') for m in maps if m[-1].rpartition('/')[2] not in before]\n"
        "        print(max(int(end, 16) - int(begin, 16) for begin, end in edges)); os.kill(os.getpid(), signal.SIGINT)\n"
        "run(Sends)\n"
    )
    image = 320 * 240 * 3
    (tmp_path / "mine.xml").write_text((ROOT / "config" / "fastdds.xml").read_text())
    env = {name: value for name, value in os.environ.items() if name not in (middleware.PROFILES, "FASTDDS_BUILTIN_TRANSPORTS")}
    for kind, profiles, least in (("images", "", 30), ("none", "", 0), ("images", str(tmp_path / "mine.xml"), 0)):
        command = [sys.executable, "-c", program, kind]
        named = env | ({middleware.PROFILES: profiles} if profiles else {})
        done = subprocess.run(command, cwd=ROOT, env=named, capture_output=True, text=True, timeout=30)
        assert least <= int(done.stdout) / image <= least + 10, done


def test_a_command_ends_although_the_middleware_hangs_while_it_releases_its_endpoints() -> None:
    """It hangs in C and holds the interpreter, as a deadlocked Fast DDS may."""
    program = (
        "import ctypes\nfrom ghostshell_ros.cli import robot_client\nfrom ghostshell_ros.runtime import node_runtime\n"
        "node_runtime.END_S = 0.3\nnode_runtime.NodeHost.destroy = lambda _: ctypes.PyDLL(None).sleep(20)\n"
        "with robot_client.spun(lambda: robot_client.command_node('nobody')):\n    print('said', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=15)
    assert (done.returncode, done.stdout) == (-signal.SIGALRM, "said\n"), done.stderr


def test_a_node_that_has_ended_leaves_no_thread_of_the_middleware_in_the_shared_memory() -> None:
    """What the process then kills may hold a lock there, and all others would wait for it for seconds."""
    program = (
        "import os, signal\nfrom pathlib import Path\nfrom ghostshell.action import RunTask\n"
        "from rclpy.action import ActionClient\nfrom ghostshell_ros.runtime.node import RuntimeNode\n"
        "from ghostshell_ros.runtime.node_runtime import run\n"
        "class Asks(RuntimeNode):\n"
        "    def __init__(self):\n        super().__init__('asks'); self.client = ActionClient(self, RunTask, 'run_task')\n"
        "        self.call_soon(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "code = run(Asks)\nnames = [comm.read_text().strip() for comm in Path('/proc/self/task').glob('*/comm')]\n"
        "print(code, [name for name in names if name.startswith('dds.') and name != 'dds.shm.wdog'], flush=True)\n"
        "os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=15)
    assert done.stdout == "0 []\n", done


SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
"""Of ptrace(2), which stops one thread, and of waitpid(2)."""


@pytest.mark.faults
@pytest.mark.parametrize("thread", ["dds.ev.", "executor"])
def test_a_node_whose_middleware_hangs_ends_itself_with_the_stacks_of_its_threads(
    thread: str, namespace: str, tmp_path: Path
) -> None:
    hangs = "True" if thread == "executor" else "False"
    program = (
        "import ctypes, sys, threading\nfrom ghostshell_ros import executables\n"
        "from ghostshell_ros.runtime import node_runtime\nnode_runtime.HUNG_S = 3.0\nspin = node_runtime.NodeHost.spin\n"
        "def spun(host):\n    print('up', flush=True)\n"
        f"    {hangs} and host.nodes[0].steady_timer(1.5, lambda: ctypes.PyDLL(None).sleep(60))\n    spin(host)\n"
        "node_runtime.NodeHost.spin = spun\nsys.exit(executables.run('memory'))\n"
    )
    command = [sys.executable, "-c", program, "--ros-args", "-r", f"__ns:={namespace}", "-p", f"data_dir:={tmp_path}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None and node.stderr is not None
        assert node.stdout.readline() == "up\n"
        began_s = time.monotonic()
        if thread != "executor":
            time.sleep(4.5)  # it lives on for as long as its middleware moves
            assert node.poll() is None
            tasks = [
                comm.parent for comm in Path(f"/proc/{node.pid}/task").glob("*/comm") if comm.read_text().startswith(thread)
            ]
            (task,) = (int(task.name) for task in tasks)
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.ptrace(SEIZE, task, None, None) != 0:
                node.kill()
                pytest.skip(f"ptrace: {os.strerror(ctypes.get_errno())}")
            began_s = time.monotonic()
            libc.ptrace(INTERRUPT, task, None, None)
            while not os.WIFSTOPPED(os.waitpid(task, WALL)[1]):
                pass
            os.waitpid(task, WALL)  # until then its process is not gone
        said = node.stderr.read()
        assert node.wait(10.0) == 1 and "Timeout" in said and "most recent call first" in said, said
        assert time.monotonic() - began_s < 8.0
