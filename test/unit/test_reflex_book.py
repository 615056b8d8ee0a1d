# SPDX-License-Identifier: Apache-2.0
"""Reflexes are kept on disk, approved by a person, and refused when they were changed behind his back."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from guard_corpus import rule as source
from observing import Scene, person
from reflex_kit import kalos, vocabulary

from planners.models.base import CancelToken
from planners.prescriptions.reflex_book import RuleBook
from planners.prescriptions.reflex_compiler import Compiler
from reflexes.dry_run import dry_run
from reflexes.rule import SHIPPED, ReflexError, Rule, RuleState, RuleStore, name_of
from skill_kernel.observation.model import Observation
from skill_kernel.roles import RoleError
from skill_kernel.skills.registry import SkillRegistry

SENTENCE = "if a person comes within 1 m, stop and say hello"
COMPILER = Compiler(vocabulary(), kalos()[0], None)


def sealed_by(key: str) -> Callable[[bytes], str]:
    return lambda content: hashlib.sha256(key.encode() + content).hexdigest()


def book(folder: Path, shipped: Path | None = None, words=None) -> RuleBook:
    return RuleBook(
        RuleStore(folder, shipped, seal=sealed_by("the approver's key")), words or vocabulary(), wall=lambda: 1_700_000_000.0
    )


def add(into: RuleBook, sentence: str = SENTENCE, name: str = "", **settings: object) -> Rule:
    return into.add(COMPILER.compile(sentence, cancel=CancelToken()), name=name, settings=settings)


def shipped(folder: Path, code: str = source()) -> Path:
    path = folder / "robot.yaml"
    path.write_text(yaml.safe_dump({"reflexes": [{"name": "keep_off", "sentence": "keep off", "source": code}]}))
    return path


def test_a_new_reflex_is_proposed_and_fires_only_once_a_person_approved_it(tmp_path: Path) -> None:
    mine = book(tmp_path)
    rule = add(mine)
    assert rule.state is RuleState.PROPOSED and mine.runnable() == []
    with pytest.raises(ReflexError, match="name of the person"):
        mine.approve(rule.name, "  ")
    approved = mine.approve(rule.name, "Ada")
    assert mine.approve(rule.name, "Ada") == approved, "an answer that got lost may be asked for again"
    with pytest.raises(ReflexError, match="approved already, by Ada"):
        mine.approve(rule.name, "Bob")
    assert (approved.state, approved.approver, approved.approved_s) == (RuleState.APPROVED, "Ada", 1_700_000_000.0)
    assert [loaded.rule for loaded in mine.runnable()] == [approved]


def test_it_is_there_again_after_a_restart_with_all_that_was_said_of_it(tmp_path: Path) -> None:
    mine = book(tmp_path)
    mine.approve(add(mine, priority=70, cooldown_s=5.0).name, "Ada")
    again = book(tmp_path)
    assert again.rules == mine.rules and again.unreadable == []
    rule = again.rules[0]
    assert (rule.sentence, rule.model, rule.priority) == (SENTENCE, "grammar (no language model)", 70)
    assert len(again.runnable()) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source", source(action="move_forward(9)")),
        ("sentence", "something else"),
        ("approver", "Eve"),
        ("priority", 100),
        ("model", "by hand"),
        ("hash", "0" * 64),
        ("limit_s", 600.0),
        ("approved_s", 1.0),
        ("reason", "as good as new"),
        ("hash", "é"),
        ("hash", 3),
    ],
)
def test_a_file_that_was_changed_after_approval_is_refused_and_does_not_fire(tmp_path: Path, key: str, value: object) -> None:
    mine = book(tmp_path)
    name = add(mine).name
    mine.approve(name, "Ada")
    path = tmp_path / f"{name}.yaml"
    record = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**record, key: value}))
    again = book(tmp_path)
    assert again.runnable() == [] and again.rules == ()
    assert "hash does not fit" in again.unreadable[0].why
    with pytest.raises(ReflexError, match="hash does not fit"):
        again.approve(name, "Ada")
    again.remove(name)
    assert book(tmp_path).unreadable == [] and not path.exists()


@pytest.mark.parametrize("changed", [{"state": "approved"}, {"state": "approved", "approver": "Ada", "approved_s": 1.0}])
def test_an_approval_cannot_be_written_into_a_proposals_file(tmp_path: Path, changed: dict[str, object]) -> None:
    """Also not with the hash that files had before it was keyed."""
    name = add(book(tmp_path)).name
    path = tmp_path / f"{name}.yaml"
    record = yaml.safe_load(path.read_text())
    forged = Rule(**{**{key: value for key, value in record.items() if key != "hash"}, **changed})
    for hash_ in (record["hash"], forged.hash):
        path.write_text(yaml.safe_dump({**record, **changed, "hash": hash_}))
        again = book(tmp_path)
        assert again.runnable() == [] and "hash does not fit" in again.unreadable[0].why


def test_a_file_sealed_by_another_key_or_for_another_robot_is_set_aside(tmp_path: Path) -> None:
    mine = book(tmp_path / "coco" / "reflexes")
    name = add(mine).name
    mine.approve(name, "Ada")
    (tmp_path / "kalos").mkdir()
    shutil.copytree(tmp_path / "coco" / "reflexes", tmp_path / "kalos" / "reflexes")
    foreign = RuleStore(tmp_path / "coco" / "reflexes", seal=sealed_by("another key"))
    for store in (foreign, RuleStore(tmp_path / "kalos" / "reflexes", seal=sealed_by("the approver's key"))):
        rules, problems = store.load()
        assert rules == [] and "with another key" in problems[0].why and "add it again" in problems[0].why
    assert [loaded.rule.name for loaded in book(tmp_path / "coco" / "reflexes").runnable()] == [name]


def test_without_its_key_the_robot_runs_no_kept_reflex_and_keeps_no_new_one(tmp_path: Path) -> None:
    def no_key(content: bytes) -> str:
        raise RoleError("the key is gone; restore it")

    mine = book(tmp_path)
    mine.approve(add(mine).name, "Ada")
    keyless = RuleBook(RuleStore(tmp_path, shipped(tmp_path.parent), seal=no_key), vocabulary(), wall=lambda: 0.0)
    assert [loaded.rule.name for loaded in keyless.runnable()] == ["keep_off"], "the robot's own need none"
    assert "restore it" in keyless.unreadable[0].why
    with pytest.raises(ReflexError, match="restore it"):
        add(keyless, name="another")


@pytest.mark.parametrize("text", ["", "[", "- a", "name: x", "\x00", "name: [1, 2]\nhash: 3", "!!python/object:os.system x"])
def test_a_broken_file_costs_nothing_but_itself(tmp_path: Path, text: str) -> None:
    mine = book(tmp_path)
    mine.approve(add(mine).name, "Ada")
    (tmp_path / "broken.yaml").write_text(text)
    again = book(tmp_path)
    assert len(again.runnable()) == 1 and [u.name for u in again.unreadable] == ["broken"]


def test_a_rule_disabled_stays_so_over_a_restart_until_it_is_enabled(tmp_path: Path) -> None:
    mine = book(tmp_path)
    name = add(mine).name
    with pytest.raises(ReflexError, match="never approved"):
        mine.enable(name)
    mine.approve(name, "Ada")
    mine.disable(name, "it took 9 ms")
    again = book(tmp_path)
    assert again.runnable() == [] and again.get(name).reason == "it took 9 ms"
    again.enable(name)
    assert len(book(tmp_path).runnable()) == 1


def test_shipped_rules_are_approved_as_they_come_and_can_be_disabled_but_not_removed(tmp_path: Path) -> None:
    path = shipped(tmp_path)
    mine = book(tmp_path / "data", path)
    assert [loaded.rule.approver for loaded in mine.runnable()] == [SHIPPED]
    with pytest.raises(ReflexError, match="disable it instead"):
        mine.remove("keep_off")
    mine.disable("keep_off", "the user wants it so")
    assert book(tmp_path / "data", path).runnable() == []
    mine.enable("keep_off")
    assert len(book(tmp_path / "data", path).runnable()) == 1


def test_a_newer_shipped_rule_replaces_what_was_kept_of_the_older(tmp_path: Path) -> None:
    mine = book(tmp_path / "data", shipped(tmp_path))
    mine.disable("keep_off", "too jumpy")
    newer = book(tmp_path / "data", shipped(tmp_path, source("front_distance_m() < 0.1")))
    assert len(newer.runnable()) == 1
    (tmp_path / "robot.yaml").write_text("reflexes: []")
    assert book(tmp_path / "data", tmp_path / "robot.yaml").rules == ()


def test_a_rule_whose_skill_is_gone_is_not_run_and_comes_back_with_the_skill(tmp_path: Path) -> None:
    mine = book(tmp_path)
    name = add(mine, "if a person comes within 1 m, bark").name
    mine.approve(name, "Ada")
    few = SkillRegistry([s for s in vocabulary().skills if s.name != "bark"])
    again = book(tmp_path, words=replace(vocabulary(), skills=few))
    assert again.runnable() == [] and "there is no skill 'bark'" in again.unfit[name]
    with pytest.raises(ReflexError, match="does not fit"):
        again.loaded(name)
    again.reload(vocabulary())
    assert len(again.runnable()) == 1


def test_names_are_made_of_the_sentence_and_unlike_each_other(tmp_path: Path) -> None:
    mine = book(tmp_path)
    assert [add(mine).name for _ in range(2)] == ["person_stop_say_hello", "person_stop_say_hello_2"]
    assert name_of("when anything is closer than 0.2 m in front, step back") == "front_step_back"
    assert name_of("当有人") == "reflex"
    with pytest.raises(ReflexError, match="already"):
        add(mine, name=mine.rules[0].name)
    with pytest.raises(ReflexError, match="no name"):
        add(mine, name="../../etc/passwd")
    with pytest.raises(ReflexError, match="did you mean 'person"):
        mine.get("person_stop_say_helo")


def test_a_full_disk_is_an_error_and_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = book(tmp_path)
    name = add(mine).name

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ReflexError, match="No space left"):
        mine.approve(name, "Ada")
    assert mine.get(name).state is RuleState.PROPOSED
    assert book(tmp_path).rules == mine.rules and list(tmp_path.glob("*.new")) == []


def observations(*metres: float | None, every_s: float = 0.2) -> list[Observation]:
    """Return a person at these distances, one observation after the other."""
    scene, made = Scene(), []
    for distance in metres:
        scene.wait(every_s)
        scene.everything()
        if distance is not None:
            scene.see(person(distance))
        made.append(scene.observation())
    return made


def test_a_dry_run_tells_when_it_would_have_fired_on_what_and_what_it_would_have_done(tmp_path: Path) -> None:
    mine = book(tmp_path)
    loaded = mine.loaded(add(mine).name)
    near = [3.0, 2.0, 0.9, 0.8, 0.7, 2.0] + [None] * 10 + [0.5]
    report = dry_run(loaded, observations(*near), vocabulary())
    assert report.observations == len(near) and report.disabled == ""
    assert [round(f.at_s, 1) for f in report.fired] == [0.4, 3.4]
    assert report.fired[0].calls == ("stop()", "speak(text='hello')")
    assert "fired 2 times" in report.text() and "stop(); speak(text='hello')" in report.text()
    assert 0.6 < report.held_s < 1.3


def test_a_dry_run_tells_of_stale_fields_and_faults_and_of_having_nothing_to_run_on(tmp_path: Path) -> None:
    mine = book(tmp_path)
    loaded = mine.loaded(add(mine).name)
    assert "no recorded observations" in dry_run(loaded, [], vocabulary()).text()
    gap = observations(3.0, 3.0, every_s=4.0)
    report = dry_run(loaded, gap, vocabulary())
    assert report.fired == [] and report.unknown_s > 2.0 and "stale" in report.text()
    proposal = COMPILER.check("bad", source("1 / (battery_percent() - 80) > 1"), "by hand")
    bad = mine.add(proposal, name="bad")
    report = dry_run(mine.loaded(bad.name), gap, vocabulary())
    assert "ZeroDivisionError" in report.disabled and "would have been disabled" in report.text()


def test_a_faulty_rule_does_not_run_although_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = book(tmp_path)
    name = add(mine).name
    mine.approve(name, "Ada")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ReflexError, match="No space left"):
        mine.disable(name, "it took 9 ms")
    assert mine.runnable() == [] and mine.get(name).reason == "it took 9 ms"


@pytest.mark.parametrize(
    ("action", "limit_s"),
    [
        ("bark(1)", 30.0),
        ("wait(60)", 130.0),
        ("for i in range(3):\n    wait(20)", 130.0),
        ("if visible('person'):\n    wait(60)\nelse:\n    wait(5)", 130.0),
        ("wait(distance_to('person'))", 130.0),
        ("for i in range(40):\n    if not visible('person'):\n        return\n    wait(60)", 600.0),
    ],
)
def test_an_action_may_take_as_long_as_what_it_does_takes(tmp_path: Path, action: str, limit_s: float) -> None:
    rule = book(tmp_path).add(COMPILER.check("long", source(action=action), "by hand"))
    assert rule.limit_s == limit_s


def test_an_action_that_surely_takes_longer_than_any_may_is_refused(tmp_path: Path) -> None:
    endless = COMPILER.check("long", source(action="for i in range(11):\n    wait(60)"), "by hand")
    with pytest.raises(ReflexError, match="about 660 s; a reflex acts for at most 600 s"):
        book(tmp_path).add(endless)
