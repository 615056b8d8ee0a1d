# SPDX-License-Identifier: Apache-2.0
"""Read which of the choices of a question an answer in plain words means."""

import re
from collections.abc import Sequence

from planners.prompts.blocks import text_beside
from skill_kernel.config.yaml_text import read_yaml

_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+(?:'[^\W_]+)*")
"""A Chinese character, or a word with its apostrophes."""


def _words(text: str) -> str:
    """Return the words in lower case, one space between them."""
    return " ".join(_WORD.findall(text.casefold().replace("’", "'")))


_SAID = read_yaml(text_beside(__file__, "choices.yaml"), strict=True)
_ALIKE = [frozenset(map(_words, group.split(","))) for group in _SAID["alike"]]
_AROUND = "|".join(map(_words, _SAID["around"].split(",")))
_BEFORE, _BEHIND = re.compile(rf"(?:(?:{_AROUND}) )+"), re.compile(rf"(?: (?:{_AROUND}))+$")


def chosen(text: str, choices: Sequence[str]) -> str | None:
    """Return the one choice that an answer means, None where it means none, or could mean several.

    Capitals, punctuation, politeness and articles do not count, and any "yes" means the choice that is one: "Yes, please!" is
    `yes`. An answer that says more ("yes, but slowly", "not the red one") means none: nobody guesses what a robot may do.
    """
    said = _words(text)
    if not said:
        return None
    for mean in (str, _bare):
        if found := dict.fromkeys(choice for choice in choices if mean(_words(choice)) == mean(said)):
            return next(iter(found)) if len(found) == 1 else None
    alike = [group for group in _ALIKE if said in group or _bare(said) in group]
    found = dict.fromkeys(choice for choice in choices for group in alike if _words(choice) in group)
    return next(iter(found)) if len(found) == 1 else None


def _bare(words: str) -> str:
    """Return words without what says nothing of the choice; all of them where nothing else is left."""
    return _BEHIND.sub("", " " + _BEFORE.sub("", words + " ", count=1).strip()).strip() or words
