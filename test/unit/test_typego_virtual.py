# SPDX-License-Identifier: Apache-2.0
"""TypeGo's tasks on the virtual clock: the same again with the same seed, judged as in the simulator, and truthful or not."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from layer_prompts import S1, S2, baseline, call, observed, plan_for, planned, thing
from typer.testing import CliRunner

from bench.baselines import ReactPlanner
from bench.commands.evaluate import bench
from bench.evaluation.judge import Facts, judge
from bench.evaluation.runner import Results
from bench.evaluation.statistics import falsely_done, interval, share, unverified
from bench.evaluation.tables import truthful
from bench.evaluation.tasks import TASKS, setting
from bench.evaluation.trace import Trace
from bench.evaluation.virtual import VirtualRobot
from bench.evaluation.virtual_models import CONFIG
from bench.simulated_model.layers import answer
from bench.simulated_model.prompt import Question
from bench.simulated_model.service import Given, SimulatedModel
from bench.simulated_model.spoiling import early_end, other_plan
from bench.simulated_model.table import Errors, Table, load_table
from bench.simulated_model.where import default_table
from planners.plan import Subtask, SubtaskStatus
from planners.prompts.blocks import Layer, block
from planners.prompts.prompt import compose
from planners.strategies.layered.criteria import trace_accessors
from planners.strategies.turns import Known
from skill_kernel.guard.condition_text import read_condition

pytestmark = pytest.mark.component

FAULTLESS = load_table(default_table())


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VirtualRobot]:
    yield VirtualRobot(FAULTLESS, tmp_path_factory.mktemp("virtual"))


def run(robot: VirtualRobot, task: str, strategy: str, table: Table = FAULTLESS, trial: int = 0) -> tuple[Trace, list[str]]:
    """Run a trial; return its trace and what of the criterion was not kept."""
    robot.table = table
    world = setting(task, trial)
    trace, counts = robot.perform(TASKS[task], world, strategy, cost_aware=True, seed=f"a test {trial}")
    return trace, list(judge(TASKS[task], world, trace, Facts(robot.config, counts)).reasons)


def test_a_question_on_the_way_is_answered_from_what_was_seen_on_it(tmp_path: Path) -> None:
    remembering = VirtualRobot(FAULTLESS, tmp_path, remembers=True)
    trace, reasons = run(remembering, "T7", "layered")
    assert not reasons and "1 place" in trace.said(trace.added_id)
    trace, reasons = run(remembering, "A7", "layered")
    assert not reasons
    _, reasons = run(VirtualRobot(FAULTLESS, tmp_path), "T7", "layered")
    assert any("said no number" in reason for reason in reasons)


def test_a_reflex_backs_off_who_steps_in_the_way_and_gives_the_body_back(robot: VirtualRobot) -> None:
    trace, reasons = run(robot, "T8", "layered")
    assert not reasons
    (back,) = [c for c in trace.calls if c.process_id.startswith("reflex-")]
    assert (back.function, back.outcome) == ("move_back", "DONE")
    walk = next(c for c in trace.own() if c.function == "approach")
    assert walk.started < back.started < back.ended < walk.ended and walk.outcome == "DONE"
    assert not any(c.process_id.startswith("reflex-") for c in run(robot, "T5", "layered")[0].calls)


def test_t5_is_there_at_the_paper_s_length_too(robot: VirtualRobot) -> None:
    trace, reasons = run(robot, "L5", "layered")
    assert not reasons and 30.0 < trace.total < 42.0


def going_wrong(kind: str, **more: Any) -> Table:
    """Return a table whose answers all go wrong in one way."""
    shares = {k: float(k == kind) for k in FAULTLESS.errors.shares}
    return FAULTLESS.model_copy(update={"errors": Errors(rate=1.0, shares=shares, **more)})  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["layered", "react", "plan_and_execute", "stream"])
def test_every_strategy_does_what_it_is_told_when_no_answer_is_wrong(robot: VirtualRobot, strategy: str) -> None:
    trace, reasons = run(robot, "T2", strategy)
    assert not reasons and trace.status == "SUCCESS"
    assert [c.function for c in trace.own() if c.is_step and c.function != "stand"] == ["move_back", "rotate", "rotate", "nod"]


@pytest.mark.parametrize(("task", "trial"), [("T1", 0), ("T3", 0), ("T4", 1), ("T5", 0), ("T5", 1)])
def test_the_layers_do_each_task(robot: VirtualRobot, task: str, trial: int) -> None:
    trace, reasons = run(robot, task, "layered", trial=trial)
    assert not reasons and trace.status == ("FAILED" if task == "T3" else "SUCCESS")


@pytest.mark.parametrize(("task", "trial"), [("C1", 0), ("C3", 0), ("C5", 0), ("C5", 1)])
@pytest.mark.parametrize("strategy", ["layered", "react", "stream"])
def test_tasks_in_chinese_are_done(robot: VirtualRobot, task: str, trial: int, strategy: str) -> None:
    _, reasons = run(robot, task, strategy, trial=trial)
    assert not reasons


def test_the_same_trial_is_the_same_again_and_another_seed_differs(robot: VirtualRobot) -> None:
    table = FAULTLESS.with_options(errors=0.3)
    for task, strategy in (("T4", "react"), ("T5", "layered")):
        traces = [run(robot, task, strategy, table)[0] for _ in range(2)]
        first, again = (
            [(c.function, c.arguments, c.started, c.ended, c.outcome) for c in trace.calls]
            + [(a.layer, a.ended, a.prompt_tokens, a.completion_tokens, a.code) for a in trace.answers]
            for trace in traces
        )
        assert first == again and traces[0].poses == traces[1].poses
    robot.table = table
    other, _ = robot.perform(TASKS["T5"], setting("T5", 0), "layered", cost_aware=True, seed="another")
    assert other.answers != traces[0].answers


def test_a_model_that_is_silent_fails_the_task_and_nobody_says_that_it_was_done(robot: VirtualRobot) -> None:
    trace, reasons = run(robot, "T2", "react", going_wrong("silence"))
    line = {"success": not reasons, "status": trace.status, "message": trace.message}
    assert reasons and trace.status != "SUCCESS" and not falsely_done(line)


def test_the_fast_model_is_asked_as_well_where_the_other_one_stays_silent(robot: VirtualRobot) -> None:
    silent = FAULTLESS.rows["planner"].model_copy(update={"errors": going_wrong("silence").errors})
    trace, reasons = run(robot, "T2", "react", FAULTLESS.model_copy(update={"rows": {**FAULTLESS.rows, "planner": silent}}))
    assert not reasons and all(CONFIG.hedge_s < answer.seconds < CONFIG.hedge_s + 2.0 for answer in trace.answers)
    prompt, honest = trace.answers[0].prompt_tokens, run(robot, "T2", "react")[0].answers[0].prompt_tokens
    assert prompt == 2 * honest, "both have read the prompt"


def test_what_ends_too_early_is_a_false_success(robot: VirtualRobot) -> None:
    trace, reasons = run(robot, "T5", "plan_and_execute", going_wrong("wrong_call", ends=1.0))
    line = {"success": not reasons, "status": trace.status, "message": trace.message}
    assert "it did not bark" in reasons and trace.status == "SUCCESS"
    assert falsely_done(line) and not unverified(line) and not falsely_done({**line, "success": True})


@pytest.mark.parametrize("strategy", ["react", "stream"])
def test_what_ends_before_it_began_anything_is_a_failure_under_any_strategy(robot: VirtualRobot, strategy: str) -> None:
    trace, reasons = run(robot, "T2", strategy, going_wrong("wrong_call", ends=1.0))
    assert reasons and trace.status == "FAILED" and trace.message.startswith("answered without action")


def test_a_second_activity_pauses_the_first_which_then_goes_on(robot: VirtualRobot) -> None:
    trace, reasons = run(robot, "T6", "layered")
    assert not reasons and trace.added_status == "SUCCESS" and trace.added < trace.end
    states = [s.status for s in trace.states if s.process_id == trace.process_id]
    assert states.index("PAUSED") < len(states) - 1 and states[-1] == "SUCCESS"
    alone, _ = run(robot, "T5", "layered")
    assert trace.total > alone.total + 2.0


def test_cost_rules_save_questions(robot: VirtualRobot) -> None:
    robot.table = FAULTLESS
    aware, blind = (
        robot.perform(TASKS["T5"], setting("T5", 0), "layered", cost_aware=aware, seed="x")[0] for aware in (True, False)
    )
    assert len(aware.answers) < len(blind.answers)


# -- intervals and tables ---------------------------------------------------------------------------------------------


def test_an_interval_is_wilsons() -> None:
    assert interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert interval(0, 10)[0] == 0.0 and interval(10, 10)[1] == 1.0 and 0.65 < interval(8, 8)[0] < 0.7
    assert share(3, 8) == "37.5 [13.7, 69.4] (8)" and share(0, 0) == "–"
    for hits, n in ((1, 0), (3, 2), (-1, 5)):
        with pytest.raises(ValueError, match="is no share"):
            interval(hits, n)


def test_the_table_tells_how_often_success_was_claimed_falsely() -> None:
    line = {"task": "T1", "strategy": "layered", "error": 0.3, "fast_scale": 1.0, "status": "SUCCESS", "message": ""}
    lines = [
        {**line, "success": True},
        {**line, "success": False, "unproven": ["I nodded", "I turned left"]},
        {**line, "success": False, "message": "unverified: nobody looked"},
        {**line, "success": False, "status": "FAILED"},
    ]
    (row,) = truthful(lines).rows
    assert row[:7] == ["layered", "30%", share(1, 4), share(2, 4), "1", "2", "1/4"]


def test_the_command_runs_it_keeps_the_results_and_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    options = ["typego", "--virtual", "--tasks", "T2", "--strategies", "react", "--out", str(tmp_path)]
    first = CliRunner().invoke(bench, [*options, "--trials", "1"])
    assert first.exit_code == 0 and "1 trials to run" in first.output and "Done, and said to be done" in first.output
    again = CliRunner().invoke(bench, [*options, "--trials", "2"])
    assert "1 trials to run" in again.output and len(Results(tmp_path / "results.jsonl").lines) == 2
    other = CliRunner().invoke(bench, [*options, "--trials", "2", "--planning", "words"])
    assert "2 trials to run" in other.output, "another policy is another setup"
    refused = CliRunner().invoke(bench, [*options, "--planning", "guess"])
    assert refused.exit_code == 2 and "use one of done, words, naive" in refused.output


# -- errors that are fair ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "said", "ending"),
    [
        (Layer.S1, "<step><sit/></step>", "<subtask_complete/>"),
        (Layer.S2, "<keep/>", "<achieved/>"),
        (Layer.REACT, "<think>x</think><sit/>", "<plan_done/>"),
        (Layer.STREAM, "<sit/><observe/>", "<plan_done/>"),
        (Layer.S1P, "<nod/>", ""),
        (Layer.JUDGE, "yes: so it is", ""),
    ],
)
def test_each_layer_that_ends_something_may_end_it_too_early(layer: Layer, said: str, ending: str) -> None:
    assert early_end(said, layer, random.Random(1)) == ending


def test_a_whole_plan_that_ends_too_early_keeps_its_beginning() -> None:
    plan = "<think>x</think>\n<wait><sit/></wait>\n<wait><stand/></wait>\n<nod/>"
    ended = {early_end(plan, Layer.PLAN_AND_EXECUTE, random.Random(i)) for i in range(20)}
    assert ended == {"\n".join(plan.split("\n")[:n]) for n in (2, 3)}
    assert early_end("<think>x</think>\n<nod/>", Layer.PLAN_AND_EXECUTE, random.Random(1)) == ""


def test_a_plan_that_should_be_kept_becomes_another_one_and_not_the_end() -> None:
    plan = [Subtask("t1", "Go to the kitchen"), Subtask("t2", "Look for a ball here in this room")]
    text = block("PLAN", [subtask.shown() for subtask in plan])
    spoiled = {other_plan(Question(S2, (text,)), random.Random(i)) for i in range(40)}
    assert '<subtask id="t2"/>\n<subtask id="t1"/>' in spoiled and '<subtask id="t2"/>' in spoiled
    assert any("Go to the" in one and "kitchen" not in one for one in spoiled)
    assert not any("achieved" in one or "keep" in one for one in spoiled)


def test_a_stale_belief_is_of_the_same_process_not_of_an_earlier_one_with_the_same_words() -> None:
    given: list[Given] = []

    def asked(model: str) -> list[str | None]:
        given.clear()
        simulated = SimulatedModel(going_wrong("stale_belief", model=model), given.append)
        for room in ("office", "lobby"):  # two processes, one after the other
            request = baseline(ReactPlanner).begin("Check what is in front of you.", known=Known(observed(room)))
            simulated(_request(request.system, request.messages[-1].text))
        return [one.error for one in given]

    assert asked("fair") == ["wrong_call", "wrong_call"] and asked("first") == ["wrong_call", "stale_belief"]


def _request(system: str, user: str) -> Any:
    from bench.simulated_model.model_dialects import RecordedRequest

    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return RecordedRequest("/virtual", {}, {"model": "planner", "messages": messages}, 0.0)


# -- what DONE does not bear out --------------------------------------------------------------------------------------

CHAIR = "Look for a chair in the hallway and take a picture of it."
NODS = "Step back, turn left twice, and nod three times."
BACK, LEFT, NOD = call("move_back"), call("rotate", angle_deg=90.0), call("nod", times=3)


def reviewed(
    instruction: str, done: list[Any], ended: int, claim: str | None = None, planning: str = "done", **now: Any
) -> str:
    """Return System 2's answer about its own first plan of which so many subtasks are marked as done."""
    plan = plan_for(instruction, observed(**now), ended)
    text = compose(
        block("TASK", [{"instruction": instruction}]),
        block("PLAN", [s.shown() for s in plan.subtasks]),
        block("DONE", [c.shown() for c in done]),
        block("CLAIM", [] if claim is None else [{"last_step": claim}]),
        block("OBSERVATION", [observed(**now)]),
    )
    return answer(Question(S2, (text,)), planning=planning)  # type: ignore[arg-type]


