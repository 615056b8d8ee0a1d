# SPDX-License-Identifier: Apache-2.0
"""The corpus of the guard: what test/unit/guard_corpus.yaml holds, and what is too long to be written out there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

_FILE = yaml.safe_load((Path(__file__).parents[1] / "unit" / "guard_corpus.yaml").read_text(encoding="utf-8"))


def rule(condition: str = "front_distance_m() < 0.2", action: str = "move_back(0.5)") -> str:
    """Return a rule whose condition is one expression and whose action is these lines."""
    lines = "\n".join(f"    {line}" for line in action.splitlines())
    return f"def condition():\n    return {condition}\n\ndef action():\n{lines}\n"


CONDITIONS: dict[str, str] = {
    "very long text": f"heard() == '{'a' * 400}'",
    "long number": f"{'9' * 500} > 1",
    "deep brackets": "(" * 200 + "True" + ")" * 200,
    "deep lists": "[" * 90 + "1" + "]" * 90 + " == 1",
    "many nots": "not " * 900 + "moving()",
    "many minuses": "-" * 3000 + "1 < 0",
    "long sum": "+".join(["1"] * 900) + " > 1",
    "many ands": " and ".join(["moving()"] * 180),
    "deep choices": "True if True else " * 150 + "True",
    "deep lambdas": "lambda: " * 150 + "True",
    "deep calls": "abs(" * 60 + "1" + ")" * 60 + " == 1",
    "deep attributes": "moving()" + ".a" * 900,
    "long name": "a" * 2000 + " == 1",
    "long line": "True " * 790,
    "megabyte": "1" * 1_000_000,
    "deep powers": "**".join(["2"] * 120) + " > 1",
    "deep not and brackets": "(not " * 11 + "moving()" + ")" * 11 + " and " + "not " * 50 + "moving()",
}

WHOLE: dict[str, str] = {
    "a third function": rule() + "\ndef helper():\n    pass\n",
    "two conditions": rule() + "\ndef condition():\n    return moving()\n",
    "module import": "import os\n" + rule(),
    "module statement": "x = 1\n" + rule(),
    "module call": rule() + "\naction()\n",
    "module text": "'hello'\n" + rule(),
    "decorator": "@stop\n" + rule(),
    "decorator call": "@eval('print')\n" + rule(),
    "parameter": rule().replace("condition()", "condition(x)"),
    "default runs code": rule().replace("action()", "action(x=stop())"),
    "star parameter": rule().replace("action()", "action(*a)"),
    "keyword parameter": rule().replace("action()", "action(**k)"),
    "annotation runs code": rule().replace("action()", "action() -> eval('1')"),
    "async condition": "async " + rule(),
    "type parameters": rule().replace("action()", "action[T]()"),
    "class": "class condition:\n    pass\n" + rule(),
    "byte order mark": "\ufeff" + rule(),
    "carriage returns": rule().replace("\n", "\r"),
    "control character": rule() + "\x1b[2J",
    "hidden line": rule() + "\u2028import os\n",
    "long code": rule() + "# " + "x" * 5000,
    "many lines": rule() + "\n" * 4500,
    "name of a builtin": rule().replace("def action", "def print"),
    "deep blocks": (
        "def condition():\n" + "".join(f"{'    ' * (i + 1)}if moving():\n" for i in range(60)) + "    " * 61 + "return True\n"
    ),
}


def hostile() -> dict[str, str]:
    """All sources to be refused, by name."""
    conditions, actions = {**_FILE["conditions"], **CONDITIONS}, _FILE["actions"]
    cases = {f"condition: {name}": rule(condition=code) for name, code in conditions.items()}
    cases |= {f"action: {name}": rule(action=code) for name, code in actions.items()}
    return cases | {f"whole: {name}": code for name, code in {**_FILE["whole"], **WHOLE}.items()}


@dataclass(frozen=True)
class Honest:
    """A rule to be accepted: whether its condition holds for SEEN, and the calls of its action."""

    condition: str
    holds: bool
    action: str = "move_back(0.5)"
    calls: tuple[str, ...] = ("move_back(distance_m=0.5)",)


GROWING: dict[str, str] = {
    name: f"def condition():\n{body}    return front_distance_m() < 1\n\ndef action():\n    move_back(0.5)\n"
    for name, code in _FILE["growing"].items()
    for body in ["".join(f"    {line}\n" for line in code.splitlines())]
}
"""Rules that the guard takes and that try to grow a number without bound, by name."""

HONEST = {
    name: Honest(**{key: tuple(value) if key == "calls" else value for key, value in case.items()})
    for name, case in _FILE["honest"].items()
}

SEEN: dict[str, object] = {
    "front_distance_m": 0.1,
    "left_distance_m": 1.5,
    "right_distance_m": 0.4,
    "back_distance_m": float("inf"),
    "nearest_distance_m": 0.1,
    "visible": {"person": True, "chair": False, "ball": True},
    "count": {"person": 2, "chair": 0, "ball": 1},
    "distance_to": {"person": 0.8, "chair": float("inf"), "ball": 2.5},
    "bearing_to": {"person": -30.0, "chair": float("nan"), "ball": 10.0},
    "people_visible": 2,
    "x_m": 3.0,
    "y_m": -1.0,
    "heading_deg": 90.0,
    "speed_mps": 0.3,
    "moving": True,
    "room": "kitchen",
    "posture": "stand",
    "battery_percent": 15.0,
    "charging": False,
    "heard": "Kalos, come HERE",
    "heard_age_s": 0.5,
    "subsystem_busy": {"movement": True, "sound": False},
}
"""Answers of the accessors in the honest cases."""
