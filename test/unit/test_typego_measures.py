# SPDX-License-Identifier: Apache-2.0
"""Figures of trials, their means, and the file they are kept in: what counts as an action, as a wait, as an overhead."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typego_kit import ADDED, KALOS, Story
from typer.testing import CliRunner

from bench.commands.evaluate import bench
from bench.evaluation import measures, models, trial
from bench.evaluation.faults import HungError
from bench.evaluation.report import write_report
from bench.evaluation.runner import BLIND, Key, Plan, Results, run
from bench.evaluation.statistics import Spread, crossings, kind_of, normalised, tokens, total
from bench.evaluation.tables import aims, overhead, table3, table4
from bench.evaluation.tasks import Setting
from bench.evaluation.trace import Trace
from bench.evaluation.truth import Places

WORLD = Setting((0.0, 0.0, 0.0))


def story() -> Story:
    return Story(WORLD)


def test_the_first_action_is_one_that_moves_or_sounds() -> None:
    told = story().call("step", 0.5, 9.0, channels=("main",)).call("query_memory", 0.7, 0.9, channels=("default",))
    told.call("rotate", 0.2, 0.2, outcome="REFUSED").call("nod", 1.25, 3.0).call("bark", 2.0, 4.0, channels=("sound",))
    assert measures.first_action(told.rest(5.0).end()) == 1.25
    assert measures.first_action(story().call("text", 0.4, 1.0, channels=("main",)).end()) == 0.4
    assert measures.first_action(story().end()) is None


def test_a_wait_is_time_between_steps_in_which_nothing_runs() -> None:
    told = story().call("step", 0.0, 9.0, channels=("main",)).call("rotate", 1.0, 3.0).call("take_pic", 2.5, 3.5)
    told.call("text", 3.5, 4.4, channels=("main",)).call("nod", 4.5, 6.0).call("nod", 6.0, 7.0)
    assert measures.step_waits(told.rest(8.0).end()) == [pytest.approx(1.0)], "speech hides no wait"


def test_the_time_of_a_pause_is_no_wait() -> None:
    told = story().call("rotate", 0.0, 1.0)
    told.rest(1.5).state("PAUSED", "s3").rest(2.0).state("IN_PROGRESS").rest(0.5).call("nod", 4.0, 5.0).rest(1.5)
    assert measures.step_waits(told.end()) == [pytest.approx(1.0)]


def test_tokens_are_summed_by_layer() -> None:
    told = story().answer("s1", 1.0, 0.5, 100, 10, 80).answer("s1", 2.0, 0.5, 50, 5).answer("s2", 1.5, 1.0, 200, 20)
    assert measures.layers(told.end()) == {
        "s1": {"calls": 2, "failures": 0, "prompt": 150, "cached": 80, "completion": 15, "cost_usd": 0.0, "seconds": 1.0},
        "s2": {"calls": 1, "failures": 0, "prompt": 200, "cached": 0, "completion": 20, "cost_usd": 0.0, "seconds": 1.0},
    }


def added(told: Story) -> Story:
    told.trace.added, told.trace.added_id, told.trace.added_status = told.now, ADDED, "SUCCESS"
    return told


def test_work_is_resumed_when_a_paused_call_goes_on() -> None:
    told = added(story().call("approach", 0.5, 9.0).rest(1.0)).state("PAUSED", "s3").rest(3.0)
    told.state("SUCCESS", process=ADDED).rest(0.2).state("IN_PROGRESS").rest(5.0)
    expected = {"added_s": 3.0, "way_back_s": 0.0, "resume_s": 0.2, "replan_s": 0.0}
    assert measures.between(told.end()) == pytest.approx(expected, abs=1e-6)


def test_work_is_resumed_with_the_next_call_when_it_is_planned_anew() -> None:
    told = added(story().call("approach", 0.5, 1.0, outcome="INTERRUPTED").rest(1.0)).state("PAUSED", "s3").rest(3.0)
    told.state("SUCCESS", process=ADDED).rest(0.1).state("IN_PROGRESS").answer("s1", 5.1, 0.9).answer("s2", 4.5, 0.4)
    told.rest(1.2).call("search", told.now, told.now + 2).rest(3.0)
    expected = {"added_s": 3.0, "way_back_s": 0.0, "resume_s": 1.3, "replan_s": 0.9}
    assert measures.between(told.end()) == pytest.approx(expected, abs=1e-6)


def test_the_way_back_is_the_time_until_it_is_again_where_it_was_paused() -> None:
    told = added(story().call("approach", 0.5, 9.0).rest(1.0)).state("PAUSED", "s3").walk(0.0, turn_deg=90, seconds=2)
    told.state("SUCCESS", process=ADDED).state("IN_PROGRESS").rest(1.0).walk(0.0, turn_deg=-90, seconds=2.0).rest(1.0)
    assert measures.between(told.end())["way_back_s"] == pytest.approx(3.0, abs=0.3)
    gone = added(story().call("approach", 0.5, 9.0).rest(1.0)).state("PAUSED", "s3").walk(0.5)
    gone.state("SUCCESS", process=ADDED).state("IN_PROGRESS").rest(3.0)
    assert measures.between(gone.end())["way_back_s"] is None


def test_what_never_pauses_the_first_task_costs_it_nothing() -> None:
    told = added(story().call("approach", 0.5, 9.0).rest(1.0)).rest(2.0).state("SUCCESS", process=ADDED).rest(6.0)
    assert measures.between(told.end()) == pytest.approx({"added_s": 2.0, "resume_s": 0.0, "replan_s": 0.0})


def test_what_is_never_resumed_has_no_figure() -> None:
    told = added(story().call("approach", 0.5, 1.0, outcome="INTERRUPTED").rest(1.0)).state("PAUSED", "s3").rest(1.0)
    assert measures.between(told.state("SUCCESS", process=ADDED).rest(2.0).end(""))["resume_s"] is None


def test_a_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    told = added(story().call("nod", 0.0, 1.0, times=3).answer("s1", 1.0, 0.5).say("Yes.")).bark(1).end()
    told.write(tmp_path / "a.json")
    assert Trace.read(tmp_path / "a.json") == told


# -- results ----------------------------------------------------------------------------------------------------------


def line(task: str = "T1", strategy: str = "layered", trial: int = 0, success: bool = True, **more: Any) -> dict[str, Any]:
    spent = {"s1": {"calls": 1, "failures": 0, "prompt": 90, "cached": 0, "completion": 10, "cost_usd": 0.0, "seconds": 1.0}}
    return {
        "task": task,
        "strategy": strategy,
        "trial": trial,
        "error": 0.0,
        "fast_scale": 1.0,
        "model": "m",
        "success": success,
        "reasons": [] if success else ["it barked 3 times"],
        "ttfa_s": 1.0,
        "total_s": 10.0,
        "waits_s": [0.5, 1.5],
        "ball": True,
        "layers": spent,
        "status": "SUCCESS",
        **more,
    }


def test_long_tasks_do_not_outweigh_short_ones() -> None:
    base = [line("T1", total_s=10.0), line("T2", total_s=100.0)]
    other = [line("T1", total_s=20.0), line("T2", total_s=100.0)]
    assert normalised(other, base, total).mean == pytest.approx(1.5)
    assert normalised([line("T1", status="", total_s=60.0)], base, total).n == 0, "a trial that never ended has no total"
    assert tokens(line()) == 100.0


def test_spreads_leave_out_what_is_not_known() -> None:
    assert Spread.of([1.0, None, 3.0]) == Spread(2.0, pytest.approx(2**0.5), 2)
    assert str(Spread.of([])) == "–" and str(Spread.of([2.0])) == "2.00/0.00 (1)"


def test_reasons_of_one_kind_are_one_reason() -> None:
    a, b = "it said 5 places, but has been in 2 or 3", "it said 12 places, but has been in 4"
    assert kind_of(a).split(", ")[0] == kind_of(b).split(", ")[0]
    assert kind_of("the robot hung: something still runs") == "the robot hung"


def test_a_crossing_names_what_the_one_that_fell_failed_for() -> None:
    rates = {"layered": {0.0: 1.0, 0.1: 0.5, 0.2: 0.5}, "react": {0.0: 0.9, 0.1: 0.5, 0.2: 0.8}}
    lines = [line(strategy="layered", error=0.2, success=False), line(strategy="react", error=0.2)]
    (crossing,) = crossings(rates, lines)
    assert (crossing.low, crossing.high, crossing.fell, crossing.rose) == (0.0, 0.2, "layered", "react")
    assert crossing.why == "it barked … times (1)"
    assert not crossings({"a": {0.0: 1.0, 0.1: 0.9}, "b": {0.0: 1.0, 0.1: 0.8}}, [])


def test_aims_are_told_as_they_come_out() -> None:
    lines = [
        line(ttfa_s=0.9, waits_s=[0.4]),
        line(strategy="react", ttfa_s=1.0, waits_s=[1.0]),
        line(strategy=BLIND, layers={"s1": {**line()["layers"]["s1"], "prompt": 490}}),
    ]
    told = {row[0]: row[1:] for row in aims(lines).rows}
    assert told["TTFA, of ReAct's"] == ["0.90", "≤ 0.6", "MISSED"]
    assert told["step wait, of ReAct's"] == ["0.40", "≤ 0.5", "met"]
    assert told["tokens, of the same without cost rules"] == ["0.20", "≤ 0.5", "met"]
    assert told["TTFA, of plan-and-execute's"] == ["–", "≤ 0.27", ""]


def test_hung_trials_and_those_with_errors_are_not_in_the_tables_of_the_paper() -> None:
    lines = [line(), line(trial=1, error=0.3, success=False), line(trial=2, hung=True, success=False)]
    row = next(r for r in table3(lines).rows if r[0] == "layered")
    assert row[1] == "1/1"


def test_a_trial_on_a_machine_that_stalled_does_not_count_and_is_run_again(tmp_path: Path) -> None:
    told = story().rest(1.0)
    told.now += 0.6
    assert measures.stall(told.rest(1.0).end()) == pytest.approx(0.7) and measures.stall(story().rest(2.0).end()) <= 0.11
    results = Results(tmp_path / "results.jsonl")
    results.add(line(stall_s=0.7, success=False))
    assert not results.done(Key("T1", "layered", 0, model="m"))
    results.add(line(stall_s=0.1))
    assert results.done(Key("T1", "layered", 0, model="m"))
    tables = {t.title: t for t in write_report(tmp_path, "m")}
    assert tables["Trials that do not count"].rows == [["layered", "T1", "0", "the simulator stood still for 0.7 s"]]
    assert next(iter(tables.values())).rows[0][1] == "1/1"


def test_the_overhead_is_what_both_together_take_beyond_each_alone() -> None:
    lines = [
        line("T5", total_s=30.0),
        line("T5", trial=1, ball=False, total_s=99.0),
        line("A6", total_s=5.0),
        line("T6", total_s=36.0, added_s=5.0, resume_s=0.4, replan_s=0.3),
        line("T6", trial=1, total_s=50.0, added_s=5.0),
        line("T7", total_s=33.0, added_s=5.0),
        line("T8", total_s=33.5, added_s=2.0),
    ]
    row = next(r for r in table4(lines).rows if r[0] == "T6")
    assert row[2].startswith("30.00") and row[5] == "1.00/0.00 (1)" and row[7] == "0.30 + 0.10 (1)", "trial 1 has no pair"
    assert [overhead(lines, task).mean for task in ("T6", "T7", "T8")] == [1.0, 3.0, 1.5]
    told = {r[0]: r[1:] for r in aims(lines).rows}
    assert told["T6: time beyond both alone, in the same worlds [s]"] == ["1.00", "≤ 1", "met"]
    assert told["T8: time beyond both alone, in the same worlds [s]"] == ["1.50", "≤ 0.15", "MISSED"]


def test_a_report_of_everything_is_written_with_its_picture(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    for error in (0.0, 0.2):
        for strategy in ("layered", "react"):
            results.add(line(strategy=strategy, error=error, success=(error == 0) == (strategy == "layered")))
    results.add(line("T6", added_s=1.0, fast_scale=2.0))
    tables = write_report(tmp_path, "m")
    page = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert all(t.title in page for t in tables) and "layered falls behind react between 0% and 20%" in page
    assert (tmp_path / "errors.png").stat().st_size > 5000 and write_report(tmp_path, "another") == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--tasks", "T1,T9"], "no task 'T9'; there is: T1"),
        (["--strategies", "luck"], "no strategy 'luck'"),
        (["--errors", "0,2"], "no list of numbers from 0 to 1"),
        (["--errors", "much"], "could not convert"),
        (["--model", "offline", "--errors", "0,0.1"], "those of the simulated model"),
    ],
)
def test_a_command_that_cannot_be_run_says_why_before_anything_starts(given: list[str], says: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(bench, ["typego", *given, "--out", str(tmp_path)])
    assert result.exit_code == 2 and says in result.output and not list(tmp_path.iterdir())


def test_a_report_of_nothing_says_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(bench, ["typego", "--report", "--out", str(tmp_path)])
    assert result.exit_code == 0 and "no results of the model 'simulated'" in result.output


# -- running ----------------------------------------------------------------------------------------------------------


def test_a_line_that_broke_off_is_run_again_and_harms_no_other(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(line()) + '\n{"task": "T2", "stra', encoding="utf-8")
    results = Results(path)
    assert results.done(Key("T1", "layered", 0, model="m")) and not results.done(Key("T2", "layered", 0, model="m"))
    results.add(line("T2"))
    again = Results(path)
    assert again.done(Key("T1", "layered", 0, model="m")) and again.done(Key("T2", "layered", 0, model="m"))
    assert not again.done(Key("T1", "layered", 0, model="other"))


def test_the_strategies_take_turns_and_only_layered_ones_are_interrupted() -> None:
    plan = Plan(("T1", "T6"), ("layered", "react"), 2, (0.0,), (1.0,), "m")
    order = [(k.task, k.strategy, k.trial) for k in plan.trials_in_order()]
    assert order == [
        ("T1", "layered", 0),
        ("T1", "react", 0),
        ("T6", "layered", 0),
        ("T1", "react", 1),
        ("T1", "layered", 1),
        ("T6", "layered", 1),
    ]


class Bringer:
    """Robots that hang when they are asked for anything, or when they are brought up."""

    def __init__(self, *, up: bool) -> None:
        self.up, self.brought, self.closed = up, 0, 0

    @contextmanager
    def __call__(self, data: Path, error: float, scale: float) -> Any:
        self.brought += 1
        if not self.up:
            raise HungError("the robot is not up within 90 s")
        yield HangingRobot()
        self.closed += 1


class HangingRobot:
    @property
    def cost_aware(self) -> bool:
        raise HungError("something still runs within 10 s")


@pytest.mark.parametrize("up", [True, False])
def test_a_robot_that_hangs_is_reported_brought_up_anew_and_at_last_given_up(tmp_path: Path, up: bool) -> None:
    bringer, results = Bringer(up=up), Results(tmp_path / "results.jsonl")
    said: list[str] = []
    plan = Plan(("T1",), ("layered",), 9, (0.0,), (1.0,), "m")
    assert not run(plan, results, bringer, said.append)
    assert bringer.brought == 3 and bringer.closed == (3 if up else 0)
    assert [x["hung"] for x in results.lines] == [True] * 3 and not results.done(Key("T1", "layered", 0, model="m"))
    assert "the robot hung" in said[1] and "in a row" in said[-1]


class LosingRobot:
    """Takes tasks and loses them: the process scheduler is silent; or it does not rest afterwards."""

    def __init__(self, hangs: str) -> None:
        self.heard, self.exited, self.cost_aware, self._hangs, self._quiet = self, list[str](), True, hangs, 0
        self.trace, self.places = Trace(), Places(KALOS)

    @contextmanager
    def __call__(self, data: Path, error: float, scale: float) -> Any:
        self._quiet = 0
        yield self

    def begin(self) -> Trace:
        self.trace = story().rest(1.0).trace
        return self.trace

    def end(self) -> None:
        pass

    def ros_now(self) -> float:
        return 9.0 if self._hangs == "simulator" else 1.1

    def quiet(self) -> None:
        self._quiet += 1
        if self._hangs == "after" and self._quiet == 2:
            raise HungError("something still runs within 10 s")

    def arrange(self, arrangement: str, *, anew: bool) -> None:
        pass

    def wait(self, come: Any, limit_s: float, what: str) -> None:
        pass

    def tell(self, instruction: str, strategy: str) -> Any:
        if self._hangs != "after":
            raise HungError("no process was made of it within 5 s")
        return "p1", lambda: "SUCCESS"


@pytest.mark.parametrize(
    ("hangs", "why"), [("at once", "the robot hung: no process was made"), ("after", "the robot hung: something still runs")]
)
def test_a_robot_that_hangs_with_its_task_has_failed_and_is_not_asked_again(
    hangs: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "SETTLE_S", 0.0)
    monkeypatch.setattr(trial, "AFTER_S", 0.0)
    plan, results = Plan(("T1",), ("layered",), 2, (0.0,), (1.0,), "m"), Results(tmp_path / "results.jsonl")
    assert run(plan, results, LosingRobot(hangs), lambda _: None)  # type: ignore[arg-type]
    assert len(results.lines) == 2 and results.done(Key("T1", "layered", 0, model="m"))
    assert all(why in x["reasons"][0] and not x["success"] for x in results.lines)
    assert next(r for r in write_report(tmp_path, "m")[0].rows if r[0] == "layered")[1] == "0/2"


def test_a_simulator_that_stands_still_while_the_task_is_told_tells_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "SETTLE_S", 0.0)
    plan, results = Plan(("T1",), ("layered",), 1, (0.0,), (1.0,), "m"), Results(tmp_path / "results.jsonl")
    run(plan, results, LosingRobot("simulator"), lambda _: None)  # type: ignore[arg-type]
    assert results.lines[0]["stall_s"] == pytest.approx(8.0) and not results.done(Key("T1", "layered", 0, model="m"))


def test_a_result_of_another_fast_model_or_table_is_not_reused(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    results.add(line())
    assert results.done(Key("T1", "layered", 0, model="m")), "an older run told neither"
    assert not results.done(Key("T1", "layered", 0, model="m", table="abc"))
    assert not results.done(Key("T1", "layered", 0, model="m", fast_model="quick"))
    (key,) = Plan(("T1",), ("layered",), 1, (0.0,), (1.0,), "m", "quick", "abc").trials_in_order()
    results.add(line(fast_model="quick", table="abc"))
    assert results.done(key) and key.trace != Key("T1", "layered", 0, model="m").trace


def test_a_report_is_of_one_setup_the_newest_or_the_one_that_is_given(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    for more in ({}, {"fast_model": "quick"}, {"fast_model": "quick", "table": "abc", "success": False}):
        results.add(line(**more))

    def done(*setup: str) -> str:
        tables = write_report(tmp_path, "m", *setup)
        return str(tables[0].rows[0][1]) if tables else ""

    assert done() == "0/1" and "2 results of another fast model or table" in (tmp_path / "tables.md").read_text()
    assert done("") == "1/1" and done("quick", "") == "1/1" and done("slow") == ""


def test_results_of_an_older_run_get_the_newer_figure_from_their_traces(tmp_path: Path) -> None:
    told = story().call("nod", 0.3, 1.0).call("stand", 0.4, 1.0).call("rotate", 1.5, 3.0).rest(4.0).end()
    told.write(tmp_path / "traces" / "old.json")
    results = Results(tmp_path / "results.jsonl")
    results.add(line(trace="old.json"))
    results.add(line(trial=1, trace="gone.json"))
    results.add(line("T2", ttfa_beyond_s=2.5))
    row = next(r for r in write_report(tmp_path, "m")[0].rows if r[0] == "layered")
    assert row[7] == "2.00/0.71 (2)" and measures.figures(told)["ttfa_beyond_s"] == 1.5


def test_the_hash_of_the_table_is_of_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = models.default_table().read_text(encoding="utf-8")
    before = models.table_hash()
    (table := tmp_path / "table.yaml").write_text(f"# a remark\n{text}", encoding="utf-8")
    monkeypatch.setattr(models, "default_table", lambda: table)
    assert models.table_hash() == before
    table.write_text(re.sub(r"median_s: [\d.]+", "median_s: 0.123", text, count=1), encoding="utf-8")
    assert models.table_hash() != before


def test_a_run_with_a_limit_stops_and_says_that_something_is_left(tmp_path: Path) -> None:
    bringer = Bringer(up=True)
    plan = Plan(("T1",), ("layered",), 2, (0.0,), (1.0,), "m")
    assert not run(plan, Results(tmp_path / "r.jsonl"), bringer, lambda _: None, limit_s=1e-9)
    assert bringer.brought == 0
