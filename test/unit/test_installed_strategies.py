# SPDX-License-Identifier: Apache-2.0
"""Strategies found by entry point: those of the package are there, and a broken one takes no other with it."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from planners import strategy as seam
from planners.strategy import (
    GROUP,
    Feed,
    ModelRole,
    Parameter,
    Planning,
    Strategy,
    load_strategies,
    parameters_of,
    strategies_that_want,
    strategy_names,
)
from skill_kernel.config.plugins import plugins

ROOT = Path(__file__).resolve().parents[2]


def test_the_installed_strategies_are_those_of_the_package() -> None:
    assert set(strategy_names()) >= {"stream", "layered", "react", "plan_and_execute"}
    strategies, broken = load_strategies()
    assert tuple(strategies) == strategy_names() and not broken
    assert strategies_that_want(Feed.PLANS) == {"layered"} == strategies_that_want(Feed.ADVICE)


class Plain(Strategy):
    """A strategy for the tests of their discovery."""

    name = "plain"

    def start(self, *_: object) -> Planning:
        raise NotImplementedError


class SharesDifferently(Plain):
    name = "other"
    parameters = (Parameter("max_turns", 99, "something else"),)


class AsksDifferently(Plain):
    name = "other"
    roles = (ModelRole("s1", model="fast_model"),)


@pytest.mark.parametrize(
    ("offered", "why"),
    [
        (EntryPoint("other", "no_such_module:X", GROUP), "strategy 'other' (no_such_module:X) cannot be used: ModuleNotFound"),
        (Plain, "it is no Strategy of the name 'other'"),
        (ROOT, "it is no Strategy of the name 'other'"),
        (SharesDifferently, "'layered' and 'other' describe the parameter 'max_turns' differently"),
        (AsksDifferently, "'layered' and 'other' describe the role 's1' differently"),
    ],
)
def test_a_strategy_that_cannot_be_used_leaves_the_others(offered: object, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = offered if isinstance(offered, EntryPoint) else SimpleNamespace(value="m:X", load=lambda: offered)
    known = plugins(GROUP)
    monkeypatch.setattr(seam, "plugins", lambda group: {**known, "other": point})
    strategies, broken = load_strategies()
    assert set(strategies) == set(known) and why in broken["other"]


def test_parameters_that_strategies_share_are_declared_once() -> None:
    names = [p.name for p in parameters_of(load_strategies()[0].values())]
    assert len(names) == len(set(names)) and {"max_turns", "queue_steps"} <= set(names)


def test_no_launch_file_names_the_strategies() -> None:
    for file in (ROOT / "launch").glob("*.xml"):
        assert "<choice" not in file.read_text().partition('name="strategy"')[2].partition("<arg")[0], file
