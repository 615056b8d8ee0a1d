# SPDX-License-Identifier: Apache-2.0
"""System 1 writes steps while earlier ones are performed, asks one question at a time, and ends truthfully."""

from __future__ import annotations

from pathlib import Path

from layered_kit import Asked, Bench, Says

from function_tokens.routines import RoutineStore
from planners.plan import Plan, Subtask
from planners.prompts.blocks import Layer
from skill_kernel.codes import TaskCode


def quiet(asked: Asked) -> Says | str:
    return "<none/>" if asked.layer is Layer.S1P else "<nothing/>"


def script(*answers: Says | str) -> object:
    """One answer after the other to System 1, then nothing more to add; no first action."""
    left = list(answers)

    def answer(asked: Asked) -> Says | str:
        if asked.layer is not Layer.S1 or not left:
            return quiet(asked)
        return left.pop(0)

    return answer


def test_steps_of_a_subtask_are_performed_and_the_process_ends_well() -> None:
    bench = Bench(script('<step><walk s="2"/></step><step><nod/></step><subtask_complete/>'))
    bench.plan("walk and nod")
    bench.run(20)
    assert bench.calls() == ["walk", "nod"]
    assert bench.of("done") == [("t1",)]
    assert bench.ended == [(0, "")]
    assert len(bench.model.of()) == 1


def test_the_model_is_asked_for_more_while_a_step_is_performed() -> None:
    bench = Bench(script('<step><walk s="5"/></step>', "<step><nod/></step><subtask_complete/>"))
    bench.plan("walk and nod")
    bench.run(3)
    assert len(bench.model.of()) == 2 and bench.calls() == []
    assert bench.model.of()[1].blocks["RUNNING"][1:] == [{"function": "walk", "arguments": {"s": 5.0}}]
    bench.run(20)
    assert bench.calls() == ["walk", "nod"] and bench.ended == [(0, "")]


def test_what_is_done_is_not_shown_as_running_too_while_its_step_is_about_to_end() -> None:
    bench = Bench(script('<step><walk s="5"/></step>', "<nothing/>", "<step><nod/></step><subtask_complete/>"))
    bench.plan("walk and nod")
    bench.run(20)
    *_, last = (asked for asked in bench.model.of() if "walk" in str(asked.blocks.get("DONE")))
    assert "walk" not in str(last.blocks.get("RUNNING")) and bench.calls() == ["walk", "nod"]


def test_subtasks_follow_one_another_and_the_next_is_written_while_the_first_is_performed() -> None:
    bench = Bench(script('<step><walk s="5"/></step><subtask_complete/>', "<step><nod/></step><subtask_complete/>"))
    bench.plan("walk", "nod")
    bench.run(3)
    assert [q.subtask["id"] for q in bench.model.of()] == ["t1", "t2"]
    bench.run(20)
    assert bench.of("done") == [("t1",), ("t2",)] and bench.ended == [(0, "")]


def test_reading_stops_where_the_queue_is_full() -> None:
    many = "".join(f'<step><walk s="{i}"/></step>' for i in range(1, 9))
    bench = Bench(script(many))
    bench.plan("walk")
    bench.run(1.6)
    assert bench.model.of()[0].cancelled
    assert bench.most_queued <= 3


def test_nothing_is_written_behind_a_question_before_its_answer_is_known() -> None:
    asks = "<step><ask>Shall I walk?</ask></step><step><walk/></step><subtask_complete/>"
    bench = Bench(script(asks, "<step><nod/></step><subtask_complete/>"))
    bench.plan("walk if you may")
    bench.run(5)
    assert len(bench.model.of()) == 1 and bench.model.of()[0].cancelled and bench.calls() == []
    bench.run(20)
    assert bench.calls() == ["ask", "nod"] and bench.ended == [(0, "")]
    assert [(d["function"], d["outcome"]) for d in bench.model.of()[1].blocks["DONE"]] == [("ask", "DONE")]


