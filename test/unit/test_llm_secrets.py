# SPDX-License-Identifier: Apache-2.0
"""No key passes a model's client, whatever encoding a server echoes it in and however it cuts it; ordinary text does,
at once."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.replay.recording import RecordingModelClient
from bench.simulated_model.model_server import Answer, Fault, ModelServer, ToolUse
from planners.models.base import CancelToken, Finished, Message, ModelError, ModelRequest, Surroundings, TextDelta
from planners.models.config import NO_KEY, ModelConfig
from planners.models.factory import make_client
from planners.models.scrubber import AHEAD, REMOVED, Scrubber, Secrets, known_secrets
from planners.prompts.grammar import Tool

pytestmark = pytest.mark.component

KEY = "sk-proj-Zq8_vT3kWm-P4xYb9Lr2Nc7Hd5Fg1Js6Aa0Ee/Uu+Ii"
OTHER = "gsk_9fJ2kLm4Qp7RsT1vXz3Bc6Dn8"
SECRETS = Secrets([KEY, OTHER])
PIECE = 12
REQUEST = ModelRequest("You are a robot.", (Message("user", "greet me"),))
DOCUMENTS = "".join(page.read_text(encoding="utf-8") for page in (Path(__file__).parents[2] / "docs").glob("p*.md"))


def each(form: str) -> Callable[[str], str]:
    return lambda text: "".join(form.format(ord(character)) for character in text)


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper case": str.upper,
    "address": lambda text: quote(text, safe=""),
    "address, every character": each("%{:02x}"),
    "address, twice": each("%25{:02X}"),
    "JSON": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON, every character": each("\\u{:04x}"),
    "JSON in JSON": each("\\\\u{:04X}"),
    "C": each("\\x{:02x}"),
    "XML": each("&#{:d};"),
    "XML, hexadecimal": each("&#x{:X};"),
    "XML in XML": each("&amp;#{:d};"),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal with colons": lambda text: text.encode().hex(":").upper(),
    "spaced": " ".join,
    "invisible characters between": "\u200b".join,
}


def in_pieces(text: str, cuts: Iterator[int] | None = None, secrets: Secrets = SECRETS) -> str:
    """Return what comes out of a scrubber that gets a text in pieces."""
    scrubber, out, at = Scrubber(secrets), "", 0
    while at < len(text):
        size = next(cuts) if cuts is not None else 1
        out += scrubber.feed(text[at : at + size])
        at += size
    return out + scrubber.feed("", last=True)


@st.composite
def cut(draw: st.DrawFn) -> Iterator[int]:
    """Draw the sizes of pieces, again and again."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    return iter(sizes * 1000)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(st.integers(0, len(KEY) - PIECE), st.integers(PIECE, len(KEY)), cut())
def test_no_piece_of_a_key_passes_in_any_encoding_however_it_is_cut(
    encoding: str, begin: int, length: int, cuts: Iterator[int]
) -> None:
    piece = KEY[begin : begin + length]
    echoed = ENCODINGS[encoding](piece)
    longest = max(len(ENCODINGS[encoding](character)) for character in KEY) + 1
    out = in_pieces(f"Hi <say>{echoed}</say> there", cuts)
    assert out.startswith("Hi <say>") and out.endswith("</say> there") and out.count(REMOVED) == 1, out
    left = out.removeprefix("Hi <say>").removesuffix("</say> there").replace(REMOVED, "").strip("; \u200b:")
    # What came before it was known to begin, AHEAD - 1 characters, and in hexadecimal what is shorter than a byte.
    assert len(left) <= (AHEAD - 1) * longest and KEY[begin : begin + AHEAD] not in html.unescape(left)


@given(st.integers(0, 20), st.integers(0, 20), st.booleans(), st.sampled_from([KEY, OTHER]), cut())
def test_no_key_passes_in_base64_wherever_it_stands_in_what_is_encoded(
    before: int, after: int, url: bool, key: str, cuts: Iterator[int]
) -> None:
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    echoed = encode(b"user:" * before + key.encode() + b"!" * after).decode()
    out = in_pieces(f"Hi {echoed} there", cuts)
    assert REMOVED in out
    for run in re.findall("[A-Za-z0-9+/]{12,}", out.translate({ord("-"): "+", ord("_"): "/"})):
        for skip in range(4):
            decoded = base64.b64decode(run[skip:] + "A" * (-len(run[skip:]) % 4))
            assert not any(key[i : i + 9].encode() in decoded for i in range(len(key) - 8))


