# SPDX-License-Identifier: Apache-2.0
"""Take a sentence apart without knowing any robot: quotations, form of address, sentences, condition and action.
English, and the plainest forms of Chinese."""

import re
from dataclasses import dataclass

_I = re.IGNORECASE
QUOTED = re.compile(r'"[^"]*"|“[^”]*”|«[^»]*»|(?<!\w)\'[^\']*\'(?!\w)')
REQUEST = re.compile(
    r"(?:(?:could|can|would|will) you(?: please| kindly)?|would you mind|i(?:'d| would) like you to|i want you to|please|"
    r"i need you to|go ahead and|let's|请你?|麻烦你?)[\s,]+",
    _I,
)
_CONDITIONS = (
    r"when(?:ever)?|if|as soon as|once(?! (?:per|an?|every|or|more|again|in)\b)|every time|each time|any ?time|while|"
    r"as long as|in case|as often as"
)
_CONDITIONS_CN = r"每当|每次|只要|一旦|当|如果|要是|若"
_JOINT = r"(?:\s*,(?!\d)\s*(?:then\s+)?|\s+then\s+|\s*:\s*)"
_FIRST = re.compile(rf"(?P<word>{_CONDITIONS})\s+(?P<condition>.+?){_JOINT}(?P<action>.+)", _I)
_LAST = re.compile(rf"(?P<action>.+?)\s*,?\s+(?P<word>{_CONDITIONS})\s+(?P<condition>.+)", _I)
_BARE = re.compile(rf"(?P<word>{_CONDITIONS})\s+(?P<condition>.+)(?P<action>)", _I)
_SHOULD = re.compile(r"(?P<word>should)\s+(?P<condition>(?!you\b|i\b|we\b).+?)\s*,\s*(?P<action>.+)", _I)
_MODAL_BEHIND = re.compile(rf"(?P<word>{_CONDITIONS})\s+(?P<condition>.+?)\s+(?P<action>(?:you|please)\s.+)", _I)
_CHINESE = tuple(
    re.compile(rf"(?P<word>{_CONDITIONS_CN})(?P<condition>.+?)(?:的时候|时)?{joint}(?P<action>.+)")
    for joint in (r"\s*[,，、]?\s*(?:就|请|则|都要|那么)", r"\s*[,，]\s*")
)
_END = re.compile(r"(?<!\d)[.!?;。！？；]+(?:\s+|$)|(?<=[。！？；])")
STEP = re.compile(r"\s*[,;]\s*(?:and\s+)?(?:then\s+)?|\s+and\s+(?:then\s+)?|\s+then\s+", _I)


@dataclass(frozen=True)
class Clause:
    """A sentence with a condition. `first`: the condition stands in front of the action."""

    word: str
    condition: str
    action: str
    first: bool


def plain(sentence: str, robot: str = "") -> str:
    """Return the sentence in one line without quotations (they are said, not meant) and without a form of address."""
    text = " ".join(QUOTED.sub("…", sentence).replace("’", "'").split())
    names = "|".join(re.escape(name) for name in (robot, "robot") if name)
    return re.sub(rf"^(?:(?:hey|hi|ok|okay|hello)[\s,]+)?(?:(?:{names})\b[\s,:!]+)?", "", text, flags=_I)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text without their full stops."""
    return [part.strip() for part in _END.split(text) if part and part.strip()]


def steps(action: str) -> int:
    """Return how many things an action asks for."""
    return len([part for part in STEP.split(action) if part.strip()])


def split(text: str) -> Clause | None:
    """Return condition and action, or None where nothing is a condition. `until` ends an action and is none."""
    text = REQUEST.sub("", text, count=1) if REQUEST.match(text) else text
    text = re.sub(r"^(?:and|but|so|also)\s+", "", text, flags=_I)
    for pattern in (_FIRST, _SHOULD, *_CHINESE, _MODAL_BEHIND, _BARE, _LAST):
        if found := pattern.fullmatch(text):
            word = " ".join(found["word"].lower().split())
            action = REQUEST.sub("", found["action"], count=1).strip()
            return Clause(word, found["condition"].strip(" ,"), action, first=pattern is not _LAST)
    return None