def test_a_failed_step_drops_what_was_queued_and_is_shown_to_the_model() -> None:
    walk = "<step><walk/></step><step><nod/></step><subtask_complete/>"
    bench = Bench(script(walk, "<step><turn/></step><subtask_complete/>"))
    bench.body.fails = lambda call: "the way is blocked" if call.function == "walk" else ""
    bench.plan("walk and nod")
    bench.run(20)
    assert bench.calls() == ["turn"] and bench.ended == [(0, "")]
    assert bench.of("done") == [("t1",)]
    assert [d["outcome"] for d in bench.model.of()[-1].blocks["DONE"]] == ["FAILED"]


def test_the_same_failure_twice_waits_for_system_2_and_ends_without_it() -> None:
    bench = Bench(lambda asked: "<none/>" if asked.layer is Layer.S1P else "<step><walk/></step><subtask_complete/>")
    bench.body.fails = lambda call: "the way is blocked" if call.function == "walk" else ""
    bench.plan("walk")
    bench.run(60)
    ((code, why),) = bench.ended
    assert code == TaskCode.CALL_FAILED and "the way is blocked" in why
    assert len(bench.model.of()) == 2
    assert "text" in bench.calls()


def test_a_reviewed_plan_is_taken_up_after_equal_failures() -> None:
    bench = Bench(
        lambda asked: (
            "<none/>"
            if asked.layer is Layer.S1P
            else "<step><nod/></step><subtask_complete/>"
            if asked.subtask["description"] == "nod"
            else "<step><walk/></step><subtask_complete/>"
        )
    )
    bench.body.fails = lambda call: "the way is blocked" if call.function == "walk" else ""
    bench.plan("walk")
    bench.run(6)
    assert bench.ended == []
    bench.plan("nod", revision=2)
    bench.run(20)
    assert bench.calls() == ["nod"] and bench.ended == [(0, "")]


def test_a_model_that_never_finds_a_way_is_not_asked_for_ever() -> None:
    numbers = iter(range(10_000))
    bench = Bench(lambda asked: "<none/>" if asked.layer is Layer.S1P else f'<step><walk s="{next(numbers) / 100}"/></step>')
    bench.body.fails = lambda call: "the way is blocked"
    bench.plan("walk")
    bench.run(600)
    assert len(bench.ended) == 1 and bench.ended[0][0] == TaskCode.CALL_FAILED


def test_a_model_that_goes_on_without_end_is_stopped() -> None:
    bench = Bench(lambda asked: "<none/>" if asked.layer is Layer.S1P else "<step><nod/></step>")
    bench.plan("nod for ever")
    bench.run(1000)
    assert len(bench.ended) == 1 and bench.ended[0][0] == TaskCode.TURN_LIMIT


def test_nothing_is_asked_while_nothing_has_changed() -> None:
    bench = Bench(script('<step><walk s="60"/></step>'))
    bench.plan("walk")
    bench.run(40)
    assert len(bench.model.of()) == 2
    assert len(bench.of("skipped")) == 1


def test_only_what_the_task_speaks_of_is_a_reason_to_ask_while_a_step_runs() -> None:
    bench = Bench(script('<step><walk s="90"/></step>'), instruction="find an apple")
    bench.plan("walk")
    bench.run(10)
    for i in range(20):
        bench.world.labels = ("chair",) if i % 2 else ("person",)
        bench.world.room = f"room {i}"
        bench.run(0.5)
    assert len(bench.model.of()) == 2
    bench.world.labels = ("apple",)
    bench.run(1)
    assert len(bench.model.of()) == 3
    for i in range(20):
        bench.world.labels = ("apple",) if i % 2 else ()
        bench.run(0.5)
    assert len(bench.model.of()) <= 5


