# SPDX-License-Identifier: Apache-2.0
"""Names that packages add by entry point: found once, refused where two mean different things, loaded late."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from ghostshell_ros.cli.main import app
from planners.models.config import ConfigError, parse_spec
from planners.models.factory import make_client
from skill_kernel.config import plugins
from skill_kernel.config.plugins import CLIENTS, COMMANDS, PluginError, load_plugin


def installed(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    points = [EntryPoint(name.split("__")[0], value, COMMANDS) for name, value in values.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)


def test_the_same_entry_point_may_be_installed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, a="math:pi", a__again="math:pi")
    assert load_plugin(COMMANDS, "a") == pytest.approx(3.14159, abs=1e-4)


def test_one_name_for_two_things_is_refused_and_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, a="math:pi", a__again="math:e")
    with pytest.raises(PluginError, match="'a' is both math:pi and math:e"):
        plugins.plugins(COMMANDS)


def test_what_is_missing_or_broken_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, a="math:nothing")
    with pytest.raises(PluginError, match=r"'a' \(math:nothing\) cannot be loaded"):
        load_plugin(COMMANDS, "a")
    with pytest.raises(PluginError, match="there is no 'b' in ghostshell.commands; installed: a"):
        load_plugin(COMMANDS, "b")


def test_a_command_of_another_package_is_one_of_ghostshell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "typego" in CliRunner().invoke(app, ["bench", "--help"]).output
    installed(monkeypatch)
    gone = CliRunner().invoke(app, ["bench", "typego"])
    assert gone.exit_code == 2 and "ghostshell-bench: run make setup" in gone.output
    gone = CliRunner().invoke(app, ["replay", "--info", "run.mcap"])
    assert gone.exit_code == 2 and "ghostshell-bench: run make setup" in gone.output
    assert CliRunner().invoke(app, ["nonsense"]).exit_code == 2


def test_a_provider_of_another_package_may_wrap_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse_spec("record:out/a.jsonl=openai:m")
    found = EntryPoint("record", "bench.replay.recording:record_client", CLIENTS)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [found] if group == CLIENTS else [])
    assert make_client(config).name == "record:openai:m"
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    with pytest.raises(ConfigError, match="'record' is part of the package ghostshell-bench: run make setup"):
        make_client(config)


def test_a_model_client_comes_from_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse_spec("replay:run.mcap")
    found = EntryPoint("replay", "bench.replay.recorded:replay_client", CLIENTS)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [found] if group == CLIENTS else [])
    assert make_client(config).name == "replay:run.mcap"
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    with pytest.raises(ConfigError, match="'replay' is part of the package ghostshell-bench: run make setup"):
        make_client(config)
