# SPDX-License-Identifier: Apache-2.0
"""Every input has a bound, written in docs/limits.md: time, memory and messages stay small whatever comes."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
import zstandard
from mcap.writer import CompressionType, Writer
from shell_kit import SKILLS, mapper
from step_kit import Plan

from bench.dry_run import DryRun, dry_run
from bench.replay.recorded import RunFileError, read_run
from function_tokens.builtins import BUILTINS, STEP_BUILTINS
from function_tokens.routines import MAX_SOURCE, RoutineStore
from function_tokens.scheduling.queues import MOST_SHOWN, MOST_SOURCE
from function_tokens.scheduling.token_handler import MAX_EXPANDED
from ghostshell_ros.drivers.speech import phrases
from skill_kernel.config.sections import SHOWN, shown
from skill_kernel.config.yaml_text import RecordError
from skill_kernel.observation.records import LONGEST_LINE, MOST_CHARS, recorded

LONG = "x" * 60_000
MESSAGE = 600
"""Characters of the longest message, with the names of all channels and functions."""


@pytest.fixture
def routines(tmp_path: Path) -> RoutineStore:
    return RoutineStore(tmp_path / "routines.json", clock=lambda: 1.0)


def told(run: DryRun) -> list[str]:
    return [*run.notices, *run.repairs, *(f"{call.error}{call.message}" for call in run.calls)]


QUICK = ("walk", "swing", "note", "wait", "save", "run", "if", "step")
"""One of each kind of parameter and of each built-in function that holds others."""


@pytest.mark.parametrize(
    "skill",
    [
        pytest.param(skill, id=skill.name, marks=() if skill.name in QUICK else pytest.mark.slow)
        for skill in [*SKILLS, *BUILTINS.values(), *STEP_BUILTINS.values()]
    ],
)
def test_no_message_repeats_a_long_value(skill, routines: RoutineStore) -> None:  # type: ignore[no-untyped-def]
    for name in {*skill.signature.parameters, "sync", "unknown", "cond", "s", "y" * 250}:
        text = "<step><{0} {1}='{2}'/></step><step><{0} {1}='{2}'><nod/></{0}></step><{0} {1}='{2}'/>"
        run = dry_run(text.format(skill.name, name, LONG), mapper(), routines=routines)
        assert max(map(len, told(run)), default=0) < MESSAGE


@pytest.mark.parametrize(
    "text",
    [
        f"<{'y' * 250}/>",
        f"<save name='{LONG}'><nod/></save>",
        f"<save name='a'><nod s='{LONG}'/></save>",
        f"<run name='{LONG}'/>",
    ],
)
def test_no_message_repeats_a_long_name(text: str, routines: RoutineStore) -> None:
    assert max(map(len, told(dry_run(text, mapper(), routines=routines)))) < MESSAGE


def test_a_message_shows_a_short_line_of_what_somebody_wrote() -> None:
    assert shown("a\n b\t c") == "a b c" and shown("\x1b[2J\0") == "\ufffd[2J\ufffd"
    assert len(shown(LONG)) == SHOWN and shown(LONG).endswith("x…") and len(shown([LONG, LONG], 200)) == 200


def nested(routines: RoutineStore, names: str, each: str) -> None:
    routines.save(names[0], "", each)
    for inner, name in zip(names, names[1:], strict=False):
        routines.save(name, "", f'<run name="{inner}"/>' * 40)


@pytest.mark.parametrize(
    ("each", "stream"),
    [
        ("<nod/>" * 40, '<run name="h"/>'),
        pytest.param("<nod/>" * 40, '<run name="h"/>' * 1000, marks=pytest.mark.slow),
        pytest.param("<response><steps/></response>" * 3000, '<run name="b"/>' * 1900, marks=pytest.mark.slow),
        pytest.param('<run name="missing"/>' * 4000, '<run name="b"/>' * 1900, marks=pytest.mark.slow),
        ("words. " * 14_000, '<run name="a"/>' * 1900),
    ],
)
def test_routines_of_routines_end_where_an_answer_may(each: str, stream: str, routines: RoutineStore) -> None:
    nested(routines, "abcdefgh", each)
    began = time.process_time()
    run = dry_run(stream, mapper(), routines=routines)
    assert time.process_time() - began < 5.0
    refused = [call for call in run.calls if f"longer than {MAX_EXPANDED} function tokens" in call.error]
    assert refused and refused[0].function == "run" and len(run.calls) <= MAX_EXPANDED + stream.count("<run")


def test_the_longest_routine_runs_once_in_an_answer_and_again_in_the_next(routines: RoutineStore) -> None:
    routines.save("long", "", "words. " * (MAX_SOURCE // 7))
    for _ in range(2):
        (call, *spoken) = dry_run('<run name="long"/>', mapper(), routines=routines).calls
        assert (call.outcome_name, len(spoken)) == ("DONE", 1)


def linear(work: Callable[[int], object], small: int, factor: int = 6) -> None:
    """Assert that so many times the input takes hardly more than so many times as long."""

    def spent(size: int) -> float:
        began = time.process_time()
        work(size)
        return time.process_time() - began

    spent(small)
    few = min(spent(small) for _ in range(2))
    assert spent(small * factor) < 3 * factor * few + 0.05


@pytest.mark.parametrize("word", ["a", "ab ", "1.5", "ab. ", "，", "\u200b"])
def test_text_is_cut_into_phrases_in_the_time_of_its_length(word: str) -> None:
    linear(lambda size: list(phrases([word * (size // len(word))])), 20_000)


def test_phrases_are_the_same_however_the_text_comes() -> None:
    text = "one two " * 60 + "3.5 and 4. Then 5, 6: seven! " + "8" * 400 + ".5 nine"
    whole = list(phrases([text]))
    assert "".join(whole).replace(" ", "") == text.replace(" ", "")
    assert max(map(len, phrases(list(text)))) <= 160


def test_a_queue_of_steps_is_reported_in_the_time_of_its_length() -> None:
    linear(lambda size: dry_run("<step><nod/><swing side='left'/></step>" * size, mapper()), 100)


def test_a_report_shows_the_first_steps_and_counts_the_others() -> None:
    plan = Plan()
    plan.write("<step><nod/></step>" * 50 + f"<step>{'<nod/>' * 1000}</step>")
    assert (len(plan.queue.queued), plan.queue.more) == (MOST_SHOWN, 51 - 1 - MOST_SHOWN)
    assert max(map(len, plan.queue.queued)) <= MOST_SOURCE + 1


def test_recorded_observations_have_a_length() -> None:
    line = '{"time_s": 1.0, "seq": 1, "fields": []}'
    assert len(recorded(f"{line}\n\n{line}\n")) == 2
    for text, says in (
        (f"{line}\nno", "line 2 is no rec"),
        ("x" * (LONGEST_LINE + 1), "longer than"),
        (" " * (MOST_CHARS + 1), "more than"),
    ):
        with pytest.raises(RecordError, match=says):
            recorded(text)


def bomb(path: Path, compression: CompressionType, size: int) -> None:
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=size, compression=compression)
        writer.start()
        channel = writer.register_channel("/a", "cdr", writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data"))
        for _ in range(4):
            writer.add_message(channel, 0, bytes(size), 0)
        writer.finish()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("compression", [CompressionType.ZSTD, CompressionType.LZ4])
def test_a_small_recording_does_not_unpack_to_a_large_one(
    compression: CompressionType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.mcap"
    monkeypatch.setattr("bench.replay.recorded.MAX_CHUNK", 1_000_000)
    for size in (1_100_000, 900_000):  # one chunk is too large, then all are
        bomb(path, compression, size)
        assert path.stat().st_size < 30_000
        with pytest.raises(RunFileError, match="unpack to more than is read"):
            read_run(path, lambda _: True)
    bomb(path, compression, 1000)
    assert read_run(path, lambda _: False).counts == {"/a": 4}


def test_a_chunk_that_says_it_is_small_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    bomb(path, CompressionType.ZSTD, 100_000)
    content = path.read_bytes()
    packed = zstandard.compress(bytes(100_000))[:4]
    assert packed in content
    path.write_bytes(content.replace((100_031).to_bytes(8, "little"), (9).to_bytes(8, "little"), 1))
    with pytest.raises(RunFileError, match="unpack to more than is read"):
        read_run(path, lambda _: True)


ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"\| [^|]+ \| ([\d,.]+) \| `([^`]+)` \| [^|]+ \|")
NAMES = re.compile(r"_?(MAX|MOST|LONGEST|LARGEST)(_\w+)?")
INTERNAL = {
    *(f"ghostshell_ros.arms.{name}" for name in ("body.MOST_PLANS", "body.MOST_TRIES")),
    *(f"ghostshell_ros.arms.manipulation.MOST_{name}" for name in ("TRIED", "STARTS", "SPOTS", "S")),
    "function_tokens.parsing.parser._MAX_BACKTICKS",
    "ghostshell_ros.robots.coco.body.MAX_CORRECTIONS",
    "ghostshell_ros.robots.coco.motions.MAX_HALVES",
    "ghostshell_ros.robots.coco.motions.MAX_TURN_AMPLITUDE",
    "skill_kernel.safety.joint_gate.LARGEST_STEP_S",
}
"""Constants with such a name that bound no input."""


def constants(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the numbers that a module, or a class in it, defines."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bodies = [("", tree.body), *((f"{n.name}.", n.body) for n in tree.body if isinstance(n, ast.ClassDef))]
    for prefix, body in bodies:
        for node in body:
            targets = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            names = targets.elts if isinstance(targets, ast.Tuple) else [targets]
            values = value.elts if isinstance(targets, ast.Tuple) and isinstance(value, ast.Tuple) else [value]
            for name, number in zip(names, values, strict=False):
                if isinstance(name, ast.Name) and isinstance(number, (ast.Constant, ast.BinOp)):
                    with suppress(NameError, TypeError):
                        yield f"{module}.{prefix}{name.id}", eval(compile(ast.Expression(number), "", "eval"), {})


def test_the_page_of_limits_is_what_the_code_has() -> None:
    told = {owner: value for value, owner in ROW.findall((ROOT / "docs" / "limits.md").read_text(encoding="utf-8"))}
    folders = ("skill_kernel", "function_tokens", "reflexes", "planners", "ghostshell_ros", "bench/replay")
    known = {name: value for folder in folders for path in (ROOT / folder).rglob("*.py") for name, value in constants(path)}
    for file in (ROOT / "config").glob("*.yaml"):
        parameters = (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get(f"/**/{file.stem}", {})
        known |= {f"{file.stem}: {name}": value for name, value in parameters.get("ros__parameters", {}).items()}
    values = {owner: float(value.replace(",", "")) for owner, value in told.items()}
    assert values == {owner: known.get(owner) for owner in told}
    limits = {n for n, v in known.items() if NAMES.fullmatch(n.rpartition(".")[2]) and isinstance(v, (int, float))}
    assert limits - set(told) - INTERNAL == set() and limits >= INTERNAL
    assert {name for name in known if {"Limits", "ParserLimits"} & set(name.split("."))} <= set(told)


def test_no_message_names_a_file_that_a_node_opens() -> None:
    """What arrives over ROS is content or the name of something that a robot keeps, never a path."""
    interfaces = [path for kind in ("msg", "srv", "action") for path in (ROOT / kind).glob(f"*.{kind}")]
    fields = [(path.name, line) for path in interfaces for line in path.read_text(encoding="utf-8").splitlines()]
    named = re.compile(r"string\S* +\w*(file|path|folder|dir)\w*\b", re.IGNORECASE)
    assert len(interfaces) > 30 and [field for field in fields if named.match(field[1])] == []