def test_an_answer_is_read_on_over_the_end_of_a_subtask() -> None:
    bench = Bench(script("<step><walk/></step><subtask_complete/><step><nod/></step><subtask_complete/><step><turn/></step>"))
    bench.plan("walk", "nod")
    bench.run(20)
    assert bench.calls() == ["walk", "nod"] and bench.of("done") == [("t1",), ("t2",)]
    assert len(bench.model.of()) == 1 and bench.ended == [(0, "")]


def test_behind_the_end_of_the_last_known_subtask_nothing_is_read() -> None:
    too_much = "<step><walk/></step><subtask_complete/><step><nod/></step>"
    bench = Bench(script(too_much, "<step><turn/></step><subtask_complete/>"))
    bench.plan("walk", complete=False)
    bench.run(2.5)
    assert bench.calls() == ["walk"]
    bench.plan("walk", "turn", revision=2)
    bench.run(20)
    assert bench.calls() == ["walk", "turn"] and bench.ended == [(0, "")]


def test_without_the_cost_rules_it_asks_on_and_on() -> None:
    bench = Bench(script('<step><walk s="60"/></step>'), settings={"cost_aware": False})
    bench.plan("walk")
    bench.run(20)
    assert len(bench.model.of()) > 8


def test_an_idle_robot_whose_model_adds_nothing_is_not_left_waiting() -> None:
    bench = Bench(quiet)
    bench.plan("walk")
    bench.run(120)
    assert len(bench.ended) == 1 and bench.ended[0][0] == TaskCode.CALL_FAILED
    assert len(bench.model.of()) == 6


def test_without_system_2_the_instruction_is_the_subtask() -> None:
    bench = Bench(script("<step><nod/></step><subtask_complete/>"), instruction="nod")
    bench.run(20)
    assert bench.calls() == ["nod"] and bench.ended == [(0, "")]
    assert bench.of("degraded")[0][0] is Layer.S2


def test_what_cannot_be_done_is_said_and_ends_as_given_up() -> None:
    bench = Bench(script('<step><walk s="2"/></step><step><nod/></step>'))
    bench.plan("walk")
    bench.run(1.5)
    bench.hear(Plan(2, True, (Subtask("t1", "walk"),), given_up=True, reason="the door is shut"))
    bench.run(20)
    assert bench.ended == [(TaskCode.GIVEN_UP, "the door is shut")]
    assert bench.calls() == ["text"] and bench.calls(outcome="INTERRUPTED") == ["walk"]
    assert "the door is shut" in [s.text_written for s in bench.streams.values()][-1]


def test_what_is_achieved_already_drops_the_queue_and_ends_well() -> None:
    bench = Bench(script('<step><walk s="2"/></step><step><nod/></step>'))
    bench.plan("walk")
    bench.run(1.5)
    bench.plan("walk", revision=2, achieved=True)
    bench.run(20)
    assert bench.ended == [(0, "")] and bench.calls() == ["walk"]


def test_a_step_performs_a_routine_and_keeps_a_new_one(tmp_path: Path) -> None:
    store = RoutineStore(tmp_path / "routines.json", clock=lambda: 0.0)
    store.save("bow", "for thanks", "<nod/>")
    kept = '<step><run name="bow"/><save name="twice" description="two nods"><nod/><nod/></save></step><subtask_complete/>'
    bench = Bench(script(kept), routines=store)
    bench.plan("bow, and remember two nods")
    bench.run(20)
    assert bench.calls().count("nod") == 1 and bench.ended == [(0, "")]
    assert [routine.name for routine in store.list()] == ["bow", "twice"]
    (asked,) = bench.model.of()
    assert asked.blocks["ROUTINES"] == [{"name": "bow", "description": "for thanks"}]


def test_steps_are_asked_for_with_the_tasks_before_this_one() -> None:
    earlier = [{"instruction": "nod three times", "achieved": "DONE"}]
    bench = Bench(script("<step><nod/></step><subtask_complete/>"), instruction="once more", earlier=earlier)
    bench.plan("nod three times")
    bench.run(20)
    assert bench.model.of()[0].blocks["EARLIER"] == earlier
