# SPDX-License-Identifier: Apache-2.0
"""Streams as models write them: what is dispatched, what is mended, what ends a strict stream, and when."""

from __future__ import annotations

import time

import pytest

from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError, ParserLimits, TokenKind
from skill_kernel.codes import ParseCode


def shown(tokens: list[FunctionToken]) -> str:
    """Tokens as one line: tags as `<a b=v>`, text and references as they read."""
    parts = []
    for kind, name, attrs, text, *_ in tokens:
        written = "".join(f" {key}={value}" for key, value in attrs.items())
        parts.append(
            {TokenKind.AF: f"<{name}{written}>", TokenKind.SCF: f"<{name}{written}/>", TokenKind.RF: f"</{name}>"}.get(
                kind, text
            )
        )
    return "".join(parts)


def lenient(text: str) -> tuple[str, list[str]]:
    """Return what a lenient parser makes of a stream fed character by character, and the names of the repairs' codes."""
    parser = StreamingParser()
    tokens = [token for char in text for token in parser.feed(char)] + parser.close()
    return shown(tokens), [repair.code.name for repair in parser.take_repairs()]


def violation(text: str, **limits: int) -> ParseError:
    parser = StreamingParser("strict", ParserLimits(**limits))
    with pytest.raises(ParseError) as caught:
        parser.feed(text)
        parser.close()
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a/>", "<a/>"),
        ("Hi <walk  speed = '5'\n\td=\"x>y\" />there", "Hi <walk speed=5 d=x>y/>there"),
        ("<say>it&apos;s 1 &lt; 2 &amp; &#20320;&#x1F600;</say >", "<say>it's 1 < 2 & 你😀</say>"),
        ("<a b='1&#10;2\n3\t&quot;'/>", '<a b=1\n2 3 "/>'),
        ("<跳舞 风格='华尔兹'>一二三</跳舞>", "<跳舞 风格=华尔兹>一二三</跳舞>"),
        ("<a>x<!-- <walk/> -->y<![CDATA[<z/>&amp;]]></a>", "<a>xy<z/>&amp;</a>"),
        ("a\r\nb\rc", "a\nb\nc"),
        ('<set json="{&quot;a&quot;: [1, 2]}" other=\'{"b": 1}\'/>', '<set json={"a": [1, 2]} other={"b": 1}/>'),
        ("<Walk/><br/><ns:x ns:y='1'/>", "<Walk/><br/><ns:x ns:y=1/>"),
        ("<response>\n<nod/> \u200bHi “you”</response>", "<response>\n<nod/> \u200bHi “you”</response>"),
        ("<think>walk? <walk/> </thin </think x></think\n>Hello", "Hello"),
        ("<thinking depth='3'>a < b && c</thinking><a/>", "<a/>"),
        ("<a><think>b</a></think>c</a><think/>", "<a>c</a>"),
        ("```xml\n<walk/>\n```", "\n<walk/>\n"),
        ("Sure:\n  ```\n<walk/>\n  ``` \nDone", "Sure:\n  \n<walk/>\n  \nDone"),
        ("<think>x</think>```xml\n<a/>```", "\n<a/>"),
        ("```<walk/>```", "<walk/>"),
        ("`code` and ``` here", "`code` and ``` here"),
        ("``x", "``x"),
        ("```this is no fence", "```this is no fence"),
        ("<say>\n```\n</say>", "<say>\n```\n</say>"),
    ],
)
def test_well_formed_streams_are_read_alike_in_both_modes(text: str, expected: str) -> None:
    assert lenient(text) == (expected, [])
    strict = StreamingParser("strict")
    assert shown(strict.feed(text) + strict.close()) == expected


