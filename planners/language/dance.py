# SPDX-License-Identifier: Apache-2.0
"""A little dance made of whatever movements the robot has, for when it was taught none."""

from __future__ import annotations

from planners.language.compose import NOTHING, Item, in_a_row, in_sequence
from planners.language.fill import CannotDo
from planners.language.match import Matcher, NotUnderstood
from planners.language.words import words_of

_FIGURES = (
    ("stand up", "smile"),
    ("wave", "nod"),
    ("lean left", "shake both ears"),
    ("lean right", "shake head"),
    ("wag bottom", "wink"),
    ("turn left 45 degrees", "nod"),
    ("turn right 45 degrees", "shake head"),
)
"""Figures of a dance; the movements of one figure are made at once where channels allow. What turns comes back."""


def compose_dance(matcher: Matcher, wait: str) -> Item:
    """The figures the robot can make, to music if it can play some; NOTHING with fewer than two movements."""
    figures: list[Item] = []
    for phrases in _FIGURES:
        moves: list[Item] = []
        for phrase in phrases:
            move = _try(matcher, phrase)
            if move is not None and not any(move.channels & other.channels for other in moves):
                moves.append(move)
        if moves:
            figures.append(in_a_row(moves))
    if len({f.source for f in figures}) < 2:
        return NOTHING
    dance = in_sequence(figures, wait)
    music = _try(matcher, "play music")
    if music is not None and music.opening and not music.channels & dance.channels:
        return music.around(dance)
    return dance


def _try(matcher: Matcher, phrase: str) -> Item | None:
    try:
        return matcher.item(words_of(phrase))
    except (NotUnderstood, CannotDo):
        return None
