# SPDX-License-Identifier: Apache-2.0
"""The demonstration's simulated model: begun, used where one runs already, and a fault told as what it is."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import pytest
import typer

from bench import models
from bench.commands import demo
from bench.commands.demo import _simulated_model

pytestmark = pytest.mark.component


@pytest.fixture
def free_port(monkeypatch: pytest.MonkeyPatch) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    monkeypatch.setattr(models, "PORT", port)
    return port


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put this in the place of the simulated model."""
    (tmp_path / "played_model.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(demo, "SIMULATED_MODEL", (sys.executable, str(tmp_path / "played_model.py")))


def test_it_listens_while_the_demonstration_runs(free_port: int) -> None:
    with _simulated_model():
        socket.create_connection(("127.0.0.1", free_port), 2.0).close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", free_port), 2.0)


def test_a_port_that_somebody_listens_on_is_used_as_it_is(free_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", free_port)), _simulated_model():
        assert "is taken" in capsys.readouterr().out


def test_a_model_that_ends_at_once_is_no_port_that_is_taken(
    free_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path, monkeypatch, "raise SystemExit(3)")
    with pytest.raises(typer.Exit) as caught, _simulated_model():
        pass
    told = capsys.readouterr()
    assert caught.value.exit_code == 2 and "ended with status 3" in told.err and "taken" not in told.out


def test_a_model_that_says_nothing_is_waited_for_no_longer_than_its_deadline(
    free_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path, monkeypatch, "import time; time.sleep(60)")
    monkeypatch.setattr(demo, "MODEL_UP_S", 0.3)
    begun = time.monotonic()
    with pytest.raises(typer.Exit), _simulated_model():
        pass
    assert "did not say where it listens within 0.3 s" in capsys.readouterr().err and time.monotonic() - begun < 10.0
