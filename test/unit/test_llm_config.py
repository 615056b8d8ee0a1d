# SPDX-License-Identifier: Apache-2.0
"""Models by name and by short form, with errors that help and repeat no key; nothing heavy is imported before it is
needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from planners.models.base import Image, Message, ModelError, ModelRequest, Usage
from planners.models.config import (
    NO_KEY,
    ConfigError,
    ModelConfig,
    Prices,
    find_key,
    is_local,
    load_models,
    parse_spec,
    require_key,
)
from planners.models.factory import make_client
from planners.models.scrubber import Secrets
from skill_kernel.codes import ModelCode
from skill_kernel.config import plugins

ROOT = Path(__file__).parents[2]


def test_the_file_that_ships_is_valid_defaults_to_offline_and_invents_no_prices() -> None:
    models = load_models(ROOT / "config" / "models.yaml")
    assert parse_spec("", models).provider == "offline"
    priced = {name for name, entry in models.models.items() if entry.prices is not None}
    assert priced == set()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("offline", {"provider": "offline"}),
        ("openai:gpt-4.1", {"provider": "openai", "model": "gpt-4.1", "url": "https://api.openai.com/v1"}),
        (
            "openai:qwen2.5:7b@http://127.0.0.1:11434/v1",
            {"provider": "openai", "model": "qwen2.5:7b", "url": "http://127.0.0.1:11434/v1"},
        ),
        ("anthropic:claude-x", {"provider": "anthropic", "model": "claude-x", "url": "https://api.anthropic.com"}),
        ("replay:out/a.jsonl", {"provider": "replay", "path": Path("out/a.jsonl")}),
        ("record:out/a.jsonl=openai:m", {"provider": "record", "path": Path("out/a.jsonl"), "name": "record:openai:m"}),
    ],
)
def test_a_short_form_means_its_model(spec: str, expected: dict[str, object]) -> None:
    config = parse_spec(spec)
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize("spec", ["", "gpt-4", "openai:", "replay:", "record:a.jsonl", "offline:x", "mistral:large"])
def test_an_unknown_model_lists_what_there_is(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"use one of: offline, openai:MODEL"):
        parse_spec(spec)


def test_a_misspelt_name_gets_the_nearest_one() -> None:
    models = load_models(ROOT / "config" / "models.yaml")
    with pytest.raises(ConfigError, match="did you mean 'ollama'"):
        parse_spec("olama", models)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{provider: openai, model: m, base_ulr: x}", "did you mean 'base_url'"),
        ("{provider: openai, model: m, silence_s: 0}", "silence_s"),
        ("{provider: openai, model: m, deadlines: {answers_s: 9}}", "did you mean 'answer_s'"),
        ("{provider: openai, model: m, deadlines: {plan_s: 0}}", "deadlines.plan_s"),
        ("{provider: openai, model: m, first_token_s: .nan}", "first_token_s"),
        ("{provider: openai, model: m, prices: {input: -1, output: 2}}", "prices.input"),
        ("{provider: openai}", "needs `model`"),
        ("{provider: replay}", "needs `path`"),
        ("{provider: record, path: a}", "needs `inner`"),
        ("{provider: openai, model: m, base_url: 'ftp://x'}", "http://"),
        ("{provider: openai, model: m, base_url: 'https://me:sk-secret@host/v1'}", "keys come from the environment"),
        ("{provider: openai, model: m, api_key_env: sk-secret-123456}", "NAME of an environment variable"),
        ("{provider: openai, model: m, api_key_env: gsk_secret123456}", "NAME of an environment variable"),
        ("{provider: openai, model: m, sk-secret-123456: 1}", "is unknown"),
        ("{provider: openai, model: m", "not valid YAML"),
    ],
)
def test_a_wrong_entry_is_named_with_its_key_and_no_secret_is_repeated(tmp_path: Path, entry: str, says: str) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(f"default: a\nmodels:\n  a: {entry}\n")
    with pytest.raises(ConfigError) as caught:
        load_models(file)
    assert says in str(caught.value) and str(file) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_key_in_the_place_of_the_default_models_name_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("default: 0a1b2c3d-secret\nmodels: {here: {provider: offline}, there: {provider: offline}}\n")
    with pytest.raises(ConfigError, match="must be one of the names in `models`: here, there") as caught:
        load_models(file)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("address", ["host:8000", "127.0.0.1:8000/v1", "//host/v1", "host", "HTTP://host/v1", "ftp://host"])
def test_an_address_without_its_scheme_is_refused_and_not_taken_for_a_name(address: str) -> None:
    for provider in ("openai", "anthropic"):
        with pytest.raises(ConfigError, match="begins with http:// or https://"):
            parse_spec(f"{provider}:m@{address}")
    assert parse_spec("openai:@cf/meta/llama@https://host/v1").model == "@cf/meta/llama"


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        (None, True),
        ("https://api.openai.com/v2", True),
        ("HTTPS://api.openai.com/v2", True),
        ("http://api.openai.com/v1", False),
        ("http://192.168.1.7:8000/v1", False),
        ("http://workstation:8000/v1", False),
        ("http://127.0.0.1.nip.io/v1", False),
        ("http://gpu.localhost/v1", False),
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost:8000/v1", True),
        ("http://[::1]:8000/v1", True),
    ],
)
def test_a_key_goes_out_encrypted_or_stays_on_this_machine(url: str | None, sent: bool) -> None:
    config = ModelConfig(provider="openai", model="m", base_url=url, api_key_env=url and "OPENAI_API_KEY")
    environ = {"OPENAI_API_KEY": "sk-secret-123456"}
    if sent:
        assert find_key(config, environ) == "sk-secret-123456"
        return
    with pytest.raises(ModelError, match="unencrypted.*; use https:// or a tunnel") as caught:
        find_key(config, environ)
    assert caught.value.code is ModelCode.MODEL_AUTH and "secret" not in str(caught.value)
    assert find_key(config, {}) == NO_KEY if is_local(config.url) else True


def test_offline_without_a_robot_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="no robot is loaded"):
        make_client(ModelConfig(provider="offline"))


def test_costs_count_what_was_cached_at_its_own_price_only_where_there_is_one() -> None:
    usage = Usage(1_000_000, 500_000, cached_tokens=200_000, cache_write_tokens=100_000)
    assert Prices(input=2.0, output=10.0).cost_usd(usage) == pytest.approx(2.0 + 5.0)
    full = Prices(input=2.0, output=10.0, cached_input=0.5, cache_write=2.5)
    assert full.cost_usd(usage) == pytest.approx(0.7 * 2.0 + 0.2 * 0.5 + 0.1 * 2.5 + 5.0)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.0.0.1/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://192.168.1.7:8000", True),
        ("http://workstation:8000", True),
        ("http://gpu.local", True),
        ("https://api.openai.com/v1", False),
        ("https://8.8.8.8/v1", False),
        ("https://localhost.example.com", False),
    ],
)
def test_only_hosts_of_this_machine_or_a_private_network_are_local(url: str, local: bool) -> None:
    assert is_local(url) is local


def test_scrubbing_removes_the_key_in_every_form_and_keeps_the_rest() -> None:
    key = 'a+b/"c\\d'
    text = 'raw a+b/"c\\d quoted a%2Bb%2F%22c%5Cd json a+b/\\"c\\\\d header Bearer abc.def other sk-abcdef123456 end'
    cleaned = Secrets([key]).sentence(text)
    assert "b/" not in cleaned and "%2B" not in cleaned and "abc" not in cleaned
    assert cleaned.startswith("raw ") and cleaned.endswith(" end") and cleaned.count("[key removed]") == 5


def test_a_request_checks_itself() -> None:
    user = Message("user", "hi")
    for wrong in ({"messages": ()}, {"messages": (user, Message("assistant", "x"))}):
        with pytest.raises(ValueError, match="last message must be the user's"):
            ModelRequest("", **wrong)
    for deadline_s in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="deadline_s"):
            ModelRequest("", (user,), deadline_s=deadline_s)
    with pytest.raises(ValueError, match="PNG or JPEG"):
        Image(b"GIF89a")


def test_the_prompts_hash_follows_what_the_model_sees_and_nothing_else() -> None:
    base = ModelRequest("s", (Message("user", "hi"),))
    assert base.sha256() == ModelRequest("s", (Message("user", "hi"),), deadline_s=5.0, instruction="hi").sha256()
    others = [
        ModelRequest("t", (Message("user", "hi"),)),
        ModelRequest("s", (Message("user", "ho"),)),
        ModelRequest("s", (Message("user", "hi", (Image(b"\xff\xd8\xff"),)),)),
    ]
    assert len({base.sha256(), *(r.sha256() for r in others)}) == 4


def test_no_sdk_is_imported_before_a_client_needs_it() -> None:
    heavy = "{'openai', 'anthropic', 'httpx', 'httpx2', 'rclpy'}"
    code = (
        "import sys; import planners.models; assert not {'pydantic', 'yaml', 'asyncio'} & set(sys.modules);"
        "from planners.models.factory import make_client; from planners.models.config import parse_spec;"
        f"[make_client(parse_spec(s)) for s in ('openai:m', 'anthropic:m')]; assert not {heavy} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


def test_a_model_of_a_package_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: ())
    with pytest.raises(ConfigError, match="ghostshell-bench: run make setup"):
        parse_spec("simulated-fast", load_models(ROOT / "config" / "models.yaml"))
    with pytest.raises(ConfigError, match="ghostshell-training: pip install -e training"):
        parse_spec("local", load_models(ROOT / "config" / "models.yaml"))


@pytest.mark.parametrize("spec", ["openai:m", "record:a.jsonl=openai:m"])
def test_a_model_is_refused_where_its_key_is_missing_and_nowhere_else(spec: str) -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        require_key(parse_spec(spec), {"ANTHROPIC_API_KEY": "k"})
    require_key(parse_spec(spec), {"OPENAI_API_KEY": "k"})
    for keyless in ("offline", "replay:a.jsonl", "openai:m@http://127.0.0.1:1/v1"):
        require_key(parse_spec(keyless), {})
