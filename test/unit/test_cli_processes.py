# SPDX-License-Identifier: Apache-2.0
"""What `ghostshell ps` prints of a robot's processes."""

from __future__ import annotations

import queue
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from ghostshell.msg import Observation

from ghostshell_ros.cli import watch
from ghostshell_ros.cli.run_view import RunView
from ghostshell_ros.cli.say import _running, _table


def process(**fields: Any) -> SimpleNamespace:
    """Return a ProcessState as it arrives."""
    given: dict[str, Any] = {
        "process_id": "ba48c7e26cd63c82",
        "status": 1,
        "source": 0,
        "instruction": "walk 3 m forward",
        "subsystems": ["movement"],
        "calls_done": 2,
        "calls_failed": 0,
        "message": "",
        "created": SimpleNamespace(sec=100, nanosec=0),
        "displaced_by": "",
        "ended": SimpleNamespace(sec=0, nanosec=0),
        "pause_causes": [],
        "usage": [],
        "degraded": "",
        "unproven": [],
        "cost_usd": -1.0,
    }
    return SimpleNamespace(**{**given, **fields})


def test_who_follows_an_observation_is_told_that_none_comes_any_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coming = iter([Observation(), None])

    def received(*_: Any) -> Any:
        for message in coming:
            return message
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "received", received)
    monkeypatch.setattr(watch, "spun", nullcontext)
    watch.observe("coco", 7.0, follow=True)
    assert "no observation for 7 s: what is shown above is old" in capsys.readouterr().err


def test_who_watches_is_told_that_the_robot_has_gone_and_come_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = iter([["coco"], [], [], ["coco"]])

    def robots_of(_: Any) -> list[str]:
        for found in there:
            return found
        raise KeyboardInterrupt

    living = process(stamp=SimpleNamespace(sec=100, nanosec=0))
    inbox: Any = queue.Queue()
    inbox.put(("processes", SimpleNamespace(processes=[living])))
    listener = SimpleNamespace(inbox=inbox, now_s=lambda: 112.0)
    monkeypatch.setattr(watch, "robots_of", robots_of)
    monkeypatch.setattr(watch, "GONE_S", 0.0)
    monkeypatch.setattr(watch, "spun", lambda _: nullcontext(listener))
    seen: list[RunView] = []
    monkeypatch.setattr(watch, "RunView", lambda: seen.append(RunView()) or seen[0])
    watch.watch("coco", lines=True)
    said = capsys.readouterr().out
    assert said.index("'coco' is not there any more") < said.index("'coco' is there again") and said.count("any more") == 1
    assert "walk 3 m forward" in said and seen[0].waiting(113.0) == "", "nothing of it is shown as if it went on"


def test_a_process_is_a_line_that_fits_and_why_it_waits_stands_below() -> None:
    paused = process(status=2, subsystems=[], calls_failed=1, pause_causes=["user"], message="it was started anew; resume it")
    heading, runs, waits, why = _table([process(), paused], 112.0)
    assert heading.split() == ["id", "status", "for", "calls", "holds", "instruction"]
    assert runs.split("  ")[0] == "ba48c7e26cd63c82" and runs.endswith("walk 3 m forward") and " 12 s " in runs
    assert "2, 1 failed" in waits and why.strip() == "by user: it was started anew; resume it"
    assert max(map(len, (heading, runs, waits, why))) <= 80
    *_, claimed = _table([process(unproven=["I have barked twice"])], 112.0)
    assert claimed.strip() == "claimed, and not done: I have barked twice"


def test_what_runs_stands_beside_what_is_done() -> None:
    def kernel(**calls: list[str]) -> SimpleNamespace:
        subsystems = [SimpleNamespace(process_id=process_id, call_ids=ids) for process_id, ids in calls.items()]
        return SimpleNamespace(running=[one for ids in calls.values() for one in ids], subsystems=subsystems)

    assert _running(None, ["a"]) == {} and _running(kernel(a=["1"], b=[]), ["a", "b"]) == {"a": 1, "b": 0}
    alone = _running(kernel(**{"": ["1", "2"]}), ["ba48c7e26cd63c82"])
    assert "2, 2 running" in _table([process()], 112.0, alone)[1]


def test_long_texts_are_cut_and_brackets_stay() -> None:
    _, line, why = _table([process(instruction="[bold] " + "walk " * 20, message="I can: " + "nod, " * 60)], 200.0)
    assert "[bold] walk" in line and line.endswith("\u2026") and why.endswith("\u2026") and "\n" not in line + why


def usage(layer: str, **fields: Any) -> SimpleNamespace:
    given = {"calls": 1, "failures": 0, "prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0}
    return SimpleNamespace(**{**given, **fields}, layer=layer)


def test_a_robot_without_a_language_model_shows_neither_tokens_nor_a_price() -> None:
    assert len(_table([process(usage=[usage("stream", calls=3)], cost_usd=0.0)], 112.0)) == 2


def test_what_each_layer_has_used_and_what_goes_on_without_its_model_stands_below() -> None:
    layers = [
        usage("s1p", prompt_tokens=900, completion_tokens=20),
        usage("s3", calls=0),
        usage("s1", calls=12, failures=1, prompt_tokens=40_000, cached_tokens=10_000, completion_tokens=2_400),
        usage("s2", calls=3, prompt_tokens=2_000_000),
    ]
    lines = _table([process(usage=layers, degraded="s2: the instruction itself is the plan", cost_usd=0.01234)], 112.0)
    assert [line.strip() for line in lines[2:]] == [
        "s1p 1 call 920 tokens; s1 12 calls, 1 failed 42k tokens (25% cached)",
        "s2 3 calls 2.0M tokens; $0.0123",
        "without its model: s2: the instruction itself is the plan",
    ]
    assert len(lines[2]) - len(lines[2].lstrip()) == 18
