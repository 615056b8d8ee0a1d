# SPDX-License-Identifier: Apache-2.0
"""Measure the operator's page on a robot at rest: click to gate with clients that watch, a camera from its topic to a client,
what the page costs, its return after a kill, and a robot's answers with many clients.

A camera's picture is one that this program publishes and whose pixels hold its number, so that a client knows when it was
taken. The processor's time is counted in the page's process; the other figures are as slow as a busy machine makes them.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import rclpy
from ghostshell.action import RunTask
from ghostshell.srv import ControlHalt
from PIL import Image
from rclpy.action import ActionClient
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Image as ImageMsg
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from bench.bench_weight import COMMAND, cpu_s, name_of, processes_below, pss_mb
from bench.common import Table, Target, arguments, percentile, report
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.images import to_message
from ghostshell_ros.wire.qos import IMAGES
from skill_kernel.roles import Role

UP_S = 90.0
CAMERA = "bench/image_raw"
"""Topic of the pictures, below the robot."""
BLOCK, BITS = 40, 12
"""Side of the square that holds a bit of a picture's number [px], and their number."""
HZ = 20.0
MANY, TURNS = 20, 6
"""Clients that come besides, and how often they come and go."""


class Link:
    """Speak to the page as a browser does."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._host, self._token = address.split("/")[2], address.rpartition("=")[2]

    def open(self, path: str = "/ws") -> ClientConnection:
        """Return a WebSocket of the page."""
        cookie = {"Cookie": f"ghostshell-{self._host.rpartition(':')[2]}={self._token}"}
        origin = Origin(f"http://{self._host}")
        more: dict[str, Any] = {"additional_headers": cookie, "compression": None, "proxy": None, "max_size": None}
        made: ClientConnection = connect(f"ws://{self._host}{path}", origin=origin, **more)
        return made


@contextmanager
def launched(robot: str) -> Iterator[tuple[int, Link]]:
    """Bring a robot up: the process of its page, and a way to that."""
    with tempfile.TemporaryDirectory() as data:
        launch = Popen([COMMAND, "launch", robot], env={**os.environ, "GHOSTSHELL_DATA": data}, stdout=PIPE, text=True)
        assert launch.stdout is not None
        try:
            address = next(line for line in launch.stdout if "page: " in line).rpartition("page: ")[2].strip()
            threading.Thread(target=launch.stdout.read, daemon=True).start()
            yield launch.pid, Link(address)
        finally:
            launch.send_signal(signal.SIGINT)
            launch.wait(30.0)


def page_of(launch: int) -> int:
    """Return the process of the page that a launch has started."""
    return next(pid for pid in processes_below(launch) if name_of(pid) == "dashboard")


def heard(link: ClientConnection, robot: str, wanted: Any, within_s: float = 10.0) -> float:
    """Return the time at which the page says that a robot's halt is on or not."""
    end_s = time.monotonic() + within_s
    while (left_s := end_s - time.monotonic()) > 0:
        message = json.loads(link.recv(left_s))
        for path, value in message.get("set", ()):
            if (
                path[:3] == ["robots", robot, "halted"]
                and (value if path[3:] == ["on"] else not path[3:] and value["on"]) is wanted
            ):
                return time.monotonic()
    raise TimeoutError(f"the page did not say that halted is {wanted}")