def test_a_plan_whose_open_subtasks_are_what_is_missing_stays() -> None:
    assert reviewed(NODS, [BACK], 1) == "<keep/>"
    assert reviewed(NODS, [BACK, LEFT, LEFT, NOD], 3) == "<achieved/>"


def test_what_was_marked_and_not_done_is_planned_again() -> None:
    again = reviewed(NODS, [BACK, NOD], 3)
    assert "Turn left twice" in again and again.index("urn left") < again.index("od three times")
    assert reviewed(NODS, [BACK, NOD], 3, planning="words") == "<achieved/>", "the words of the plan say that it is done"


def test_a_claim_is_agreed_to_when_the_last_step_brings_what_is_missing_and_only_then() -> None:
    done, step = [BACK, LEFT, LEFT], '<step><nod times="3"/></step>'
    assert reviewed(NODS, [*done, call("nod", "", times=3)], 3, step) == "<achieved/>"
    assert (
        reviewed(NODS, [*done, call("nod", "", times=1)], 3, '<step><nod times="1"/><nod times="3"/></step>') == "<achieved/>"
    )
    assert "Nod three times" in reviewed(NODS, [*done, call("nod", "FAILED", "it fell", times=3)], 3, step), "it is over"
    fell = [*done, call("nod", "FAILED", "it fell", times=3), call("sit", "")]
    assert "Nod three times" in reviewed(NODS, fell, 3, step), "and something else runs"
    assert "Nod three times" in reviewed(NODS, done, 3, "<step><sit/></step>")
    assert "Nod three times" in reviewed(NODS, done, 3, "")
    assert "Nod three times" in reviewed(NODS, done, 2, "<step><sit/></step>"), "the mark behind the last step is no proof"


