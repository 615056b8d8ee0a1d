# SPDX-License-Identifier: Apache-2.0
"""Control tokens, copied marks of the prompt and placeholders reach no ear; every other text does, however it is cut."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from function_tokens.parsing.asides import MAX_NOTES, AsideFilter
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import TokenKind
from planners.prompts import blocks, prompt
from planners.prompts.blocks import MARK, MARK_BEGUN


def heard(text: str, size: int = 0) -> tuple[str, AsideFilter]:
    """Return what is left of a stream, tags by their names, fed in pieces of `size` characters (0: at once)."""
    parser, asides = StreamingParser(), AsideFilter(MARK, MARK_BEGUN)
    pieces = [text[i : i + size] for i in range(0, len(text), size)] if size else [text]
    tokens = [token for piece in pieces for token in asides.feed(parser.feed(piece))]
    tokens += [*asides.feed(parser.close()), *asides.close()]
    words = [t.text or {TokenKind.AF: "<%s>", TokenKind.RF: "</%s>"}.get(t.kind, "<%s/>") % t.name for t in tokens]
    return "".join(words), asides


@pytest.mark.parametrize("size", [0, 1, 3, 7])
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Hello!<|im_end|>", "Hello!"),
        ("<|im_end|>\n<|im_start|>user\nkeyboard<|im_end|>", "\n\nkeyboard"),
        ("<|start_header_id|>assistant<|end_header_id|>\n\nHi<|eot_id|>", "\n\nHi"),
        ("<start_of_turn>model\nHi<end_of_turn>", "\nHi"),
        ("<\uff5cbegin\u2581of\u2581sentence\uff5c>Hi<\uff5cAssistant\uff5c>", "Hi"),
        ("<s>[INST] Nod. [/INST] Yes<nod/></s>", " Nod.  Yes<nod/>"),
        ("<<SYS>>Be kind<</SYS>>", "Be kind"),
        ("&lt;|im_end|&gt;Hi", "Hi"),
        ("(no answer)", ""),
        ("<nod/>(no answer)<|im_end|><sit/>", "<nod/><sit/>"),
        ("TURN 0\nHello", "\nHello"),
        ("TURN 3: Hello", " Hello"),
        ("TURN 0 The robot nods.", " The robot nods."),
        ('OBSERVATION by the robot, now (data):\n- {"room": "lab"}\nINSTRUCTION from "the operator":\nnod', None),
        ("<wait>RESULTS of your last answer (data; what really happened):</wait>", "<wait></wait>"),
        ("LAYER stream\nYou control coco.", "\nYou control coco."),
    ],
)
def test_what_is_not_for_ears_is_left_out_and_reported(text: str, left: str | None, size: int) -> None:
    told, asides = heard(text, size)
    assert told == ('\n- {"room": "lab"}\n\nnod' if left is None else left)
    assert asides.count and asides.take_repairs()


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize(
    "text",
    [
        "I have no answer. (No answer is an answer, too.)",
        "Is 2 < 3 | 4 > 1? [see below] <nod/>a <b",
        "TURN 90 degrees to the left. TURN 90 DEGREES.",
        "STATE OF THE ART\nDONE: I sat down.\nDONE. Now I nod.",
        "He said: TURN 0",
        "Look at me [OK] (no, answer me)",
        "PLAN B: we dance.\nA TASK, a TASK!",
        "We start_of_turn nothing; the end_of_turn is near.",
        "<say>HELLO</say><sit/>WHY",
        "",
    ],
)
def test_ordinary_words_stay_as_they_are(text: str, size: int) -> None:
    told, asides = heard(text, size)
    assert told == text.replace("<b", "") and not asides.count


WORDS = [
    "Hi ",
    "<|im_end|>",
    "<nod/>",
    "\n",
    "TURN 1",
    "(no answer)",
    "PLAN:",
    "[INST]",
    "<",
    "[",
    "&lt;",
    "A",
    " user",
    "|>",
    "x",
]


@settings(max_examples=examples(400))
@given(st.lists(st.sampled_from(WORDS), max_size=8).map("".join), st.integers(1, 9))
def test_how_the_stream_is_cut_changes_nothing(text: str, size: int) -> None:
    whole, one = heard(text)
    pieces, other = heard(text, size)
    assert (whole, one.count) == (pieces, other.count)


def test_many_are_counted_and_not_reported_one_by_one() -> None:
    _, asides = heard("<|im_end|>\n" * 90)
    repairs = asides.take_repairs()
    assert len(repairs) == MAX_NOTES + 1 and "left out 90 " in repairs[-1].message


def test_every_section_of_a_prompt_is_a_mark() -> None:
    root = Path(blocks.__file__).parents[1]
    calls = [n for f in root.rglob("*.py") for n in ast.walk(ast.parse(f.read_text())) if isinstance(n, ast.Call)]
    called = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "block" and isinstance(c.args[0], ast.Constant)]
    titles = {str(c.args[0].value) for c in called if isinstance(c.args[0], ast.Constant)}
    assert len(titles) > 15
    for title in titles:
        assert heard(f"{title}:\n")[0] == heard(f"{title} (data):\n")[0] == "\n", title
    asked = prompt.build_turn_prompt("nod", turn=4, results=[prompt.CallReport("nod", {}, "DONE")])
    assert all(line.startswith(("- ", "Go on", '"nod"')) for line in heard(asked)[0].splitlines() if line.strip())
