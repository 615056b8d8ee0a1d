# SPDX-License-Identifier: Apache-2.0
"""Prescriptions in YAML: read with errors that name the file, the entry and the key, and written whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from planners.prescriptions.kinds import Prescription, PrescriptionError
from reflexes.rule import name_of
from skill_kernel.config.sections import nearest, one_sentence
from skill_kernel.config.yaml_text import OnceLoader
from skill_kernel.guard import GuardError, compile_expression
from skill_kernel.observation.accessors import Accessor

LIST, DISABLED, ENABLED = "prescriptions", "disabled", "enabled"
MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Read:
    """What a file holds. `disabled` and `enabled` name shipped ones that a person switched off or on."""

    prescriptions: tuple[Prescription, ...] = ()
    disabled: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()


def load(path: Path, accessors: Mapping[str, Accessor], *, shipped: bool = False) -> Read:
    """Read a file. Raises PrescriptionError with the file, the entry and what is wrong with it."""
    data = _parsed(path)
    if not isinstance(data, dict):
        raise PrescriptionError(f"{path}: must hold the key {LIST} with a list of them")
    known = [LIST] if shipped else [LIST, DISABLED, ENABLED]
    for key in data:
        if key not in known:
            valid = f"{nearest(str(key), known)} (valid here: {', '.join(known)})"
            raise PrescriptionError(f"{path}: key '{key}' is unknown{valid}")
    entries = data.get(LIST) or []
    if not isinstance(entries, list):
        raise PrescriptionError(f"{path}: key {LIST} must be a list, not {type(entries).__name__}")
    names = {key: data.get(key) or [] for key in (DISABLED, ENABLED)}
    for key, value in names.items():
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise PrescriptionError(f"{path}: key {key} must be a list of names")
    found: dict[str, int] = {}
    read: list[Prescription] = []
    for number, entry in enumerate(entries, 1):
        one = _one(path, number, entry, accessors, frozenset(found), shipped)
        if one.name in found:
            first = found[one.name]
            why = f"entries {first} and {number} are both named '{one.name}'; give one of them another name"
            raise PrescriptionError(f"{path}: {why}")
        found[one.name] = number
        read.append(one)
    return Read(tuple(read), frozenset(names[DISABLED]), frozenset(names[ENABLED]))


def _one(
    path: Path, number: int, entry: Any, accessors: Mapping[str, Accessor], taken: frozenset[str], shipped: bool
) -> Prescription:
    if isinstance(entry, str):
        entry = {"sentence": entry}
    if not isinstance(entry, dict):
        raise PrescriptionError(f"{path}: entry {number} must be a sentence, or keys such as name and sentence")
    said = entry.get("name") or str(entry.get("sentence", ""))[:40]
    where = f"{path}: entry {number}" + (f" ({said})" if said else "")
    if "shipped" in entry:
        raise PrescriptionError(f"{where}: key 'shipped' is unknown; it follows from where the file lies")
    fields = {**entry, "shipped": shipped}
    if "name" not in entry and isinstance(entry.get("sentence"), str):
        fields["name"] = name_of(entry["sentence"], taken)
    try:
        return checked(fields, accessors)
    except PrescriptionError as error:
        raise PrescriptionError(f"{where}: {error}") from error


def checked(fields: Mapping[str, Any], accessors: Mapping[str, Accessor]) -> Prescription:
    """A prescription of these fields whose condition fits the robot. Raises PrescriptionError."""
    try:
        one = Prescription.model_validate(dict(fields))
    except ValidationError as error:
        raise PrescriptionError(_sentence(error)) from error
    if one.when:
        try:
            compile_expression(one.when, accessors)
        except GuardError as error:
            raise PrescriptionError(f"key 'when': {error}") from error
    return one


def _sentence(error: ValidationError) -> str:
    """As `one_sentence`; a fault of the whole entry already names its key."""
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        return str(first["msg"]).removeprefix("Value error, ")
    return one_sentence(Prescription, error)


def save(path: Path, prescriptions: Iterable[Prescription], *, disabled: Iterable[str], enabled: Iterable[str]) -> None:
    """Write a file whole; it is on the disk when the call returns. Raises PrescriptionError when the disk refuses."""
    records = [p.model_dump(mode="json", exclude_unset=True, exclude={"shipped"}) for p in prescriptions]
    data: dict[str, Any] = {LIST: records}
    for key, names in ((DISABLED, sorted(disabled)), (ENABLED, sorted(enabled))):
        if names:
            data[key] = names
    new = path.with_suffix(f".{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new.open("w", encoding="utf-8") as file:
            file.write(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise PrescriptionError(f"prescriptions could not be kept in {path} ({error}); free or mend the disk") from error


def _parsed(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise PrescriptionError(f"{path}: is longer than {MOST_BYTES // 1_000_000} MB; that is no list of sentences")
        return yaml.load(content.decode("utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise PrescriptionError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error


class _Loader(OnceLoader):
    """Refuses aliases too, and keys that are no text."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(None, None, "aliases are not allowed here")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        for key, _ in node.value:
            if key.tag != yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG:
                raise yaml.constructor.ConstructorError(None, None, f"the key '{key.value}' is no text", key.start_mark)
        return super().construct_mapping(node, deep)