@pytest.mark.parametrize(
    ("text", "expected", "codes"),
    [
        ("if a < b", "if a < b", ["SYNTAX"]),
        ("x<3 <3", "x<3 <3", ["SYNTAX", "SYNTAX"]),
        ("R&D ", "R&D ", ["UNKNOWN_REFERENCE"]),
        ("AT&T; &nbsp; a && b", "AT&T; &nbsp; a && b", ["UNKNOWN_REFERENCE"] * 2 + ["SYNTAX"] * 2),
        ("salt & pepper &", "salt & pepper &", ["SYNTAX", "UNCLOSED"]),
        ("a &lt", "a &lt", ["UNCLOSED"]),
        ("x&#0;&#xD800;y", "xy", ["INVALID_CHARACTER"] * 2),
        ("a\0b\x0b<wa\0lk/>", "ab<walk/>", ["INVALID_CHARACTER"] * 3),
        ("x]]>y", "x]]>y", ["SYNTAX"]),
        ("<a><b>x</a>y", "<a><b>x</b></a>y", ["MISMATCHED_TAG"]),
        ("<a>x</b></a></a></think>", "<a>x</a>", ["MISMATCHED_TAG"] * 3),
        ("<a>x</>y", "<a>x</a>y", ["SYNTAX"]),
        ("<a>x</ a>y", "<a>x</a>y", ["SYNTAX"]),
        ("<a>x</a b='1'>y", "<a>x</a>y", ["SYNTAX"]),
        ("<a>x</a<b/>", "<a>x</a><b/>", ["SYNTAX"]),
        ("<a>x</3", "<a>x</3</a>", ["SYNTAX", "UNCLOSED"]),
        ("<walk speed=50>x", "<walk speed=50>x</walk>", ["SYNTAX", "UNCLOSED"]),
        ("<walk speed=50/>", "<walk speed=50/>", ["SYNTAX"]),
        ("<get url=http://x/y?z=1/>", "<get url=http://x/y?z=1/>", ["SYNTAX"]),
        ("<walk speed='5'angle='3'/>", "<walk speed=5 angle=3/>", ["SYNTAX"]),
        ("<walk speed='5', angle='3' />", "<walk speed=5 angle=3/>", ["SYNTAX"]),
        ("<walk speed=“50”/>", "<walk speed=50/>", ["SYNTAX"]),
        ("<walk speed='5' / >", "<walk speed=5/>", ["SYNTAX"]),
        ("<music loop/>", "<music loop=true/>", ["SYNTAX"]),
        ("<a b='1' b='2'/>", "<a b=1/>", ["DUPLICATE_ATTRIBUTE"]),
        ("<if cond='battery < 20'/>", "<if cond=battery < 20/>", ["SYNTAX"]),
        ("<say text='you & me &copy;'/>", "<say text=you & me &copy;/>", ["SYNTAX", "UNKNOWN_REFERENCE"]),
        ("x <y and so. <nod/>", "x <y and so. <nod/>", ["SYNTAX"]),
        ("mail <me@home.org>", "mail <me@home.org>", ["SYNTAX"]),
        ("see <http://home.org>", "see <http://home.org>", ["SYNTAX"]),
        ("<walk speed='5'/<nod/>", "<walk speed=5/><nod/>", ["SYNTAX"]),
        ("<?xml version='1.0'?><a/><? no", "<a/><? no", ["FORBIDDEN_MARKUP", "SYNTAX"]),
        ("<!DOCTYPE a [<!ENTITY b ']>'><!-- ]> --><?p ]>?>]>x", "x", ["FORBIDDEN_MARKUP"]),
        ("<!doctype html>x<!a>", "x<!a>", ["FORBIDDEN_MARKUP", "SYNTAX"]),
        ("a<!-- b -- c --->d", "ad", ["SYNTAX", "SYNTAX"]),
        ("a<!-- b", "a", ["UNCLOSED"]),
        ("a<![CDATA[b]", "ab]", ["UNCLOSED"]),
        ("a<think>b", "a", ["UNCLOSED"]),
        ("a<walk speed='5'", "a", ["UNCLOSED"]),
        ("a<", "a", ["UNCLOSED"]),
        ("<a><b>x", "<a><b>x</b></a>", ["UNCLOSED", "UNCLOSED"]),
        # A quote inside a value of such quotes, where what follows shows that it is one.
        ('<if cond="visible("ball")"/>x', '<if cond=visible("ball")/>x', ["SYNTAX"]),
        ('<if cond="near("x") and in("hall")"/>', '<if cond=near("x") and in("hall")/>', ["SYNTAX"]),
        ('<say text="He said "hi" to me" loud="yes"/>', '<say text=He said "hi" to me loud=yes/>', ["SYNTAX"]),
        ("<say text='I don't know' loud/>", "<say text=I don't know loud=true/>", ["SYNTAX", "SYNTAX"]),
        ("<say text='the 'big' one' loud='yes'/>", "<say text=the 'big' one loud=yes/>", ["SYNTAX"]),
        # An attribute right behind the value, a tag that ends before the quote, a value whose end was forgotten.
        ('<a b="1"c="2"/>', "<a b=1 c=2/>", ["SYNTAX"]),
        ('<a b="1"c d="2"/>', "<a b=1 c=true d=2/>", ["SYNTAX", "SYNTAX"]),
        ('<a b="1"c>say "x"<d e="f"/>', '<a b=1 c=true>say "x"<d e=f/></a>', ["SYNTAX", "SYNTAX", "UNCLOSED"]),
        ('<a b="1"c d/>say "x"/>', '<a b=1 c=true d=true/>say "x"/>', ["SYNTAX"] * 3),
        ('<a b="1"/>say "x" <d/>', '<a b=1/>say "x" <d/>', []),
    ],
)
def test_a_lenient_stream_is_mended_and_says_so(text: str, expected: str, codes: list[str]) -> None:
    assert lenient(text) == (expected, codes)
    if codes:
        assert violation(text).code.name in {*codes, "SYNTAX"}  # strict reads '&D' on to see what it would have been


