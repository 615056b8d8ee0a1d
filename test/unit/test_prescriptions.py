# SPDX-License-Identifier: Apache-2.0
"""Prescriptions in files and in the book: what is refused and how, what is kept, and what contradicts what."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path

import pytest

from planners.prescriptions import contradictions as module
from planners.prescriptions.book import PrescriptionBook
from planners.prescriptions.contradictions import contradictions
from planners.prescriptions.grammar import Grammar
from planners.prescriptions.prescription import MAX_GUIDELINES, Kind, Prescription, Route, UnknownPrescriptionError, load
from planners.prescriptions.router import Router
from skill_kernel.config.yaml_text import RecordError
from skill_kernel.guard.code import Vocabulary
from skill_kernel.observation.accessors import Accessor, accessors_of
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

ROOT = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=1)
def kalos() -> tuple[Router, dict[str, Accessor]]:
    config = RobotConfig.load("kalos")
    skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    accessors = accessors_of(config)
    return Router(Grammar(Vocabulary(accessors, skills, config.limits), config), "kalos"), accessors


def book(folder: Path, shipped: str = "") -> PrescriptionBook:
    file = folder / "shipped.yaml"
    file.write_text(shipped or "prescriptions: []", encoding="utf-8")
    return PrescriptionBook(*kalos(), own=folder / "own" / "prescriptions.yaml", shipped=file)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prescriptions: [{name: a, sentence: nod, knd: task}]", r"entry 1 \(a\): key 'knd' is unknown; did you mean 'kind'\?"),
        (
            "prescriptions: [{name: a, sentence: nod, kind: guidline}]",
            r"entry 1 \(a\): key 'kind': input should be 'task', 'guideline' or 'reflex', not 'guidline'",
        ),
        ("prescriptions: [{name: a, sentence: nod}, {name: a, sentence: sit}]", "entries 1 and 2 are both named 'a'"),
        ("prescriptions: [{name: A b, sentence: nod}]", r"entry 1 \(A b\): key 'name': 'A b' is no name"),
        ("prescriptions: [{name: a}]", "key 'sentence' is missing"),
        ("prescriptions: [{name: a, sentence: '  '}]", "the sentence is empty"),
        ("prescriptions: [{name: a, sentence: nod, kind: task, when: moving()}]", "key 'when' belongs to guidelines"),
        ("prescriptions: [{name: a, sentence: nod, when: moving()}]", "write kind: guideline"),
        ("prescriptions: [{name: a, sentence: nod, kind: guideline, task: nod}]", "key 'task' needs 'when'"),
        ("prescriptions: [{name: a, sentence: nod, kind: guideline, when: visble('x')}]", "key 'when': .*visble.*visible"),
        ("prescriptions: [{name: a, sentence: nod, kind: guideline, when: room()}]", "key 'when': .*must be"),
        ("prescriptions: [{name: a, sentence: nod, sentence: sit}]", "'sentence' is given twice"),
        ("prescriptions: [{name: a, sentence: nod, enabled: perhaps}]", "key 'enabled'"),
        ("prescriptions: [{name: a, sentence: nod, kind: guideline, cooldown_s: -1}]", "key 'cooldown_s'.*not -1"),
        ("prescriptions: [7]", "entry 1 must be a sentence"),
        ("prescriptions: {a: nod}", "must be a list, not dict"),
        ("tasks: []", r"key 'tasks' is unknown \(valid here: prescriptions\)"),
        ("- nod", "must hold the key prescriptions"),
        ("prescriptions: [{name: a, sentence: nod", r"line \d: is not valid YAML"),
        ("prescriptions: [&a {name: a, sentence: nod}, *a]", "aliases are not allowed"),
        ("prescriptions: [{name: a, sentence: nod, shipped: true}]", "key 'shipped' is unknown"),
        ("prescriptions: [{1: 2}]", "is not text"),
        ("prescriptions: [{name: a, sentence: nod, kind: guideline, when: visible('x'), task: '  '}]", "key 'task' is empty"),
        ("prescriptions: [{name: a, sentence: nod, kind: guideline, when: visible('x'), task: Stop!}]", "only a person stops"),
        ("prescriptions: [{name: a, sentence: nod, kind: guideline, when: '  '}]", "key 'when'"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_exactly(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "robot.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=told) as error:
        load(file, kalos()[1], shipped=True)
    assert str(error.value).startswith(str(file)) and "\n" not in str(error.value)


def test_a_sentence_alone_is_an_entry_and_finds_its_own_layer(tmp_path: Path) -> None:
    kept = book(tmp_path, "prescriptions: [go to the kitchen, never enter the office]").all()
    assert [(k.name, k.route.kind) for k in kept] == [("go_kitchen", Kind.TASK), ("never_enter_office", Kind.GUIDELINE)]


def test_the_shipped_files_are_in_order() -> None:
    for file in sorted((ROOT / "config" / "prescriptions").glob("*.yaml")):
        accessors = accessors_of(RobotConfig.load(file.stem))
        assert load(file, accessors, shipped=True).prescriptions


def test_what_is_added_is_there_after_a_restart_and_gone_once_removed(tmp_path: Path) -> None:
    first = book(tmp_path)
    added = first.add("you may greet people", author="Ada")
    assert (added.name, added.route.kind, added.route.layer) == ("may_greet_people", Kind.GUIDELINE, "S3")
    task = first.add("go to the lobby", kind=Kind.TASK, name="home")
    again = book(tmp_path)
    assert [k.name for k in again.all()] == [added.name, task.name] and again.get(added.name).prescription.author == "Ada"
    again.remove("home")
    assert [k.name for k in book(tmp_path).all()] == [added.name]
    with pytest.raises(UnknownPrescriptionError, match="did you mean 'may_greet_people'"):
        again.get("may_great_people")


def test_a_shipped_one_is_switched_off_for_good_but_not_removed(tmp_path: Path) -> None:
    shipped = "prescriptions: [{name: calm, sentence: never run}]"
    first = book(tmp_path, shipped)
    with pytest.raises(RecordError, match="disable it instead"):
        first.remove("calm")
    first.enable("calm", False)
    again = book(tmp_path, shipped)
    assert not again.get("calm").prescription.enabled
    again.enable("calm", True)
    assert book(tmp_path, shipped).get("calm").prescription.enabled


def test_what_is_shipped_switched_off_is_switched_on_for_good(tmp_path: Path) -> None:
    shipped = "prescriptions: [{name: calm, sentence: never run, enabled: false}]"
    first = book(tmp_path, shipped)
    assert not first.get("calm").prescription.enabled
    first.add("never bark at people")
    assert not book(tmp_path, shipped).get("calm").prescription.enabled
    first.enable("calm", True)
    assert book(tmp_path, shipped).get("calm").prescription.enabled
    book(tmp_path, shipped).enable("calm", False)
    assert not book(tmp_path, shipped).get("calm").prescription.enabled
    assert "calm" not in (tmp_path / "own" / "prescriptions.yaml").read_text(encoding="utf-8"), "it is as it was shipped"


def test_a_damaged_file_of_the_users_is_left_as_it_is(tmp_path: Path) -> None:
    own = tmp_path / "own" / "prescriptions.yaml"
    own.parent.mkdir()
    own.write_text("prescriptions: [{name: a", encoding="utf-8")
    damaged = book(tmp_path, "prescriptions: [never run]")
    assert "mend or remove that file" in damaged.problem and [k.name for k in damaged.all()] == ["never_run"]
    with pytest.raises(RecordError, match="nothing can be kept"):
        damaged.add("never bark at people")
    assert [k.name for k in damaged.all()] == ["never_run"]
    with pytest.raises(RecordError):
        damaged.enable("never_run", False)
    assert not damaged.get("never_run").prescription.enabled, "switched off until a restart, whatever the disk says"
    assert own.read_text(encoding="utf-8") == "prescriptions: [{name: a"


@pytest.mark.parametrize(
    ("sentence", "kind", "name", "why"),
    [
        ("", None, "", "empty"),
        ("x" * 501, None, "", "501 characters"),
        ("nod", None, "No Name", "is no name"),
        ("never run", None, "calm", "'calm' already"),
        ("if a person comes within 1 m, stop", None, "", "ghostshell reflex add"),
    ],
)
def test_what_cannot_be_added_changes_nothing(sentence: str, kind: Kind | None, name: str, why: str, tmp_path: Path) -> None:
    kept = book(tmp_path, "prescriptions: [{name: calm, sentence: never run}]")
    with pytest.raises(RecordError, match=why):
        kept.add(sentence, kind=kind, name=name)
    assert len(kept.all()) == 1 and not (tmp_path / "own").exists()


CONTRADICT = [
    ("always greet people", "never greet visitors"),
    ("you may greet people", "do not speak to anyone"),
    ("be quiet in the office", "when a person comes into the office, say hello"),
    ("when a person comes, go to the kitchen", "when a person comes, go to the lobby"),
    ("whenever you see a person, approach them", "keep away from people"),
    ("never enter the office", "when the battery is low, go to the office"),
    ("you should follow people", "ignore people"),
    ("when a person comes, turn left", "when a person comes, turn right"),
    ("you must not bark", "if you see a ball, bark twice"),
    ("when a person is in sight, stay where you are", "when a person is in sight, walk around"),
    ("Do not approach people", "you may go to a person to greet them"),
    ("whenever you see a dog, bark", "never bark at dogs"),
    ("engage people who look bored", "leave people alone"),
    ("never sit in the hallway", "when nobody is around, sit in the hallway"),
]
AGREE = [
    ("always greet people", "never enter the office"),
    ("when you are in the kitchen, be quiet", "when you are in the lobby, say hello"),
    ("when a person comes, greet them", "when the battery is low, go to the lobby"),
    ("never bark at people", "if you see a ball, bark twice"),
    ("when the battery drops below 20 %, sit down", "when the battery is above 80 %, walk around"),
    ("do not enter the office", "do not enter the kitchen"),
    ("you may greet people", "you may play with people"),
    ("when a person comes, go to the kitchen", "when a ball is in sight, go to the lobby"),
    ("be polite to people", "when a person comes, greet them"),
    ("never run", "when a person comes, walk to the door"),
    ("avoid the kitchen", "when the battery is low, go to the lobby"),
    ("whenever you see a chair, take a picture", "never sit on a chair"),
]


def guideline(name: str, sentence: str, **fields: str) -> Prescription:
    return Prescription.model_validate({"name": name, "sentence": sentence, "kind": Kind.GUIDELINE, **fields})


@pytest.mark.parametrize("pair", CONTRADICT, ids=" / ".join)
def test_what_contradicts_is_found_from_both_sides_with_both_sentences(pair: tuple[str, str]) -> None:
    for one, other in (pair, pair[::-1]):
        (found,) = contradictions(guideline("one", one), [guideline("other", other)])
        assert found.name == "other" and one in found.why and other in found.why


@pytest.mark.parametrize("pair", AGREE, ids=" / ".join)
def test_what_can_be_followed_together_is_not_reported(pair: tuple[str, str]) -> None:
    for one, other in (pair, pair[::-1]):
        assert not contradictions(guideline("one", one), [guideline("other", other)])


NEAR = "visible('person') and distance_to('person') < 2.5"
MEET = [
    ("visible('person')", NEAR),
    (NEAR, "visible( 'person' )  and distance_to('person')<2.5"),
    ("battery_percent() < 20", "battery_percent() < 25"),
    ("battery_percent() < 20", "20.0 > battery_percent()"),
    ("battery_percent() > 20", "battery_percent() < 80"),
    ("room() == 'office' or visible('ball')", "room() == 'kitchen'"),
    ("not visible('person') or moving()", "visible('person')"),
    ("battery_percent() <= 20", "battery_percent() >= 20"),
]
NEVER_MEET = [
    ("battery_percent() < 20", "battery_percent() > 80"),
    ("room() == 'office'", "room() == 'kitchen' and moving()"),
    ("visible('person')", "moving() and not visible('person')"),
    ("80 < battery_percent()", "battery_percent() < 20"),
    ("visible('person')", "battery_percent() < 20"),
    ("visible('person')", "visible('ball')"),
    ("battery_percent() < 20", "battery_percent() >= 20"),
    ("room() == 'office'", "room() != 'office'"),
]


@pytest.mark.parametrize("pair", [*MEET, *NEVER_MEET], ids=" / ".join)
def test_written_conditions_are_compared_by_what_they_say_and_not_by_how_it_is_written(pair: tuple[str, str]) -> None:
    tasks = ("go to the lobby", "go to the kitchen")
    for (one, there), (other, here) in (zip(pair, tasks, strict=True), zip(pair[::-1], tasks, strict=True)):
        found = contradictions(
            guideline("one", "errand", when=one, task=there), [guideline("other", "errands", when=other, task=here)]
        )
        assert bool(found) is (pair in MEET)


def test_a_quiet_and_a_greeting_guideline_of_a_file_contradict_each_other(tmp_path: Path) -> None:
    kept = book(
        tmp_path,
        f"""
