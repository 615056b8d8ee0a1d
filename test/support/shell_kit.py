# SPDX-License-Identifier: Apache-2.0
"""A small skill set and an independent reference schedule for the tests of the Shell."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.dry_run import ANY_ROBOT
from function_tokens.mapper import Mapper
from skill_kernel import Content, SkillReturn, robot_skill
from skill_kernel.robot import SubsystemConfig
from skill_kernel.skills.registry import SkillRegistry


@robot_skill("walk", subsystem="legs", nominal_s=lambda s: s, stop_s=0.0)
def walk(s: float = 1.0) -> SkillReturn:
    """Walk for some seconds."""


@robot_skill("turn", subsystem="legs", nominal_s=lambda s: s, stop_s=0.0)
def turn(s: float = 1.0) -> SkillReturn:
    """Turn for some seconds."""


@robot_skill("spin", subsystem="legs", nominal_s=30.0, stop_s=0.0)
def spin() -> SkillReturn:
    """Spin until reset."""


@robot_skill("nod", subsystem="head", nominal_s=lambda s: s, stop_s=0.0)
def nod(s: float = 1.0) -> SkillReturn:
    """Nod."""


@robot_skill("swing", subsystem="ear_{side}", nominal_s=lambda side, s: s, stop_s=0.0)
def swing(side: str = "left", s: float = 1.0) -> SkillReturn:
    """Swing an ear."""


@robot_skill("both_ears", subsystem=("ear_left", "ear_right"), nominal_s=lambda s: s, stop_s=0.0)
def both_ears(s: float = 1.0) -> SkillReturn:
    """Swing both ears."""


@robot_skill("music", subsystem="bgm", nominal_s=60.0, stop_s=0.0)
def music() -> SkillReturn:
    """Play music until reset."""


@robot_skill("note", subsystem="board", nominal_s=lambda text: float(len(text)), stop_s=0.0)
def note(text: Content) -> SkillReturn:
    """Write something on the board."""


@robot_skill("ping", nominal_s=1.0, stop_s=0.0)
def ping() -> SkillReturn:
    """Something that disturbs nobody."""


@robot_skill("kneel", subsystem="legs", nominal_s=3.0)
def kneel() -> SkillReturn:
    """Atomic: it cannot be stopped on the way."""
    done = "down"
    return SkillReturn(True, done)


@robot_skill("ask", subsystem=(), nominal_s=5.0, stop_s=0.0, decides=True)
def ask(question: Content = "") -> SkillReturn:
    """Ask somebody; what comes next depends on the answer."""


SKILLS = SkillRegistry([f.__robot_skill__ for f in (walk, turn, spin, nod, swing, both_ears, music, note, ping, kneel, ask)])


def mapper() -> Mapper:
    """Return a mapper over the small skill set; bgm is shared, the rest exclusive."""
    shared, parallel = (SubsystemConfig(exclusive_per_process=False, parallel=parallel) for parallel in (False, True))
    subsystems = {"bgm": shared, "default": parallel, "DEFAULT": parallel}
    return Mapper(ANY_ROBOT.model_copy(update={"subsystems": subsystems}), SKILLS)


@dataclass(eq=False)
class Node:
    """A call of a random tree: `kind` is scf, af, text or wait; `duration` is its body's length in seconds."""

    kind: str
    name: str = ""
    attrs: dict[str, str] = field(default_factory=dict)
    channels: frozenset[str] = frozenset()
    duration: float = 0.0
    children: list[Node] = field(default_factory=list)
    parent: Node | None = None
    start: float = 0.0
    end: float = 0.0

    def ancestors(self) -> list[Node]:
        """Return the elements around it, innermost first."""
        found, node = [], self.parent
        while node is not None:
            found.append(node)
            node = node.parent
        return found

    def source(self) -> str:
        """Return the stream that stands for it."""
        attrs = "".join(f' {k}="{v}"' for k, v in self.attrs.items())
        inner = "".join(c.source() for c in self.children)
        if self.kind == "text":
            return "Hello."
        return f"<{self.name}{attrs}/>" if self.kind == "scf" else f"<{self.name}{attrs}>{inner}</{self.name}>"


def reference_schedule(roots: list[Node]) -> list[Node]:
    """Start and end of every call by the laws C1 to C8 read literally, everything having arrived at time 0.

    In token order: a call starts when its parent has started and every earlier call that is not around it and shares a
    channel with it, or is on main, has ended. An element ends with its last child, a body after its duration.
    """
    order: list[Node] = []

    def visit(node: Node) -> None:
        around = node.ancestors()
        earlier = [o for o in order if o not in around]
        blockers = [o.end for o in earlier if o.channels & node.channels or "main" in o.channels]
        node.start = max([0.0, *(a.start for a in around[:1]), *blockers])
        node.end = node.start + (node.duration if node.kind in ("scf", "text") else 0.0)
        order.append(node)
        for child in node.children:
            visit(child)
        if node.kind in ("af", "wait"):
            node.end = max([node.start, *(c.end for c in node.children)])

    for root in roots:
        visit(root)
    return order