@pytest.mark.parametrize(
    "text",
    [
        "<if a='1' @='2'><walk/></if>",
        "<if a='1' <walk/></if>",
        "<if a='x' y'><walk/></if>",
        '<if a="hi"! b="low"><walk/></if>',
        '<if a="count("x") > 2"><walk/></if>',
        '<if a="hello/>He said "hi"><walk/></if>',
        '<if a="x\n he said "y" z"><walk/></if>',
        "<if a='x('y')><walk/></if>",
        "<if a='x('y')\n z='b'><walk/></if>",
    ],
)
def test_a_start_tag_nobody_understands_keeps_what_is_in_it_and_cannot_be_called(text: str) -> None:
    tokens, codes = lenient(text)
    assert tokens.endswith("<walk/></if>")
    assert set(codes) == {"SYNTAX"}
    first = StreamingParser().feed(text)[0]
    assert first.kind is TokenKind.AF
    assert any(not name.isidentifier() for name in first.attrs)


@pytest.mark.parametrize(
    ("text", "code", "offset", "line", "column", "completed"),
    [
        ("ok\n<a>x</b>", "MISMATCHED_TAG", 7, 2, 5, "ok\n<a>x"),
        ("</a>", "MISMATCHED_TAG", 0, 1, 1, ""),
        ("a\n b & c<d/>", "SYNTAX", 5, 2, 4, "a\n b "),
        ("<a b='1' b='2'/>", "DUPLICATE_ATTRIBUTE", 13, 1, 14, ""),
        ("<x/>&copy;", "UNKNOWN_REFERENCE", 4, 1, 5, "<x/>"),
        ("<x a='1\n2&copy;'/>", "UNKNOWN_REFERENCE", 9, 2, 2, ""),
        ("a\0", "INVALID_CHARACTER", 1, 1, 2, "a"),
        ("&#x0;", "INVALID_CHARACTER", 0, 1, 1, ""),
        ("<!DOCTYPE a>", "FORBIDDEN_MARKUP", 0, 1, 1, ""),
        ("hi<?php ?>", "FORBIDDEN_MARKUP", 2, 1, 3, "hi"),
        ("<a>x", "UNCLOSED", 4, 1, 5, "<a>x"),
        ("<a>x</a", "UNCLOSED", 7, 1, 8, "<a>x"),
    ],
)
def test_a_violation_tells_code_place_and_text(
    text: str, code: str, offset: int, line: int, column: int, completed: str
) -> None:
    parser, tokens = StreamingParser("strict"), []
    with pytest.raises(ParseError) as caught:
        for char in text:
            tokens += parser.feed(char)
        parser.close()
    error = caught.value
    assert (error.code.name, error.offset, error.line, error.column) == (code, offset, line, column)
    assert shown([*tokens, *error.tokens]) == completed
    assert error.snippet and text.startswith(error.snippet)
    assert error.message


def test_each_token_leaves_with_the_character_that_completes_it() -> None:
    parser = StreamingParser()
    text = "Hi <walk speed='5'/>x&lt;<a>]b</a>"
    came = [(i, token) for i, char in enumerate(text, 1) for token in parser.feed(char)]
    for i, token in came:
        if token.text != "]":  # it waits for one character: it might begin `]]>`
            assert i == token.end
    assert shown([token for _, token in came]) == "Hi <walk speed=5/>x<<a>]b</a>"


@pytest.mark.parametrize("text", ["a < b", "x<3", "R&D", "a & b", "`a", "]a", "<y, And", "<5", "&nbsp", "<!z", "<me@"])
def test_what_is_known_to_be_text_is_not_held_back(text: str) -> None:
    parser = StreamingParser()
    assert shown([token for char in text for token in parser.feed(char)]) == text


@pytest.mark.parametrize("number", [2, 3, 64, 100, 127, 128, 129, 130, 200, 300])
@pytest.mark.parametrize("behind", ["\n", "json" + " " * 30 + "\n", "x", "<a/>", ""])
def test_a_fence_of_any_length_does_not_depend_on_the_cut(number: int, behind: str) -> None:
    text = "`" * number + behind + "a\n" + "`" * number
    whole = StreamingParser()
    expected = shown(whole.feed(text) + whole.close())
    assert lenient(text)[0] == expected
    for size in (2, 3, 40, 129):
        parser = StreamingParser()
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        assert shown([token for piece in pieces for token in parser.feed(piece)] + parser.close()) == expected
    if number > 128:
        assert expected == text


