# SPDX-License-Identifier: Apache-2.0
"""The robot's reflexes: those in the store, compiled, and the commands of a person on them."""

from collections.abc import Callable, Mapping
from typing import Any

from planners.prescriptions.reflex_compiler import Proposal, limit_of
from reflexes.rule import LoadedRule, ReflexError, Rule, RuleState, RuleStore, Unreadable, name_of
from skill_kernel.config.sections import nearest, shown
from skill_kernel.config.yaml_text import RecordError, checked
from skill_kernel.guard.code import Vocabulary
from skill_kernel.guard.compiler import Guarded, compile_guarded
from skill_kernel.guard.reading import GuardError

MAX_RULES = 200


class RuleBook:
    """Hold rules by name. `wall` is the time of day in seconds since 1970. Raises ReflexError when the shipped rules cannot be
    read; a single rule that cannot be used is kept, disabled, with the reason."""

    def __init__(self, store: RuleStore, vocabulary: Vocabulary, *, wall: Callable[[], float]) -> None:
        self._store, self._wall = store, wall
        rules, unreadable = store.load()
        self._rules = {rule.name: rule for rule in rules}
        self.unreadable: list[Unreadable] = unreadable
        """Files that are refused."""
        self.reload(vocabulary)

    def reload(self, vocabulary: Vocabulary) -> None:
        """Compile all rules against these names; one that no longer fits is disabled, but not on disk: the skill may come
        back."""
        self._vocabulary = vocabulary
        self._guarded: dict[str, Guarded] = {}
        self.unfit: dict[str, str] = {}
        for rule in self._rules.values():
            try:
                self._guarded[rule.name] = compile_guarded(rule.source, vocabulary)
            except GuardError as error:
                self.unfit[rule.name] = f"its code does not fit this robot any more: {error}"

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return all rules that could be read, by name."""
        return tuple(self._rules[name] for name in sorted(self._rules))

    def runnable(self) -> list[LoadedRule]:
        """Return the rules that may fire: approved and fit for this robot."""
        approved = (self._rules[name] for name in self._guarded if self._rules[name].state is RuleState.APPROVED)
        return [LoadedRule(rule, self._guarded[rule.name]) for rule in approved]

    def loaded(self, name: str) -> LoadedRule:
        """Return a rule with its code, whatever its state. Raises ReflexError."""
        rule = self.get(name)
        if name in self.unfit:
            raise ReflexError(f"reflex '{name}': {self.unfit[name]}")
        return LoadedRule(rule, self._guarded[name])

    def get(self, name: str) -> Rule:
        """Return a rule by name. Raises ReflexError with the nearest name."""
        if name in self._rules:
            return self._rules[name]
        nothing = f"there is no reflex '{shown(name)}'{nearest(name, self._rules, else_known=True)}"
        raise ReflexError(next((u.why for u in self.unreadable if u.name == name), nothing))

    def add(self, proposal: Proposal, *, name: str = "", settings: Mapping[str, Any] | None = None) -> Rule:
        """Keep a proposal; it fires only once it is approved. Raises ReflexError."""
        taken = frozenset(self._rules) | {u.name for u in self.unreadable}
        if name and name in taken:
            raise ReflexError(f"there is a reflex '{name}' already; remove it first, or choose another name")
        if len(self._rules) >= MAX_RULES:
            raise ReflexError(f"there are {len(self._rules)} reflexes, more are not evaluated in time; remove one first")
        fields = {
            "name": name or name_of(proposal.sentence, taken),
            "sentence": proposal.sentence,
            "source": proposal.source,
            "model": proposal.model,
            "created_s": self._wall(),
            "limit_s": limit_of(proposal.source, self._vocabulary),
            **(settings or {}),
        }
        try:
            return self._put(checked(Rule, fields))
        except RecordError as error:
            raise ReflexError(str(error)) from error

    def approve(self, name: str, approver: str) -> Rule:
        """Approve a rule in the name of a person; again in the same name changes nothing. Raises ReflexError."""
        rule = self.get(name)
        if not approver.strip():
            raise ReflexError("an approval needs the name of the person who gives it")
        self.loaded(name)
        if rule.state is RuleState.APPROVED:
            if rule.approver == approver.strip()[:200]:
                return rule
            raise ReflexError(f"reflex '{name}' is approved already, by {rule.approver}")
        changed: dict[str, Any] = {"state": RuleState.APPROVED, "reason": ""}
        if not rule.shipped:
            changed |= {"approver": approver.strip()[:200], "approved_s": self._wall()}
        return self._put(rule.model_copy(update=changed))

    def disable(self, name: str, reason: str) -> Rule:
        """Keep a rule from firing until it is enabled. Raises ReflexError; where only the disk refuses, it is disabled all the
        same, until a restart."""
        rule = self.get(name).model_copy(update={"state": RuleState.DISABLED, "reason": reason[:1000]})
        self._rules[name] = rule
        self._store.save(rule)
        return rule

    def enable(self, name: str) -> Rule:
        """Let an approved rule that was disabled fire again. Raises ReflexError."""
        rule = self.get(name)
        self.loaded(name)
        if not rule.approver:
            raise ReflexError(f"reflex '{name}' was never approved; test and approve it first")
        return self._put(rule.model_copy(update={"state": RuleState.APPROVED, "reason": ""}))

    def remove(self, name: str) -> None:
        """Delete a rule, also one whose file is refused. Raises ReflexError."""
        if any(u.name == name for u in self.unreadable):
            self._store.remove(name)
            self.unreadable = [u for u in self.unreadable if u.name != name]
            return
        if self.get(name).shipped:
            raise ReflexError(f"reflex '{name}' comes with the robot's configuration; disable it instead")
        self._store.remove(name)
        del self._rules[name]
        self._guarded.pop(name, None)
        self.unfit.pop(name, None)

    def _put(self, rule: Rule) -> Rule:
        fresh = {} if rule.name in self.unfit else {rule.name: compile_guarded(rule.source, self._vocabulary)}
        self._store.save(rule)
        self._rules[rule.name] = rule
        self._guarded |= fresh
        return rule
