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

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if (key.tag, key.value) in seen:
                raise DuplicateKeyError(None, None, f"the key '{key.value}' is given twice", key.start_mark)
            seen.add((key.tag, key.value))
        return dict(super().construct_mapping(node, deep))


def read_yaml(text: str) -> Any:
    """One document. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=OnceLoader)  # a SafeLoader


def what_is_wrong(error: yaml.YAMLError) -> str:
    """One clause for a person: the line, and what to mend there."""
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark is not None else ""
    if isinstance(error, DuplicateKeyError):
        return f"{where}{error.problem}; remove one of them"
    return f"{where}is not valid YAML; look for a missing colon or a wrong indent"