def test_namespaces_are_unknown() -> None:
    text = "<a xmlns='u' xmlns:p='v' p:b='1' xml:lang='en'><p:c/></a>"
    assert lenient(text) == ("<a xmlns=u xmlns:p=v p:b=1 xml:lang=en><p:c/></a>", [])


def test_a_value_that_lxml_cannot_read_ends_the_stream() -> None:
    """Lxml reads values of ten million characters at most, whatever the limits allow."""
    parser = StreamingParser(limits=ParserLimits(attribute_length=2**30, total_length=2**30))
    assert parser.feed("<a b='") == parser.feed("x" * 10_000_001) == parser.feed("'/>") == []
    assert [repair.code for repair in parser.take_repairs()] == [ParseCode.LIMIT_EXCEEDED]
    assert parser.ended


def test_tokens_carry_stream_sequence_and_spans() -> None:
    parser = StreamingParser(stream_id="s1")
    tokens = parser.feed("<a>x&amp;") + parser.feed("y</a>") + parser.close()
    assert [token.seq for token in tokens] == [0, 1, 2, 3, 4]
    assert {token.stream_id for token in tokens} == {"s1"}
    assert [(token.start, token.end) for token in tokens] == [(0, 3), (3, 4), (4, 9), (9, 10), (10, 14)]


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("name_length", "<aaaa>"),
        ("name_length", "<a bbbb='1'>"),
        ("name_length", "</aaaa>"),
        ("name_length", "&#0065;"),
        ("attribute_length", "<a b='1234'>"),
        ("attributes", "<a a='' b='' c='' d=''/>"),
        ("depth", "<a><a><a><a>"),
        ("reasoning_length", "<think>1234</think>"),
        ("total_length", "1234"),
    ],
)
def test_past_a_limit_the_stream_ends(limit: str, text: str) -> None:
    assert violation(text, **{limit: 3}).code is ParseCode.LIMIT_EXCEEDED
    parser = StreamingParser(limits=ParserLimits(**{limit: 3}))
    tokens = [token for char in text for token in parser.feed(char)]
    assert parser.ended
    assert [repair.code for repair in parser.take_repairs()] == [ParseCode.LIMIT_EXCEEDED]
    assert parser.feed("<walk/>") == parser.close() == []
    assert sum(t.kind is TokenKind.AF for t in tokens) == sum(t.kind is TokenKind.RF for t in tokens)


def test_repeated_repairs_are_summed_up_at_the_end() -> None:
    parser = StreamingParser(limits=ParserLimits(repairs=3))
    for _ in range(1000):
        parser.feed("\0\0")
    assert len(parser.take_repairs()) == 3
    parser.close()
    (rest,) = parser.take_repairs()
    assert (rest.code, rest.count) == (ParseCode.INVALID_CHARACTER, 1997)


@pytest.mark.parametrize("depth", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_levels_do_not_recurse(depth: int) -> None:
    parser = StreamingParser("strict", ParserLimits(depth=depth))
    tokens = parser.feed("<a>" * depth) + parser.feed("</a>" * depth) + parser.close()
    assert len(tokens) == 2 * depth
    mended = StreamingParser(limits=ParserLimits(depth=depth))
    mended.feed("<a>" * depth)
    assert len(mended.close()) == depth


@pytest.mark.parametrize(
    ("opening", "body"),
    [
        ("<a b='", "1>2 "),
        ("<a b='", "&lt;"),
        ("<a b='", "'x' "),
        ("<a b='", "'x"),
        ("<a b='x'", "y'  "),
        ("<a b='x", "'" * 4),
        ("<a b='x", "'y'z"),
        ("<a b='1' c=", "xyzw"),
        ("<a ", "    "),
        ("<!-- ", "- - "),
        ("<![CDATA[", "]]] "),
        ("<!DOCTYPE a [", "<!a>"),
        ("<?p ", "? > "),
        ("<think>", "</th"),
        ("", "&amp"),
        ("", "````"),
        ("", "]]]]"),
        ("", "\0\0\0\0"),
        ("", "<<<<"),
        ("", "</b>"),
    ],
)
def test_time_grows_with_the_text_only(opening: str, body: str) -> None:
    def cost(count: int) -> float:
        limits = ParserLimits(attribute_length=10**9, reasoning_length=10**9, total_length=10**9)
        parser = StreamingParser(limits=limits)
        parser.feed(opening)
        began = time.process_time()
        for _ in range(count):
            parser.feed(body)
        parser.close()
        return time.process_time() - began

    once = min(cost(250) for _ in range(3))
    assert cost(5_000) < 60 * once + 0.1