prescriptions:
  - {{name: quiet, kind: guideline, sentence: be quiet near people, when: visible('person'), task: be quiet}}
  - name: greet
    kind: guideline
    sentence: greet a person who comes near
    when: {NEAR}
    task: say hello
    enabled: false
""",
    )
    assert not kept.get("quiet").conflicts
    assert [c.name for c in kept.enable("greet", True).conflicts] == ["quiet"]
    assert [c.name for c in book(tmp_path).all()] == []


def test_adding_one_more_weighs_only_that_one_against_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = book(tmp_path)
    for number in range(20):
        kept.add(f"never enter room number {number}")
    weighed: list[object] = []
    true = module._why
    monkeypatch.setattr(module, "_why", lambda one, other: weighed.append(one) or true(one, other))
    kept.add("always enter the office")
    assert 20 <= len(weighed) <= 40, "once from each side"


def test_a_sentence_that_is_added_is_read_once(tmp_path: Path) -> None:
    read: list[str] = []

    class Counting(Router):
        def route(self, sentence: str, stated: Kind | None = None) -> Route:
            read.append(sentence)
            return kalos()[0].route(sentence, stated)

    mine = PrescriptionBook(Counting(None), kalos()[1], own=tmp_path / "own.yaml")  # type: ignore[arg-type]
    route = mine.route("never enter the office")
    kept = mine.add("never  enter the office", route=route)
    assert kept.route == route and len(read) == 1
    mine.add("never run")
    assert len(read) == 2


@pytest.mark.parametrize(
    "sentence",
    [
        "whenever you see a ball, " + "bark and " * 52,
        "whenever you see a person, " + "sit, " * 94,
        "whenever " + "you see a ball or " * 20 + "you see a person, nod",
    ],
    ids=["bark", "sit", "or"],
)
def test_a_long_sentence_is_kept_without_holding_the_node_up(sentence: str, tmp_path: Path) -> None:
    said = sentence[:500].rstrip(" ,")
    kept = book(tmp_path)
    kept.route("nod")
    begun = time.process_time()
    route = kept.route(said)
    kept.add(said, kind=Kind.GUIDELINE, route=route)
    assert route.kind is Kind.GUIDELINE and not route.when
    assert time.process_time() - begun < 0.15, "the kernel gives up on a node that is silent for half a second"


def test_no_more_guidelines_are_enabled_than_the_model_is_shown(tmp_path: Path) -> None:
    kept = book(tmp_path)
    names = [kept.add(f"never touch thing number {number}").name for number in range(MAX_GUIDELINES)]
    with pytest.raises(RecordError, match="40 guidelines are enabled.*disable or remove one"):
        kept.add("never run")
    assert len(kept.all()) == MAX_GUIDELINES
    assert kept.add("go to the lobby").route.kind is Kind.TASK
    kept.enable(names[0], True)
    kept.enable(names[0], False)
    more = kept.add("never run").name
    with pytest.raises(RecordError, match="disable or remove one"):
        kept.enable(names[0], True)
    assert not kept.get(names[0]).prescription.enabled
    kept.remove(more)
    assert kept.enable(names[0], True).prescription.enabled


def test_a_file_with_too_many_guidelines_says_so_and_the_last_ones_are_off(tmp_path: Path) -> None:
    many = "prescriptions:\n" + "".join(f"- never touch thing number {n}\n" for n in range(MAX_GUIDELINES + 1))
    with pytest.raises(RecordError, match="41 guidelines.*at most 40"):
        book(tmp_path, many)
    (tmp_path / "own").mkdir()
    own = tmp_path / "own" / "prescriptions.yaml"
    own.write_text(many, encoding="utf-8")
    mine = book(tmp_path, "prescriptions: [never run]")
    on = [k.name for k in mine.all() if k.prescription.enabled]
    assert "at most 40" in mine.problem and len(on) == MAX_GUIDELINES and "never_run" in on
    assert own.read_text(encoding="utf-8") == many


def test_a_name_is_taken_by_any_reflex_also_by_one_that_is_only_proposed(tmp_path: Path) -> None:
    kept = book(tmp_path)
    kept.reflexes([], names=["shy", "never_run"])
    with pytest.raises(RecordError, match="'shy' already"):
        kept.add("never bark at people", name="shy")
    assert kept.add("never run").name != "never_run"


def test_a_contradiction_is_reported_and_the_guideline_kept_all_the_same(tmp_path: Path) -> None:
    kept = book(tmp_path, "prescriptions: [{name: greet, sentence: always greet people}]")
    added = kept.add("never greet visitors")
    assert [c.name for c in added.conflicts] == ["greet"] and added.prescription.enabled
    assert [c.name for c in kept.get("greet").conflicts] == [added.name]
    kept.enable("greet", False)
    assert not kept.get(added.name).conflicts and not kept.get("greet").conflicts


def test_a_reflex_is_weighed_with_the_guidelines_and_goes_first(tmp_path: Path) -> None:
    kept = book(tmp_path)
    kept.add("whenever you see a person, go to the person", kind=Kind.GUIDELINE, name="go_near")
    reflex = Prescription(name="keep_off", sentence="if you see a person, keep away from the person", kind=Kind.REFLEX)
    assert kept.reflexes([reflex]) and not kept.reflexes([reflex])
    (found,) = kept.get("go_near").conflicts
    assert found.name == "keep_off" and found.why.endswith("the reflex goes first")
    assert [c.name for c in kept.conflicts_of_reflex("keep_off")] == ["go_near"]
