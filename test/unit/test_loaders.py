# SPDX-License-Identifier: Apache-2.0
"""Every loader of a file takes what it documents or raises the error that it documents, whatever stands in the file."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from memory_kit import everything

from bench.dry_run import skills_of
from bench.replay.recorded import RecordingError, RunFileError, read_recording, read_run, read_run_answers
from bench.replay.recording import Piece, RecordedStream, append_recording
from function_tokens.routines import RoutineError, RoutineStore
from ghostshell_ros.launcher.launch_file import describe
from ghostshell_ros.launcher.specs import LaunchError
from ghostshell_ros.launcher.substitution import typed
from ghostshell_ros.security import Policy, PolicyError, rights
from ghostshell_ros.sim.stage import read_arrangement
from ghostshell_ros.sim.world import SimWorldError
from planners.memory import Query, Store, StoreError
from planners.memory.exchange import FORMAT, ExchangeError, import_lines
from planners.memory.schema import VERSION
from planners.models.config import ConfigError, load_models, parse_spec
from planners.prescriptions import prescription
from reflexes.rule import ReflexError, RuleStore
from skill_kernel.config.yaml_text import RecordError
from skill_kernel.events import CallEvent, CallKind
from skill_kernel.observation.records import recorded
from skill_kernel.processes import store as processes
from skill_kernel.processes.process import Process
from skill_kernel.robot import RobotConfig, RobotConfigError, find_file
from skill_kernel.skills.registry import RegistryError

DEEP = "a nest 5000 deep"
BOMB = "an alias bomb"
HOSTILE: tuple[Any, ...] = (
    int("9" * 400),
    -(10**400),
    float("inf"),
    float("nan"),
    -1,
    True,
    None,
    "",
    "\ud800",
    "a\0b",
    "x" * 5000,
    "2024-02-30",
    [],
    {"a": {}},
    DEEP,
    BOMB,
)
LEVELS = [f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]


def text_of(document: Any) -> str:
    """Return JSON, which is YAML as well, with what Python cannot hold put in."""
    text = json.dumps(document).replace(json.dumps(DEEP), "[" * 5000 + "]" * 5000)
    return text.replace(json.dumps(BOMB), f"[&a0 [lol, lol], {', '.join(LEVELS)}]")


def spoilt(document: Any) -> Iterator[Any]:
    """Yield the document with each of its parts in turn replaced by each hostile value, renamed and left out."""
    yield from HOSTILE
    if isinstance(document, (dict, list)):
        for key in list(document) if isinstance(document, dict) else range(len(document)):
            for value in spoilt(document[key]):
                changed = document.copy()
                changed[key] = value
                yield changed
    if isinstance(document, dict):
        for key in document:
            rest = {k: v for k, v in document.items() if k != key}
            yield from (rest, {**rest, "\ud800": document[key]}, {**rest, "y" * 300: document[key]})


@dataclass(frozen=True)
class Loader:
    """One loader: a file that it takes, how it is called with the path of a file, and the errors that it documents."""

    document: Any
    load: Callable[[Path], object]
    errors: tuple[type[Exception], ...]
    lines: bool = False
    """Whether a document is one JSON value a line."""

    def text(self, document: Any) -> str:
        whole = self.lines and isinstance(document, list)
        return "\n".join(map(text_of, document)) if whole else text_of(document)


def routines(path: Path) -> None:
    """Keep one more."""
    store = RoutineStore(path, clock=lambda: 1.0)
    store.save("new", "", "<nod/>")
    assert RoutineStore(path, clock=lambda: 1.0).load_error is None
    assert "new" in [routine.name for routine in store.list()]


def rules(path: Path) -> None:
    RuleStore(path.parent / "none", path, seal=str).load()
    folder = path.parent / "rules"
    folder.mkdir(exist_ok=True)
    (folder / "back.yaml").write_bytes(path.read_bytes())
    RuleStore(folder, seal=str).load()


def policy(path: Path) -> None:
    read = Policy(str(path))
    for enclave in read.enclaves[:2]:
        rights(read.permissions(enclave, 0))


@cache
def memory() -> Store:
    return Store(Path(tempfile.mkdtemp(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))) / "memory.sqlite3", power_safe=False)


@pytest.fixture(autouse=True, scope="module")
def forgotten() -> Iterator[None]:
    """Remove the memory that all imports of this file go to; a worker that takes tests of another comes here twice."""
    yield
    memory().close()
    shutil.rmtree(memory().path.parent)
    memory.cache_clear()


def imported(path: Path) -> None:
    with path.open(encoding="utf-8", errors="replace") as lines:
        import_lines(memory(), lines)
    memory().find(Query(limit=1))


ROBOT = {
    "name": "r",
    "skills": ["s"],
    "subsystems": {"legs": {"exclusive_per_process": True, "parallel": False}},
    "limits": {"speed": [0.0, 1.0]},
    "joints": {"j": {"lower": -1.0, "upper": 1.0, "max_velocity": 1.0}},
    "waypoints": {"home": {"x": 0.0, "y": 0.0}},
    "resume_motion": "{x_m:.2f}",
}
MODEL = {"provider": "openai", "model": "m", "base_url": "http://localhost/v1", "prices": {"input": 1.0, "output": 2.0}}
PROVENANCE = {"robot": "r", "source": "", "process": "", "sender": "", "door": ""}
RECORD = {
    "tier": "M1",
    "kind": "note",
    "time_s": 5.0,
    "text": "t",
    "data": {"a": 1},
    "provenance": PROVENANCE,
    "spot": {"x": 1.0, "y": 2.0, "room": ""},
    "visibility": "SHARED",
    "key": "k",
    "parents": [3],
    "uid": 4,
}
STREAM = [
    {"format": "ghostshell-stream/1", "model": "m", "prompt_sha256": "", "recorded": ""},
    {"t": 0.5, "text": "<nod/>"},
    {"t": 1, "finish": "stop", "usage": {"prompt_tokens": 3, "cost_usd": 0.5}},
]
POLICY = """<policy version="0.2.0"><enclaves><enclave path="/file/mind"><profiles><profile ns="/file" node="observer">
<topics publish="ALLOW"><topic>a</topic></topics></profile></profiles></enclave></enclaves></policy>"""
FIELD = {"name": "battery", "kind": "number", "age_s": 0.1, "max_age_s": 1.0, "missing": "", "value": 3.0}
RULE = {"name": "back", "sentence": "step back", "source": "def condition():\n    return True\n", "priority": 3}

LOADERS = {
    "robot": Loader(ROBOT, RobotConfig.load, (RobotConfigError,)),
    "models": Loader({"default": "m", "models": {"m": MODEL}}, load_models, (ConfigError,)),
    "shipped reflexes": Loader({"reflexes": [RULE]}, rules, (ReflexError,)),
    "prescriptions": Loader(
        {"prescriptions": ["sit", {"sentence": "greet people", "kind": "guideline", "cooldown_s": 3.0}], "disabled": ["a"]},
        lambda path: prescription.load(path, {}),
        (RecordError,),
    ),
    "routines": Loader(
        {"version": 1, "routines": [{"name": "a", "description": "", "source": "<nod/>", "created": 1.0}]},
        routines,
        (RoutineError,),
    ),
    "memory export": Loader([{"format": FORMAT, "version": VERSION}, RECORD], imported, (ExchangeError,), lines=True),
    "streams": Loader(STREAM, read_recording, (RecordingError,), lines=True),
    "observations": Loader(
        [{"time_s": 5.0, "seq": 1, "fields": [FIELD]}],
        lambda path: recorded(path.read_text(encoding="utf-8", errors="replace")),
        (RecordError,),
        lines=True,
    ),
    "arrangement": Loader(
        {"robot": [1, 2.0], "door": "open"},
        lambda path: read_arrangement(path.read_text(encoding="utf-8", errors="replace")),
        (SimWorldError,),
    ),
    "launch file": Loader("", lambda path: describe(path, {}), (LaunchError,)),
    "run": Loader("", lambda path: (read_run(path, lambda _: True), read_run_answers(path)), (RunFileError, RecordingError)),
    "skills": Loader("", skills_of, (RegistryError,)),
    "policy": Loader(POLICY, policy, (PolicyError,)),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.yaml"


def loads(loader: Loader, path: Path) -> bool:
    """Return whether a loader takes a file. It raises nothing but what it documents, in one short line."""
    try:
        loader.load(path)
    except loader.errors as error:
        told = str(error).replace(str(path), "")
        assert len(told) < 1500 and told.isprintable(), told[:200]
        assert type(error) in loader.errors
        return False
    return True


@pytest.mark.parametrize("name", LOADERS)
def test_a_hostile_value_anywhere_is_taken_or_refused_in_a_sentence(name: str, file: Path) -> None:
    loader = LOADERS[name]
    if loader.document and isinstance(loader.document, (dict, list)):
        file.write_text(loader.text(loader.document))
        assert loads(loader, file)
    for document in spoilt(loader.document):
        file.write_text(loader.text(document))
        began = time.monotonic()
        loads(loader, file)
        assert time.monotonic() - began < 5.0


@pytest.mark.parametrize("name", LOADERS)
@given(st.binary(max_size=200), st.integers(0, 400))
def test_damaged_bytes_are_refused(name: str, garbage: bytes, at: int) -> None:
    loader = LOADERS[name]
    text = loader.text(loader.document).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.yaml"
        path.write_bytes(text[:at] + garbage + text[at:])
        loads(loader, path)


@pytest.mark.parametrize("name", ["robot", "models", "prescriptions", "streams", "run", "skills", "policy"])
def test_a_path_that_no_file_has_is_refused(name: str, tmp_path: Path) -> None:
    loader = LOADERS[name]
    for path in (tmp_path / "a\0b.yaml", tmp_path / ("n" * 5000 + ".yaml"), tmp_path, tmp_path / "no" / "file.yaml"):
        with pytest.raises(loader.errors):
            loader.load(path)


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "", "~/a", "nobody" * 50, "\ud800"])
def test_a_name_that_no_robot_has_is_refused(name: str) -> None:
    with pytest.raises(RobotConfigError) as caught:
        find_file(name)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("value", ["2024-02-30", "[" * 500, "{a: [}", "0x_"])
def test_a_value_of_a_launch_file_that_is_no_yaml_is_refused(value: str) -> None:
    assert typed(value, "str", "a.launch.xml:3") == value
    with pytest.raises(LaunchError, match='is not of type yaml; add type="str"'):
        typed(value, "yaml", "a.launch.xml:3")


@pytest.mark.parametrize("spec", ["record:a=" * 3000 + "offline", "openai:m@http://[", "\ud800", "x" * 70_000])
def test_a_model_that_cannot_be_is_refused_at_once(spec: str) -> None:
    began = time.monotonic()
    with pytest.raises(ConfigError):
        parse_spec(spec)
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize("written", ["{x_m.__class__}", "{x_m!r}", "{0}", "{", "}", "{x_m:999999999f}", "{speed}"])
def test_a_way_back_holds_the_pose_and_nothing_else(written: str, file: Path) -> None:
    file.write_text(json.dumps({**ROBOT, "resume_motion": written}))
    with pytest.raises(RobotConfigError, match="in braces and no other"):
        RobotConfig.load(file)


def test_a_process_that_another_program_wrote_is_refused(tmp_path: Path) -> None:
    known = Process("a", "patrol", "topic", "somebody", "stream", 12.5)
    block = json.loads(processes._BLOCK.dump_json(known))
    path = tmp_path / "p.sqlite3"
    processes.ProcessStore(path, on_problem=lambda why: None).close()
    for document in list(spoilt(block))[::11]:
        with sqlite3.connect(path) as file:
            file.execute("INSERT OR REPLACE INTO process VALUES ('a', 1, 1, '', ?)", (text_of(document),))
        file.close()
        try:
            processes.ProcessStore(path, on_problem=lambda why: None).close()
        except processes.StoreError as error:
            assert "move the file away" in str(error)


COLUMNS: Mapping[str, tuple[Any, ...]] = {
    "data": ("[" * 100_000, "[1]", "7", "{", '{"a": ' + "9" * 5000 + "}", b"\xff"),
    "text": (b"\xff", 3),
    "time": ("soon", b"\xff", -1, 1e300),
    "begun": ("then", 1e300),
    "tier": (9, "M1"),
    "kind": ("NO KIND", 4),
    "key": (5, b"\xff"),
    "visibility": (7, "all"),
    "robot": (b"\xff", 2),
    "x": ("here", None),
    "revoked": ("", b"\xff"),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_row_that_another_program_changed_is_a_damaged_record(column: str, tmp_path: Path) -> None:
    path, export = tmp_path / "m.sqlite3", tmp_path / "export"
    export.write_text(LOADERS["memory export"].text(LOADERS["memory export"].document))
    store = Store(path, power_safe=False)
    import_lines(store, export.read_text().splitlines())
    for value in COLUMNS[column]:
        with sqlite3.connect(path) as file:
            file.execute(f"UPDATE record SET {column} = ?", (value,))
        file.close()
        try:
            for found in everything(store):
                assert asdict(found)
        except StoreError as error:
            assert "damaged" in str(error)
    store.close()


def test_a_question_about_a_time_that_no_clock_shows_is_answered(tmp_path: Path) -> None:
    store = Store(tmp_path / "m.sqlite3", power_safe=False)
    assert store.find(Query(since_s=float(2**63), until_s=10**400)) == []
    assert store.find(Query(since_s=10**400)) == store.find(Query(since_s=-(10**400))) == []
    store.close()


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 100_000, "{", "NaN", "[" + "9" * 400 + "]", "\ud800"])
def test_the_values_of_an_event_that_cannot_be_read_are_none(text: str) -> None:
    event = CallEvent(kind=CallKind.ENDED, args_json=text, value_json=text)
    assert event.arguments == {} and event.value is not Ellipsis


def test_what_a_recorder_writes_is_read_again(tmp_path: Path) -> None:
    stream = RecordedStream("m", "", "", (Piece(0.5, "half \ud800 of a pair"),), 1.0)
    append_recording(tmp_path / "s.jsonl", [stream])
    (read,) = read_recording(tmp_path / "s.jsonl")
    assert read.pieces[0].text == "half ? of a pair"


def test_aliases_that_are_no_bomb_stay() -> None:
    text = "a: &a {x: 1}\nb: [*a, *a]\nc: &b [*a]\nd: {<<: *a, y: *b}\n"
    from skill_kernel.config.yaml_text import read_yaml

    assert read_yaml(text) == yaml.safe_load(text)
    for bomb in ("&a [*a]", "&a {a: *a}", "a: &a 1\nb: *c", text_of({"a": BOMB})):
        with pytest.raises(yaml.YAMLError):
            read_yaml(bomb)
