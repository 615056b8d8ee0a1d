# SPDX-License-Identifier: Apache-2.0
"""A replay's order, its stand-in for the kernel, and what counts as a difference; on a virtual clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace as Space
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from ghostshell.msg import EventHead

from bench.replay import replaying
from bench.replay.calls import CallBook, Key, Output, RecordedCall, differences, start_tolerance_s
from bench.replay.conductor import IMPATIENCE_S, PATIENCE_S, Conductor, Do, ReplayedKernel
from bench.replay.recorded import RunFile, RunMessage
from bench.replay.replaying import ReplayError, replay_file
from bench.replay.timeline import Input, Timeline, What, stamp_s, timeline
from ghostshell_ros.wire.events import MESSAGES, to_message
from ghostshell_ros.wire.events import TOPICS as EVENT_TOPICS
from planners.prompts.blocks import block
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallEvent, CallKind, EventKind, ProcessEvent, ProcessKind, RunEvent, StreamEvent, StreamKind


def stamp(at_s: float) -> Any:
    return Space(sec=int(at_s), nanosec=round(at_s % 1 * 1e9))


def event(kind: EventKind, at_s: float, call_id: str = "", **more: Any) -> Any:
    """Return the message of an event of the scheduler."""
    fields: dict[str, Any] = {"process_id": "p", "stream_id": "s", "kind": kind} | more
    node, function = fields.pop("node", "channel_scheduler"), {"function": "walk", "args_json": "{}", "channels": ("legs",)}
    made: RunEvent
    if isinstance(kind, CallKind):
        made = CallEvent(**{"call_id": call_id, "end_s": at_s} | function | fields)
    elif isinstance(kind, StreamKind):
        made = StreamEvent(**fields)
    else:
        made = ProcessEvent(**fields)
    return to_message(made, EventHead(stamp=Time(sec=int(at_s), nanosec=round(at_s % 1 * 1e9)), node=node))


def chunk(at_s: float, seq: int, stream: str = "s") -> Any:
    return Space(stamp=stamp(at_s), stream_id=stream, seq=seq, text="x")


def state(at_s: float, running: list[str], subsystems: dict[str, list[str]] | None = None) -> Any:
    held = [Space(name=n, parallel=False, call_ids=ids) for n, ids in (subsystems or {}).items()]
    return Space(stamp=stamp(at_s), running=running, subsystems=held, processes=[])


def recorded(*, begun: bool = True, events: Sequence[Any] = (), **topics: list[Any]) -> Timeline:
    """Return a run of these messages; its streams began in it."""
    streams = dict.fromkeys(e.stream_id for e in events if e.stream_id)
    starts = [event(StreamKind.STARTED, 0.5, stream_id=s) for s in streams] if begun else []
    for message in (*starts, *events):
        topics.setdefault(TOPIC_OF[type(message)], []).append(message)
    messages = [
        RunMessage(f"/kalos/{name}", "", round(stamp_s(getattr(v, "head", v).stamp) * 1e9), v, b"")
        for name, values in topics.items()
        for v in values
    ]
    run = RunFile(Space(), sorted(messages, key=lambda m: m.log_ns))  # type: ignore[arg-type]
    return timeline(run, "/kalos")


TOPIC_OF = {MESSAGES[kind]: name for kind, name in EVENT_TOPICS.items()}


class Desk:
    """A conductor whose nodes answer when the test says so, on a wall clock of its own."""

    def __init__(self, inputs: list[Input], outputs: list[tuple[float, Output]], speed: float = 1.0) -> None:
        self.given: list[tuple[float, Any]] = []
        self.wall_s = 1000.0
        self.conductor = Conductor(
            inputs, outputs, lambda i: self.given.append((round(self.conductor.now_s, 3), i.payload)), speed=speed
        )

    def run(self, seconds: float) -> list[Any]:
        before = len(self.given)
        for _ in range(round(seconds / 0.01)):
            self.conductor.tick(self.wall_s)
            self.wall_s += 0.01
        return [payload for _, payload in self.given[before:]]


A, B = Output(CallKind.QUEUED, Key("s", 0)), Output(CallKind.QUEUED, Key("s", 1))


def test_inputs_come_at_their_time_and_twice_as_fast_at_speed_two() -> None:
    inputs = [Input(10.0, 0, What.CHUNK, "a"), Input(12.0, 0, What.CHUNK, "b")]
    slow, fast = Desk(inputs, []), Desk(inputs, [], speed=2.0)
    assert slow.run(2.0) == ["a"] and slow.run(0.6) == ["b"]
    assert fast.run(1.2) == ["a"] and fast.run(0.2) == ["b"] and fast.conductor.over


def test_nothing_is_given_before_what_had_happened_by_then_has_happened_again() -> None:
    desk = Desk([Input(10.0, 0, What.CHUNK, "a"), Input(10.01, 1, What.RESULT, "end of a")], [(10.005, A)])
    assert desk.run(2.0) == ["a"], "the call is not there yet, so its end is not given"
    assert desk.conductor.now_s < 10.2, "time stands still meanwhile"
    desk.conductor.saw(A)
    assert desk.run(0.1) == ["end of a"] and desk.conductor.over and not desk.conductor.missing


def test_time_does_not_run_ahead_of_what_a_timer_did() -> None:
    desk = Desk([Input(10.0, 0, What.CHUNK, "a"), Input(30.0, 1, What.CHUNK, "b")], [(12.0, A)], speed=10.0)
    desk.run(1.0)
    assert 12.0 < desk.conductor.now_s <= 12.11
    desk.conductor.saw(A)
    assert desk.run(2.0) == ["b"]


def test_what_never_happens_is_given_up_and_the_rest_goes_on() -> None:
    outputs = [(10.0 + n / 100, Output(CallKind.QUEUED, Key("s", n))) for n in range(20)]
    desk = Desk([Input(10.0, 0, What.CHUNK, "a"), Input(11.0, 20, What.CHUNK, "b")], outputs)
    desk.run(3 * PATIENCE_S + 17 * (IMPATIENCE_S + 0.1) + 3.0)
    assert [payload for _, payload in desk.given] == ["a", "b"] and desk.conductor.over
    assert [output for _, output in desk.conductor.missing] == [output for _, output in outputs]


def test_chunks_results_and_interrupts_stand_where_they_stood() -> None:
    made = recorded(
        llm_chunks=[chunk(10.0, 0), chunk(11.5, 1)],
        events=[
            event(CallKind.QUEUED, 10.01, "c1"),
            event(CallKind.STARTED, 10.02, "c1"),
            event(ProcessKind.INTERRUPTED, 12.0, epoch=4, stream_id=""),
            event(CallKind.ENDED, 12.01, "c1", outcome=Outcome.INTERRUPTED, start_s=10.02, end_s=12.005),
        ],
        observation=[Space(stamp=stamp(1.0)), Space(stamp=stamp(2.0)), Space(stamp=stamp(10.5)), Space(stamp=stamp(99.0))],
    )
    order = [(i.what, i.after) for i in made.inputs]
    assert order == [
        (What.OBSERVATION, 0),
        (What.CHUNK, 0),
        (What.OBSERVATION, 2),
        (What.CHUNK, 2),
        (What.INTERRUPT, 2),
        (What.RESULT, 3),
    ]
    assert made.inputs[0].payload.value.stamp.sec == 2, "of what was before, the newest counts"


def test_a_stream_whose_first_events_are_missing_is_left_out() -> None:
    made = recorded(begun=False, llm_chunks=[chunk(9.9, 0)], events=[event(CallKind.STARTED, 10.0, "c1")])
    assert made.partial == {"s"} and not made.book.calls


def test_every_interrupt_before_the_first_chunk_is_given_too() -> None:
    early = [event(ProcessKind.INTERRUPTED, at_s, process_id=f"p{at_s}", stream_id="") for at_s in (1.0, 2.0)]
    made = recorded(llm_chunks=[chunk(10.0, 0)], events=early)
    assert [i.what for i in made.inputs] == [What.INTERRUPT, What.INTERRUPT, What.CHUNK]
    assert [i.after for i in made.inputs] == [0, 1, 2] and made.inputs[0].at_s == made.inputs[1].at_s == 9.0
    desk = Desk(made.inputs, made.outputs)
    for _, output in made.outputs:
        desk.run(0.6)
        desk.conductor.saw(output)
    desk.run(1.0)
    assert desk.conductor.over and not desk.conductor.missing


def test_a_stream_whose_beginning_is_missing_is_left_out() -> None:
    events = [event(CallKind.QUEUED, 10.0, "old", stream_id="late"), event(CallKind.QUEUED, 10.0, "c1")]
    made = recorded(llm_chunks=[chunk(9.9, 3, "late"), chunk(9.9, 0)], events=events)
    assert made.partial == {"late"} and [c.key for c in made.book.calls.values()] == [Key("s", 0)]
    assert [i.payload.value.stream_id for i in made.inputs] == ["s"]


def test_a_body_that_ended_before_its_element_did_ends_there_again() -> None:
    made = recorded(
        llm_chunks=[chunk(9.9, 0)],
        events=[
            event(CallKind.QUEUED, 10.0, "c1"),
            event(CallKind.STARTED, 10.0, "c1"),
            event(CallKind.ENDED, 20.0, "c1", outcome=Outcome.DONE, start_s=10.0),
        ],
        kernel_state=[state(10.0, []), state(10.1, ["c1"]), state(13.0, [])],
    )
    assert made.results_s == {Key("s", 0): 13.0}


def kernel_of(*, kept_back: bool = False, **call: Any) -> ReplayedKernel:
    given = {"started_s": 10.0, "ended_s": 12.0, "outcome": Outcome.DONE} | call
    one = RecordedCall(Key("s", 0), "p", "walk", **given)
    made = Timeline("/kalos", CallBook(calls={one.key: one}), results_s={one.key: 12.0})
    made.contended = {one.key} if kept_back else set()
    return ReplayedKernel(made)


def test_the_kernel_answers_as_it_did() -> None:
    key = Key("s", 0)
    assert kernel_of().goal(key, 5.0, ()).do is Do.RUN, "a call that comes too early begins too early, which shows"
    assert kernel_of(kept_back=True).goal(key, 5.0, ()).do is Do.HOLD
    assert kernel_of(kept_back=True).goal(key, 9.95, ()).do is Do.RUN
    assert kernel_of().goal(key, 5.0, {"p"}).code == CallCode.PROCESS_PAUSED
    refused = kernel_of(started_s=None, outcome=Outcome.REFUSED, code=122)
    assert refused.goal(key, 11.9, ()).do is Do.WAIT
    answer = refused.result(refused._run.book.calls[key])
    assert (answer.outcome, answer.code, answer.start_s) == (Outcome.REFUSED, 122, -1.0)


def test_a_call_that_the_recording_does_not_hold_fails_and_one_that_was_dropped_shows_that_it_begins() -> None:
    assert kernel_of().goal(Key("s", 7), 5.0, ()).outcome == Outcome.FAILED
    assert kernel_of().goal(None, 5.0, ()).outcome == Outcome.FAILED
    dropped = {"started_s": None, "outcome": Outcome.DROPPED}
    assert kernel_of(**dropped).goal(Key("s", 0), 5.0, ()).do is Do.RUN
    assert kernel_of(**dropped).goal(Key("s", 0), 11.9, ()).do is Do.WAIT, "an interrupt overtook it"


def test_resets_and_stops_that_the_recording_does_not_know_end_the_call_at_once() -> None:
    key = Key("s", 0)
    assert kernel_of().reset(key) is not None and kernel_of(resetting_s=11.0).reset(key) is None
    assert kernel_of().stop(key, "x") is not None and kernel_of(outcome=Outcome.INTERRUPTED).stop(key, "x") is None


def test_a_call_that_waited_for_another_ones_subsystem_is_kept_back() -> None:
    made = recorded(
        llm_chunks=[chunk(9.9, 0)],
        events=[
            event(CallKind.QUEUED, 10.0, "hello", function="text", channels=["main"]),
            event(CallKind.STARTED, 10.0, "hello"),
            event(CallKind.QUEUED, 10.0, "bark", function="bark", channels=["sound"]),
            event(CallKind.ENDED, 11.0, "hello", outcome=Outcome.DONE, start_s=10.0),
            event(CallKind.STARTED, 11.01, "bark"),
            event(CallKind.ENDED, 12.0, "bark", outcome=Outcome.DONE, start_s=11.01),
        ],
        kernel_state=[state(10.02, ["hello"], {"sound": ["hello"]}), state(11.02, ["bark"], {"sound": ["bark"]})],
    )
    bark = made.book.calls[Key("s", 1)]
    assert made.kept_back(bark, 10.0) and not made.kept_back(bark, 11.2)
    assert ReplayedKernel(made).goal(bark.key, 10.0, ()).do is Do.HOLD


def test_a_contention_is_kept_with_its_call() -> None:
    events = [event(CallKind.QUEUED, 10.0, "c1"), event(CallKind.CONTENTION, 10.1, "c1", node="skill_kernel")]
    assert recorded(llm_chunks=[chunk(9.9, 0)], events=events).contended == {Key("s", 0)}


def test_the_judges_answers_are_joined_with_what_it_was_asked() -> None:
    def prompt(sha: str, condition: str) -> Any:
        text = block("CONDITION", [condition])
        return Space(stamp=stamp(2), layer="judge", sha256=sha, messages_json=json.dumps([{"role": "user", "text": text}]))

    def answer(sha: str, text: str, code: int = 0) -> Any:
        return Space(stamp=stamp(2.5), layer="judge", sha256=sha, pieces=[text], error_code=code, error_msg="")

    made = recorded(
        prompts=[prompt("1", "the person waves"), prompt("2", "it rains"), prompt("3", "it snows"), prompt("4", "it rains")],
        answers=[
            answer("1", "Yes, with the left hand."),
            answer("2", "Well, I think so"),
            answer("3", "yes", 303),
            answer("4", "no"),
        ],
    )
    assert [(j.condition, j.holds) for j in made.judgements] == [
        ("the person waves", True),
        ("it snows", None),
        ("it rains", False),
    ]
    asked = made.judged(" the  person waves", 2.1)
    assert asked is not None and asked.at_s == 2.5, "it is answered when it was answered"
    assert made.judged("the person waves", 9.0) is None and made.judged("it hails", 2.0) is None


def call(number: int, **more: Any) -> RecordedCall:
    given = {
        "channels": ("legs",),
        "started_s": 10.0 + number,
        "ended_s": 10.5 + number,
        "outcome": Outcome.DONE,
        "queued_s": 9.0,
    }
    return RecordedCall(Key("s", number), "p", more.pop("function", "walk"), **(given | more))


def book(*calls: RecordedCall) -> dict[Key, RecordedCall]:
    return {c.key: c for c in calls}


def texts(was: dict[Key, RecordedCall], now: dict[Key, RecordedCall]) -> str:
    return "\n".join(d.text for d in differences(was, now))


def test_the_same_is_the_same_also_a_little_later() -> None:
    assert differences(book(call(0), call(1)), book(call(0, started_s=10.1), call(1))) == []


def test_each_kind_of_difference_is_named_with_its_call() -> None:
    was = book(call(0))
    assert "function was walk, is turn" in texts(was, book(call(0, function="turn")))
    assert 'arguments was {}, is {"m":2}' in texts(was, book(call(0, args_json='{"m":2}')))
    assert "outcome was DONE, is FAILED (130)" in texts(was, book(call(0, outcome=Outcome.FAILED, code=130)))
    assert "channels was legs, is arm" in texts(was, book(call(0, channels=("arm",))))
    assert "enclosing call was none, is call 1 of stream s" in texts(was, book(call(0, parent=Key("s", 0))))
    assert "begins 3.00 s earlier" in texts(was, book(call(0, started_s=7.0)))
    assert "is in the recording, not in the replay" in texts(was, {})
    assert "is not in the recording" in texts({}, was)
    assert "outcome was DONE, is none" in texts(was, book(call(0, ended_s=None, outcome=None)))


def test_another_order_on_a_channel_is_found_even_where_the_times_are_the_same() -> None:
    was = book(call(0, started_s=10.0, begun=1), call(1, started_s=10.0, begun=2))
    now = book(call(0, started_s=10.0, begun=2), call(1, started_s=10.0, begun=1))
    assert "was the next on legs" in texts(was, now) and differences(was, was) == []
    apart = book(call(0, started_s=10.0, begun=1), call(1, started_s=10.0, begun=2, channels=("arm",)))
    other = book(call(0, started_s=10.0, begun=2), call(1, started_s=10.0, begun=1, channels=("arm",)))
    assert differences(apart, other) == [], "calls on other channels may begin in either order"


def test_a_file_without_a_call_to_compare_cannot_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = [RunMessage("/kalos/llm_chunks", "", 10**9, chunk(1.0, 0), b"")]
    late = [RunMessage("/kalos/events/calls", "", 10**9, event(CallKind.STARTED, 1.0, "c"), b"")]
    for messages, why in ((chunks, "no call to compare; see"), (late, "had begun before the recording did")):
        run = RunFile(Space(), messages)  # type: ignore[arg-type]
        monkeypatch.setattr(replaying, "read_run", lambda path, wanted, run=run: run)
        monkeypatch.setattr(replaying, "robots_of", lambda run: ["/kalos"])
        with pytest.raises(ReplayError, match=why):
            replay_file(Path("run.mcap"), robot="", speed=1.0, most=5, say=lambda _: None)


def test_how_exactly_starts_are_compared_is_told() -> None:
    assert [start_tolerance_s(speed) for speed in (0.1, 1.0, 4.0, 50.0)] == pytest.approx([0.3, 0.3, 0.6, 7.5])
    was, later = book(call(0)), book(call(0, started_s=12.0))
    assert "begins 2.00 s later" in texts(was, later) and differences(was, later, speed=50.0) == []


def test_a_call_whose_end_was_not_recorded_is_compared_as_far_as_it_goes() -> None:
    assert differences(book(call(0, ended_s=None, outcome=None)), book(call(0, outcome=Outcome.FAILED, code=130))) == []


def test_the_first_difference_comes_first() -> None:
    found = differences(book(call(0), call(5)), book(call(0, outcome=Outcome.FAILED), call(5, outcome=Outcome.FAILED)))
    assert [d.at_s for d in found] == sorted(d.at_s for d in found)


def test_the_skills_beside_the_robots_file_of_the_run_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own robot" / "own.yaml"
    own.parent.mkdir()
    own.touch()

    def run(robot: object) -> RunFile:
        return RunFile(Path(), attachments={"parameters/own/channel_scheduler.yaml": json.dumps({"robot": str(robot)})})

    assert replaying._modules(run(own), "/own") == str(own.parent)
    assert [replaying._modules(run(robot), "/own") for robot in ("coco", "", own.parent, own.with_stem("gone"))] == [""] * 4
    assert replaying._modules(RunFile(Path()), "/own") == ""
    started: list[str] = []

    def popen(command: Sequence[str], *, env: dict[str, str], **_: Any) -> Any:
        started.append(env["PYTHONPATH"])
        return Space(poll=lambda: None, send_signal=lambda number: None, wait=lambda timeout: 0)

    monkeypatch.setattr("subprocess.Popen", popen)
    monkeypatch.setenv("PYTHONPATH", "/ros")
    with replaying._nodes("/replay/own", {"channel_scheduler": Path()}, str(own.parent)):
        assert started == [f"/ros:{own.parent}"]
