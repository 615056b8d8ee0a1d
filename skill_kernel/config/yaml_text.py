# SPDX-License-Identifier: Apache-2.0
"""YAML that people write: a key given twice is an error. PyYAML would take the last one without a word."""

from __future__ import annotations

from typing import Any

import yaml

MAX_DEPTH = 100
"""Lists and mappings within one another."""
_MERGE = "tag:yaml.org,2002:merge"


class DuplicateKeyError(yaml.constructor.ConstructorError):
    """A mapping has a key twice; the message names it and its place."""


_SafeLoader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
"""libyaml's is ten times as fast."""


class _OnceLoader(_SafeLoader):  # type: ignore[misc]
    """Refuse a key given twice."""

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if twice := first_duplicate(node):
            raise twice
        return node


class _TextKeysLoader(_OnceLoader):
    """Refuse keys that are no text, besides keys given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        for key, _ in node.value:
            if key.tag != yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG:
                raise yaml.constructor.ConstructorError(None, None, f"the key '{key.value}' is no text", key.start_mark)
        return dict(super().construct_mapping(node, deep))


def first_duplicate(node: yaml.Node | None) -> DuplicateKeyError | None:
    """The first key that a mapping at or below a node has for the second time. A merge (`<<`) may be given anew."""
    waiting, known = [node], set()
    while waiting:
        here = waiting.pop()
        if id(here) in known or not isinstance(here, yaml.CollectionNode):
            continue
        known.add(id(here))
        if not isinstance(here, yaml.MappingNode):
            waiting += reversed(here.value)
            continue
        seen: set[tuple[str, str]] = set()
        for key, _ in here.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in seen:
                    return DuplicateKeyError(None, None, f"the key '{key.value}' is given twice", key.start_mark)
                seen.add((key.tag, key.value))
        waiting += reversed([value for _, value in here.value])
    return None


def _check_shape(text: str, strict: bool = False) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:  # libyaml would exhaust the stack
            raise yaml.composer.ComposerError(None, None, f"more than {MAX_DEPTH} levels", event.start_mark)  # type: ignore[arg-type]
        if strict and isinstance(event, yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(None, None, "aliases are not allowed here")


def compose_yaml(text: str) -> yaml.Node | None:
    """Return one document as a node. Raises yaml.YAMLError, also for what is nested deeper than MAX_DEPTH."""
    _check_shape(text)
    node: yaml.Node | None = yaml.compose(text, Loader=_SafeLoader)
    return node


def read_yaml(text: str, *, strict: bool = False) -> Any:
    """Read one document; `strict` refuses aliases and keys that are no text.

    Raises yaml.YAMLError, also for a key given twice and for what is nested deeper than MAX_DEPTH.
    """
    try:
        _check_shape(text, strict)
        return yaml.load(text, Loader=_TextKeysLoader if strict else _OnceLoader)  # SafeLoaders
    except ValueError as error:  # such as 2024-02-30, which looks like a date
        raise yaml.constructor.ConstructorError(None, None, str(error)) from error


def what_is_wrong(error: yaml.YAMLError) -> str:
    """One clause for a person: the line, and what to mend there."""
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark is not None else ""
    if isinstance(error, DuplicateKeyError):
        return f"{where}{error.problem}; remove one of them"
    problem = getattr(error, "problem", None)
    return f"{where}is not valid YAML{f' ({problem})' if problem else ''}; look for a missing colon or a wrong indent"
