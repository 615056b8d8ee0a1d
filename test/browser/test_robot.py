# SPDX-License-Identifier: Apache-2.0
"""The page of a simulated robot, brought up as a person does it: Kalos, its simulator and all its nodes, offline parser."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ament_index_python.packages import get_package_prefix
from page_kit import PHONE, PICTURES
from playwright.sync_api import Page, expect

from ghostshell_ros.cli.follow import RobotClient, wait_ready
from ghostshell_ros.cli.robot_client import spun

UP_S = 90.0
DONE_MS = 60_000
BACK_S = 6.0
"""Time within which the page shows a node that was killed and started anew: 2 s on a machine with nothing else to do."""
GHOSTSHELL = Path(get_package_prefix("ghostshell")) / "lib/ghostshell/ghostshell"


class Kalos:
    """A launched robot, the recorder of its run, and the address of its page."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.data.mkdir()
        self.domain = os.environ.get("ROS_DOMAIN_ID") or str(1 + os.getpid() % 100)
        os.environ["GHOSTSHELL_DATA"], os.environ["GHOSTSHELL_KEYS"] = str(self.data), str(folder / "keys")
        os.environ["ROS_DOMAIN_ID"], os.environ["PYTHONUNBUFFERED"] = self.domain, "1"
        self.said: list[str] = []
        self._addresses: queue.Queue[str] = queue.Queue()
        self._launch = self.start("launch", "kalos")
        threading.Thread(target=self._read, daemon=True).start()
        self.address = self._addresses.get(timeout=UP_S)
        self.recorder = self.start("record", str(self.data / "run.mcap"))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of `ghostshell`."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        return subprocess.Popen([GHOSTSHELL, *words], text=True, **pipes)

    def command(self, *words: str) -> str:
        """Run a command of `ghostshell` and return what it says."""
        process = self.start(*words)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
        return said

    def page_process(self) -> int:
        """Return the process that serves the page, the last that the launch has told of."""
        started = (re.search(r"\[dashboard-\d+\]: process started with pid \[(\d+)\]", line) for line in self.said)
        return int([match[1] for match in started if match][-1])

    def end(self) -> None:
        """End all of it."""
        for process in (self.recorder, self._launch):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    def _read(self) -> None:
        assert self._launch.stdout is not None
        for line in self._launch.stdout:
            self.said.append(line)
            if found := re.search(r"page: (http\S+)", line):
                self._addresses.put(found[1])


@pytest.fixture(scope="module")
def kalos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kalos]:
    robot = Kalos(tmp_path_factory.mktemp("kalos"))
    yield robot
    robot.end()
    (PICTURES / "kalos.log").write_text("".join(robot.said))


@pytest.fixture
def page(kalos: Kalos, new_page: Callable[..., Page]) -> Page:
    page = new_page()
    page.goto(kalos.address)
    expect(page.get_by_role("tab", name="kalos")).to_be_visible(timeout=UP_S * 1000)
    expect(page.locator("#link")).to_have_text("live", timeout=UP_S * 1000)
    return page


def instruct(page: Page, text: str) -> None:
    """Type an instruction and send it."""
    page.locator("#instruction").fill(text)
    page.keyboard.press("Enter")
    expect(page.locator("#instruction")).to_have_value("", timeout=DONE_MS)


def clear(page: Page) -> None:
    """Clear the halt that is shown; once more where it was not yet known which one stands."""
    deadline = time.monotonic() + UP_S
    while page.locator("#clear").is_visible() and time.monotonic() < deadline:
        page.locator("#clear").click()
        expect(page.locator("#news")).to_have_text(re.compile("."), timeout=DONE_MS)
        page.wait_for_timeout(200)
    expect(page.locator("#halt-state")).to_have_text("", timeout=DONE_MS)


def test_a_first_instruction_is_carried_out_and_seen(page: Page) -> None:
    assert "token" not in page.url
    instruct(page, "stand up, then say hello")
    line = page.locator(".line.person", has_text="stand up, then say hello").last
    expect(line.locator(".chips li[data-outcome=DONE]").first).to_be_visible(timeout=DONE_MS)
    expect(page.locator(".line.robot", has_text="hello")).to_be_visible(timeout=DONE_MS)
    expect(page.locator("#tasks-none")).to_be_visible(timeout=DONE_MS)
    expect(page.locator("#eyes figcaption").first).to_contain_text("pictures a second", timeout=DONE_MS)
    expect(page.locator("#map-note")).to_contain_text("hallway")
    expect(page.locator("#facts")).to_contain_text("battery")
    expect(page.locator("#health li").first).to_be_visible()


