# SPDX-License-Identifier: Apache-2.0
"""A reference model of the kernel, and every thing that can be done to both, chosen by whoever drives it."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kernel_bench import REST, ROBOT, Bench

from skill_kernel import CallCode, Outcome, SkillReturn
from skill_kernel.codes import LeaseCode
from skill_kernel.kernel.heartbeats import Heartbeats, Source
from skill_kernel.kernel.kernel import KernelSettings, Rank

T = TypeVar("T")
Choose = Callable[[Sequence[Any]], Any]

STUCK_S = 2.0
"""A kernel that does not answer, or a skill that does not move on, for so long is taken as locked up."""

SUBSYSTEM_OF = {
    "walk": "legs",
    "go": "legs",
    "seek": "legs",
    "wave": "arm",
    "haul": "arm",
    "crew": "crew",
    "hum": "sound",
    "think": "free",
}
PAUSABLE = frozenset({"walk", "wave", "crew", "hum", "think"})
RESTARTABLE = frozenset({"seek", "haul"})
PROCESSES = ("p1", "p2", "p3")
CAUSES = ("user", "s3", "s0")
RETURNS: dict[str, tuple[Any, Outcome]] = {
    "ok": (SkillReturn.success(), Outcome.DONE),
    "failure": (SkillReturn.failure("no"), Outcome.FAILED),
    "raise": (RuntimeError("boom"), Outcome.FAILED),
    "interrupted": (SkillReturn.interruption("part of it", progress={"loads": 1}), Outcome.FAILED),
}


@dataclass
class Modelled:
    """A call as the model sees it: `cause` is the outcome its first stop fixed, `pausing` how far a pause has come."""

    process: str
    function: str
    open: bool
    cause: Outcome | None = None
    body_ended: bool = False
    uncertain: bool = False
    pausing: str = ""
    leased: bool = True
    begins: int = 1
    loads: int = 3

    @property
    def subsystem(self) -> str:
        return SUBSYSTEM_OF[self.function]


class Watched:
    """Does things to the kernel on a thread of their own, so that one that never returns is noticed."""

    def __init__(self) -> None:
        self.stuck = False
        self._asked: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._answered: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def __call__(self, act: Callable[[], T]) -> T:
        self._asked.put(act)
        try:
            answer, error = self._answered.get(timeout=STUCK_S)
        except queue.Empty:
            self.stuck = True
            raise AssertionError("the kernel does not answer: a lock is held by who waits for another") from None
        if error is not None:
            raise error
        return answer

    def _work(self) -> None:
        while True:
            try:
                self._answered.put((self._asked.get()(), None))
            except BaseException as error:  # noqa: BLE001 - passed on to who asked
                self._answered.put((None, error))


class KernelAndModel:
    """The kernel beside the model. `step` does one thing to both and then holds the one against the other."""

    def __init__(self) -> None:
        self.bench, self.watched = Bench(settings=KernelSettings(deadline_extra_s=1e9)), Watched()
        self.kernel = self.bench.kernel
        self.beats = Heartbeats(5)
        self.calls: dict[str, Modelled] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.lowest: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.reserved: dict[str, str] = {}
        self.causes: defaultdict[str, dict[str, dict[str, int]]] = defaultdict(dict)
        """Pause causes, each with who gave it ("" by name, else a pre-empter) and when."""
        self.given = self.woken = 0
        self.waiting: list[str] = []
        self.wanted: dict[str, set[str]] = {}
        self.rank: dict[str, Rank] = {}
        self.epoch = self.number = 0
        self.halted = False
        self.done: defaultdict[str, int] = defaultdict(int)
        for process in PROCESSES:
            self.bench.start("think", f"first {process}", process)
            self.bench.finish(f"first {process}")
            self.outcomes[f"first {process}"] = Outcome.DONE

    def step(self, choose: Choose) -> None:
        """Do one thing."""
        acts: list[Callable[[Choose], None]] = [
            self.execute,
            self.execute,
            self.execute,
            self.pause_process,
            self.resume_process,
            self.resume_process,
            self.end_process,
            self.owner_falls_silent,
            self.preempt,
            self.detour,
            self.reset,
            self.interrupt,
            self.interrupt_process,
            self.driver_dies,
            self.body_ends,
            self.body_ends,
            self.body_ends,
            self.body_rests,
            self.body_rests,
            self.stop_times_pass,
            self.halt,
            self.clear,
            self.clear,
        ]
        act = choose(acts)
        act(choose)
        self.serve_waiting()
        self.done[act.__name__] += 1
        self.check()

    def close(self) -> None:
        """Let every skill's thread end."""
        if not self.watched.stuck:
            self.watched(lambda: self.kernel.halt("the test is over"))
        for call_id, call in self.calls.items():
            if not call.body_ended:
                self.bench.bodies[call_id].commands.put(None)

    # -- what the model expects ----------------------------------------------------------------------------------------

    def holder(self, process: str, subsystem: str) -> bool:
        """Return whether another call or process keeps this process from the subsystem."""
        wanted = ROBOT.subsystems[subsystem]
        for other in self.calls.values():
            there = other.leased and other.subsystem == subsystem
            if there and (not wanted.parallel or (wanted.exclusive_per_process and other.process != process)):
                return True
        return self.reserved.get(subsystem, process) != process

    def refusal(self, process: str, function: str, epoch: int) -> CallCode | None:
        subsystem = SUBSYSTEM_OF[function]
        if epoch < max(self.lowest[p, c] for p in ("", process) for c in ("", subsystem)):
            return CallCode.STALE_EPOCH
        if self.halted:
            return CallCode.HALTED
        if self.causes[process]:
            return CallCode.PROCESS_PAUSED
        return CallCode.SUBSYSTEM_HELD if self.holder(process, subsystem) else None

    def take(self, process: str, subsystem: str) -> None:
        if ROBOT.subsystems[subsystem].exclusive_per_process:
            self.reserved[subsystem] = process

    def kept(self, process: str) -> set[str]:
        return {s for s, p in self.reserved.items() if p == process}

    def free(self, process: str) -> None:
        for subsystem in self.kept(process):
            del self.reserved[subsystem]

    def stop(self, call_id: str, cause: Outcome) -> None:
        call = self.calls[call_id]
        if call.cause is None:
            call.cause = cause
            if call.body_ended:
                self.end(call_id, cause)

    def end(self, call_id: str, outcome: Outcome) -> None:
        assert call_id not in self.outcomes
        self.outcomes[call_id] = outcome
        del self.calls[call_id]

    def of(self, process: str) -> list[str]:
        return [c for c, call in self.calls.items() if call.process == process]

    def pauses(self, process: str, cause: str, by: str = "") -> tuple[set[str], set[str]]:
        """Return what a pause does: the calls that wait, and those that end."""
        first = not self.causes[process]
        self.given += 1
        self.causes[process].setdefault(cause, {}).setdefault(by, self.given)
        waiting, ending = set(), set()
        if first:
            self.wanted[process] = self.kept(process)
            self.free(process)
        for call_id in self.of(process):
            call = self.calls[call_id]
            if not first:
                waiting |= {call_id} if call.pausing else set()
            elif call.cause is not None or call.uncertain:
                continue
            elif call.body_ended:
                call.pausing, call.leased = "parked", False
                waiting.add(call_id)
            elif call.function in PAUSABLE or call.function in RESTARTABLE:
                call.pausing = "asked" if call.function in PAUSABLE else "stopping"
                waiting.add(call_id)
            else:
                self.stop(call_id, Outcome.INTERRUPTED)
                ending.add(call_id)
        return waiting, ending

    def ends(self, process: str) -> None:
        self.epoch += 1
        self.lowest[process, ""] = self.epoch
        for call_id in self.of(process):
            self.stop(call_id, Outcome.INTERRUPTED)
        self.free(process)
        self.causes[process].clear()
        self.waiting = [p for p in self.waiting if p != process]
        self.rank.pop(process, None)
        displaced = [(g[process], p, cause) for p in PROCESSES for cause, g in self.causes[p].items() if process in g]
        for _, other, cause in sorted(displaced):
            self.takes_back(other, cause, process)
            if not self.causes[other]:
                self.causes[other]["waiting"] = {"": 0}
                self.waiting.append(other)

    def givers(self) -> list[str]:
        """Return who has preempted a process that is still paused by that."""
        by_whom = {by for causes in self.causes.values() for given in causes.values() for by in given}
        return [p for p in PROCESSES if p in by_whom]

    def takes_back(self, process: str, cause: str, by: str) -> None:
        givers = self.causes[process].get(cause, {})
        if givers.pop(by, None) is not None and not givers:
            del self.causes[process][cause]
            if cause == "waiting":
                self.waiting.remove(process)

    def lacks(self, process: str) -> bool:
        """Return whether another has what a paused process needs to go on."""
        parked = [call for c in self.of(process) if (call := self.calls[c]).pausing == "parked" and call.cause is None]
        return any(self.reserved.get(s, process) != process for s in self.wanted[process]) or any(
            self.holder(process, call.subsystem) for call in parked
        )

    def wakes(self, process: str) -> None:
        parked = [call for c in self.of(process) if (call := self.calls[c]).pausing == "parked" and call.cause is None]
        self.causes[process].clear()
        self.waiting = [p for p in self.waiting if p != process]
        for subsystem in [*self.wanted[process], *(call.subsystem for call in parked)]:
            self.take(process, subsystem)
        for call_id in self.of(process):
            self.goes_on(call_id)

    def serve_waiting(self) -> None:
        """Return who only waits for what it needs goes on by itself, the first first."""
        for process in list(self.waiting):
            if set(self.causes[process]) == {"waiting"} and not self.lacks(process):
                self.wakes(process)
                self.woken += 1

    # -- what may happen -----------------------------------------------------------------------------------------------

    def execute(self, choose: Choose) -> None:
        process, function = choose(PROCESSES), choose(sorted(SUBSYSTEM_OF))
        open_call = choose([False, False, True]) and function in PAUSABLE
        self.executes(process, function, max(0, self.epoch - choose([0, 0, 0, 0, 1])), open_call)

    def executes(self, process: str, function: str, epoch: int, open_call: bool = False) -> None:
        call_id = f"call{self.number}"
        self.number += 1
        expected = self.refusal(process, function, epoch)
        more = {"arguments": {"distance": 1.0}} if function == "go" else {}
        answer = self.watched(lambda: self.bench.execute(function, call_id, process, epoch=epoch, open=open_call, **more))
        if expected is None:
            assert answer is None, answer
            assert self.bench.bodies[call_id].started.wait(STUCK_S)
            self.calls[call_id] = Modelled(process, function, open_call)
            self.take(process, SUBSYSTEM_OF[function])
        else:
            assert answer is not None and answer.code is expected, (answer, expected)
            assert not self.bench.bodies[call_id].started.is_set()

    def reset(self, choose: Choose) -> None:
        if self.calls:
            call_id = choose(list(self.calls))
            self.watched(lambda: self.kernel.reset(call_id))
            self.stop(call_id, Outcome.DONE)

    def interrupt(self, choose: Choose) -> None:
        if self.calls:
            call_id = choose(list(self.calls))
            self.watched(lambda: self.kernel.interrupt(call_id, "because"))
            self.stop(call_id, Outcome.INTERRUPTED)

    def interrupt_process(self, choose: Choose) -> None:
        process, channel = choose(["", *PROCESSES]), choose(["", *ROBOT.subsystems])
        answer = self.watched(lambda: self.kernel.interrupt_process(process, [channel] if channel else [], "because"))
        assert answer.epoch == self.epoch + 1
        self.epoch = self.lowest[process, channel] = answer.epoch
        hit = [c for c, call in self.calls.items() if process in ("", call.process) and channel in ("", call.subsystem)]
        assert set(answer.stopped) == {c for c in hit if not self.calls[c].uncertain}
        for call_id in hit:
            self.stop(call_id, Outcome.INTERRUPTED)

    def halt(self, _: Choose) -> None:
        self.watched(lambda: self.kernel.halt("button"))
        self.halted = True
        for call_id in list(self.calls):
            self.stop(call_id, Outcome.INTERRUPTED)

    def clear(self, _: Choose) -> None:
        self.watched(self.kernel.clear)
        self.halted = False

    def pause_process(self, choose: Choose) -> None:
        process, cause = choose(PROCESSES), choose(CAUSES)
        answer = self.watched(lambda: self.kernel.pause_process(process, cause))
        if self.rank.get(process, Rank.SCHEDULER) < Rank.of_cause(cause):
            assert answer.code is LeaseCode.OUTRANKED
            return
        waiting, ending = self.pauses(process, cause)
        assert (answer.code, set(answer.paused), set(answer.stopped)) == (LeaseCode.NONE, waiting, ending)

    def resume_process(self, choose: Choose) -> None:
        paused = [p for p in PROCESSES if self.causes[p]]
        process = choose(paused or list(PROCESSES))
        cause = choose(sorted(self.causes[process]) or list(CAUSES))
        answer = self.watched(lambda: self.kernel.resume_process(process, cause))
        if not self.causes[process]:
            assert answer.code is LeaseCode.NONE
        elif set(self.causes[process]) != {cause} or set(self.causes[process][cause]) != {""}:
            self.takes_back(process, cause, "")
            waits = set(self.causes[process]) == {"waiting"}
            expected = LeaseCode.NONE if waits and not self.lacks(process) else LeaseCode.NOT_RESUMED
            assert answer.code is expected and not answer.holders, answer
        elif self.lacks(process):
            assert answer.code is LeaseCode.NOT_RESUMED and process not in answer.holders and answer.holders
        else:
            assert answer.code is LeaseCode.NONE, answer
            self.wakes(process)

    def goes_on(self, call_id: str) -> None:
        call = self.calls[call_id]
        if call.cause is None and call.pausing in ("asked", "parked"):
            call.pausing, call.leased = "", True
            if call.body_ended and call.function in RESTARTABLE:
                call.body_ended, call.begins = False, call.begins + 1
            self.begun(call_id)

    def begun(self, call_id: str) -> None:
        body, call = self.bench.bodies[call_id], self.calls[call_id]
        self.until(lambda: body.begins == call.begins and (call.body_ended or body.inside), f"{call_id} does not go on")
        if call.function == "haul":
            assert body.seen["loads"] == call.loads

    def end_process(self, choose: Choose) -> None:
        self.is_ended(choose([*PROCESSES, *self.givers()]))

    def is_ended(self, process: str) -> None:
        self.watched(lambda: self.kernel.end_process(process, "over"))
        self.ends(process)

    def owner_falls_silent(self, choose: Choose) -> None:
        process = choose(PROCESSES)
        self.beats.hear(Source.PROCESSES, PROCESSES)
        ended: list[str] = []
        for _ in range(6):
            self.beats.hear(Source.PROCESSES, [p for p in PROCESSES if p != process])
            ended += self.beats.check(PROCESSES).ended
        assert ended == [process]
        self.watched(lambda: self.kernel.end_process(process, "its heartbeat is lost"))
        self.ends(process)

    def preempt(self, choose: Choose) -> None:
        process, rank = choose([*PROCESSES, *PROCESSES, ""]), choose(list(Rank))
        self.preempts(process, rank, choose([*ROBOT.subsystems, *self.reserved]))

    def preempts(self, process: str, rank: Rank, subsystem: str) -> None:
        answer = self.watched(lambda: self.kernel.preempt(rank, [subsystem], "mine", process))
        users = {c.process for c in self.calls.values() if c.leased and c.subsystem == subsystem}
        users = (users | ({self.reserved[subsystem]} if subsystem in self.reserved else set())) - {process}
        if not process:
            assert answer.code is LeaseCode.INVALID_REQUEST
        elif self.causes[process]:
            assert answer.code is LeaseCode.NOT_RESUMED
        elif above := {p for p in users if self.rank.get(p, Rank.SCHEDULER) < rank}:
            assert answer.code is LeaseCode.OUTRANKED and set(answer.holders) == above
        else:
            assert (answer.code, set(answer.holders)) == (LeaseCode.NONE, users)
            for other in answer.holders:
                self.pauses(other, rank.cause, by=process)
            self.rank[process] = rank
            self.take(process, subsystem)

    def driver_dies(self, choose: Choose) -> None:
        subsystem = choose(list(ROBOT.subsystems))
        for call_id in [c for c, call in self.calls.items() if call.subsystem == subsystem and self.obeys(c)]:
            self.returns(call_id, SkillReturn.failure("gone", CallCode.DRIVER_LOST), Outcome.FAILED, "failure")

    def body_ends(self, choose: Choose) -> None:
        ready = [c for c in self.calls if self.obeys(c)]
        if ready:
            call_id, how = choose(ready), choose(sorted(RETURNS))
            self.returns(call_id, *RETURNS[how], how)

    def obeys(self, call_id: str) -> bool:
        """Return whether the skill's thread waits for a word, and not for the end of a pause."""
        call = self.calls[call_id]
        return not call.body_ended and not (call.pausing == "parked" and call.cause is None)

    def returns(self, call_id: str, command: Any, outcome: Outcome, how: str) -> None:
        call, anew = self.calls[call_id], False
        if call.pausing == "stopping" and call.cause is None and how == "interrupted":
            anew = call.function == "seek" or call.loads > 1
            call.loads -= 1
            outcome = outcome if anew else Outcome.DONE
        self.bench.bodies[call_id].commands.put(command)
        if anew:
            if self.causes[call.process]:
                self.until(lambda: call_id not in self.bench.holders(call.subsystem), f"{call_id} keeps its lease")
                call.pausing, call.leased, call.body_ended = "parked", False, True
            else:
                call.pausing, call.begins = "", call.begins + 1
                self.begun(call_id)
            return
        self.until(lambda: not self.bench.threads[call_id].is_alive(), f"the thread of {call_id} does not end")
        call.body_ended = True
        if call.uncertain:
            del self.calls[call_id]
        elif call.cause is Outcome.INTERRUPTED:
            self.end(call_id, Outcome.INTERRUPTED)
        elif call.cause is Outcome.DONE and how == "interrupted":
            self.end(call_id, Outcome.DONE)
        elif call.cause is Outcome.DONE or not call.open or outcome is not Outcome.DONE:
            self.end(call_id, outcome)
        elif call.pausing == "asked":
            call.pausing, call.leased = "parked", False

    def body_rests(self, choose: Choose) -> None:
        ready = [c for c in self.calls if self.calls[c].pausing == "asked" and self.calls[c].cause is None and self.obeys(c)]
        if ready:
            self.rests(choose(ready))

    def rests(self, call_id: str) -> None:
        call = self.calls[call_id]
        self.bench.bodies[call_id].commands.put(REST)
        self.until(lambda: call_id not in self.bench.holders(call.subsystem), f"{call_id} rests and keeps its lease")
        call.pausing, call.leased = "parked", False

    def detour(self, choose: Choose) -> None:
        """One takes another's subsystem, moves it, and ends while its own call is still stopping."""
        moving = [
            c
            for c, call in self.calls.items()
            if call.function in PAUSABLE and not call.pausing and self.obeys(c) and call.cause is None
        ]
        if moving:
            call_id = choose(moving)
            call = self.calls[call_id]
            process = choose([p for p in PROCESSES if p != call.process])
            self.preempts(process, Rank.REFLEX, call.subsystem)
            if call.pausing == "asked":
                self.rests(call_id)
                self.serve_waiting()
            self.executes(process, call.function, self.epoch)
            self.is_ended(process)

    def stop_times_pass(self, _: Choose) -> None:
        late = [
            c
            for c, call in self.calls.items()
            if call.function != "stand"
            and not call.uncertain
            and not call.body_ended
            and (call.cause is not None or call.pausing == "stopping")
        ]
        restless = [c for c, call in self.calls.items() if call.pausing == "asked" and call.cause is None]
        self.watched(lambda: self.bench.clock.run(until_s=self.bench.clock.now() + 0.8))
        for call_id in late:
            call = self.calls[call_id]
            call.cause = call.cause or Outcome.INTERRUPTED
            call.uncertain = True
            self.outcomes[call_id] = Outcome.INTERRUPTED if call.cause is Outcome.INTERRUPTED else Outcome.FAILED
        for call_id in restless:
            self.stop(call_id, Outcome.INTERRUPTED)
        if late:
            self.halted = True
            for call_id in [c for c, call in self.calls.items() if not call.uncertain]:
                self.stop(call_id, Outcome.INTERRUPTED)

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Hold the kernel against the model, and what the skills do against the rules."""
        state = self.watched(self.kernel.state)
        self.nobody_shares_an_actuator()
        results = {c: [r.outcome for r in results] for c, results in self.bench.results.items() if results}
        assert results == {c: [outcome] for c, outcome in self.outcomes.items()}
        for subsystem in state.subsystems:
            holders = {c for c, call in self.calls.items() if call.leased and call.subsystem == subsystem.name}
            assert set(subsystem.call_ids) == holders, (subsystem, holders)
        kept = {p.process_id: (set(p.subsystems), set(p.pause_causes)) for p in state.processes}
        givers = self.givers()
        expected = {p: (self.kept(p), set(self.causes[p])) for p in PROCESSES if self.kept(p) or self.causes[p] or p in givers}
        assert kept == expected, (kept, expected)
        assert set(state.running) == {c for c, call in self.calls.items() if not call.uncertain}
        assert state.halted == self.halted
        for call_id, call in self.calls.items():
            seen, waiting = self.bench.bodies[call_id].seen, call.pausing in ("asked", "parked")
            if not call.body_ended:
                assert seen["stop"].is_set() == (call.cause is not None or call.pausing == "stopping")
                if "pause" in seen:
                    assert seen["pause"].is_set() == (waiting and call.cause is None), f"{call_id} woke past a pause cause"

    def nobody_shares_an_actuator(self) -> None:
        inside: defaultdict[str, list[Modelled]] = defaultdict(list)
        for call_id, call in self.calls.items():
            if self.bench.bodies[call_id].inside:
                inside[call.subsystem].append(call)
        for subsystem, calls in inside.items():
            settings = ROBOT.subsystems[subsystem]
            assert settings.parallel or len(calls) < 2, f"{len(calls)} calls move {subsystem}"
            processes = {call.process for call in calls}
            assert not settings.exclusive_per_process or len(processes) < 2, f"{processes} move {subsystem}"

    def until(self, condition: Callable[[], object], otherwise: str) -> None:
        """Wait for what a skill's thread does."""
        deadline = time.monotonic() + STUCK_S
        while not self.watched(condition):
            assert time.monotonic() < deadline, otherwise
            time.sleep(0.0002)
