# SPDX-License-Identifier: Apache-2.0
"""Write statements at the prompt of a console, and improve interactions, for tasks at a table of blocks and bowls.

It can read the tasks and write programs for them, and it has wrong habits. Another habit it takes only from its prompt: from
the code of an example that is like the task, or from what somebody has just said. What it got right once it has forgotten in
the next prompt, unless that shows it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.simulated_model.prompt import Question
from planners.prompts.blocks import Layer
from planners.strategies.console.api import LEARN
from planners.strategies.console.lessons import LEARNING
from planners.strategies.console.prompts import FENCE, STEPS
from planners.strategies.console.replies import is_comment
from planners.strategies.console.transcript import WAIT, Entry, read, written

LAYERS = (Layer.CONSOLE, Layer.IMPROVE, Layer.FUNCTIONS)
HEEDLESS, FORGETS, SPOILS = 0.05, 0.1, 0.05
"""Shares of the tasks in which it takes no notice of examples, of the corrections after which it does not learn by itself, and
of the improved interactions that still hold the mistake. Ours: no paper tells of such rates."""
AT_HAND = "# This is the task at hand."
"""Line of a prompt between examples and the task."""
_CONFIRMED = re.compile(r"^# Lesson \d+ is confirmed", re.MULTILINE)
_COVERED = re.compile(r"the ([\w ]+) is on the ([\w ]+); put the")
_AWAY = "for thing, spot in [({!r}, {}), ({!r}, {})]:\n    put_first_on_second(thing, denormalize_xy(spot))"
"""Makes room where a block cannot be taken because another one stands on it, and its place is needed as well."""
_ROOM = ("[0.3, 0.6]", "[0.6, 0.7]", "[0.7, 0.4]", "[0.4, 0.35]")
_CODE = re.compile(r"\[\s*(0?\.\d+|[01](?:\.\d+)?)\s*,\s*(0?\.\d+|[01](?:\.\d+)?)\s*\]")
_OFFSET = re.compile(r"[xy] [+-] (0\.\d+)")
_CENTIMETRES = re.compile(r"(\d+) ?cm")
_PLAINLY = re.compile(r"(?:yes|no|thanks?|thank you|good)\W*", re.IGNORECASE)
_KEEPS = re.compile(r"\b(?:remember|learn)\b", re.IGNORECASE)
_COLOURS = "blue|red|green|orange|yellow|pink|cyan|brown|gray|purple"
_BLOCK, _BOWL = rf"(?P<block>(?:{_COLOURS}) block)", rf"(?P<bowl>(?:{_COLOURS}) bowl)"
_PLACE = r"(?:on|in) the (?P<place>(?:top|bottom) (?:left|right) corner|(?:left|right|top|bottom) side)"
_TO = r"(?P<direction>left|right|top|bottom)"
_FAR = r"(?P<distance>closest|farthest)"
_TASKS = (
    ("beside", rf"(?:put|pick up) the {_BLOCK}.* (?P<much>a little|a lot) to the {_TO} of the {_BOWL}"),
    ("corner", rf"(?:put|pick up) the {_BLOCK}.* in the corner {_FAR} to the {_BOWL}"),
    ("direction", rf"the block to the {_TO} of the {_BOWL}.* {_PLACE}"),
    ("distance", rf"the block {_FAR} to the {_BOWL}.* {_PLACE}"),
    ("ordinal", rf"the (?P<ordinal>first|second|third|fourth) block from the {_TO}.* {_PLACE}"),
    ("place", rf"(?:put|pick up|move) the {_BLOCK}.* {_PLACE}"),
    ("bowl", rf"(?:put|pick up) the {_BLOCK}.* (?:on|in) the {_BOWL}"),
    ("block", rf"put the {_BLOCK} on the (?P<other>(?:{_COLOURS}) block)"),
    ("stack", rf"stack all the blocks {_PLACE}"),
    ("all", rf"put all the blocks {_PLACE}"),
    ("matching", r"\bmatching colors"),
    ("mismatched", r"mismatched colors"),
    ("corners", r"all the blocks in different corners"),
    ("bowls", rf"put the blocks in the {_BOWL}"),
    ("line", r"all the blocks in a (?P<line>horizontal|vertical|diagonal) line"),
)
BLOCKS = "blocks = [name for name in get_obj_names() if name.endswith('block')]"
BOWLS = "bowls = [name for name in get_obj_names() if name.endswith('bowl')]"


@dataclass(frozen=True)
class Task:
    """Hold a task as it was understood."""

    kind: str
    slots: dict[str, str]


@dataclass(frozen=True)
class Habits:
    """Hold what it does where nothing tells it otherwise: `inset`, the share of the table that it stays away from edges;
    `lot_m`, how far it takes a lot to be [m]; `differs`, whether it looks at colours where these are to differ."""

    inset: float = 0.1
    lot_m: float = 0.1
    differs: bool = False


@dataclass(frozen=True)
class Program:
    """Hold statements; of them `again` are repeated after a correction: the rest chose what has moved meanwhile."""

    statements: tuple[str, ...]
    again: tuple[str, ...]


def understood(text: str) -> Task | None:
    """Return the task that a sentence asks for, None for none."""
    for kind, pattern in _TASKS:
        if found := re.search(pattern, text.lower()):
            return Task(kind, {name: value for name, value in found.groupdict().items() if value})
    return None


def stage(question: Question) -> str:
    """Return how far a conversation is: what is drawn for it hangs on nothing else."""
    entries = _interaction(question) if question.layer is Layer.IMPROVE else _history(question)
    return "\n".join(["console", *(entry.heard for entry in entries if entry.heard is not None)])


def answer(question: Question, chance: random.Random) -> str:
    """Return the next statement, or the answer to a question about an interaction."""
    heedless, forgets, spoils = (chance.random() < share for share in (HEEDLESS, FORGETS, SPOILS))
    if question.layer is Layer.IMPROVE:
        return _improvement(question, spoils)
    if question.layer is Layer.FUNCTIONS:
        return ""
    return _statement(question, heedless, forgets)


# -- statements ---------------------------------------------------------------------------------------------------------------


def _history(question: Question) -> list[Entry]:
    return read(question.users[-1].partition(AT_HAND)[2].rpartition("\n")[0])


def _statement(question: Question, heedless: bool, forgets: bool) -> str:
    entries = _history(question)
    heard = [i for i, entry in enumerate(entries) if entry.heard is not None]
    if not heard:
        return WAIT
    said, done = entries[heard[-1]].heard or "", [e for e in entries[heard[-1] + 1 :] if not is_comment(e.code)]
    learns = f"def {LEARN}(" in question.system
    asked = [(i, task) for i in heard if (task := understood(entries[i].heard or "")) is not None]
    if _KEEPS.search(said):
        return LEARNING if learns and not done else WAIT
    if _PLAINLY.fullmatch(said) and not done and _CONFIRMED.search("\n".join(e.code for e in entries[heard[-1] :])):
        return "say('I will remember that.')"
    if _PLAINLY.fullmatch(said) or not asked:
        return WAIT
    cleared = [i + 1 for i, entry in enumerate(done) if entry.code.startswith(_AWAY[:18])]
    if done and (found := _COVERED.search(done[-1].output)):
        above, below = (_ROOM[(2 * len(cleared) + k) % len(_ROOM)] for k in range(2))
        return _AWAY.format(found[1], above, found[2], below)
    done = done[max(cleared, default=0) :]  # where room had to be made, all begins anew
    begun, task = asked[-1]
    if begun == heard[-1]:
        statements = _program(task, _by_examples(task, [] if heedless else _shown(question))).statements
    else:
        habits = _by_code(_first_try(entries, begun))
        habits = _corrected(habits, [entries[i].heard or "" for i in heard if i > begun])
        statements = _program(task, habits).again
        if learns and not forgets and not cleared:
            statements = (LEARNING, *statements)
    return (*statements, WAIT)[min(len(done), len(statements))]


def _shown(question: Question) -> list[list[Entry]]:
    """Return the examples of a prompt that are tasks, the most similar first, each up to the next thing that was said."""
    parts: list[list[Entry]] = []
    for entry in read(question.users[-1].partition(AT_HAND)[0]):
        if entry.heard is not None:
            parts.append([])
        if parts:
            parts[-1].append(entry)
    return [part for part in reversed(parts) if understood(part[0].heard or "") is not None]


# -- habits -------------------------------------------------------------------------------------------------------------------


def _by_examples(task: Task, examples: Sequence[list[Entry]]) -> Habits:
    """Return the habits of the most similar example of the same kind of task; its own where there is none."""
    for entries in examples:
        other = understood(entries[0].heard or "")
        if other is not None and other.kind == task.kind and other.slots.get("much") == task.slots.get("much"):
            return _by_code(entries)
    return Habits()


def _by_code(entries: Sequence[Entry]) -> Habits:
    """Return the habits that statements show."""
    code, habits = "\n".join(entry.code for entry in entries), Habits()
    ends = [min(x, 1 - x) for pair in _CODE.findall(code) for number in pair if (x := float(number)) != 0.5]
    if ends:
        habits = replace(habits, inset=min(ends))
    if found := _OFFSET.search(code):
        habits = replace(habits, lot_m=float(found[1]))
    return replace(habits, differs="!=" in code)


def _corrected(habits: Habits, said: Sequence[str]) -> Habits:
    """Return the habits after what somebody said of them."""
    for text in said:
        if re.search(r"\bedges?\b", text):
            habits = replace(habits, inset=0.0)
        if found := _CENTIMETRES.search(text):
            habits = replace(habits, lot_m=int(found[1]) / 100)
        if re.search(r"\bown color\b", text):
            habits = replace(habits, differs=True)
    return habits


def _first_try(entries: Sequence[Entry], begun: int) -> list[Entry]:
    """Return what was done for an instruction, up to the next thing that somebody said."""
    end = next((i for i in range(begun + 1, len(entries)) if entries[i].heard is not None), len(entries))
    return list(entries[begun:end])


# -- programs -----------------------------------------------------------------------------------------------------------------


def _program(task: Task, habits: Habits) -> Program:
    """Return the statements that do a task."""
    statements = tuple(_written(task, habits))
    if task.kind in ("direction", "distance", "ordinal"):
        return Program(statements, statements[-1:])
    if task.kind in ("all", "stack", "mismatched"):
        # What was put last stands on top.
        return Program(statements, ("blocks = blocks[::-1]", *statements[1:]))
    return Program(statements, statements)


def _written(task: Task, habits: Habits) -> Iterator[str]:
    slots, low, high = task.slots, f"{habits.inset:g}", f"{1 - habits.inset:g}"
    ends = {"left": low, "bottom": low, "right": high, "top": high}
    corners = f"corners = [[{low}, {high}], [{high}, {high}], [{low}, {low}], [{high}, {low}]]"
    place = f"denormalize_xy([{', '.join(_place(slots.get('place', ''), ends))}])"
    nearest = "argmin" if slots.get("distance") == "closest" else "argmax"
    axis, rising = (0, slots.get("direction") == "left") if slots.get("direction") in ("left", "right") else (1, False)
    match task.kind:
        case "bowl" | "block" | "place":
            second = place if task.kind == "place" else repr(slots.get("bowl") or slots["other"])
            yield f"put_first_on_second({slots['block']!r}, {second})"
        case "all" | "bowls":
            yield BLOCKS
            second = place if task.kind == "all" else repr(slots["bowl"])
            yield f"for block in blocks:\n    put_first_on_second(block, {second})"
        case "stack":
            yield BLOCKS
            yield f"put_first_on_second(blocks[0], {place})"
            yield "for i in range(1, len(blocks)):\n    put_first_on_second(blocks[i], blocks[i - 1])"
        case "matching":
            yield BLOCKS
            yield "for block in blocks:\n    put_first_on_second(block, block.replace('block', 'bowl'))"
        case "mismatched":
            yield BLOCKS
            yield BOWLS
            yield from _apart(habits)
        case "corners":
            yield BLOCKS
            yield corners
            yield "for block, corner in zip(blocks, corners):\n    put_first_on_second(block, denormalize_xy(corner))"
        case "corner":
            yield corners
            yield "places = [denormalize_xy(corner) for corner in corners]"
            yield f"bowl = np.array(get_obj_pos({slots['bowl']!r}))"
            yield "away = [np.linalg.norm(np.array(place) - bowl) for place in places]"
            yield f"put_first_on_second({slots['block']!r}, places[np.{nearest}(away)])"
        case "direction":
            yield BLOCKS
            sign = "<" if slots["direction"] in ("left", "bottom") else ">"
            yield f"bowl = get_obj_pos({slots['bowl']!r})"
            yield f"chosen = [block for block in blocks if get_obj_pos(block)[{axis}] {sign} bowl[{axis}]][0]"
            yield f"put_first_on_second(chosen, {place})"
        case "distance":
            yield BLOCKS
            yield f"bowl = np.array(get_obj_pos({slots['bowl']!r}))"
            yield "away = [np.linalg.norm(np.array(get_obj_pos(block)) - bowl) for block in blocks]"
            yield f"chosen = blocks[np.{nearest}(away)]"
            yield f"put_first_on_second(chosen, {place})"
        case "ordinal":
            yield BLOCKS
            number = ("first", "second", "third", "fourth").index(slots["ordinal"])
            rising = rising or slots["direction"] == "bottom"
            yield f"order = np.argsort([get_obj_pos(block)[{axis}] for block in blocks])"
            yield f"chosen = blocks[order[{number if rising else -1 - number}]]"
            yield f"put_first_on_second(chosen, {place})"
        case "beside":
            yield f"x, y = get_obj_pos({slots['bowl']!r})"
            offset = f"{'-' if slots['direction'] in ('left', 'bottom') else '+'} {habits.lot_m:g}"
            where = f"[x {offset}, y]" if axis == 0 else f"[x, y {offset}]"
            yield f"put_first_on_second({slots['block']!r}, {where})"
        case "line":
            yield BLOCKS
            along = {"horizontal": "[0.2 + 0.2 * i, 0.5]", "vertical": "[0.5, 0.2 + 0.2 * i]"}
            where = along.get(slots["line"], "[0.2 + 0.2 * i, 0.2 + 0.2 * i]")
            yield f"for i in range(len(blocks)):\n    put_first_on_second(blocks[i], denormalize_xy({where}))"


def _apart(habits: Habits) -> Iterator[str]:
    """Yield what puts blocks into bowls of other colours: without a look at them one after the other."""
    if not habits.differs:
        yield "for i in range(len(blocks)):\n    put_first_on_second(blocks[i], bowls[i % len(bowls)])"
        return
    yield (
        "for block in blocks:\n"
        "    others = [bowl for bowl in bowls if bowl.split()[0] != block.split()[0]]\n"
        "    put_first_on_second(block, others[blocks.index(block) % len(others)])"
    )


def _place(name: str, ends: dict[str, str]) -> tuple[str, str]:
    """Return the normalised position of a corner, or of the middle of a side."""
    words = name.split()
    across = next((ends[word] for word in words if word in ("left", "right")), "0.5")
    along = next((ends[word] for word in words if word in ("top", "bottom")), "0.5")
    return across, along


# -- improving an interaction -------------------------------------------------------------------------------------------------


def _interaction(question: Question) -> list[Entry]:
    return read(question.users[0].partition(FENCE)[2].rpartition(FENCE)[0].strip("\n"))


def _improvement(question: Question, spoils: bool) -> str:
    entries = _interaction(question)
    heard = [i for i, entry in enumerate(entries) if entry.heard is not None]
    asked = [(i, task) for i in heard if (task := understood(entries[i].heard or "")) is not None]
    step = next((k for k, text in enumerate(STEPS) if question.users[-1].endswith(text)), 0)
    if not asked:
        return "1. There is no problem."
    begun, task = asked[-1]
    before = _by_code(_first_try(entries, begun))
    after = _corrected(before, [entries[i].heard or "" for i in heard if i > begun])
    if after == before:
        return "1. There is no problem."
    if step == 0:
        return f"1. I took it wrong: {_lesson(before, after, done=True)}."
    if step == 1:
        return f"2. Next time I {_lesson(before, after)}."
    statements = _program(task, before if spoils else after).statements
    lines = [entries[begun], *(Entry("\n".join(text.split("\n"))) for text in statements), Entry(WAIT)]
    return f"3.\n{FENCE}\n{written(lines)}\n{FENCE}"


def _lesson(before: Habits, after: Habits, *, done: bool = False) -> str:
    """Return what was wrong, or what is to be done instead."""
    if after.inset != before.inset:
        return "stayed away from the edge" if done else "go to the very edge of the table for a corner or a side"
    if after.lot_m != before.lot_m:
        return "put it not far enough away" if done else f"take a lot to be {100 * after.lot_m:g} cm"
    return "did not look at the colors" if done else "look that no block comes into a bowl of its own color"
