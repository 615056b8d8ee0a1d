# SPDX-License-Identifier: Apache-2.0
"""The tabletop on the virtual clock: what is corrected once is right from then on, because it stands in the prompt."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from bench.evaluation.virtual_models import Models
from bench.simulated_model import console
from bench.simulated_model.service import SimulatedModel
from bench.simulated_model.table import load_table
from bench.simulated_model.where import default_table
from bench.tabletop.person import MOST, REMEMBER, YES
from bench.tabletop.tasks import Trial, trial
from bench.tabletop.virtual import PERSON, MakeModel, Outcomes, Robot, lessons, perform
from planners.learned import LearnedStore, State


@lru_cache(maxsize=1)
def _robot() -> Robot:
    return Robot()


def model(seed: int) -> MakeModel:
    table = load_table(default_table())
    return lambda clock: Models(SimulatedModel(table.with_options(seed=seed)), table, clock, lambda _: None)


@pytest.fixture
def attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the model make no mistakes but those of its habits."""
    for name in ("HEEDLESS", "FORGETS", "SPOILS"):
        monkeypatch.setattr(console, name, 0.0)


def corner(name: str) -> Trial:
    """Return a trial that wants all blocks in this corner."""
    trials = (trial("all at place", attributes, seed) for seed in range(80) for attributes in ("seen", "unseen"))
    return next(one for one in trials if one.binding["place"] == name)


def run(one: Trial, learned: LearnedStore | None, folder: Path) -> Outcomes:
    return perform(one, _robot(), model(1), learned, folder)


def test_a_lesson_holds_for_another_corner_until_it_is_taken_back(attentive: None, tmp_path: Path) -> None:
    with lessons(tmp_path) as learned:
        taught = run(corner("top left corner"), learned, tmp_path)
        assert (taught.first, taught.confirmed) == (1, 1)
        assert (PERSON, YES) in taught.talk and taught.talk[-1][1] == "I will remember that."
        (lesson,) = learned.lessons()
        assert lesson.state is State.CONFIRMED and lesson.by.startswith(PERSON)
        assert "denormalize_xy([0, 1])" in lesson.text and "edge" in lesson.better
        other = run(corner("bottom right corner"), learned, tmp_path)
        assert (other.first, other.corrections) == (0, [])
        learned.revoke(lesson.id, "a test")
        assert run(corner("bottom right corner"), learned, tmp_path).first == 1, "without the example it fails as before"


def test_without_a_memory_each_task_is_corrected_anew_and_nobody_is_asked_to_remember(attentive: None, tmp_path: Path) -> None:
    for name in ("top left corner", "bottom right corner"):
        done = run(corner(name), None, tmp_path)
        assert done.first == 1 and done.confirmed == 0
        assert [text for who, text in done.talk if who == PERSON] == [corner(name).instruction, *done.corrections]


def test_what_was_not_confirmed_is_not_used(attentive: None, tmp_path: Path) -> None:
    with lessons(tmp_path) as learned:
        run(corner("top left corner"), learned, tmp_path)
        (lesson,) = learned.lessons()
        learned.revoke(lesson.id, "a test")
        again = run(corner("top left corner"), learned, tmp_path)
        assert again.first == 1 and [one.state for one in learned.lessons()] == [State.REVOKED, State.CONFIRMED]


def test_who_forgets_to_learn_is_reminded_and_who_spoils_it_learns_nothing(
    attentive: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lessons(tmp_path) as learned:
        monkeypatch.setattr(console, "SPOILS", 1.0)
        spoilt = run(corner("top left corner"), learned, tmp_path)
        assert spoilt.first == 1 and not learned.lessons()
        monkeypatch.setattr(console, "SPOILS", 0.0)
        monkeypatch.setattr(console, "FORGETS", 1.0)
        reminded = run(corner("top left corner"), learned, tmp_path)
        assert (PERSON, REMEMBER) in reminded.talk and reminded.confirmed == 1


def test_what_fails_at_the_table_where_it_is_tried_is_not_offered(
    attentive: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = console._improvement
    monkeypatch.setattr(
        console, "_improvement", lambda question, spoils: honest(question, spoils).replace("(block, ", "('pink block', ")
    )
    with lessons(tmp_path) as learned:
        done = run(corner("top left corner"), learned, tmp_path)
        assert done.first == 1 and not learned.lessons()
        assert not any("remember" in text for who, text in done.talk if who != PERSON)


def test_who_takes_no_notice_is_given_up_only_after_three_corrections(
    attentive: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_corrected", lambda habits, _: habits)
    done = run(corner("top left corner"), None, tmp_path)
    assert done.first is None and len(done.corrections) == MOST and len(done.yields) == MOST + 1


@pytest.mark.parametrize(
    ("template", "attributes", "shows"),
    [("beside a bowl", "unseen", "0.18"), ("mismatched bowls", "seen", "!="), ("stack at place", "seen", "denormalize_xy(")],
)
def test_each_habit_is_corrected_by_what_the_lesson_shows(
    attentive: None, tmp_path: Path, template: str, attributes: str, shows: str
) -> None:
    with lessons(tmp_path) as learned:
        for seed in range(8):
            done = run(trial(template, attributes, seed), learned, tmp_path)
            assert done.first == (1 if done.corrections else 0), seed
            if done.corrections:
                break
        (lesson,) = learned.lessons()
        assert shows in lesson.text
        after = [run(trial(template, attributes, seed), learned, tmp_path).first for seed in range(8, 12)]
        assert after == [0, 0, 0, 0]
