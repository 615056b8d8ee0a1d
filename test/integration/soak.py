# SPDX-License-Identifier: Apache-2.0
"""Chaos on CoCo and Kalos at once, drawn from a seed; afterwards the laws that no chaos may break are checked.

`make soak MINUTES=3 SEED=7`; without a seed one is drawn and printed. What was done is in out/soak/<seed>.log.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from ghostshell.msg import LlmChunk, ProcessState
from ghostshell.srv import ControlProcess
from std_srvs.srv import Trigger

from base_observer import BaseObserver
from bench.bench_weight import pss_mb
from kill_support import ready
from layered_fault_support import ALL_NODES, LIVING, ModelProcess
from pipeline_support import NODES, BroughtUp, Observer, Task, brought_up, config_dir
from ros_support import ROOT, wait_until
from skill_kernel.events import CallKind

pytestmark = pytest.mark.timeout(0)

MINUTES = float(os.environ.get("SOAK_MINUTES", "60"))
SEED = int(os.environ.get("SOAK_SEED") or random.SystemRandom().randrange(10**6))
WARM_UP = 1 / 3
"""Share of the time in which everything is used once, before it is weighed."""
USE_S = 1.5
GROWTH = 1.05
LINGER_S = 30.0
"""Time that a question to a silent model may take to be given up."""
HALTED_S = 0.5
"""From a halt to the last command that may still be under way."""
CLEARED_S = 5.0
"""The word that a halt is cleared may come so long after the motion that it allows: on a busy machine it is sent again."""
STILL_RAD = 1e-3
"""Between two set-points of a joint that is held."""
DISK_MB = 64
CLONE_NEWNET = 0x40000000
"""Of <linux/sched.h>."""
POOLED = 6
"""Threads of bounded pools that begin when they are first needed: a second one that reads the memory, with the file that it
reads, and up to five more that resolve names of hosts."""
EXECUTABLES = ("sim", "safety_gate", "skill_kernel", "reflexes", "drivers", "mind")
WORDS = {
    "coco": ("nod twice", "sit down", "stand up", "walk 60 cm forward", "wink", "shake your ears", "play music", "look left"),
    "kalos": ("walk 1 metre forward", "turn left 90 degrees", "go to the office", "bark", "sit down", "patrol", "stand up"),
}
ODD_WORDS = (
    "stop",
    "stop, then say hello",
    "do it",
    "",
    "\u0000\u202e{}<>&",
    "go " * 400,
    "find a ball and bring it to me while you sing",
    "what do you see?",
)
CALMS = {"coco": "nod", "kalos": "sit down, then stand up"}
"""A task that each robot can do wherever the chaos has left it."""
STREAMS = (
    "<say>one, two, three</say>",
    "<say>never closed",
    "</nothing><<<>>>",
    '<wait seconds="nan"/>',
    "<nod/><nod/><bark/><move_forward distance_m='9e99'/>",
    "<par>" * 60,
)


class Watcher(BaseObserver):
    """Hears whether a halted robot is told to move."""

    def __init__(self, namespace: str) -> None:
        self.halted_s = 0.0
        self.clear_asked_s = -CLEARED_S
        self.moved_halted: list[str] = []
        super().__init__(namespace)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "halted" and value and not self.__dict__.get("halted"):
            self.halted_s = time.monotonic()
        super().__setattr__(name, value)

    def _rests(self) -> bool:
        """Return whether it has been halted for long enough to stand still, and nobody has just asked to clear the halt."""
        now = time.monotonic()
        cleared = self.halted_s < self.clear_asked_s and now - self.clear_asked_s < CLEARED_S
        return bool(self.halted) and now - self.halted_s > HALTED_S and not cleared

    def _on_velocity(self, message: Any) -> None:
        super()._on_velocity(message)
        at_s, speed = self.velocities[-1]
        if speed > 0.0 and self._rests():
            self.moved_halted.append(f"{speed:.2f} m/s {at_s - self.halted_s:.1f} s after the halt")

    def _on_set_points(self, message: Any) -> None:
        before = self.set_points[-1][1] if self.set_points else {}
        super()._on_set_points(message)
        at_s, points = self.set_points[-1]
        if self._rests() and (moved := [n for n, at in points.items() if abs(at - before.get(n, at)) > STILL_RAD]):
            self.moved_halted.append(f"joints {moved} {at_s - self.halted_s:.1f} s after the halt")


class Soak:
    """Two robots, their model and what is done to them."""

    def __init__(
        self, robots: dict[str, BroughtUp], model: ModelProcess, disks: dict[str, Path], log: Path, *, apart: bool
    ) -> None:
        self.robots, self.model, self.disks, self._apart = robots, model, disks, apart
        self._random = random.Random(SEED)
        self._log = log.open("w", buffering=1, encoding="utf-8")
        self.began_s = time.monotonic()
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self.tasks: list[tuple[str, float, Task]] = []
        """Each with its robot and when it was sent."""
        self.done: Counter[str] = Counter()
        self.killed_s: dict[tuple[str, str], float] = {}
        """Steady time at which a robot's executable was killed last."""

    def note(self, text: str) -> None:
        line = f"{time.monotonic() - self.began_s:8.2f} {text}"
        self._log.write(line + "\n")
        print(line, flush=True)

    def later(self, delay_s: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._numbers), act))

    def run(self, minutes: float) -> None:
        """Draw one action after another; then end what still is broken."""
        acts, weights = zip(*self.acts().items(), strict=True)
        end_s = time.monotonic() + 60 * minutes
        while time.monotonic() < end_s:
            act = self._random.choices(acts, weights)[0]
            name = self._random.choice(list(self.robots))
            self.done[act.__name__] += 1
            try:
                act(name)
            except pytest.fail.Exception as error:
                self.note(f"  no answer: {str(error).splitlines()[0]}")
            next_s = time.monotonic() + self._random.uniform(0.1, 2.5)
            while self._due and self._due[0][0] < next_s:
                at_s, _, due = heapq.heappop(self._due)
                time.sleep(max(0.0, at_s - time.monotonic()))
                due()
            time.sleep(max(0.0, next_s - time.monotonic()))
        while self._due:
            heapq.heappop(self._due)[2]()

    def use_all(self) -> None:
        """Tell both robots all they know, so that what is made once is made."""
        for words in zip_longest(*WORDS.values(), fillvalue="stand up"):
            for name, told in zip(WORDS, words, strict=True):
                self._say(name, told)
            time.sleep(USE_S)

    def acts(self) -> dict[Callable[[str], object], int]:
        """Return what may happen to a robot, with its weight."""
        disk = {self.fill_disk: 4} if self.disks else {}
        link = {self.cut_link: 3} if self._apart else {}
        return {
            self.instruct: 24,
            self.talk_oddly: 8,
            self.stream: 8,
            self.control: 14,
            self.halt: 5,
            self.clear: 12,
            self.kill: 6,
            self.freeze: 10,
            self.slow_model: 7,
            self.kill_model: 3,
            **disk,
            **link,
        }

    def instruct(self, name: str) -> None:
        self._say(name, self._random.choice(WORDS[name]))

    def talk_oddly(self, name: str) -> None:
        self._say(name, self._random.choice(ODD_WORDS))

    def _say(self, name: str, words: str) -> None:
        watch = self.robots[name].observer
        if self._random.random() < 0.5:
            self.note(f"{name} hears {words[:60]!r}")
            watch.say(words)
        else:
            self.note(f"{name} gets the task {words[:60]!r}")
            self.tasks.append((name, time.monotonic(), watch.task(words)))

    def stream(self, name: str) -> None:
        text, watch = self._random.choice(STREAMS), self.robots[name].observer
        parts = [text[at : at + 7] for at in range(0, len(text), 7)]
        lost = self._random.randrange(2 * len(parts))
        epoch = max((p.epoch for p in watch.processes), default=0)
        self.note(f"{name} gets a stream of its own, {text[:40]!r}, epoch {epoch}, without chunk {lost}")
        key = f"own-{next(self._numbers)}"
        for seq, part in enumerate(parts):
            if seq != lost:
                last = seq == len(parts) - 1
                watch.chunk_out.publish(LlmChunk(process_id=key, stream_id=key, epoch=epoch, seq=seq, text=part, last=last))

    def control(self, name: str) -> None:
        request = ControlProcess.Request
        command = self._random.choice((request.STOP, request.PAUSE, request.RESUME))
        self.note(f"{name}: {('STOP', 'PAUSE', 'RESUME')[command]} the newest process")
        watch = self.robots[name].observer
        watch.ask(watch.control, request(command=command), 2.0)

    def halt(self, name: str) -> None:
        self.note(f"{name}: halt")
        watch = self.robots[name].observer
        watch.ask(watch.halt, Trigger.Request(), 2.0)

    def clear(self, name: str) -> None:
        self.note(f"{name}: clear the halt")
        watch = self.robots[name].observer
        watch.clear_asked_s = time.monotonic()
        watch.ask(watch.clear_halt, Trigger.Request(), 2.0)

    def kill(self, name: str) -> None:
        """Kill a node. With Kalos' simulator its clock begins anew, from zero."""
        executable = self._random.choice(EXECUTABLES)
        self.note(f"{name}: kill -9 {executable}")
        self.killed_s[name, executable] = time.monotonic()
        with suppress(ProcessLookupError):
            self.robots[name].kill(executable)

    def freeze(self, name: str) -> None:
        """Cut a process off from everything for a while."""
        executable, for_s = self._random.choice(EXECUTABLES), self._random.uniform(0.1, 4.0)
        pid = self.robots[name].pid(executable)
        self.note(f"{name}: {executable} is frozen for {for_s:.1f} s")

        def thaw() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        self.later(for_s, thaw)

    def slow_model(self, _: str) -> None:
        for_s = self._random.uniform(0.5, 8.0)
        self.note(f"the model is silent for {for_s:.1f} s")
        self.model.signal(signal.SIGSTOP)
        self.later(for_s, lambda: self.model.signal(signal.SIGCONT))

    def kill_model(self, _: str) -> None:
        self.note("the model is killed and comes back")
        self.model.end()
        self.model.start()

    def fill_disk(self, name: str) -> None:
        for_s, ballast = self._random.uniform(0.5, 5.0), self.disks[name] / "ballast"
        self.note(f"{name}: the disk is full for {for_s:.1f} s")
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        self.later(for_s, lambda: ballast.unlink(missing_ok=True))

    def cut_link(self, _: str) -> None:
        for_s = self._random.uniform(0.2, 3.0)
        self.note(f"the network is cut for {for_s:.1f} s")
        _set_link("down")
        self.later(for_s, lambda: _set_link("up"))


