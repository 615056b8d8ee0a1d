# SPDX-License-Identifier: Apache-2.0
"""Read YAML strictly, and write files atomically.

A key given twice is an error; PyYAML silently accepts it. Errors name the file and the line or key.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from skill_kernel.config.sections import nearest, one_sentence, shown

MAX_DEPTH = 100
"""Deepest nesting of lists and mappings."""
MAX_BYTES = 1_000_000
"""Largest file in bytes, and largest document in characters, its aliases written out."""
_MERGE = "tag:yaml.org,2002:merge"


class DuplicateKeyError(yaml.constructor.ConstructorError):
    """Report that a mapping has a key twice; the message names it and its place."""


_SafeLoader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
"""libyaml is ten times as fast."""


def first_duplicate(node: yaml.Node | None, *, text_keys: bool = False) -> yaml.constructor.ConstructorError | None:
    """Return an error for the first key, at or below a node, that its mapping has twice, or that is not text if `text_keys`.
    Merges (`<<`) may repeat."""
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
            if text_keys and key.tag != yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG:
                return yaml.constructor.ConstructorError(
                    None, None, f"the key '{shown(key.value)}' is not text", key.start_mark
                )
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in seen:
                    return DuplicateKeyError(None, None, f"the key '{shown(key.value)}' is given twice", key.start_mark)
                seen.add((key.tag, key.value))
        waiting += reversed([value for _, value in here.value])
    return None


def compose_yaml(text: str, *, strict: bool = False) -> yaml.Node | None:
    """Return one document as a node. `strict` refuses aliases. Raises yaml.YAMLError, also if it is nested deeper than
    MAX_DEPTH, or larger than MAX_BYTES with its aliases written out."""
    written, opened = 0, list[tuple[str | None, int]]()
    anchors: dict[str | None, int] = {}
    for event in yaml.parse(text, Loader=_SafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            anchors[anchor] = written - before
        elif isinstance(event, yaml.AliasEvent):
            if strict:
                raise yaml.constructor.ConstructorError(None, None, "aliases are not allowed here")
            written += anchors.get(event.anchor, MAX_BYTES)  # an alias within its own anchor would never end
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, written))
            written += 1
        elif isinstance(event, yaml.ScalarEvent):
            anchors[event.anchor] = 1 + len(event.value)
            written += anchors[event.anchor]
        wrong = f"more than {MAX_DEPTH} levels" if len(opened) > MAX_DEPTH else ""  # `compose` would exhaust the stack
        if wrong := wrong or (f"more than {MAX_BYTES} characters, its aliases written out" if written > MAX_BYTES else ""):
            raise yaml.composer.ComposerError(None, None, wrong, event.start_mark)  # type: ignore[arg-type]
    node: yaml.Node | None = yaml.compose(text, Loader=_SafeLoader)
    return node


def read_yaml(text: str, *, strict: bool = False) -> Any:
    """Read one document; `strict` refuses aliases and keys that are not text.

    Raises yaml.YAMLError, also for a key given twice and where `compose_yaml` does.
    """
    try:
        node = compose_yaml(text, strict=strict)
        if wrong := first_duplicate(node, text_keys=strict):
            raise wrong
        return yaml.SafeLoader("").construct_document(node) if node is not None else None  # the node is parsed already
    except (ValueError, OverflowError) as error:  # such as 2024-02-30, which looks like a date
        raise yaml.constructor.ConstructorError(None, None, shown(error)) from error


def what_is_wrong(error: yaml.YAMLError) -> str:
    """Describe the error to a person in one clause: the line, and what to do there."""
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark is not None else ""
    if isinstance(error, DuplicateKeyError):
        return f"{where}{error.problem}; remove one of them"
    problem = getattr(error, "problem", None)
    return f"{where}is not valid YAML{f' ({problem})' if problem else ''}; look for a missing colon, a wrong indent or a tab"


Record = TypeVar("Record", bound=BaseModel)


class RecordError(ValueError):
    """Report that a file of records cannot be used, or that a record is wrong; it says where, and what to do."""


def checked(model: type[Record], fields: Mapping[str, Any], where: Path | str = "") -> Record:
    """Validate fields as a record. Raises RecordError with `where` and the first wrong key."""
    try:
        return model.model_validate(dict(fields))
    except ValidationError as error:
        raise RecordError(f"{where}{': ' if where else ''}{one_sentence(model, error)}") from error


def read_mapping(path: Path, holds: str = "keys with values", *, strict: bool = True) -> dict[str, Any]:
    """Return the mapping in a YAML file, `strict` as in `read_yaml`; `holds` tells in an error what it should be. Raises
    RecordError if it is unreadable, too long or not a mapping."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        data = read_yaml(content.decode("utf-8"), strict=strict) if len(content) <= MAX_BYTES else None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise RecordError(f"{path}, line {line}: is not in UTF-8; save the file in that encoding") from error
    except (OSError, ValueError) as error:
        raise RecordError(f"{shown(path, 300)}: cannot be read ({shown(error, 300)})") from error
    except yaml.YAMLError as error:
        raise RecordError(f"{path}, {what_is_wrong(error)}") from error
    if len(content) > MAX_BYTES:
        raise RecordError(f"{path}: is longer than {MAX_BYTES // 1_000_000} MB; shorten it")
    if not isinstance(data, dict):
        raise RecordError(f"{path}: must hold {holds}, {'but is empty' if data is None else f'not {type(data).__name__}'}")
    return data


def read_lists(path: Path, keys: Sequence[str]) -> dict[str, list[Any]]:
    """Return the lists of a YAML file by key, empty ones for keys that are absent. Raises RecordError as `read_mapping` does,
    and for any other key."""
    data = read_mapping(path, f"the key {keys[0]} with a list")
    for key, value in data.items():
        if key not in keys:
            raise RecordError(
                f"{path}: key '{shown(key)}' is unknown{nearest(str(key), [*keys])} (valid here: {', '.join(keys)})"
            )
        if value and not isinstance(value, list):
            raise RecordError(f"{path}: key {key} must be a list, not {type(value).__name__}")
    return {key: data.get(key) or [] for key in keys}


def write_whole(path: Path, data: Mapping[str, Any]) -> None:
    """Replace a YAML file as a whole; it is on the disk when the call returns. Raises RecordError when the disk refuses: the
    file is then as it was."""
    try:
        replace_file(path, yaml.dump(dict(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))
    except OSError as error:
        raise RecordError(f"{path} could not be written ({error}); free or mend the disk") from error


def is_file(path: Path) -> bool:
    """Return whether there is such a file, whatever the name."""
    try:
        return path.is_file()
    except OSError:  # a name that is too long
        return False


def private(path: str | Path, flags: int) -> int:
    """Open a file that its owner alone may read from now on: an opener for `open`. Raises OSError."""
    file = os.open(path, flags, 0o600)
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode) and mode & 0o077:
        with suppress(PermissionError):  # it is somebody else's
            os.fchmod(file, 0o600)
    return file


def replace_file(path: Path, text: str) -> None:
    """Replace a file as a whole, which its owner alone may read then, and wait until it is on the disk. Raises OSError: the
    file is then as it was."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(new, "w", encoding="utf-8", errors="backslashreplace", opener=private) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError:
        new.unlink(missing_ok=True)
        raise


class _Dumper(yaml.SafeDumper):
    """Write text of several lines as a block that a person can read."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