def clicks(link: Link, robot: str, count: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds from a click to what the gate has confirmed, and to the page's latched state."""
    gate_ms, state_ms = [], []
    with ExitStack() as opened:
        watching = [opened.enter_context(link.open()) for _ in range(4)]
        for one in watching[1:]:
            threading.Thread(target=_read, args=(one,), daemon=True).start()
        clear, halts = watching[0], opened.enter_context(link.open("/halt"))
        numbers = opened.enter_context(_numbers(robot))
        for _ in range(count):
            began = time.monotonic()
            halts.send(json.dumps({"robot": robot, "cause": "page"}))
            answer = json.loads(halts.recv(5.0))
            assert answer["ok"], answer
            gate_ms.append(1e3 * (time.monotonic() - began))
            state_ms.append(1e3 * (heard(clear, robot, True) - began))
            _clear(clear, robot, numbers)
            time.sleep(0.3)
    return gate_ms, state_ms


def _clear(link: ClientConnection, robot: str, numbers: Iterator[int]) -> None:
    """Clear the halt, and one by which the gate of a busy machine holds the robot meanwhile."""
    for n in range(10):
        link.send(json.dumps({"t": "do", "id": n, "act": "clear", "robot": robot, "number": next(numbers)}))
        with suppress(TimeoutError):
            heard(link, robot, False, 2.0)
            return
    raise RuntimeError(f"{robot} stays halted")


@contextmanager
def _numbers(robot: str) -> Iterator[Iterator[int]]:
    """Yield the numbers of the newest halts, as the gate tells them."""
    node = rclpy.create_node("bench_page_gate")
    client = node.create_client(ControlHalt, f"/{robot}/control_halt")

    def ask() -> Iterator[int]:
        while True:
            asked = client.call_async(ControlHalt.Request(command=ControlHalt.Request.LOOK))
            rclpy.spin_until_future_complete(node, asked, timeout_sec=1.0)
            if asked.done():
                yield asked.result().number

    client.wait_for_service(10.0)
    yield ask()
    node.destroy_node()


def _read(link: ClientConnection) -> None:
    with suppress_gone():
        while True:
            link.recv()


def suppress_gone() -> suppress:
    """Go on where a connection has ended."""
    return suppress(WebSocketException, OSError, EOFError)


class Camera:
    """Publish pictures whose pixels hold their number, and remember when each was taken."""

    def __init__(self, robot: str) -> None:
        self._node = rclpy.create_node("bench_page_camera")
        self._pictures = self._node.create_publisher(ImageMsg, f"/{robot}/{CAMERA}", IMAGES)
        self.taken: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._film, daemon=True)
        self._thread.start()

    def _film(self) -> None:
        number = 0
        while not self._ended.wait(1 / HZ):
            number = (number + 1) % 2**BITS
            pixels = np.random.default_rng(number).integers(0, 255, (480, 640, 3), dtype=np.uint8) // 4 + 60
            for bit in range(BITS):
                pixels[:BLOCK, bit * BLOCK : (bit + 1) * BLOCK] = 255 if number >> bit & 1 else 0
            self.taken[number] = time.monotonic()
            self._pictures.publish(to_message(pixels, self._node.get_clock().now().to_msg(), "bench"))

    def close(self) -> None:
        """Film no more."""
        self._ended.set()
        self._thread.join()
        self._node.destroy_node()


