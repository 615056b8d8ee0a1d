# SPDX-License-Identifier: Apache-2.0
"""Systematic mutations of a stream of function tokens, and when such a mutant is no mutation at all.

A mutant counts as equivalent, and only then, when the robot does the same at the same times as in the original: the
same calls with the same arguments, channels, times and outcomes, and the same routines kept. Calls of one class of
interchangeable calls count as the same call, a `wait` as none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from bench.calls import CallRun
from bench.performing import Performance, Robot
from bench.scoring import Shape
from function_tokens.builtins import BUILTINS
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import TokenKind
from planners.prompts.prompt import Declared, declared
from skill_kernel.skills.skill import Skill

OTHER_WORDS = "Bananas are yellow."


@dataclass
class Node:
    """An element, or a piece of text when it has no name."""

    name: str = ""
    attrs: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: list[Node] = field(default_factory=list)
    empty: bool = True

    def source(self) -> str:
        """Return the stream that the node stands for."""
        if not self.name:
            return escape(self.text, quote=False)
        attrs = "".join(f' {name}="{escape(value)}"' for name, value in self.attrs.items())
        if self.empty:
            return f"<{self.name}{attrs}/>"
        return f"<{self.name}{attrs}>{''.join(c.source() for c in self.children)}</{self.name}>"


def tree(stream: str) -> Node:
    """Return the stream as a tree below a nameless root; raises ParseError where it is not well-formed."""
    root = Node(empty=False)
    path = [root]
    parser = StreamingParser("strict")
    for token in [*parser.feed(stream), *parser.close()]:
        siblings = path[-1].children
        if token.kind in (TokenKind.CHAR, TokenKind.REF):
            if siblings and not siblings[-1].name:
                siblings[-1].text += token.text
            elif token.text.strip():
                siblings.append(Node(text=token.text))
        elif token.kind is TokenKind.RF:
            path.pop()
        else:
            node = Node(token.name, dict(token.attrs), empty=token.kind is TokenKind.SCF)
            siblings.append(node)
            if not node.empty:
                path.append(node)
    return root


def mutants(stream: str, robot: Robot) -> Iterator[tuple[str, str]]:
    """Every mutant with a description: calls dropped, unwrapped, un-nested, swapped with their neighbour, given to
    another function or channel, each argument changed or left out, each text replaced."""
    root = tree(stream)
    for parent in list(_elements(root)):
        original = list(parent.children)
        for what, siblings in _of_siblings(original, robot):
            parent.children = siblings
            yield what, "".join(c.source() for c in root.children)
        parent.children = original


def equivalent(first: Performance, second: Performance, classes: Mapping[str, Sequence[Shape]]) -> bool:
    """Return whether the robot does the same at the same times in both, and has learned the same."""
    return _seen(first, classes) == _seen(second, classes)


def _elements(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        if child.name and not child.empty:
            yield from _elements(child)


def _of_siblings(original: list[Node], robot: Robot) -> Iterator[tuple[str, list[Node]]]:
    for i, node in enumerate(original):
        before, after = original[:i], original[i + 1 :]
        label = node.name or repr(node.text.strip()[:20])
        yield f"drop {label} [{i}]", [*before, *after]
        if after:
            yield f"swap {label} [{i}] with the next", [*before, after[0], node, *after[1:]]
        if not node.name:
            yield f"other words for {label}", [*before, Node(text=OTHER_WORDS), *after]
            continue
        if not node.empty:
            yield f"unwrap {label} [{i}]", [*before, *node.children, *after]
            yield f"un-nest {label} [{i}]", [*before, Node(node.name, node.attrs), *node.children, *after]
        for what, changed in _changed(node, robot):
            yield what, [*before, changed, *after]


def _changed(node: Node, robot: Robot) -> Iterator[tuple[str, Node]]:
    builtin = BUILTINS.get(robot.config.builtin_names.get(node.name, node.name))
    skill = builtin or robot.registry.get(node.name)
    if skill is None:
        raise ValueError(f"<{node.name}> is no function of {robot.config.name}; correct the reference stream")
    if builtin is None:
        for other in _others(skill, robot):
            attrs = {p.name: p.choices[0] for p in declared(other) if p.required}
            attrs.update({k: v for k, v in node.attrs.items() if k == "sync"})
            yield f"{other.name} instead of {node.name}", Node(other.name, attrs, "", node.children, node.empty)
    known = {p.name: p for p in declared(skill, robot.config.limits)}
    for name, value in node.attrs.items():
        rest = {k: v for k, v in node.attrs.items() if k != name}
        yield f"{node.name} without {name}", Node(node.name, rest, "", node.children, node.empty)
        for wrong in _wrong(value, known.get(name)):
            attrs = {k: wrong if k == name else v for k, v in node.attrs.items()}
            yield f"{node.name} with {name}={wrong}", Node(node.name, attrs, "", node.children, node.empty)


def _others(skill: Skill, robot: Robot) -> list[Skill]:
    """Another function of the same channels, and the first of each other set of channels."""
    found: dict[tuple[str, ...], Skill] = {}
    for other in robot.registry:
        if other.name != skill.name and not other.speaks_text:
            found.setdefault(other.subsystems, other)
    return list(found.values())


def _wrong(value: str, parameter: Declared | None) -> list[str]:
    if parameter is None:
        return ["false" if value == "true" else "true"] if value in ("true", "false") else [value + " x"]
    if parameter.choices:
        return [choice for choice in parameter.choices if choice != value]
    if not parameter.is_number:
        return [value + " x"]
    number = float(value)
    changed = [number * 2 + 1, -number] if number else [1.0]
    return [f"{n:g}" for n in changed]


def _seen(performed: Performance, classes: Mapping[str, Sequence[Shape]]) -> list[object]:
    learned = [(name, about, _trace(calls, classes)) for name, about, calls in performed.kept]
    return [_trace(performed.calls, classes), learned, performed.error]


def _trace(calls: Sequence[CallRun], classes: Mapping[str, Sequence[Shape]]) -> list[str]:
    return sorted(_line(call, classes) for call in calls if call.function != "wait")


def _line(call: CallRun, classes: Mapping[str, Sequence[Shape]]) -> str:
    function, args = call.function, dict(call.arguments)
    if function == "text":
        args["text"] = " ".join(str(args.get("text", "")).split())
    for name, shapes in classes.items():
        alike = next((s for s in shapes if s.matches(call)), None)
        if alike is not None:
            function, args = name, {k: v for k, v in args.items() if k not in alike.args}
            break
    times = [None if t is None else round(t, 3) for t in (call.start_s, call.end_s)]
    return json.dumps([function, args, sorted(call.channels), times, call.outcome], sort_keys=True, ensure_ascii=False)
