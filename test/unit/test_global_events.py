# SPDX-License-Identifier: Apache-2.0
"""Global events fire when their condition comes true: once, not while it stays so, and never on what nobody can tell."""

from __future__ import annotations

from collections.abc import Callable

from layered_kit import Asked, Bench, Says

from planners.plan import GlobalEvent
from planners.prompts.blocks import Layer
from planners.strategy import Observed
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.robot import RobotConfig

KALOS = accessors_of(RobotConfig.load("kalos"))
GOOD = "<step><nod/></step><subtask_complete/>"


def script(*answers: Says | str, then: Says | str = "<nothing/>") -> Callable[[Asked], Says | str]:
    left = list(answers)

    def answer(asked: Asked) -> Says | str:
        if asked.layer is not Layer.S1:
            return "<none/>"
        return left.pop(0) if left else then

    return answer


def watching(condition: str, answer: Callable[[Asked], Says | str], **more: object) -> Bench:
    bench = Bench(answer, accessors=KALOS, **more)
    bench.plan("walk", events=(GlobalEvent("e1", condition, "take a picture"),))
    return bench


def observe(bench: Bench, seconds: float) -> None:
    """Observations at 10 Hz for a time."""
    for _ in range(round(seconds * 10)):
        bench.hear(Observed())
        bench.run(0.1)


def test_an_event_that_comes_true_is_told_once_and_handled_first() -> None:
    bench = watching("visible('ball')", script('<step><walk s="9"/></step>', '<step><turn s="9"/></step>', then=GOOD))
    observe(bench, 2)
    assert bench.of("fired") == []
    bench.world.labels = ("ball",)
    observe(bench, 0.2)
    assert bench.of("fired") == [("e1",)]
    bench.interrupt()
    observe(bench, 3)
    assert bench.of("fired") == [("e1",)]
    assert bench.model.of()[-1].blocks["FIRED"] == [{"condition": "visible('ball')", "response": "take a picture"}]


def test_what_flickers_does_not_fire_again_and_again() -> None:
    bench = watching("visible('ball')", script(then="<step><walk s='0.3'/></step>"))
    for i in range(300):
        bench.world.labels = ("ball",) if i % 20 < 8 else ()
        before = len(bench.of("fired"))
        observe(bench, 0.1)
        if len(bench.of("fired")) > before:
            bench.interrupt()
    assert 1 < len(bench.of("fired")) <= 4


def test_what_nobody_can_tell_fires_nothing() -> None:
    bench = watching("not visible('ball')", script(then="<nothing/>"))
    bench.world.stale = True
    observe(bench, 3)
    assert bench.of("fired") == []
    bench.world.stale = False
    observe(bench, 1)
    assert bench.of("fired") == [("e1",)]


def test_a_condition_that_is_no_code_and_that_nobody_can_judge_is_told() -> None:
    bench = watching("the person looks sad", script(then="<nothing/>"))
    assert "the person looks sad" in bench.of("notice")[0][0]


def test_a_sentence_is_judged_when_the_scene_changes_and_not_at_every_look() -> None:
    asked: list[str] = []

    def judge(sentence: str, answer: Callable[[bool | None], None]) -> None:
        asked.append(sentence)
        answer("ball" in bench.world.labels)

    bench = Bench(script(then="<nothing/>"), accessors=KALOS, judge=judge)
    bench.plan("walk", events=(GlobalEvent("e1", "there is a ball somewhere", "take a picture"),))
    observe(bench, 10)
    assert len(asked) == 1
    bench.world.labels = ("ball",)
    observe(bench, 3)
    assert len(asked) == 2 and bench.of("fired") == [("e1",)]


def test_two_events_of_one_condition_are_both_told() -> None:
    bench = Bench(script(then="<step><walk s='0.3'/></step>"), accessors=KALOS)
    events = (GlobalEvent("e1", "visible('ball')", "take a picture"), GlobalEvent("e2", "visible('ball')", "bark"))
    bench.plan("walk", events=events)
    bench.plan("walk on", revision=2, events=events)
    bench.world.labels = ("ball",)
    observe(bench, 5)
    assert bench.of("fired") == [("e1",), ("e2",)]


def test_an_event_that_is_worded_anew_does_not_fire_again_while_it_stays_true() -> None:
    bench = watching("visible('ball')", script(then="<step><walk s='0.3'/></step>"))
    bench.world.labels = ("ball",)
    observe(bench, 3)
    bench.plan("walk on", revision=2, events=(GlobalEvent("e9", "visible('ball')", "take a photograph"),))
    observe(bench, 12)
    assert bench.of("fired") == [("e1",)]