def number_of(jpeg: bytes) -> int:
    """Return the number that a picture holds."""
    pixels = np.asarray(Image.open(io.BytesIO(jpeg)).convert("L"))
    return sum(1 << bit for bit in range(BITS) if pixels[BLOCK // 2, bit * BLOCK + BLOCK // 2] > 127)


def pictures(link: Link, robot: str, seconds: float) -> tuple[list[float], int]:
    """Return the milliseconds from a picture's publication until a client has decoded it, and how many were published."""
    camera, found = Camera(robot), []
    try:
        with link.open() as state:
            end_s = time.monotonic() + 15.0
            while time.monotonic() < end_s and CAMERA not in str(state.recv(5.0)):
                pass
            with link.open(f"/camera/{robot}/{CAMERA}") as eye:
                end_s, first = time.monotonic() + seconds, len(camera.taken)
                while time.monotonic() < end_s:
                    number = number_of(eye.recv(5.0))  # type: ignore[arg-type]
                    found.append(1e3 * (time.monotonic() - camera.taken[number]))
                    eye.send("ok")
                return found, len(camera.taken) - first
    finally:
        camera.close()


def returned_s(link: Link, launch: int) -> float:
    """Return the seconds from a kill of the page's process until a client has a state with a robot again."""
    with link.open() as state:
        state.recv(5.0)
        began = time.monotonic()
        os.kill(page_of(launch), signal.SIGKILL)
    while True:
        with suppress_gone(), link.open() as again:
            while '"link"' not in again.recv(5.0):
                pass
            return time.monotonic() - began
        time.sleep(0.05)


SEEN = """([bits, block]) => {
  window.seen = [];
  let last = -1;
  const look = () => {
    const canvas = [...document.querySelectorAll("#eyes canvas")].find((one) => one.width === 640);
    if (canvas) {
      const row = canvas.getContext("2d").getImageData(0, block / 2, bits * block, 1).data;
      let number = 0;
      for (let bit = 0; bit < bits; bit++) if (row[4 * (bit * block + block / 2)] > 127) number |= 1 << bit;
      if (number !== last) requestAnimationFrame(() => window.seen.push([number, performance.timeOrigin + performance.now()]));
      last = number;
    }
    requestAnimationFrame(look);
  };
  look();
}"""
"""Runs in the page: note the number of each picture at the frame behind the one in which it was drawn."""


def glass_ms(address: str, robot: str, seconds: float) -> list[float]:
    """Return the milliseconds from a picture's publication until a browser has drawn it; none without Playwright."""
    path = shutil.which("chromium")
    if find_spec("playwright") is None or path is None:
        return []
    from playwright.sync_api import sync_playwright

    camera = Camera(robot)
    offset_s = time.time() - time.monotonic()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(address)
            eyes = page.locator("#eyes-choice button, #eyes canvas")
            eyes.first.wait_for(timeout=15_000)
            chosen = page.get_by_role("button", name=CAMERA.split("/")[0], exact=True)
            if chosen.count() and chosen.get_attribute("aria-pressed") != "true":
                chosen.click()
            page.wait_for_timeout(3000)
            page.evaluate(SEEN, [BITS, BLOCK])
            page.wait_for_timeout(1000 * seconds)
            seen = page.evaluate("window.seen")
            browser.close()
        return [at_ms - 1e3 * (camera.taken[number] + offset_s) for number, at_ms in seen[1:] if number in camera.taken]
    finally:
        camera.close()


class Asker:
    """Give a robot tasks, past the page."""

    def __init__(self, robot: str) -> None:
        self._node, self._name = rclpy.create_node("bench_page_asker"), f"/{robot}/run_task"
        self._tasks = ActionClient(self._node, RunTask, self._name)
        assert self._tasks.wait_for_server(20.0)

    def began_ms(self, count: int) -> list[float]:
        """Return the milliseconds until the robot says that it has begun a task."""
        found: list[float] = []
        for _ in range(count):
            heard: list[float] = []
            goal = signed(self._node, self._name, RunTask.Goal(instruction="wait 0.1 s"), Role.OPERATOR)
            began = time.monotonic()
            sent = self._tasks.send_goal_async(goal, lambda _, heard=heard: heard.append(time.monotonic()))
            rclpy.spin_until_future_complete(self._node, sent, timeout_sec=10.0)
            ended = sent.result().get_result_async()
            rclpy.spin_until_future_complete(self._node, ended, timeout_sec=10.0)
            found.append(1e3 * (heard[0] - began))
            time.sleep(0.1)
        return found

    def close(self) -> None:
        """Ask no more."""
        self._node.destroy_node()


def with_and_without(link: Link, robot: str, count: int) -> tuple[list[float], list[float]]:
    """Return how soon the robot begins tasks with one client and with MANY more, in turn: the machine changes meanwhile."""
    one: list[float] = []
    many: list[float] = []
    asker = Asker(robot)
    asker.began_ms(3)
    with link.open() as state:
        threading.Thread(target=_read, args=(state,), daemon=True).start()
        for _ in range(TURNS):
            one += asker.began_ms(count // TURNS)
            with ExitStack() as opened:
                for _ in range(MANY):
                    more = opened.enter_context(link.open())
                    threading.Thread(target=_read, args=(more,), daemon=True).start()
                time.sleep(1.0)
                many += asker.began_ms(count // TURNS)
    asker.close()
    return one, many


def main() -> int:
    """Measure the page of a robot."""
    parser = arguments(__doc__)
    parser.add_argument("robot", nargs="?", default="coco")
    parser.add_argument("--clicks", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0, help="of pictures, and of each count of processor time [s]")
    parser.add_argument("--answers", type=int, default=120, help="tasks without and with many clients")
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    load = os.getloadavg()[0]
    with launched(options.robot) as (launch, link):
        time.sleep(20.0)
        alone = share(page_of(launch), options.seconds)
        with link.open() as state:
            threading.Thread(target=_read, args=(state,), daemon=True).start()
            time.sleep(5.0)
            watched = share(page_of(launch), options.seconds)
        print(f"page: {alone:.2f} % of a core, {watched:.2f} % with a client", flush=True)
        gate_ms, state_ms = clicks(link, options.robot, options.clicks)
        print(f"click to gate: {percentile(gate_ms, 50):.1f} ms, 99 % {percentile(gate_ms, 99):.1f} ms", flush=True)
        shown_ms, published = pictures(link, options.robot, options.seconds)
        drawn_ms = glass_ms(link.address, options.robot, options.seconds)
        before, with_many = with_and_without(link, options.robot, options.answers)
        back_s = [returned_s(link, launch) for _ in range(3)]
        memory = pss_mb(page_of(launch))
    rclpy.shutdown()
    load = (load + os.getloadavg()[0]) / 2
    change = 100 * (percentile(with_many, 50) / percentile(before, 50) - 1)
    targets = [
        Target(f"click to gate, 99 % of {len(gate_ms)}, four clients watch", percentile(gate_ms, 99), 50.0, "ms"),
        Target(f"click to STOPPED on the page, 99 % of {len(state_ms)}", percentile(state_ms, 99), 200.0, "ms"),
        Target(f"camera, topic to picture at a client, 95 % of {len(shown_ms)}", percentile(shown_ms, 95), 150.0, "ms"),
        *(
            [Target(f"camera, topic to a browser's canvas, 95 % of {len(drawn_ms)}", percentile(drawn_ms, 95), 150.0, "ms")]
            if drawn_ms
            else []
        ),
        Target("page without a client", alone, 1.0, "% of a core"),
        Target("page with one client", watched, 10.0, "% of a core"),
        Target("back after a kill, longest of 3", max(back_s), 2.0, "s"),
        Target(f"task begun with {MANY} more clients, change of the median of {len(with_many)}", change, 10.0, "%"),
    ]
    rows = [
        [name, len(values), *(round(percentile(values, p), 1) for p in (50, 95, 99))]
        for name, values in (
            ("click to gate", gate_ms),
            ("click to STOPPED", state_ms),
            ("picture at a client", shown_ms),
            ("picture drawn by Chromium", drawn_ms),
            ("task begun, one client", before),
            (f"task begun, {MANY + 1} clients", with_many),
        )
        if values
    ]
    found = {"load": load, "rows": rows, "pictures": [len(shown_ms), published], "back_s": back_s, "memory_mb": memory}
    table = Table(f"load {load:.1f} on {os.cpu_count()} cores", ("what", "n", "50 % [ms]", "95 % [ms]", "99 % [ms]"), rows)
    report("page", found, [table], targets, as_json=options.json)
    return 0


def share(pid: int, seconds: float) -> float:
    """Return the share of a core that a process takes [%]."""
    before, since = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_s(pid) - before) / (time.monotonic() - since)


if __name__ == "__main__":
    sys.exit(main())
