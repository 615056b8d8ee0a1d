# SPDX-License-Identifier: Apache-2.0
"""`ghostshell bench incremental`: what is measured of a chain of tasks, and the tables of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bench.commands.incremental import incremental
from bench.tabletop.asking import RealModel
from bench.tabletop.tables import tables
from bench.virtual_clock import VirtualClock
from planners.models.base import CancelToken, Message, ModelError, ModelRequest
from planners.models.model_call import AnswerEnd
from planners.prompts.blocks import Layer
from skill_kernel.codes import ModelCode

APP = typer.Typer()
APP.command()(incremental)


def line(chain: int, k: int, memory: bool, corrections: int, n: int | None, place: str = "top side") -> dict[str, Any]:
    return {
        "template": "all at place",
        "attributes": "seen",
        "chain": chain,
        "round": k,
        "seed": 1000 + 100 * chain + k,
        "memory": memory,
        "binding": {"place": place},
        "n": n,
        "corrections": corrections,
        "confirmed": int(memory and corrections > 0),
        "oracle": True,
        "idle": False,
    }


def rows(lines: list[dict[str, Any]], title: str) -> list[list[str]]:
    return next([list(row) for row in table.rows] for table in tables(lines) if table.title.startswith(title))


def test_s_i_and_n_are_those_of_the_paper() -> None:
    lines = [line(0, 0, True, 1, 1), line(0, 1, True, 0, 0), line(0, 2, True, 3, None), line(0, 3, True, 2, 2)]
    told = next(row for row in rows(lines, "Success in the end") if row[:2] == ["all", "memory on"])
    assert told[2].startswith("75.0 [") and told[2].endswith("(4)")
    assert told[3].startswith("25.0 [")
    assert told[4].startswith("1.00 [") and told[4].endswith("(3)"), "what never was done has no n"


def test_what_follows_a_correction_counts_only_with_another_binding() -> None:
    first = [line(0, 0, True, 1, 1), line(0, 1, True, 0, 0, "left side")]
    same = [line(1, 0, True, 1, 1), line(1, 1, True, 1, 1)]
    told = next(row for row in rows(first + same, "After a correction") if row[0] == "memory on")
    assert told[1].startswith("100.0 [") and told[1].endswith("(1)")


def test_rounds_are_counted_from_the_first_of_each_chain() -> None:
    lines = [line(0, 0, True, 1, 1), line(0, 1, True, 0, 0), line(1, 0, True, 0, 0), line(1, 1, True, 1, 1)]
    told = {tuple(row[:2]): row[2:4] for row in rows(lines, "Corrections of a task")}
    assert [text.split()[0] for text in told["all", "memory on"]] == ["0.50", "0.50"]
    assert [text.split()[0] for text in told["corrected in round 1", "memory on"]] == ["1.00", "0.00"]


def test_a_chain_is_run_kept_and_not_run_again(tmp_path: Path) -> None:
    command = ["--tasks", "different corners", "--attributes", "seen", "--chains", "1", "--rounds", "2", "--out", str(tmp_path)]
    done = CliRunner().invoke(APP, command)
    assert done.exit_code == 0, done.output
    lines = [json.loads(text) for text in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [(x["memory"], x["round"]) for x in lines] == [(True, 0), (True, 1), (False, 0), (False, 1)]
    assert [x["instruction"] for x in lines[:2]] == [x["instruction"] for x in lines[2:]]
    assert all(x["oracle"] and not x["idle"] for x in lines)
    assert "Bärmann" in (tmp_path / "tables.md").read_text()
    again = CliRunner().invoke(APP, command)
    assert again.exit_code == 0 and "chain 0" not in again.output
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize(("given", "says"), [(["--tasks", "juggle"], "no template 'juggle'"), (["--memory", "maybe"], "maybe")])
def test_what_cannot_be_measured_is_said(given: list[str], says: str, tmp_path: Path) -> None:
    refused = CliRunner().invoke(APP, [*given, "--out", str(tmp_path)])
    assert refused.exit_code == 2 and says in refused.output + (refused.stderr if refused.stderr_bytes else "")


@pytest.mark.parametrize(("code", "ends"), [(ModelCode.MODEL_CONNECTION, False), (ModelCode.MODEL_REFUSED, True)])
def test_a_model_that_nobody_reaches_ends_the_measurement_and_one_that_declines_a_task(code: ModelCode, ends: bool) -> None:
    class Client:
        def stream(self, request: ModelRequest, *, cancel: CancelToken) -> Any:
            raise ModelError(code, "no answer")

    clock, heard = VirtualClock(), list[AnswerEnd]()
    model = RealModel(Client(), clock)  # type: ignore[arg-type]
    request = ModelRequest("", (Message("user", "?"),))
    if not ends:
        with pytest.raises(ModelError, match="no answer"):
            model.ask(Layer.CONSOLE, "p1", request, lambda _: None, heard.append)
        return
    model.ask(Layer.CONSOLE, "p1", request, lambda _: None, heard.append)
    clock.run(1.0)
    assert [(end.code, end.why) for end in heard] == [(int(code), "no answer")]
