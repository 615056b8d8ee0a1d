# SPDX-License-Identifier: Apache-2.0
"""Policies of GhostShell's three long multimodal tasks: the bottle, the mirror, and rock, paper, scissors. Each answer goes by
the picture of its turn and by what earlier answers noted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.simulated_model.prompt import Question
from bench.simulated_model.seeing import Sight, hand_shown, look

HANDS = ("rock", "paper", "scissors")
AIM_DEG, PUSH_M, STEP_CM = 7.0, 0.16, 40
LOOK = '<sleep seconds="0.5"/><observe/>'
"""The camera's newest picture may be a third of a second old."""
UPRIGHT = 2.6
"""Height over width of a bottle that stands."""
ROUNDS = 3
_NOTES = re.compile(r"<think>((?:\w+=\S+ ?)+)</think>")


@dataclass(frozen=True)
class Turn:
    """A turn of a game. `notes` are the newest of the answers before it."""

    number: int
    sight: Sight
    notes: Mapping[str, str] = field(default_factory=dict)

    def note(self, name: str) -> int:
        """Return a noted number, 0 for none."""
        return int(self.notes.get(name, "0"))

    def answer(self, stream: str, **notes: object) -> str:
        """Return a stream with the notes of the next turn before it."""
        kept = " ".join(f"{name}={value}" for name, value in {**self.notes, **notes}.items())
        return f"<think>{kept}</think>{stream}" if kept else stream


def play(question: Question) -> str | None:
    """Return the answer to a turn of one of the games; None where it is none of them, or no picture came with it."""
    game = next((policy for pattern, policy in _GAMES.items() if re.search(pattern, question.instruction, re.IGNORECASE)), None)
    if game is None or not question.images:
        return None
    noted = [dict(pair.split("=") for pair in found.split()) for text in question.said for found in _NOTES.findall(text)]
    return game(Turn(question.turn, look(question.images[-1]), noted[-1] if noted else {}))


def _bottle(turn: Turn) -> str:
    """Find it, turn to it, walk up to it, push it, and see whether it fell."""
    bottle, pushed = turn.sight.bottle, turn.note("pushed")
    if not turn.number:
        return turn.answer(f"<spider_stand/>{LOOK}", turned=0)
    if pushed and (bottle is None or bottle.cut) and turn.note("back") < 2:
        return turn.answer(f'<spider_run_distance distance="-20"/>{LOOK}', back=turn.note("back") + 1)
    if bottle is None:
        if turn.note("turned") >= 8:
            return "I cannot find a bottle.<plan_done/>"
        return turn.answer(f'<spider_rotate angle="45"/>{LOOK}', turned=turn.note("turned") + 1)
    if bottle.shape[0] < UPRIGHT and not bottle.cut:
        return "The bottle has fallen over.<plan_done/>" if pushed else "The bottle lies on the desk already.<plan_done/>"
    if abs(bottle.bearing_deg) > AIM_DEG:
        return turn.answer(f'<spider_rotate angle="{bottle.bearing_deg:.0f}"/>{LOOK}')
    if bottle.distance_m > PUSH_M:
        step = min(STEP_CM, max(4, round(100 * (bottle.distance_m - PUSH_M) + 3)))
        return turn.answer(f'<spider_run_distance distance="{step}"/>{LOOK}')
    push = f'<spider_run_distance distance="18"/><spider_run_distance distance="-25"/>{LOOK}'
    return turn.answer(push, pushed=pushed + 1, back=0)


def _mirror(turn: Turn) -> str:
    """Show a red face, then a blue one, and see whether the other's turns red and blue with it."""
    red, blue = turn.sight.red, turn.sight.blue
    if not turn.number:
        if not turn.sight.robot:
            return "I see no robot in front of me.<plan_done/>"
        return turn.answer('<display_face face="angry" duration="4"/><sleep seconds="2"/><observe/>', red=red)
    if turn.number == 1:
        rose = int(red - turn.note("red") > 20)
        return turn.answer('<display_face face="sad" duration="4"/><sleep seconds="2.5"/><observe/>', rose=rose, blue=blue)
    if turn.note("rose") and blue - turn.note("blue") > 20:
        return "Yes, that is me, in a mirror: its face changes whenever mine does.<plan_done/>"
    return "No, that is not me: its face did not change when mine did.<plan_done/>"


def _hands(turn: Turn) -> str:
    """Choose, look at the person's hand, and say who has won; three times."""
    begun, mine, theirs = turn.note("round"), turn.notes.get("mine", ""), hand_shown(turn.sight.hand)
    if not begun:
        return _next_hand(turn, "")
    if not theirs:
        if turn.note("again") >= 2:
            return "I cannot see your hand, so I give up.<plan_done/>"
        return turn.answer('Please show me your hand.<sleep seconds="2"/><observe/>', again=turn.note("again") + 1)
    ahead = (HANDS.index(mine) - HANDS.index(theirs)) % 3
    won = turn.note("won") + (ahead == 1)
    lost = turn.note("lost") + (ahead == 2)
    end = ("nobody wins", "I win", "you win")[ahead]
    told = f"You have {theirs} and I have {mine}: {end}."
    if begun == ROUNDS:
        return f"{told} In the end it is {won} to {lost} for me and you.<plan_done/>"
    return _next_hand(turn, f"{told} ", won=won, lost=lost)


def _next_hand(turn: Turn, told: str, **score: int) -> str:
    number = turn.note("round") + 1
    mine = HANDS[(5 * number + turn.sight.red + turn.sight.blue) % 3]
    said = f'{told}Rock, paper, scissors: I take {mine}!<sleep seconds="2"/><observe/>'
    return turn.answer(said, round=number, mine=mine, again=0, **score)


_GAMES: Mapping[str, Callable[[Turn], str]] = {
    r"\bbottle\b.*\bknock\b": _bottle,
    r"\brobot\b.*\byou yourself\b": _mirror,
    r"\brock, paper, scissors\b": _hands,
}
