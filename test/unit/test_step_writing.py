# SPDX-License-Identifier: Apache-2.0
"""What becomes of an answer of System 1 that breaks off, or says that all is done, and of events that are judged late."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from layered_kit import Asked, Bench, Says, failing

from planners.plan import GlobalEvent
from planners.prompts.blocks import Layer
from planners.strategy import Observed, Paused, Resumed
from skill_kernel.codes import ModelCode, TaskCode

GOOD = "<step><nod/></step><subtask_complete/>"
BROKEN = int(ModelCode.MODEL_CONNECTION)


def script(*answers: Says | str, then: Says | str = "<nothing/>") -> Callable[[Asked], Says | str]:
    left = list(answers)

    def answer(asked: Asked) -> Says | str:
        if asked.layer is not Layer.S1:
            return "<none/>"
        return left.pop(0) if left else then

    return answer


def written(bench: Bench) -> str:
    return "".join(stream.text_written for stream in bench.streams.values())


# -- answers that break off -----------------------------------------------------------------------------------------------

HALF = "<step>I will not <nod/>"
CUTS = {
    "the connection breaks": Says(HALF, code=BROKEN, why="cut"),
    "it takes too long": Says(HALF, silent=True),
    "the answer is too long for the model": Says(HALF),
}


@pytest.mark.parametrize("how", CUTS)
def test_a_queued_step_that_the_model_broke_off_is_not_performed(how: str) -> None:
    bench = Bench(script('<step><walk s="5"/></step>', CUTS[how], then=failing()), settings={"step_deadline_s": 3.0})
    bench.plan("walk")
    bench.run(60)
    assert "I will not" not in written(bench)
    assert bench.calls()[0] == "walk" and "nod" not in bench.calls()


@pytest.mark.parametrize("how", CUTS)
def test_of_a_step_that_is_performed_while_it_breaks_off_the_rest_does_not_begin(how: str) -> None:
    said = CUTS[how]
    half = Says('<step><walk s="2"/><turn s="1"/>', code=said.code, why=said.why, silent=said.silent)
    bench = Bench(script(half, GOOD), settings={"step_deadline_s": 1.5})
    bench.plan("walk")
    bench.run(1.7)
    assert next(iter(bench.streams.values())).text_written == '<step><walk s="2"/><turn s="1"/>'
    bench.run(60)
    assert bench.calls() == ["walk", "nod"] and bench.calls(outcome="DROPPED") == ["turn"]
    assert bench.ended == [(0, "")]
    assert any("</step>" in fault for fault in bench.model.of()[1].blocks["FAULTS"])


def test_a_whole_step_before_the_one_that_broke_off_is_performed() -> None:
    bench = Bench(script(Says("<step><walk/></step><step>I will not", code=BROKEN, why="cut"), GOOD))
    bench.plan("walk")
    bench.run(20)
    assert bench.calls() == ["walk", "nod"] and bench.ended == [(0, "")]


# -- marks ----------------------------------------------------------------------------------------------------------------


def test_one_answer_cannot_complete_several_subtasks_with_nothing_done_between() -> None:
    bench = Bench(script("<subtask_complete/>" * 5, "<step><nod/></step><subtask_complete/><subtask_complete/>", GOOD))
    bench.plan("stand", "nod", "nod again")
    bench.run(0.8)
    assert bench.of("done") == [("t1",)]
    bench.run(20)
    assert bench.of("done") == [("t1",), ("t2",), ("t3",)] and bench.calls() == ["nod", "nod"]
    assert any("subtask_complete" in fault for fault in bench.model.of()[1].blocks["FAULTS"])


def test_a_plan_of_nothing_is_no_plan() -> None:
    bench = Bench(script(GOOD), instruction="nod")
    bench.plan()
    bench.run(20)
    assert bench.model.of()[0].subtask["description"] == "nod"
    assert bench.calls() == ["nod"] and bench.ended == [(0, "")]


def test_a_plan_that_says_that_it_is_done_already_needs_no_subtasks() -> None:
    bench = Bench(script(GOOD))
    bench.plan(achieved=True)
    bench.run(20)
    assert bench.ended == [(0, "")] and bench.calls() == []


# -- events that are judged late ------------------------------------------------------------------------------------------

SAD, DIM = GlobalEvent("e1", "somebody looks sad now", "cheer up"), GlobalEvent("e2", "the light is very dim", "lamp")


class Judge:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Callable[[bool | None], None]]] = []

    def __call__(self, sentence: str, answer: Callable[[bool | None], None]) -> None:
        self.asked.append((sentence, answer))

    def all_true(self) -> None:
        waiting, self.asked = self.asked, []
        for _, answer in waiting:
            answer(True)


def watching(judge: Judge, *events: GlobalEvent) -> Bench:
    bench = Bench(script('<step><walk s="30"/></step>', then="<step><nod/></step>"), judge=judge)
    bench.plan("walk", events=events)
    bench.run(2)
    bench.hear(Observed())
    return bench


def test_an_event_judged_while_paused_is_judged_again_when_it_goes_on() -> None:
    judge = Judge()
    bench = watching(judge, SAD)
    bench.hear(Paused())
    judge.all_true()
    assert bench.of("fired") == []
    bench.hear(Resumed())
    bench.run(3)
    bench.hear(Observed())
    assert [sentence for sentence, _ in judge.asked] == [SAD.condition]
    judge.all_true()
    assert bench.of("fired") == [("e1",)]


def test_two_events_judged_together_come_one_after_the_other() -> None:
    judge = Judge()
    bench = watching(judge, SAD, DIM)
    assert len(judge.asked) == 2
    judge.all_true()
    assert bench.of("fired") == [("e1",)]
    bench.interrupt()
    bench.run(10)
    bench.hear(Observed())
    assert bench.of("fired") == [("e1",)] and [sentence for sentence, _ in judge.asked] == [DIM.condition]


def test_an_event_judged_behind_the_end_of_its_process_is_not_told() -> None:
    judge = Judge()
    bench = watching(judge, SAD)
    bench.plan("walk", revision=2, given_up=True, reason="it cannot be done")
    bench.run(0.3)
    judge.all_true()
    bench.run(20)
    assert bench.of("fired") == [] and bench.ended == [(int(TaskCode.GIVEN_UP), "it cannot be done")]
