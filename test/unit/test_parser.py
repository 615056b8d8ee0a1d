# SPDX-License-Identifier: Apache-2.0
"""Laws of the streaming parser: any cutting gives the same tokens, and lxml agrees on what is well-formed."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from thorough import examples

from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError, ParserLimits, Repair, TokenKind
from skill_kernel.codes import ParseCode

LAX = settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))
Event = tuple[Any, ...]

NAMES = ["walk", "a", "ear_swing", "think2", "x-y.z", "步行", "ns-é"]
TEXT = st.text(st.sampled_from("ab 1\n\t>'\"=/。，你😀\u200b!?-;#x]"), max_size=8).filter(lambda s: "]]>" not in s)
REFS = st.sampled_from(["&lt;", "&gt;", "&amp;", "&quot;", "&apos;", "&#10;", "&#xA;", "&#x1F600;", "&#0065;", "&#13;"])
VALUE = st.lists(st.one_of(st.text(st.sampled_from("ab 1\n\t\r>='/你😀{}:,"), max_size=6), REFS), max_size=3).map("".join)


@st.composite
def attribute(draw: st.DrawFn, name: str) -> str:
    value, quote = draw(VALUE), draw(st.sampled_from("\"'"))
    space = draw(st.sampled_from([" ", "  ", "\n", "\t", "\r\n"]))
    equals = draw(st.sampled_from(["=", "=", " = ", "=\n"]))
    return f"{space}{name}{equals}{quote}{value.replace(quote, '')}{quote}"


@st.composite
def tag_inside(draw: st.DrawFn) -> str:
    names = draw(st.lists(st.sampled_from(["b", "speed", "cond", "x.y", "角度"]), unique=True, max_size=3))
    return "".join(draw(attribute(name)) for name in names) + draw(st.sampled_from(["", "", " ", "\n"]))


def element(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda name, inside, body, space: f"<{name}{inside}>{body}</{name}{space}>",
        st.sampled_from(NAMES),
        tag_inside(),
        children,
        st.sampled_from(["", "", " ", "\n"]),
    )


LEAF = st.one_of(
    TEXT,
    st.sampled_from(["\r", "\r\n", "\n"]),
    REFS,
    st.builds(lambda name, inside: f"<{name}{inside}/>", st.sampled_from(NAMES), tag_inside()),
    st.sampled_from(["<!-- c -->", "<!---->", "<!-- <a> & - -->", "<![CDATA[]]>", "<![CDATA[<b>&]]]>", "<![CDATA[x]\r\n]]>"]),
)
CONTENT = st.recursive(
    LEAF, lambda inner: st.lists(st.one_of(inner, element(inner)), max_size=4).map("".join), max_leaves=12
).filter(lambda s: "]]>" not in s.replace("]]]>", "").replace("[]]>", "").replace("\n]]>", ""))
BROKEN = st.one_of(
    st.lists(
        st.sampled_from(
            """< > / </ /> & ; " ' = ! ? [ ] ]] ]]> -- ` ``` ```xml <a <a> </a> <b </b> x y=1 y="1" z='2' , “ ”
            y="f("a")" z='it's' "> "/>
            <think> </think> <!-- --> <![CDATA[ <!DOCTYPE <?x ?> &lt; &#0; &#x41; &am &foo; 你 5 a b
            . : <> < <3 </> </3 #""".split()
            + [" ", " ", "\n", "\r", "\r\n", "\0", "\n\n"]
        ),
        max_size=14,
    ).map("".join),
    CONTENT,
    st.text(max_size=20),
)


def cut(text: str, points: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(p % (len(text) + 1) for p in points)})
    return [text[a:b] for a, b in zip(edges, edges[1:])]  # noqa: B905


def joined(tokens: list[FunctionToken]) -> list[Event]:
    """Tokens without sequence numbers, adjacent text as one."""
    events: list[Event] = []
    for kind, name, attrs, text, start, end, _, _ in tokens:
        if kind is TokenKind.CHAR and events and events[-1][0] is kind and events[-1][5] == start:
            last = events.pop()
            text, start = last[3] + text, last[4]
        events.append((kind, name, dict(attrs), text, start, end))
    return events


def parse(
    pieces: list[str], mode: str = "lenient", **options: Any
) -> tuple[list[FunctionToken], list[Repair], ParseError | None]:
    parser, tokens = StreamingParser(mode, **options), []
    try:
        for piece in pieces:
            tokens += parser.feed(piece)
        tokens += parser.close()
    except ParseError as error:
        tokens += error.tokens
        return tokens, parser.take_repairs(), error
    return tokens, parser.take_repairs(), None


def result(pieces: list[str], mode: str, **options: Any) -> Event:
    tokens, repairs, error = parse(pieces, mode, **options)
    assert [token.seq for token in tokens] == list(range(len(tokens)))
    what = error and (error.code, error.message, error.offset, error.line, error.column, error.snippet)
    return joined(tokens), repairs, what


def reduced(events: list[Event]) -> list[Event]:
    """Return what lxml can tell: SCF as a pair, references and text as one."""
    out: list[Event] = []
    for kind, name, attrs, text, _, _ in events:
        if kind in (TokenKind.CHAR, TokenKind.REF):
            if out and out[-1][0] == "text":
                text = out.pop()[1] + text
            out.append(("text", text))
        else:
            if kind is not TokenKind.RF:
                out.append(("start", name, attrs))
            if kind is not TokenKind.AF:
                out.append(("end", name))
    return out