def test_a_plain_command_that_has_begun_is_agreed_to_without_a_plan() -> None:
    asked = compose(
        block("TASK", [{"instruction": "Nod three times."}]),
        block("DONE", [call("nod", "", times=3).shown()]),
        block("CLAIM", ['<step><nod times="3"/></step>'], own=True),
        block("OBSERVATION", [observed()]),
    )
    assert answer(Question(S2, (asked,))) == "<achieved/>"
    more = asked.replace("Nod three times.", "Nod three times, then sit down.")
    assert "Sit down" in answer(Question(S2, (more,)))


def test_react_says_that_it_is_done_by_the_same_measure() -> None:
    planner = baseline(ReactPlanner)
    for done, says in (([BACK, LEFT, LEFT, NOD], "<plan_done/>"), ([BACK, NOD], '<rotate angle_deg="90"/>')):
        request = planner.begin(NODS, known=Known(observed()), done=done)
        assert answer(Question(request.system, (request.messages[-1].text,))).endswith(says)


def test_a_plan_about_something_else_is_replaced_by_what_the_task_asks_for() -> None:
    kitchen = observed("kitchen", (0.9, 2.3))
    plan = [Subtask("t1", "Go to the office", status=SubtaskStatus.DONE), Subtask("t2", "Take a picture of the chair")]
    text = compose(
        block("TASK", [{"instruction": CHAIR}]), block("PLAN", [s.shown() for s in plan]), block("OBSERVATION", [kitchen])
    )
    said = answer(Question(S2, (text,)))
    assert "Go to the hallway" in said and "Look for a chair in the hallway" in said and said.endswith('<subtask id="t2"/>')