def test_spaces_in_a_text_do_not_halt_and_the_space_bar_does_until_it_is_cleared(page: Page) -> None:
    page.locator("#instruction").click()
    page.keyboard.type("go to the lounge", delay=20)
    assert page.locator("#instruction").input_value() == "go to the lounge"
    expect(page.locator("#halt-state")).to_have_text("")
    page.keyboard.press("Enter")
    running = page.locator("#tasks > [data-state=IN_PROGRESS]", has_text="go to the lounge")
    expect(running).to_be_visible(timeout=DONE_MS)
    page.keyboard.press("Escape")
    page.keyboard.press("Space")
    expect(page.locator("#halt-state")).to_contain_text("STOPPED", timeout=2000)
    expect(page.locator("#tasks-none")).to_be_visible(timeout=DONE_MS)
    clear(page)


def test_a_reflex_is_tried_and_approved(kalos: Kalos, page: Page) -> None:
    kalos.command("reflex", "add", "when you see a bottle, nod", "--robot", "kalos", "--offline")
    card = page.locator("#rules > li", has_text="when you see a bottle, nod")
    expect(card.locator(".state")).to_have_text("waits for approval", timeout=DONE_MS)
    card.get_by_role("button", name="Test").click()
    expect(card.locator(".said")).to_contain_text(re.compile(r"\w+ \w+"), timeout=DONE_MS)
    card.get_by_role("button", name="Approve").click()
    card.get_by_role("button", name="Approve: sure?").click()
    expect(card.locator(".state")).to_have_text("approved", timeout=DONE_MS)


def test_a_question_of_the_robot_is_answered(kalos: Kalos, page: Page) -> None:
    with spun(lambda: RobotClient("kalos")) as client:
        wait_ready(client, UP_S)
        sent = client.send('<ask choices="yes,no">Shall I nod?</ask>', strategy="tokens")
        expect(page.locator(".question")).to_contain_text("Shall I nod?", timeout=DONE_MS)
        page.locator(".question").get_by_role("button", name="yes").click()
        expect(page.locator(".question")).to_have_count(0, timeout=DONE_MS)
        deadline = time.monotonic() + UP_S
        while sent.end is None and time.monotonic() < deadline:
            page.wait_for_timeout(50)
        assert sent.end is not None and sent.end.error_code == 0, sent.end
    chip = page.locator(".line.person", has_text="Shall I nod?").locator(".chips li[data-outcome=DONE]")
    expect(chip.first).to_be_visible(timeout=DONE_MS)


def test_the_memory_answers_with_sources(page: Page) -> None:
    page.locator("#memory-text").fill("what did I ask you to do?")
    page.keyboard.press("Enter")
    expect(page.locator("#memory-found li").first).to_be_visible(timeout=DONE_MS)


def test_a_recording_is_shown_beside_the_robot(kalos: Kalos, page: Page) -> None:
    kalos.recorder.send_signal(signal.SIGINT)
    kalos.recorder.wait(30)
    expect(page.locator("#recording option", has_text="run.mcap")).to_have_count(1, timeout=DONE_MS)
    page.locator("#recording").select_option("run.mcap")
    expect(page.get_by_role("tab", name="run.mcap")).to_have_attribute("aria-selected", "true", timeout=DONE_MS)
    expect(page.locator("#time-note")).to_contain_text("calls")
    expect(page.locator("#chat")).to_contain_text("stand up, then say hello")
    expect(page.locator("#link")).to_have_text("recording")
    page.locator("#recording").select_option("")
    expect(page.get_by_role("tab", name="run.mcap")).to_have_count(0, timeout=DONE_MS)


def test_a_killed_node_is_found_again_and_the_story_is_kept(kalos: Kalos, page: Page) -> None:
    instruct(page, "say good morning")
    expect(page.locator(".line.robot", has_text="good morning")).to_be_visible(timeout=DONE_MS)
    before = page.locator("#time-note").inner_text()
    old = kalos.page_process()
    killed_s = time.monotonic()
    os.kill(old, signal.SIGKILL)
    expect(page.locator("#link")).to_have_text("no connection")
    expect(page.locator("#link")).to_have_text("live", timeout=DONE_MS)
    back_s = time.monotonic() - killed_s
    print(f"shown {back_s:.2f} s after the kill")
    assert back_s < BACK_S and kalos.page_process() != old
    expect(page.locator(".line.robot", has_text="good morning")).to_be_visible()
    assert page.locator("#time-note").inner_text() == before
    instruct(page, "nod")
    line = page.locator(".line.person", has=page.get_by_text("nod", exact=True))
    expect(line.locator(".chips li[data-outcome=DONE]").first).to_be_visible(timeout=DONE_MS)


def test_a_phone_talks_to_the_robot(kalos: Kalos, new_page: Callable[..., Page]) -> None:
    page = new_page(PHONE, has_touch=True)
    page.goto(kalos.address)
    expect(page.locator("#link")).to_have_text("live", timeout=UP_S * 1000)
    instruct(page, "say good evening")
    expect(page.locator(".line.robot", has_text="good evening")).to_be_visible(timeout=DONE_MS)
    page.locator("#stop").tap()
    expect(page.locator("#halt-state")).to_contain_text("STOPPED", timeout=2000)
    expect(page.locator("#halt-state")).to_contain_text("page, user", timeout=DONE_MS)
    clear(page)
