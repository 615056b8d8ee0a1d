# SPDX-License-Identifier: Apache-2.0
"""YAML that people write: a key given twice is an error. PyYAML would take the last one without a word."""

from __future__ import annotations

from typing import Any

import yaml

_MERGE = "tag:yaml.org,2002:merge"


class DuplicateKeyError(yaml.constructor.ConstructorError):
    """A mapping has a key twice; the message names it and its place."""


class OnceLoader(yaml.SafeLoader):
    """A SafeLoader that refuses a key given twice. Raises DuplicateKeyError."""

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if twice := first_duplicate(node):
            raise twice
        return node


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


def read_yaml(text: str) -> Any:
    """One document. Raises yaml.YAMLError."""
    try:
        return yaml.load(text, Loader=OnceLoader)  # a SafeLoader
    except (ValueError, RecursionError) as error:  # such as 2024-02-30, which looks like a date
        raise yaml.constructor.ConstructorError(None, None, str(error)) from error


def what_is_wrong(error: yaml.YAMLError) -> str:
    """One clause for a person: the line, and what to mend there."""
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark is not None else ""
    if isinstance(error, DuplicateKeyError):
        return f"{where}{error.problem}; remove one of them"
    problem = getattr(error, "problem", None)
    return f"{where}is not valid YAML{f' ({problem})' if problem else ''}; look for a missing colon or a wrong indent"