def test_the_naive_policy_leaves_the_way_to_the_steps() -> None:
    kitchen = observed("kitchen", (0.9, 2.3), [thing("chair", at=(-0.85, 2.2))])
    assert "Go to the hallway" in planned(CHAIR, kitchen)
    text = compose(block("TASK", [{"instruction": CHAIR}]), block("OBSERVATION", [kitchen]))
    assert "Go to the hallway" not in answer(Question(S2, (text,)), planning="naive")
    assert "LAYER s1\n" in S1


@pytest.mark.parametrize("task", ["T1", "T2", "T3", "T4"])
def test_criteria_are_expressions_that_the_robot_can_weigh(robot: VirtualRobot, task: str) -> None:
    table = robot.accessors | trace_accessors([skill.name for skill in robot.registry], lambda: ())
    text = compose(block("TASK", [{"instruction": TASKS[task].instruction}]), block("OBSERVATION", [observed()]))
    plan = answer(Question(S2, (text,)), planning="criteria")
    written = [html.unescape(criteria) for criteria in re.findall(r'criteria="([^"]*)"', plan)]
    expressions = [c for c in written if "(" in c]
    assert expressions and all(read_condition(c, table).expression is not None for c in expressions)
    trace, reasons = run(robot, task, "layered", FAULTLESS.with_options(planning="criteria"))
    assert not reasons and trace.status == ("FAILED" if task == "T3" else "SUCCESS")
