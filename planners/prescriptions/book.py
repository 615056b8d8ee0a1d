# SPDX-License-Identifier: Apache-2.0
"""The tasks and guidelines of a robot, shipped and added: where each belongs, and which contradict one another. Approved
reflexes have a book of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from planners.prescriptions.contradictions import contradictions
from planners.prescriptions.prescription import (
    MAX_GUIDELINES,
    MAX_SENTENCE,
    Conflict,
    Kind,
    Prescription,
    PrescriptionError,
    PrescriptionFile,
    Route,
    Standing,
    UnknownPrescriptionError,
    checked,
    listed,
    load,
    save,
)
from planners.prescriptions.router import Router
from reflexes.rule import name_of
from skill_kernel.config.sections import nearest
from skill_kernel.observation.accessors import Accessor

MAX_PRESCRIPTIONS = 200


@dataclass(frozen=True)
class Kept:
    """A prescription with where it belongs."""

    prescription: Prescription
    route: Route
    conflicts: tuple[Conflict, ...] = ()

    @property
    def name(self) -> str:
        return self.prescription.name


class PrescriptionBook:
    """By name, in the order they came. `shipped` is the robot's own file, `own` what people added; both may be absent.

    Raises PrescriptionError when the shipped file is wrong. `problem` says why people's file could not be read: it is then
    left as it is, and nothing can be kept until it is mended or removed.
    """

    def __init__(self, router: Router, accessors: Mapping[str, Accessor], *, own: Path, shipped: Path | None = None) -> None:
        self._router, self._accessors, self._own = router, accessors, own
        self.problem = ""
        self._reflexes: dict[str, Standing] = {}
        self._taken: frozenset[str] = frozenset()
        """Names of all reflexes, also of those that do not fire."""
        self._verdicts: dict[tuple[str, str], Conflict] = {}
        """Verdicts of a model on pairs of names."""
        self._as_shipped: dict[str, bool] = {}
        self._kept: dict[str, Kept] = {}
        ours = load(shipped, accessors, shipped=True) if shipped is not None else PrescriptionFile()
        try:
            theirs = load(own, accessors) if own.exists() else PrescriptionFile()
        except PrescriptionError as error:
            self.problem, theirs = f"{error}; mend or remove that file", PrescriptionFile()
        for one in (*ours.prescriptions, *theirs.prescriptions):
            if one.name in self._kept:
                self.problem = self.problem or f"{own}: '{one.name}' is the name of a shipped one; give it another name"
                continue
            if one.shipped:
                self._as_shipped[one.name] = one.enabled
                enabled = one.name in theirs.enabled or (one.enabled and one.name not in theirs.disabled)
                one = one.model_copy(update={"enabled": enabled})
            self._put(one)
        self._disable_surplus(shipped)
        self._find_conflicts()

    def all(self) -> list[Kept]:
        """Return every one, in order."""
        return list(self._kept.values())

    def of(self, kind: Kind) -> list[Kept]:
        """Return those of a kind, enabled or not."""
        return [kept for kept in self._kept.values() if kept.route.kind is kind]

    def holds(self, name: str) -> bool:
        """Return whether a task or guideline has that name. A reflex of a file has its name at the node of the reflexes."""
        return name in self._kept and self._kept[name].route.kind is not Kind.REFLEX

    def get(self, name: str) -> Kept:
        """Return one by name. Raises UnknownPrescriptionError with the nearest name."""
        kept = self._kept.get(name)
        if kept is None:
            known = sorted(self._kept)
            raise UnknownPrescriptionError(
                f"there is no prescription '{name[:60]}'{nearest(name[:60], known)} (known: {listed(known)})"
            )
        return kept

    def conflicts_of_reflex(self, name: str) -> list[Conflict]:
        """Return the guidelines that contradict a reflex."""
        reflex = self._reflexes.get(name)
        return contradictions(reflex, self._standing(Kind.GUIDELINE)) if reflex is not None else []

    def route(self, sentence: str, kind: Kind | None = None) -> Route:
        """Return where a sentence would go. Raises PrescriptionError for one that is empty or too long."""
        if len(sentence) > MAX_SENTENCE:
            raise PrescriptionError(f"the sentence has {len(sentence)} characters; say it in at most {MAX_SENTENCE}")
        if not sentence.strip():
            raise PrescriptionError("the sentence is empty; say what the robot should do")
        name = name_of(sentence, frozenset(self._kept))
        checked({"name": name, "sentence": sentence.strip()}, self._accessors)
        return self._router.route(sentence, kind)

    def add(
        self, sentence: str, *, kind: Kind | None = None, name: str = "", author: str = "", route: Route | None = None
    ) -> Kept:
        """Keep a task or guideline. `route` is the answer of `route` where that was asked. Raises PrescriptionError when it
        cannot be taken: nothing has changed then."""
        route = route or self.route(sentence, kind)
        if route.kind is Kind.REFLEX:
            raise PrescriptionError(f"it is a reflex ({route.reason}); add it with: ghostshell reflex add")
        if name and (name in self._kept or name in self._taken):
            raise PrescriptionError(f"there is a prescription '{name}' already; remove it first, or choose another name")
        if len(self._kept) >= MAX_PRESCRIPTIONS:
            raise PrescriptionError(f"there are {len(self._kept)} prescriptions; remove one first")
        if route.kind is Kind.GUIDELINE:
            self._check_room()
        taken = frozenset(self._kept) | self._taken
        fields = {
            "name": name or name_of(sentence, taken),
            "kind": route.kind,
            "sentence": " ".join(sentence.split()),
            "author": author[:100],
        }
        before = dict(self._kept)
        self._put(checked(fields, self._accessors), route)
        self._save(before)
        return self._kept[str(fields["name"])]

    def remove(self, name: str) -> None:
        """Remove one. Raises PrescriptionError, also for a shipped one, which can only be disabled."""
        if self.get(name).prescription.shipped:
            raise PrescriptionError(f"'{name}' comes with the robot's configuration; disable it instead")
        before = dict(self._kept)
        del self._kept[name]
        self._verdicts = {key: value for key, value in self._verdicts.items() if name not in key}
        self._save(before)

    def enable(self, name: str, enabled: bool) -> Kept:
        """Switch one on or off. Raises PrescriptionError; a guideline is switched off even where the disk refuses."""
        kept = self.get(name)
        if enabled and not kept.prescription.enabled and kept.route.kind is Kind.GUIDELINE:
            self._check_room()
        before = dict(self._kept) if enabled else None
        self._put(kept.prescription.model_copy(update={"enabled": enabled}), kept.route)
        self._save(before)
        return self._kept[name]

    def reflexes(self, reflexes: Iterable[Standing], names: Iterable[str] = ()) -> bool:
        """Take the reflexes that fire now and the `names` of all; return whether those that fire have changed."""
        new = {one.name: one for one in reflexes}
        self._taken = frozenset(new) | frozenset(names)
        if new == self._reflexes:
            return False
        self._reflexes = new
        self._find_conflicts()
        return True

    def told(self, name: str, other: str, why: str) -> None:
        """Keep a model's verdict that two contradict each other."""
        for one, that in ((name, other), (other, name)):
            self._verdicts[one, that] = Conflict(that, f"{why} (a model says so)")
        self._find_conflicts()

    def _put(self, one: Prescription, route: Route | None = None) -> None:
        found = route or self._router.route(one.sentence, one.kind)
        if found.kind is Kind.REFLEX and one.kind is None:
            found = Route(Kind.REFLEX, found.layer, f"{found.reason}; it acts once it is added with: ghostshell reflex add")
        self._kept[one.name] = Kept(one, found)

    def _check_room(self) -> None:
        """Raise PrescriptionError where no more guidelines can be enabled."""
        if (there := len(self._standing(Kind.GUIDELINE))) >= MAX_GUIDELINES:
            raise PrescriptionError(f"{there} guidelines are enabled, as many as can be; disable or remove one first")

    def _disable_surplus(self, shipped: Path | None) -> None:
        """Disable the last of people's guidelines where the files enable more than can be."""
        guidelines, told = self.of(Kind.GUIDELINE), f"at most {MAX_GUIDELINES} can be; disable or remove some"
        if (ours := sum(self._as_shipped.get(k.name, False) for k in guidelines)) > MAX_GUIDELINES:
            raise PrescriptionError(f"{shipped}: {ours} guidelines are enabled, {told}")
        enabled = [k for k in guidelines if k.prescription.enabled]
        if len(enabled) <= MAX_GUIDELINES:
            return
        self.problem = self.problem or f"{self._own}: with it {len(enabled)} guidelines are enabled, {told}"
        for kept in enabled[MAX_GUIDELINES:]:
            self._put(kept.prescription.model_copy(update={"enabled": False}), kept.route)

    def _save(self, before: dict[str, Kept] | None) -> None:
        """Write people's file. Where that fails, go back to `before` and raise PrescriptionError."""
        self._find_conflicts()
        try:
            if self.problem:
                raise PrescriptionError(f"nothing can be kept: {self.problem}")
            mine = [k.prescription for k in self._kept.values() if not k.prescription.shipped]
            now = {name: self._kept[name].prescription.enabled for name in self._as_shipped}
            changed = {name for name, enabled in now.items() if enabled is not self._as_shipped[name]}
            off, on = ({name for name in changed if now[name] is state} for state in (False, True))
            save(self._own, mine, disabled=off, enabled=on)
        except PrescriptionError:
            if before is not None:
                self._kept = before
                self._find_conflicts()
            raise

    def _standing(self, kind: Kind) -> list[Standing]:
        return [_standing(k) for k in self.of(kind) if k.prescription.enabled]

    def _find_conflicts(self) -> None:
        guidelines = self._standing(Kind.GUIDELINE)
        for name, kept in list(self._kept.items()):
            found: list[Conflict] = []
            if kept.route.kind is Kind.GUIDELINE and kept.prescription.enabled:
                found = contradictions(_standing(kept), [*guidelines, *self._reflexes.values()])
                ruled = {conflict.name for conflict in found}
                said = [c for (one, _), c in self._verdicts.items() if one == name and c.name not in ruled]
                found += [c for c in said if c.name in self._kept and self._kept[c.name].prescription.enabled]
            self._kept[name] = Kept(kept.prescription, kept.route, tuple(found))


def _standing(kept: Kept) -> Standing:
    one = kept.prescription
    return Standing(one.name, one.sentence, Kind.GUIDELINE, one.when, one.task)
