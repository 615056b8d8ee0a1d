# SPDX-License-Identifier: Apache-2.0
"""Records that people and programs keep in YAML files: errors name the file and the line or key; files are written whole."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from skill_kernel.config.sections import nearest, one_sentence
from skill_kernel.config.yaml_text import read_yaml

MAX_BYTES = 1_000_000

Record = TypeVar("Record", bound=BaseModel)


class RecordError(ValueError):
    """A file of records cannot be read or written, or a record is wrong; one sentence says where and what to do."""


def checked(model: type[Record], fields: Mapping[str, Any], where: Path | str = "") -> Record:
    """Return the record of these fields. Raises RecordError with `where` and the first wrong key."""
    try:
        return model.model_validate(dict(fields))
    except ValidationError as error:
        raise RecordError(f"{where}{': ' if where else ''}{one_sentence(model, error)}") from error


def read_mapping(path: Path, holds: str = "keys with values") -> dict[str, Any]:
    """Return what a YAML file holds. Raises RecordError for a file that is unreadable, too long or no mapping."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise RecordError(f"{path}: is longer than {MAX_BYTES // 1_000_000} MB; shorten it")
        data = read_yaml(content.decode("utf-8"), strict=True)
    except RecordError:
        raise
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RecordError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error
    if not isinstance(data, dict):
        raise RecordError(f"{path}: must hold {holds}, not {type(data).__name__}")
    return data


def read_lists(path: Path, keys: Sequence[str]) -> dict[str, list[Any]]:
    """Return the lists of a YAML file by key, empty ones for keys that are absent. Raises RecordError as `read_mapping` does,
    and for any other key."""
    data = read_mapping(path, f"the key {keys[0]} with a list")
    for key, value in data.items():
        if key not in keys:
            raise RecordError(f"{path}: key '{key}' is unknown{nearest(str(key), [*keys])} (valid here: {', '.join(keys)})")
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


def replace_file(path: Path, text: str) -> None:
    """Replace a file as a whole and wait until it is on the disk. Raises OSError: the file is then as it was."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with new.open("w", encoding="utf-8") as file:
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
    """Writes text of several lines as a block that a person can read."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
