# SPDX-License-Identifier: Apache-2.0
"""Message definitions as an MCAP file carries them (schema encoding `ros2msg`): the .msg file and all that it names."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

_SEPARATOR = "=" * 80
_TYPE = re.compile(r"^\s*(?P<type>[A-Za-z][\w/]*)(?:<=\d+)?(?:\[(?:<=)?\d*\])?\s+[a-z]\w*(?!\s*=)")
_PRIMITIVE = re.compile(r"(u?int(8|16|32|64)|float(32|64)|bool|byte|char|w?string)")


class DefinitionError(RuntimeError):
    """A message's definition cannot be found; the sentence says which."""


@cache
def _installed(package: str, name: str) -> str:
    try:
        path = Path(get_package_share_directory(package)) / "msg" / f"{name}.msg"
        return path.read_text(encoding="utf-8")
    except (PackageNotFoundError, OSError) as error:
        raise DefinitionError(f"the definition of {package}/msg/{name} is not installed ({error})") from error


def definition(kind: str, text_of: Callable[[str, str], str] = _installed) -> str:
    """The definition of `package/msg/Name` with those of the messages inside it. Raises DefinitionError."""
    package, _, name = kind.split("/")
    parts = [text_of(package, name)]
    seen, waiting = {(package, name)}, _named(parts[0], package)
    while waiting:
        inner = waiting.pop(0)
        if inner not in seen:
            seen.add(inner)
            text = text_of(*inner)
            parts.append(f"{_SEPARATOR}\nMSG: {inner[0]}/{inner[1]}\n{text}")
            waiting += _named(text, inner[0])
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def _named(text: str, package: str) -> list[tuple[str, str]]:
    """The messages that fields of a definition are of."""
    found = []
    for line in text.splitlines():
        if (field := _TYPE.match(line.split("#")[0])) and not _PRIMITIVE.fullmatch(field["type"]):
            *owner, name = field["type"].split("/")
            found.append((owner[0] if owner else package, name))
    return found
