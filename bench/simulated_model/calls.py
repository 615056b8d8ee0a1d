# SPDX-License-Identifier: Apache-2.0
"""Calls as a prompt tells of them: ended, running, or queued in steps."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.simulated_model.goals import TEXT

CONTROL = frozenset({"step", "subtask_complete", "replace_steps", "nothing", "wait", "if", "else", "plan_done", "observe"})
_TAG = re.compile(r"<([\w.:\-]+)([^<>]*?)/>")
_ATTRIBUTE = re.compile(r'([\w.:\-]+)="([^"]*)"')


@dataclass(frozen=True)
class Seen:
    """A call and how it stands: an outcome, RUNNING or QUEUED. A queued choice has branches: condition and calls."""

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    state: str = "QUEUED"
    message: str = ""
    branches: tuple[tuple[str, tuple[Seen, ...]], ...] = ()

    @property
    def pending(self) -> bool:
        return self.state in ("RUNNING", "QUEUED", "STARTED")

    @property
    def well(self) -> bool:
        """Ended as it should."""
        return self.state == "DONE"

    @property
    def bad(self) -> bool:
        return self.state in ("FAILED", "REFUSED")

    @property
    def broken(self) -> bool:
        return self.state == "INTERRUPTED"


def steps_of(source: str) -> tuple[Seen, ...]:
    """The calls of steps as they are written; what cannot be read as XML is searched for tags."""
    if not source.strip():
        return ()
    try:
        root = ET.fromstring(f"<r>{source}</r>")
    except ET.ParseError:
        return tuple(Seen(n, dict(_ATTRIBUTE.findall(a))) for n, a in _TAG.findall(source) if n not in CONTROL)
    return tuple(_inside(root))


def _inside(element: ET.Element) -> list[Seen]:
    calls: list[Seen] = []
    if element.text and element.text.strip():
        calls.append(Seen(TEXT, {"text": element.text.strip()}))
    for child in element:
        if child.tag in ("if", "else"):
            branch = (child.get("cond", "always") if child.tag == "if" else "always", tuple(_inside(child)))
            if child.tag == "else" or (calls and calls[-1].branches and calls[-1].function == "if"):
                last = calls.pop() if calls and calls[-1].function == "if" else Seen("if")
                calls.append(Seen("if", {}, "QUEUED", "", (*last.branches, branch)))
            else:
                calls.append(Seen("if", {}, "QUEUED", "", (branch,)))
        elif child.tag in CONTROL:
            calls += _inside(child)
        else:
            calls.append(Seen(child.tag, dict(child.attrib)))
        if child.tail and child.tail.strip():
            calls.append(Seen(TEXT, {"text": child.tail.strip()}))
    return calls