def by_lxml(text: str) -> list[Event]:
    etree = pytest.importorskip("lxml.etree")
    events: list[Event] = []

    class Target:
        def start(self, tag: str, attrs: dict[str, str]) -> None:
            events.append(("start", tag, dict(attrs)))

        def end(self, tag: str) -> None:
            events.append(("end", tag))

        def data(self, data: str) -> None:
            text = events.pop()[1] if events and events[-1][0] == "text" else ""
            if text + data:
                events.append(("text", text + data))

        def comment(self, text: str) -> None:
            pass

        def close(self) -> None:
            pass

    etree.fromstring(f"<root>{text}</root>".encode(), etree.XMLParser(target=Target(), huge_tree=True))
    return events[1:-1]


@LAX
@given(CONTENT)
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_lxml_agrees_on_well_formed_content(mode: str, text: str) -> None:
    events, repairs, error = result([text], mode, strip_fence=False)
    assert (repairs, error) == ([], None)
    assert reduced(events) == by_lxml(text)


@LAX
@given(BROKEN)
def test_strict_refuses_exactly_what_lxml_refuses(text: str) -> None:
    etree = pytest.importorskip("lxml.etree")
    try:
        text.encode()
        expected = by_lxml(text)
    except (etree.XMLSyntaxError, UnicodeEncodeError):
        expected = None
    if "<!DOCTYPE" in text or "<?" in text or ":" in text or "think" in text:
        return  # refused here on purpose, or outside what lxml knows
    events, _, error = result([text], "strict", strip_fence=False)
    assert (error is None) == (expected is not None), error
    if expected is not None:
        assert reduced(events) == expected


@pytest.mark.parametrize("text", ['<a b="""\n>', "<a b='<''\n ", '<a b=""(<x', '<a b="x"y\r\n"/>', '<a b="x"y" />'])
def test_a_quote_that_is_judged_by_what_follows_changes_no_position(text: str) -> None:
    whole = result([text], "lenient")
    assert all(result([text[:i], text[i:]], "lenient") == whole for i in range(len(text)))
    assert all(repair.column > 0 and repair.snippet in text for repair in whole[1])


@LAX
@example('<<<<!DOCTYPEy="1"<<<<<]]</a></a>y="f("a")"', [532])
@given(BROKEN, st.lists(st.integers(0, 1000), max_size=12))
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_any_cutting_gives_the_same_tokens_repairs_and_error(mode: str, text: str, points: list[int]) -> None:
    whole = result([text], mode)
    assert result(cut(text, points), mode) == whole
    assert result(list(text), mode) == whole


@LAX
@given(BROKEN, st.lists(st.integers(0, 1000), max_size=12), st.integers(1, 12))
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_any_cutting_meets_a_limit_at_the_same_place(mode: str, text: str, points: list[int], n: int) -> None:
    limits = ParserLimits(
        name_length=n, attribute_length=n, attributes=n, depth=n, reasoning_length=n, total_length=4 * n, repairs=1 + n // 6
    )
    whole = result([text], mode, limits=limits)
    assert result(cut(text, points), mode, limits=limits) == whole
    assert result(list(text), mode, limits=limits) == whole


@LAX
@given(BROKEN)
def test_lenient_mends_exactly_what_strict_refuses(text: str) -> None:
    lenient, repairs, no_error = result([text], "lenient")
    strict, _, error = result([text], "strict")
    assert no_error is None
    assert bool(repairs) == (error is not None)
    if error is None:
        assert strict == lenient


@LAX
@given(BROKEN)
def test_lenient_elements_are_nested_and_spans_are_ordered(text: str) -> None:
    tokens, _, _ = parse(list(text))
    stack, end = [], 0
    for token in tokens:
        assert end <= token.start <= token.end <= len(text)
        end = token.end
        if token.kind is TokenKind.AF:
            stack.append(token.name)
        elif token.kind is TokenKind.RF:
            assert stack.pop() == token.name
    assert not stack


@pytest.mark.parametrize("seed", range(60))
def test_random_bytes_raise_nothing_but_a_parse_error(seed: int) -> None:
    chance = random.Random(seed)
    text = chance.randbytes(chance.randrange(2000)).decode("latin-1")
    if seed % 2:
        text = "".join(chance.choice("<>&/=\"' ab;![]-?`\n\0") for _ in range(2000))
    pieces = cut(text, [chance.randrange(2001) for _ in range(chance.randrange(300))])
    assert result(pieces, "lenient") == result([text], "lenient")
    assert result(pieces, "strict") == result([text], "strict")


def test_a_stream_that_failed_fails_again_and_dispatches_nothing_more() -> None:
    parser = StreamingParser("strict")
    with pytest.raises(ParseError) as caught:
        parser.feed("<a/>hi</b><walk/>")
    assert [(token.kind, token.name) for token in caught.value.tokens] == [(TokenKind.SCF, "a"), (TokenKind.CHAR, "")]
    for call in (lambda: parser.feed("<walk/>"), parser.close):
        with pytest.raises(ParseError) as again:
            call()
        assert again.value.code is ParseCode.MISMATCHED_TAG
    assert parser.ended