@given(st.text(max_size=200), cut())
def test_any_other_text_passes_as_it_is(text: str, cuts: Iterator[int]) -> None:
    assert in_pieces(text, cuts) == text


@given(
    st.lists(st.sampled_from([KEY[:11], KEY[3:14], KEY[-8:], OTHER[:9], "%2", "%", "\\u00", "&#4", "&amp", " ", ">", "sk"])),
    cut(),
)
def test_what_is_less_than_a_piece_passes_as_it_is(parts: list[str], cuts: Iterator[int]) -> None:
    text = "|".join(parts)
    assert in_pieces(text, cuts) == text


def test_ordinary_text_is_not_kept_back() -> None:
    for size in (1, 4, 9):
        scrubber, waited = Scrubber(SECRETS), 0
        pieces = [DOCUMENTS[at : at + size] for at in range(0, len(DOCUMENTS), size)]
        asked = given_out = 0
        for piece in pieces:
            asked += len(piece)
            given_out += len(scrubber.feed(piece))
            waited += given_out < asked
            assert given_out == asked or not piece.endswith((">", ".", "!", "\n"))
        assert waited < 0.005 * len(pieces), "an escape or the beginning of a key is rare"


def test_endless_blanks_after_the_beginning_of_a_key_are_not_kept_back() -> None:
    scrubber = Scrubber(SECRETS)
    out = scrubber.feed(KEY[:8])
    assert out == ""
    for _ in range(500):
        out += scrubber.feed(" ")
    assert len(out) > 100