def _set_link(state: str) -> bool:
    """Switch the loopback of this network on or off; return whether that is allowed."""
    return not subprocess.call(["ip", "link", "set", "lo", state], stderr=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def apart() -> bool:
    """Move this thread, and all that it starts from now on, into a network of its own; return whether that is allowed.

    rclpy opens its sockets with the first node, not before.
    """
    return bool(shutil.which("ip")) and not ctypes.CDLL(None).unshare(CLONE_NEWNET) and _set_link("up")


@dataclass(frozen=True)
class Weight:
    """Memory, threads and files of a process."""

    mb: float
    threads: int
    files: Counter[str]
    """Open files by what they are, without connections to the model, of which one may be kept for the next question."""

    @classmethod
    def of(cls, pid: int | str) -> Weight:
        table = Path(f"/proc/{pid}/net/tcp").read_text(encoding="utf-8").splitlines()[1:]
        connections = {f"socket:[{line.split()[9]}]" for line in table}
        files: Counter[str] = Counter()
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if (target := os.readlink(file)) not in connections:
                    files[re.sub(r"[0-9a-f]{6,}|\d+", "N", target)] += 1
        return cls(pss_mb(int(pid)), len(os.listdir(f"/proc/{pid}/task")), files)

    def beyond(self, before: Weight) -> str:
        """Return which threads and files there are more of than before."""
        threads = [f"{self.threads} threads instead of {before.threads}"] if self.threads > before.threads + POOLED else []
        more = {what: count for what, count in (self.files - before.files).items() if count > ("memory.sqlite" in what)}
        return "; ".join([*threads, *(f"{count} more of {what}" for what, count in more.items())])


def weights(robots: dict[str, BroughtUp]) -> dict[str, dict[str, Weight]]:
    """Return what each process of each robot takes, and this one, which launched them."""
    found = {name: {one: Weight.of(robot.pid(one)) for one in EXECUTABLES} for name, robot in robots.items()}
    return {**found, "launch": {"launcher": Weight.of(os.getpid())}}


def leaks(robots: dict[str, BroughtUp], before: dict[str, dict[str, Weight]], note: Callable[[str], None]) -> list[str]:
    """Return what is left of the chaos in each process once what was under way has had time to end."""
    end_s = time.monotonic() + LINGER_S
    while True:
        now = weights(robots)
        more = [
            f"{name} {one}: {said}"
            for name, ones in now.items()
            for one, weight in ones.items()
            if (said := weight.beyond(before[name][one]))
        ]
        if not more or time.monotonic() > end_s:
            break
        time.sleep(1.0)
    for name, ones in now.items():
        for one, weight in ones.items():
            then = before[name][one]
            files = f"{then.files.total()} -> {weight.files.total()} files"
            note(f"{name} {one}: {then.mb:.1f} -> {weight.mb:.1f} MB, {then.threads} -> {weight.threads} threads, {files}")
    for name in robots:
        mb_before, mb = (sum(one.mb for one in at[name].values()) for at in (before, now))
        note(f"{name}: {mb_before:.1f} -> {mb:.1f} MB")
        if mb > GROWTH * mb_before:
            more.append(f"{name} grew from {mb_before:.1f} to {mb:.1f} MB")
    return more


def calmed(name: str, robot: BroughtUp, broken: list[str]) -> None:
    """Stop what lives, see that all has ended and nothing is held, and let the robot do one more task."""
    watch: Observer = robot.observer
    began_s = time.monotonic()
    while living := [p for p in watch.processes if p.status in LIVING]:
        if time.monotonic() - began_s > 60.0:
            broken.append(f"{name}: still alive: {[(p.process_id, p.status, p.pause_causes) for p in living]}")
            break
        for process in living:
            with suppress(pytest.fail.Exception):
                watch.ask(watch.control, ControlProcess.Request(process_id=process.process_id), 3.0)
        time.sleep(0.5)
    ready(robot)
    task = watch.task(CALMS[name])
    result = task.result(60.0)
    if result.status != ProcessState.SUCCESS:
        broken.append(f"{name}: '{CALMS[name]}' ended with {result.status}, {result.error_code}: {result.error_msg}")
    wait_until(lambda: watch.kernel and not watch.kernel.running, 10.0, f"the kernel of {name} says that nothing runs")


def laws(name: str, soak: Soak, broken: list[str]) -> None:
    """Append what `name` broke."""
    watch = soak.robots[name].observer
    for process in watch.processes:
        if process.status == ProcessState.FAILED and not process.message:
            broken.append(f"{name}: process {process.process_id} ({process.instruction[:40]!r}) failed without a reason")
    own = [(task, sent_s) for owner, sent_s, task in soak.tasks if owner == name]
    unanswered = [task for task, _ in own if not task.ends and not task.feedback]
    for task in unanswered:  # a goal may be lost while its server starts again; a client that asks is told so
        task.sent.ask()
    with suppress(pytest.fail.Exception):
        wait_until(lambda: all(task.ends for task in unanswered), 10.0, "ends of tasks that were lost")
    for task, sent_s in own:
        if len(task.ends) > 1 or (not task.ends and sent_s > soak.killed_s.get((name, "mind"), 0.0)):
            broken.append(f"{name}: a task of {sent_s - soak.began_s:.2f} s ended {len(task.ends)} times")
    ends = Counter(e.call_id for e in watch.events if e.kind == CallKind.ENDED)
    started = {e.call_id for e in watch.events if e.kind == CallKind.STARTED}
    if twice := [call for call, times in ends.items() if times > 1]:
        broken.append(f"{name}: calls ended more than once: {twice[:5]}")
    if (name, "skill_kernel") not in soak.killed_s and (endless := started - set(ends)):
        broken.append(f"{name}: calls without an end: {sorted(endless)[:5]}")
    held = [s.name for s in watch.kernel.subsystems if s.process_id or s.call_ids]
    if held or watch.kernel.running or [h for h in watch.kernel.processes if h.subsystems]:
        broken.append(f"{name}: still held: {held}, running {list(watch.kernel.running)}, {watch.kernel.processes}")
    if moved := watch.moved_halted:
        broken.append(f"{name}: moved while halted, {len(moved)} times: {moved[:3]}")
    if name == "coco" and (beyond := watch.beyond_limits()):
        broken.append(f"{name}: {len(beyond)} set-points beyond the limits")


def unreadable(folder: Path) -> Iterator[str]:
    """Yield what a person could not read any more of a robot's files."""
    for file in folder.rglob("*.sqlite3"):
        try:
            with closing(sqlite3.connect(file)) as base:
                if (said := base.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                    yield f"{file.name}: {said}"
        except sqlite3.Error as error:
            yield f"{file.name}: {error}"


@contextmanager
def small_disk(folder: Path) -> Iterator[dict[str, Path]]:
    """Mount a small disk for each robot's data, where this is allowed."""
    disks = {name: folder / name / "data" for name in WORDS}
    for disk in disks.values():
        disk.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs"]
    mounted = [disk for disk in disks.values() if not subprocess.call([*mount, str(disk)], stderr=subprocess.DEVNULL)]
    try:
        yield disks if len(mounted) == len(disks) else {}
    finally:
        for disk in mounted:
            subprocess.call(["umount", "-l", str(disk)])


def test_after_chaos_every_law_still_holds(tmp_path: Path, apart: bool, ros: None) -> None:
    log = ROOT / "out" / "soak" / f"{SEED}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    broken: list[str] = []
    model = ModelProcess()
    entry = {"provider": "openai", "base_url": model.url, "connect_s": 2.0, "first_token_s": 4.0, "silence_s": 3.0}
    models = {"planner": {**entry, "model": "planner"}, "fast": {**entry, "model": "fast"}}
    arguments = {"model": "planner", "fast_model": "fast", "strategy": "layered"}
    always = ("sim", "safety_gate", "skill_kernel")

    def up(name: str, nodes: set[str], **more: str) -> Any:
        folder = tmp_path / name
        configured = config_dir(folder, models, action_planner={"begin_directly": name == "kalos"})
        return brought_up(
            folder, configured, launch=name, nodes=nodes, observer_class=Watcher, also_respawn=always, **arguments, **more
        )

    robots: dict[str, BroughtUp] = {}

    def calm() -> None:
        for name, robot in robots.items():
            try:
                calmed(name, robot, broken)
            except pytest.fail.Exception as error:
                broken.append(f"{name}: {error}")
        time.sleep(5.0)

    def warm() -> None:
        """Have every process done all that it does: one that was killed began again with less than it needs."""
        calm()
        soak.use_all()
        calm()

    try:
        with small_disk(tmp_path) as disks:
            with (
                up("coco", NODES, memory="true") as coco,
                up("kalos", ALL_NODES, use_sim_time="true", default_robot="false") as kalos,
            ):
                robots |= {"coco": coco, "kalos": kalos}
                soak = Soak(robots, model, disks, log, apart=apart)
                able = {"a full disk, which needs mount": disks, "a cut network, which needs ip and unshare": apart}
                left_out = [what for what, there in able.items() if not there]
                soak.note(f"seed {SEED}, {MINUTES:g} min; left out: {' and '.join(left_out) or 'nothing'}")
                soak.run(WARM_UP * MINUTES)
                warm()
                before = weights(robots)
                soak.run((1 - WARM_UP) * MINUTES)
                soak.note(f"calm again, after {dict(soak.done)}")
                warm()
                for name in robots:
                    laws(name, soak, broken)
                broken.extend(leaks(robots, before, soak.note))
            for name in robots:
                broken.extend(f"{name}: {said}" for said in unreadable(tmp_path / name))
    finally:
        model.end()
        for name in robots:
            shutil.copy(tmp_path / name / "log.txt", log.with_suffix(f".{name}.txt"))
    assert not broken, f"seed {SEED}: " + "\n".join(broken)
