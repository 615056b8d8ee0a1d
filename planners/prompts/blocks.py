# SPDX-License-Identifier: Apache-2.0
"""Write the blocks of which prompts are made: a title, and below it one quoted JSON value a line, so that a prompt can be
read back without guessing."""

import json
import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

MAX_QUOTED = 2000
"""Longest text quoted whole, in characters; more is cut and the cut is named."""

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that show nothing, as ranges of a regular expression: those that format, and Default_Ignorable_Code_Point."""
_HARMFUL = re.compile(f"[<>&`\u007f-\u009f\u2028\u2029\ud800-\udfff{INVISIBLE}]")


def quoted(value: Any, limit: int = MAX_QUOTED) -> str:
    """Return a value as JSON on one line without angle brackets, control or invisible characters; JSON reads the same value
    back.

    Texts longer than `limit` characters are cut; what is no JSON value is quoted as its text.
    """
    text = json.dumps(_shortened(value, limit), ensure_ascii=False, default=str)
    return _HARMFUL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1] if ord(match.group()) > 0x7F else f"\\u{ord(match.group()):04x}"


def _shortened(value: Any, limit: int) -> Any:
    if isinstance(value, str) and len(value) > limit:
        return f"{value[:limit]}… [{len(value) - limit} more characters cut]"
    if isinstance(value, dict):
        return {str(k): _shortened(v, limit) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shortened(v, limit) for v in value]
    return value


def _one_line(text: str) -> str:
    return " ".join(re.sub(f"[\\s\u007f-\u009f\u2028\u2029\ud800-\udfff{INVISIBLE}]", " ", text[:MAX_QUOTED]).split())


class Layer(str, Enum):
    """Name who asks a model. The value stands in the first line of its prompt, in events and in usage."""

    S1P = "s1p"
    S1 = "s1"
    S2 = "s2"
    S3 = "s3"
    JUDGE = "judge"
    STREAM = "stream"
    REACT = "react"
    PLAN_AND_EXECUTE = "plan_and_execute"
    OBSERVER = "observer"
    SUMMARIZER = "summarizer"
    PLANNER = "planner"
    CRITIC = "critic"
    MANAGER = "manager"
    PERCEIVER = "perceiver"
    ASSIGNER = "assigner"
    VALIDATOR = "validator"
    CONSOLE = "console"
    FUNCTIONS = "functions"
    IMPROVE = "improve"

    def __str__(self) -> str:
        return self.value


def text_beside(module: str, name: str) -> str:
    """Return the text of a file beside a module; of a module that is linked to, beside what the link leads to."""
    return Path(module).resolve().with_name(name).read_text(encoding="utf-8")


_SECTIONS = (
    "ACTION|ASSIGNED|BEGAN|BELIEF|CLAIM|CLARIFIED|CLARIFY|CONDITION|DONE|EARLIER|EVENTS|FAULTS|FEEDBACK|FIRED"
    "|GUIDELINES|HISTORY|IMAGES|INSTRUCTION|MAY ADD|MEMORY|NAMES|NUMBER|OBSERVATION|PEOPLE|PERCEPTION|PLACES|PLAN|PROCESSES"
    "|PROPOSE|QUEUE|REFLECTION|RESULTS|REVIEW|ROBOTS|ROUTINES|RUNNING|SAID|SEEN|SETTLED|STEPS|STILL RUNNING"
    "|SUBGOAL|SUBTASK|TASK|WHY"
)
_BESIDE = r"(?: (?:of|by|from|in) [^:\n]{0,80}?)?"
MARK = (
    r"TURN \d{1,3}(?= *(?:[\n.:,;]|\Z|[A-Z][a-z]))[.:,;]?|LAYER \w{1,20}(?= *(?:\n|\Z))"
    rf"|(?:{_SECTIONS}){_BESIDE}(?: \([^)\n]{{0,80}}\))?:(?= *(?:\n|\Z))"
)
"""Pattern of the marks that stand at the beginning of a prompt's lines, as a model copies them into its answer."""
MARK_BEGUN = (
    r"[A-Z]{1,12}(?: [A-Z]{0,8})?|TURN \d{0,3} *[A-Z]?|LAYER \w{0,20} *"
    rf"|(?:{_SECTIONS})(?: [a-z]{{0,4}}| (?:of|by|from|in) [^:\n]{{0,80}})?(?: \([^)\n]{{0,80}}\)?)?:? *"
)
"""Pattern of what may become one."""


def front(layer: Layer) -> str:
    """Return the first line of a system prompt."""
    return f"LAYER {layer.value}\n"


def block(title: str, items: Iterable[Any], note: str = "", *, own: bool = False) -> str:
    """Return a title in capitals with a note on what it holds, and one item a line; empty text without items. Texts that are
    the model's `own` tags stand as it wrote them, all else is quoted."""
    lines = [f"- {_one_line(item) if own and isinstance(item, str) else quoted(item)}\n" for item in items]
    return f"{title}{f' ({note})' if note else ''}:\n{''.join(lines)}" if lines else ""
