# SPDX-License-Identifier: Apache-2.0
"""Reflexes on disk: one YAML file a rule in the robot's data folder, beside those its configuration ships."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from reflexes.rule import ReflexError, Rule, RuleState
from skill_kernel.config.sections import one_sentence
from skill_kernel.config.yaml_text import read_yaml

SUFFIX = ".yaml"
SHIPPED = "as shipped with the robot"


@dataclass(frozen=True)
class Unreadable:
    """A file that is no rule any more; `name` is the file's."""

    name: str
    why: str


class RuleStore:
    """Keeps rules; what is written is on the disk, whole, when the call returns.

    `shipped` is a YAML file with a list `reflexes`, approved as it comes. Only its rules' state is kept in `folder`.
    """

    def __init__(self, folder: Path, shipped: Path | None = None) -> None:
        self._folder = folder
        self._shipped = shipped

    def load(self) -> tuple[list[Rule], list[Unreadable]]:
        """All rules by name, and what could not be read. A rule whose text is not what its hash says is unreadable: it was
        changed after it had been approved."""
        rules = {rule.name: rule for rule in self._load_shipped()}
        problems: list[Unreadable] = []
        for path in sorted(self._folder.glob(f"*{SUFFIX}")) if self._folder.is_dir() else ():
            try:
                rule = self._read(path)
            except ReflexError as error:
                problems.append(Unreadable(path.stem, str(error)))
                rules.pop(path.stem, None)
                continue
            if rule.shipped:
                known = rules.get(rule.name)
                if known is None or known.hash != rule.hash:
                    continue  # a newer configuration replaced or dropped it
            rules[rule.name] = rule
        return sorted(rules.values(), key=lambda r: r.name), problems

    def save(self, rule: Rule) -> None:
        """Write a rule, replacing one of its name. Raises ReflexError when the disk refuses."""
        record = {**rule.model_dump(mode="json"), "hash": rule.hash}
        text = yaml.dump(record, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
        path = self._path(rule.name)
        new = path.with_suffix(f".{os.getpid()}.new")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with new.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            self._sync_folder()
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            why = f"reflex '{rule.name}' could not be kept in {self._folder} ({error}); free or mend the disk"
            raise ReflexError(why) from error

    def remove(self, name: str) -> None:
        """Delete a rule's file; nothing happens when there is none. Raises ReflexError when the disk refuses."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise ReflexError(f"reflex '{name}' could not be removed from {self._folder} ({error})") from error

    def _path(self, name: str) -> Path:
        return self._folder / f"{Path(name).name}{SUFFIX}"

    def _sync_folder(self) -> None:
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _read(self, path: Path) -> Rule:
        try:
            record = read_yaml(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            why = " ".join(str(error).split())
            raise ReflexError(f"{path} cannot be read ({why}); remove the reflex and add it anew") from error
        if not isinstance(record, dict):
            raise ReflexError(f"{path} holds no reflex; remove it and add the reflex anew")
        written = record.pop("hash", "")
        rule = _rule(record, path)
        if rule.hash != written:
            why = "was changed after it was written (its hash does not fit)"
            raise ReflexError(f"{path} {why}; remove the reflex and add it anew")
        if rule.name != path.stem:
            raise ReflexError(f"{path} holds the reflex '{rule.name}'; name the file after it")
        return rule

    def _load_shipped(self) -> Iterable[Rule]:
        if self._shipped is None:
            return
        try:
            data = read_yaml(self._shipped.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ReflexError(f"{self._shipped} cannot be read ({' '.join(str(error).split())})") from error
        if not isinstance(data, dict) or set(data) != {"reflexes"} or not isinstance(data["reflexes"], list):
            raise ReflexError(f"{self._shipped} must hold one key, reflexes, with a list of them")
        for record in data["reflexes"]:
            own = {"model": "by hand", **record} if isinstance(record, dict) else {}
            yield _rule({**own, "state": RuleState.APPROVED, "approver": SHIPPED, "shipped": True}, self._shipped)


def _rule(record: dict[str, Any], path: Path) -> Rule:
    try:
        return Rule.model_validate(record)
    except ValidationError as error:
        raise ReflexError(f"{path}: {one_sentence(Rule, error)}") from error


class _Dumper(yaml.SafeDumper):
    """Writes code as a block that a person can read."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
