# SPDX-License-Identifier: Apache-2.0
"""Routines survive restarts and crashes, are replaced as a whole, and a damaged file is never lost."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineError, RoutineStore, check_name, to_source


def _store(path: Path, now: float = 100.0) -> RoutineStore:
    return RoutineStore(path, clock=lambda: now)


def test_a_routine_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "coco.json"
    _store(path, 12.5).save("  触角舞 ", "waves\n both  ears", "<nod/>Hi &amp; bye")
    routine = _store(path).get("触角舞")
    assert routine is not None
    assert (routine.name, routine.description, routine.source, routine.created) == (
        "触角舞",
        "waves both ears",
        "<nod/>Hi &amp; bye",
        12.5,
    )


def test_saving_again_replaces_the_whole_routine(tmp_path: Path) -> None:
    store = _store(tmp_path / "r.json")
    store.save("a", "first", "<nod/>")
    store.save("b", "", "<sit/>")
    store.save("a", "", "<run name='b'/><nod/>")
    assert [(r.name, r.description, r.source) for r in store.list()] == [
        ("a", "", "<run name='b'/><nod/>"),
        ("b", "", "<sit/>"),
    ]
    assert [r.name for r in _store(tmp_path / "r.json").list()] == ["a", "b"]


def test_two_stores_of_one_file_see_each_other(tmp_path: Path) -> None:
    one, two = _store(tmp_path / "r.json"), _store(tmp_path / "r.json")
    one.save("a", "", "<nod/>")
    two.save("b", "", "<nod/>")
    assert [r.name for r in one.list()] == ["a", "b"]


def test_a_routine_that_a_person_revoked_is_kept_and_not_replaced_until_a_person_approves_it(tmp_path: Path) -> None:
    store = _store(tmp_path / "r.json")
    store.save("a", "", "<nod/>")
    store.revoke("a", "page (operator)")
    told = "routine 'a' was revoked by page (operator); a person has to approve it"
    other = _store(tmp_path / "r.json")
    assert other.list() == () and [r.name for r in other.list(revoked=True)] == ["a"]
    with pytest.raises(RoutineError, match=re.escape(told)):
        other.save("a", "", "<sit/>")
    assert (kept := other.get("a")) is not None and (kept.source, kept.refusal) == ("<nod/>", told)
    other.approve("a")
    assert [(r.name, r.refusal) for r in store.list()] == [("a", "")]
    for change in (store.approve, lambda name: store.revoke(name, "x")):
        with pytest.raises(RoutineError, match="there is no routine 'b'"):
            change("b")


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _store(tmp_path / "r.json")
    store.save("a", "", "<nod/>")

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RoutineError, match="no space left"):
        store.save("b", "", "<sit/>")
    assert [r.name for r in store.list()] == ["a"]
    assert [r.name for r in _store(tmp_path / "r.json").list()] == ["a"]
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[]", b'{"version": 9, "routines": []}', b"[" * 100_000])
def test_a_damaged_file_is_named_and_never_overwritten(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(damage)
    store = _store(path)
    assert store.list() == () and "r.json cannot be used" in str(store.load_error)
    with pytest.raises(RoutineError, match="mend it or move it away"):
        store.save("a", "", "<nod/>")
    assert path.read_bytes() == damage
    path.rename(tmp_path / "elsewhere.json")
    store.save("a", "", "<nod/>")
    assert [r.name for r in _store(path).list()] == ["a"] and store.load_error is None


def test_a_bad_entry_is_named_and_the_file_read_once_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    good = {"name": "a", "description": "", "source": "<nod/>", "created": 1.0}
    for bad in ({**good, "name": "<b>"}, {"name": "c"}, 7):
        path.write_text(json.dumps({"version": 1, "routines": [good, bad]}))
        store = _store(path)
        assert store.list() == () and store.load_error is not None
        path.write_text(json.dumps({"version": 1, "routines": [good]}))
        assert [r.name for r in store.list()] == ["a"] and store.load_error is None


def test_an_unreadable_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.mkdir()
    store = _store(path)
    assert store.load_error is not None
    with pytest.raises(RoutineError):
        store.save("a", "", "<nod/>")
    assert path.is_dir()


@pytest.mark.parametrize("name", ["", "  ", "<x>", 'a"b', "a\nb", "-x", "a/b", "x" * 65, "\u202eabc"])
def test_a_name_that_could_mislead_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RoutineError):
        _store(tmp_path / "r.json").save(name, "", "<nod/>")


@pytest.mark.parametrize("name", ["dance", "happy dance", "舞蹈 2", "a-b_c.1", "e\u0301te"])
def test_a_name_in_any_script_is_accepted(name: str) -> None:
    assert check_name(name)


@pytest.mark.parametrize("source", ["", " \n", "\x00", "x" * 100_001])
def test_a_source_that_could_not_be_performed_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(RoutineError):
        _store(tmp_path / "r.json").save("a", "", source)


NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_.\-]{0,8}", fullmatch=True)
TEXT = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="".join(map(chr, range(32))) + "\ufffe\uffff"), max_size=12
)
VALUES = TEXT | st.sampled_from(["\t", "a\nb", "\r\n", "]]>", "'\"<>&", "&amp;"])
ATTRS = st.dictionaries(NAMES, VALUES, max_size=3)


@st.composite
def _sequences(draw: st.DrawFn, depth: int = 0) -> list[FunctionToken]:
    tokens: list[FunctionToken] = []
    for kind in draw(st.lists(st.sampled_from(["char", "ref", "scf", "element"]), max_size=4)):
        if kind == "char":
            tokens.append(FunctionToken(TokenKind.CHAR, text=draw(VALUES)))
        elif kind == "ref":
            tokens.append(FunctionToken(TokenKind.REF, text=draw(st.sampled_from("<>&'\"\n"))))
        elif kind == "scf":
            tokens.append(FunctionToken(TokenKind.SCF, draw(NAMES), draw(ATTRS)))
        else:
            name = draw(NAMES)
            inner = draw(_sequences(depth + 1)) if depth < 3 else []
            tokens += [FunctionToken(TokenKind.AF, name, draw(ATTRS)), *inner, FunctionToken(TokenKind.RF, name)]
    return tokens


def _outline(element: ElementTree.Element) -> list[object]:
    children = [x for child in element for x in ((child.tag, dict(child.attrib), _outline(child)), child.tail or "")]
    return [element.text or "", *children]


def _expected(tokens: list[FunctionToken]) -> list[object]:
    stack: list[list[object]] = [[""]]
    for token in tokens:
        if token.kind in (TokenKind.CHAR, TokenKind.REF):
            stack[-1][-1] = f"{stack[-1][-1]}{token.text}"
        elif token.kind is TokenKind.RF:
            stack.pop()
        else:
            inner: list[object] = [""]
            stack[-1] += [(token.name, dict(token.attrs), inner), ""]
            if token.kind is TokenKind.AF:
                stack.append(inner)
    return stack[0]


@given(_sequences())
def test_the_source_of_any_tokens_reads_back_as_the_same_tree(tokens: list[FunctionToken]) -> None:
    assert _outline(ElementTree.fromstring(f"<r>{to_source(tokens)}</r>")) == _expected(tokens)


def test_activation_with_reset_and_self_contained_stay_apart() -> None:
    tokens = [
        FunctionToken(TokenKind.AF, "a"),
        FunctionToken(TokenKind.RF, "a"),
        FunctionToken(TokenKind.SCF, "a", {"x": 'a"b'}),
    ]
    assert to_source(tokens) == '<a></a><a x="a&quot;b"/>'


@pytest.mark.parametrize(
    "tokens",
    [
        [FunctionToken(TokenKind.AF, "a")],
        [FunctionToken(TokenKind.RF, "a")],
        [FunctionToken(TokenKind.AF, "a"), FunctionToken(TokenKind.RF, "b")],
        [FunctionToken(TokenKind.SCF, "a b")],
        [FunctionToken(TokenKind.SCF, "a", {"x='1' y": "2"})],
        [FunctionToken(TokenKind.CHAR, text="\x00")],
    ],
)
def test_tokens_that_are_no_sequence_are_refused(tokens: list[FunctionToken]) -> None:
    with pytest.raises(RoutineError):
        to_source(tokens)
