# SPDX-License-Identifier: Apache-2.0
"""A recorded run on the page, folded by what folds a robot that is heard now, and for a reflex that is tried."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from ghostshell.msg import CallEvent, EventHead, ModelEvent, Observation, ObservationField, ProcessArray, ProcessState
from rclpy.serialization import serialize_message

from bench.recording.run_writer import RunWriter
from bench.recording.topics import TOPICS, definition, qos_text
from ghostshell_ros.cli.prescriptions import observations_in
from ghostshell_ros.nodes.dashboard import serving
from ghostshell_ros.nodes.dashboard.access import Visitor
from ghostshell_ros.nodes.dashboard.recordings import MARK, recordings, replayed, replayed_apart
from ghostshell_ros.nodes.dashboard.state import PageState, RobotPage
from ghostshell_ros.wire.values import time_message
from skill_kernel.observation.records import recorded

pytestmark = pytest.mark.component

KINDS = {topic.name: topic for topic in TOPICS}


class Recording:
    """Write a run of robots."""

    def __init__(self, path: Path) -> None:
        self._writer, self._channels = RunWriter(path), dict[str, int]()
        self._at_s = 1_000.0

    def add(self, robot: str, topic: str, message: Any) -> None:
        about, name = KINDS[topic], f"/{robot}/{topic}"
        if name not in self._channels:
            self._channels[name] = self._writer.channel(name, about.kind, definition(about.kind), qos_text(about.qos))
        self._at_s += 0.01
        log_ns = round(self._at_s * 1e9)
        self._writer.message(self._channels[name], bytes(serialize_message(message)), log_ns=log_ns, publish_ns=log_ns)

    def calls(self, robot: str, count: int) -> None:
        for n in range(count):
            for kind in (CallEvent.STARTED, CallEvent.ENDED):
                head = EventHead(stamp=time_message(1_000.0 + n + 0.5 * kind), robot=robot, node="kernel")
                outcome = CallEvent.DONE if kind == CallEvent.ENDED else 0
                told = {"process_id": f"p{n // 8}", "call_id": f"c{n}", "function": "nod", "channels": ["head"], "kind": kind}
                self.add(robot, "events/calls", CallEvent(head=head, outcome=outcome, start_s=1_000.0 + n, **told))

    def finish(self) -> None:
        self._writer.finish()


def test_a_recording_is_shown_as_the_robot_was(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    name = "runs/a <b>walk<.b>.mcap"
    recording = Recording(tmp_path / name)
    recording.calls("kalos", 100)
    states = [
        ProcessState(process_id="p0", instruction="nod", status=3, created=time_message(999.0), ended=time_message(1_009.0))
    ]
    recording.add("kalos", "processes", ProcessArray(stamp=time_message(1_009.0), processes=states))
    head = EventHead(stamp=time_message(1_000.0), robot="kalos", node="s1")
    recording.add("kalos", "events/models", ModelEvent(head=head, kind=ModelEvent.ASKED, process_id="p1", layer="s1"))
    here = ObservationField(name="pose", kind=ObservationField.POSE, numbers=[1.0, 2.0, 0.5], text="map")
    recording.add("kalos", "observation", Observation(stamp=time_message(1_009.0), fields=[here]))
    recording.finish()
    assert recordings(tmp_path) == [name]
    pages = replayed(tmp_path, name)
    shown = pages[f"{MARK}{name}"].render(5_000.0)
    assert len(shown["calls"]) == 100 and {call["outcome"] for call in shown["calls"].values()} == {"DONE"}
    assert shown["processes"]["p0"]["states"][-1] == ["SUCCESS", 1_009.0, ""] and "s1" in shown["processes"]["p1"]["asking"]
    assert shown["map"]["pose"] == [1.0, 2.0, 0.5] and shown["link"] == "live"


def test_robots_of_one_recording_are_shown_each(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "two.mcap")
    recording.calls("atlas", 1)
    recording.calls("hebe", 2)
    recording.finish()
    pages = replayed(tmp_path, "two.mcap")
    assert {name: len(page.render(0.0)["calls"]) for name, page in pages.items()} == {
        f"{MARK}two.mcap · atlas": 1,
        f"{MARK}two.mcap · hebe": 2,
    }


def test_a_process_of_its_own_makes_the_same_pages_and_says_what_is_wrong(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "one.mcap")
    recording.calls("kalos", 3)
    recording.finish()
    apart, here = replayed_apart(tmp_path, "one.mcap"), replayed(tmp_path, "one.mcap")
    assert {name: page.render(0.0) for name, page in apart.items()} == {n: page.render(0.0) for n, page in here.items()}
    with pytest.raises(ValueError, match=r"there is no recording none\.mcap"):
        replayed_apart(tmp_path, "none.mcap")


def test_the_recording_that_was_chosen_last_is_shown_however_long_another_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    loading: list[Callable[[], None]] = []
    node: Any = SimpleNamespace(
        state=PageState(),
        robots={},
        access=None,
        data=Path(),
        work=SimpleNamespace(submit=lambda work, *args: loading.append(partial(work, *args))),
        call_soon=lambda work: work(),
    )
    monkeypatch.setattr(serving, "replayed_apart", lambda _, name: {f"{MARK}{name}": RobotPage(recorded=True)})
    told: dict[str, bool] = {}
    made = serving.Serving(node)
    for act, name in (("replay", "long.mcap"), ("replay", "short.mcap")):
        made._act(Visitor(None), act, "kalos", {"name": name}, {}, lambda ok, _, name=name: told.update({name: ok}))
    loading[1]()
    loading[0]()
    assert told == {"short.mcap": True, "long.mcap": False}
    assert [*node.state.robots] == [f"{MARK}short.mcap"] and node.state.replaying == "short.mcap"
    made._act(Visitor(None), "replay", "kalos", {"name": "long.mcap"}, {}, lambda *_: None)
    made._act(Visitor(None), "live", "kalos", {}, {}, lambda *_: None)
    loading[2]()
    assert not node.state.robots and node.state.replaying == ""


@pytest.mark.parametrize("name", ["none.mcap", "../secret.mcap", "/etc/passwd", "", "broken.mcap"])
def test_what_is_no_recording_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret.mcap").write_bytes(b"")
    (folder / "broken.mcap").write_bytes(b"\x00" * 100)
    with pytest.raises(ValueError, match="recording|MCAP"):
        replayed(folder, name)


@pytest.mark.slow
def test_ten_thousand_calls_are_shown_whole(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "long.mcap")
    recording.calls("kalos", 10_000)
    recording.finish()
    assert len(replayed_apart(tmp_path, "long.mcap")[f"{MARK}long.mcap"].render(0.0)["calls"]) == 10_000


def test_a_reflex_is_tried_on_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "walk.mcap"
    recording = Recording(path)
    front = ObservationField(name="front_distance_m", kind=ObservationField.NUMBER, number=0.4, age_s=0.1, max_age_s=0.5)
    for robot, at_s in (("kalos", 1_000.0), ("coco", 1_001.0), ("kalos", 1_002.0)):
        recording.add(robot, "observation", Observation(stamp=time_message(at_s), seq=round(at_s), fields=[front]))
    recording.finish()
    first, last = recorded(observations_in(path, "kalos"))
    assert (first.time_s, last.seq) == (1_000.0, 1_002)
    assert first.fields["front_distance_m"].value == 0.4
    assert first.fields["front_distance_m"].age(first.stamp) == pytest.approx(0.1)
    with pytest.raises(typer.Exit):
        observations_in(path, "hebe")
    assert "it holds no /hebe/observation" in capsys.readouterr().err
    with pytest.raises(typer.Exit):
        observations_in(path)
    assert "/coco/observation and /kalos/observation" in capsys.readouterr().err
    path.write_bytes(b"no recording")
    with pytest.raises(typer.Exit):
        observations_in(path, "kalos")
    assert "cannot be used" in capsys.readouterr().err
