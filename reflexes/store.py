# SPDX-License-Identifier: Apache-2.0
"""Reflexes on disk: one YAML file a rule in the robot's data folder, beside those its configuration ships."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from reflexes.rule import ReflexError, Rule, RuleState
from skill_kernel.config.yaml_text import RecordError, checked, read_lists, read_mapping, write_whole

SHIPPED = "as shipped with the robot"


@dataclass(frozen=True)
class Unreadable:
    """A file that is no rule any more; `name` is the file's."""

    name: str
    why: str


class RuleStore:
    """Keeps rules in `folder`; what is written is on the disk, whole, when the call returns.

    `shipped` is a YAML file with a list `reflexes`, approved as it comes. Only the state of its rules is kept in `folder`.
    """

    def __init__(self, folder: Path, shipped: Path | None = None) -> None:
        self._folder = folder
        self._shipped = shipped

    def load(self) -> tuple[list[Rule], list[Unreadable]]:
        """Return all rules by name, and the files that could not be read. A rule that does not fit its hash is unreadable: it
        was changed after it had been approved. Raises ReflexError when the shipped file is wrong."""
        rules = {rule.name: rule for rule in self._load_shipped()}
        problems: list[Unreadable] = []
        for path in sorted(self._folder.glob("*.yaml")) if self._folder.is_dir() else ():
            try:
                rule = _read(path)
            except (RecordError, ReflexError) as error:
                problems.append(Unreadable(path.stem, f"{error}; remove the reflex and add it again"))
                rules.pop(path.stem, None)
                continue
            known = rules.get(rule.name)
            if not rule.shipped or (known is not None and known.hash == rule.hash):
                rules[rule.name] = rule  # else a newer configuration replaced or dropped it
        return sorted(rules.values(), key=lambda r: r.name), problems

    def save(self, rule: Rule) -> None:
        """Write a rule, replacing one of its name. Raises ReflexError when the disk refuses."""
        try:
            write_whole(self._path(rule.name), {**rule.model_dump(mode="json"), "hash": rule.hash})
        except RecordError as error:
            raise ReflexError(f"reflex '{rule.name}' could not be kept: {error}") from error

    def remove(self, name: str) -> None:
        """Delete a rule's file, if there is one. Raises ReflexError when the disk refuses."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise ReflexError(f"reflex '{name}' could not be removed from {self._folder} ({error})") from error

    def _path(self, name: str) -> Path:
        return self._folder / f"{Path(name).name}.yaml"

    def _load_shipped(self) -> Iterable[Rule]:
        if self._shipped is None:
            return
        try:
            for record in read_lists(self._shipped, ["reflexes"])["reflexes"]:
                own = {"model": "by hand", **record} if isinstance(record, dict) else {}
                yield checked(Rule, {**own, "state": RuleState.APPROVED, "approver": SHIPPED, "shipped": True}, self._shipped)
        except RecordError as error:
            raise ReflexError(str(error)) from error


def _read(path: Path) -> Rule:
    record = read_mapping(path)
    written = record.pop("hash", "")
    rule = checked(Rule, record, path)
    if rule.hash != written:
        raise ReflexError(f"{path} was changed after it was written (its hash does not fit)")
    if rule.name != path.stem:
        raise ReflexError(f"{path} holds the reflex '{rule.name}'; name the file after it")
    return rule