def test_its_time_grows_with_the_text_alone() -> None:
    def seconds(text: str) -> float:
        begin = time.process_time()
        Scrubber(SECRETS).feed(text, last=True)
        return time.process_time() - begin

    for hostile in (KEY[:11] + "|", "%25", "\\", "&amp;", "s", KEY, " ", "sk-proj" + " " * 50):
        text = hostile * (4_000 // len(hostile))
        assert seconds(text * 8) < 30 * max(seconds(text), 0.002)


def test_a_key_that_is_short_is_found_whole_and_one_that_is_a_word_is_not_looked_for() -> None:
    short = Secrets(["a+b/c(d)", "local", "with space in it", "schlüssel-1"])
    assert in_pieces("say a+b/c(d) and a%2Bb%2Fc%28d%29, local, with space in it", secrets=short).count(REMOVED) == 2
    assert short.hidden("a+b/c(d, local, with space in it, schlüssel-1") == "a+b/c(d, local, with space in it, schlüssel-1"


def test_the_values_of_variables_that_are_named_like_a_key_are_known(tmp_path: Path) -> None:
    environ = {
        "LAB_TOKEN": "tk-12345678",
        "PGPASSWORD": "hunter2hunter2",
        "HOME": "/root",
        "TOKEN_KIND": "personal",
        "KEYBOARD_LAYOUT": "us-dvorak-2",
        "MAX_TOKENS": "100000000",
        "SSH_KEY": str(tmp_path),
    }
    assert known_secrets(environ) == ["tk-12345678", "hunter2hunter2"]


# -- through the SDKs -------------------------------------------------------------------------------------------------


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def config_for(provider: str, server: ModelServer) -> ModelConfig:
    url = server.openai_url if provider == "openai" else server.anthropic_url
    return ModelConfig(provider=provider, model="m", base_url=url, api_key_env="TEST_MODEL_KEY", retry={"max_retries": 0})  # type: ignore[arg-type]


AROUND = Surroundings(environ={"TEST_MODEL_KEY": KEY, "GROQ_API_KEY": OTHER, "HOME": "/root"})


def said_by(client: Any) -> str:
    """Return all that a client gives out, however it ends."""
    said: list[str] = []
    text = ""
    try:
        for event in client.stream(REQUEST, cancel=CancelToken()):
            said.append(repr(event))
            text += event.text if isinstance(event, TextDelta) else ""
    except ModelError as error:
        said += [repr(error), str(error)]
    client.close()
    return "\n".join([text, *said])


def no_key_in(text: str) -> bool:
    """Return whether not even a piece of a key stands in a text, in any of the encodings that are plain to see."""
    pieces = [key[i : i + PIECE] for key in (KEY, OTHER) for i in range(len(key) - PIECE + 1)]
    return not any(encode(piece) in text for encode in ENCODINGS.values() for piece in pieces)


def test_a_key_in_an_answer_is_neither_given_out_nor_recorded(provider: str, server: ModelServer, tmp_path: Path) -> None:
    some = ("plain", "address, every character", "JSON", "XML", "hexadecimal")
    echoes = [ENCODINGS[encoding](key) for encoding in some for key in (KEY, OTHER)]
    server.answer = Answer("<nod/>".join(["Hello ", *echoes, "<nod/>bye"]), finish=f"because {KEY}", reasoning=KEY)
    recording = tmp_path / "stream.jsonl"
    client = RecordingModelClient(make_client(config_for(provider, server), surroundings=AROUND), recording)
    said = said_by(client)
    assert no_key_in(said) and no_key_in(recording.read_text(encoding="utf-8"))
    text = said.partition("\n")[0]
    assert text.startswith("Hello <nod/>") and text.endswith("<nod/><nod/>bye")
    assert text.count("<nod/>") == len(echoes) + 2 and text.count(REMOVED) == len(echoes)
    assert f"Finished(reason='because {REMOVED}')" in said


def test_a_key_in_a_native_call_is_not_given_out(provider: str, server: ModelServer) -> None:
    server.answer = Answer(tool_calls=(ToolUse("walk", {"distance": KEY, "way": quote(OTHER, safe="")}),))
    client = make_client(config_for(provider, server), surroundings=AROUND)
    request = replace(REQUEST, tools=(Tool("walk", "Walk.", {"type": "object"}),))
    said = "".join(e.text for e in client.stream(request, cancel=CancelToken()) if isinstance(e, TextDelta))
    client.close()
    assert said == f'<walk distance="{REMOVED}" way="{REMOVED}"/>'


BREAKS = {
    "error that echoes the headers": Fault.status(401, echo_key=True),
    "error whose kind is a key": Fault.status(400, kind=KEY),
    "header": Fault.status(429, retry_after_s=KEY),
    "redirect": Fault.status(307, location=f"http://127.0.0.1:9/{KEY}"),
    "error event": Fault.error_event(4, f"{KEY[:20]} {quote(OTHER)}"),
    "text that breaks off within a key": Fault.drop(20, how="cut"),
}


@pytest.mark.parametrize("fault", BREAKS.values(), ids=BREAKS)
def test_a_key_in_an_error_is_neither_given_out_nor_logged(
    provider: str, server: ModelServer, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer = f"Hi {KEY}"
    server.inject(fault)
    said = said_by(make_client(config_for(provider, server), surroundings=AROUND))
    assert "ModelError" in said and no_key_in(said)
    assert no_key_in("\n".join(record.getMessage() for record in caplog.records))


def test_a_count_or_an_end_that_is_a_key_or_no_text_at_all_shows_no_key(provider: str, server: ModelServer) -> None:
    wrong: Any = KEY
    server.answer = Answer("Hi", prompt_tokens=wrong)
    assert no_key_in(said_by(make_client(config_for(provider, server), surroundings=AROUND)))
    no_word: Any = {"why": KEY}
    server.answer = Answer("Hi", finish=no_word)
    said = said_by(make_client(config_for(provider, server), surroundings=AROUND))
    assert no_key_in(said) and "Finished(" in said


@pytest.mark.parametrize("content", [{"type": "text"}, [{"type": "text", "text": "Hi"}], 7])
def test_content_that_is_no_text_is_an_error_of_the_server_that_says_so(
    provider: str, server: ModelServer, content: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.simulated_model import model_dialects

    monkeypatch.setattr(model_dialects, "_cut", lambda text, breaks=(): iter([content] if text else []))
    monkeypatch.setattr(model_dialects, "len", lambda value: 1, raising=False)
    server.answer = "Hi"
    with pytest.raises(ModelError, match=f"content that is no text but {type(content).__name__}"):
        list(make_client(config_for(provider, server), surroundings=AROUND).stream(REQUEST, cancel=CancelToken()))


def test_what_stands_for_no_key_is_said_as_it_is(provider: str, server: ModelServer) -> None:
    server.answer = f"There is {NO_KEY}."
    around = Surroundings(environ={"HOME": "/root"})
    assert said_by(make_client(config_for(provider, server), surroundings=around)).startswith(server.answer)


def test_a_key_held_back_at_the_end_of_an_answer_is_given_out_with_it(provider: str, server: ModelServer) -> None:
    server.answer = f"Hi {KEY[:10]}"
    events = list(make_client(config_for(provider, server), surroundings=AROUND).stream(REQUEST, cancel=CancelToken()))
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == server.answer
    assert events[-1] == Finished("stop")
