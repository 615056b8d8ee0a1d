# SPDX-License-Identifier: Apache-2.0
"""Keep reflexes: the sentence, its code, who wrote and who approved it, a keyed hash over all that, and their files.

There is one YAML file a rule in the robot's data folder, beside those its configuration ships.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from skill_kernel.config.sections import Section, shaped
from skill_kernel.config.yaml_text import RecordError, checked, read_lists, read_mapping, write_whole
from skill_kernel.guard.compiler import Guarded
from skill_kernel.guard.reading import LIMITS
from skill_kernel.roles import RoleError

LONGEST_ACTION_S = 600.0
MAX_SENTENCE = 500
"""Characters of a sentence that a person prescribes."""

_NAME = r"[a-z][a-z0-9_]{0,47}"
_WORDS = re.compile(r"[a-z0-9]+")
_LEFT_OUT = frozenset(
    "a an and any anything are as at by can closer comes gets if in is it of on once or soon than that the then to when "
    "whenever within you your".split()
)


class RuleState(str, Enum):
    """Name the states of a rule. Only an approved one ever fires."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    DISABLED = "disabled"


class ReflexError(ValueError):
    """Report that what was asked of the reflexes cannot be done; the message says what to do."""


RuleName = Annotated[str, shaped(_NAME, "no name; use small letters, digits and underscores, at most 48")]


class Rule(Section):
    """Hold one reflex. `priority` is hard: a higher one interrupts a lower one that holds what it needs.

    It fires when its condition becomes true, and again only after that was false for a while; with `repeats` also while it
    stays true, `cooldown_s` after the last action has ended. One evaluation may take `budget_ms` of processor time, an
    action `limit_s`. Times are seconds since 1970. `shipped`: it comes with the robot's configuration.
    """

    name: RuleName
    sentence: Annotated[str, Field(min_length=1, max_length=MAX_SENTENCE)]
    source: Annotated[str, Field(min_length=1, max_length=LIMITS.characters)]
    model: Annotated[str, Field(max_length=200)]
    priority: Annotated[int, Field(ge=0, le=100)] = 50
    cooldown_s: Annotated[float, Field(ge=0.1, le=3600)] = 2.0
    repeats: bool = False
    budget_ms: Annotated[float, Field(ge=0.1, le=20)] = 2.0
    limit_s: Annotated[float, Field(ge=0.5, le=LONGEST_ACTION_S)] = 30.0
    created_s: float = 0.0
    state: RuleState = RuleState.PROPOSED
    reason: Annotated[str, Field(max_length=1000)] = ""
    approver: Annotated[str, Field(max_length=200)] = ""
    approved_s: float = 0.0
    shipped: bool = False

    @property
    def hash(self) -> str:
        """Return the SHA-256 over all that a person approves, as 64 hexadecimal digits."""
        approved = self.model_dump(mode="json", exclude={"state", "reason", "created_s", "approver", "approved_s", "shipped"})
        return hashlib.sha256(json.dumps(approved, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class LoadedRule:
    """Hold a rule with its compiled functions."""

    rule: Rule
    guarded: Guarded


def name_of(sentence: str, taken: frozenset[str] = frozenset()) -> str:
    """Return a name made of a sentence's first telling words, unlike those taken."""
    words = [w for w in _WORDS.findall(sentence.lower()) if len(w) > 1 and w not in _LEFT_OUT and not w.isdigit()]
    base = "_".join(words[:5])[:40].strip("_") or "reflex"
    base = base if base[0].isalpha() else f"reflex_{base}"
    name, count = base, 2
    while name in taken:
        name, count = f"{base}_{count}", count + 1
    return name


SHIPPED = "as shipped with the robot"


@dataclass(frozen=True)
class Unreadable:
    """Report a file that is no rule any more; `name` is the file's."""

    name: str
    why: str


class RuleStore:
    """Keep rules in `folder`; what is written is on the disk, whole, when the call returns.

    `seal` makes of a rule's content the hash in its file, by the approver's key; where it raises RoleError, no file counts.
    `shipped` is a YAML file with a list `reflexes`, approved as it comes. Only the state of its rules is kept in `folder`.
    """

    def __init__(self, folder: Path, shipped: Path | None = None, *, seal: Callable[[bytes], str]) -> None:
        self._folder, self._shipped, self._seal = folder, shipped, seal

    def load(self) -> tuple[list[Rule], list[Unreadable]]:
        """Return all rules by name, and the files that could not be read. A rule that does not fit its hash is unreadable:
        somebody without the key wrote it. Raises ReflexError when the shipped file is wrong."""
        rules = {rule.name: rule for rule in self._load_shipped()}
        problems: list[Unreadable] = []
        for path in sorted(self._folder.glob("*.yaml")) if self._folder.is_dir() else ():
            try:
                rule = self._read(path)
            except (RecordError, ReflexError, RoleError) as error:
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
            write_whole(self._path(rule.name), {**rule.model_dump(mode="json"), "hash": self._hash(rule)})
        except (RecordError, RoleError) as error:
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

    def _read(self, path: Path) -> Rule:
        record = read_mapping(path)
        written = record.pop("hash", "")
        rule = checked(Rule, record, path)
        if not hmac.compare_digest(self._hash(rule), str(written).encode("ascii", "replace").decode()):
            why = "its hash does not fit: it was changed by hand, or written by an earlier version or with another key"
            raise ReflexError(f"{path} is not as the robot wrote it ({why})")
        if rule.name != path.stem:
            raise ReflexError(f"{path} holds the reflex '{rule.name}'; name the file after it")
        return rule

    def _hash(self, rule: Rule) -> str:
        """Return the keyed hash over all of a rule and the robot's name. Raises RoleError."""
        return self._seal(f"{self._folder.parent.name}\n{rule.model_dump_json(exclude_defaults=True)}".encode())
