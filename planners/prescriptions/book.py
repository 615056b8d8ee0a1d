# SPDX-License-Identifier: Apache-2.0
"""All prescriptions of a robot but its reflexes, which have a book of their own: those shipped and those added, where each
belongs, and what contradicts what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from planners.prescriptions.contradictions import contradictions
from planners.prescriptions.kinds import (
    MAX_SENTENCE,
    MOST_GUIDELINES,
    Conflict,
    Kind,
    Prescription,
    PrescriptionError,
    Route,
    Standing,
    UnknownPrescriptionError,
    listed,
)
from planners.prescriptions.loading import Read, checked, load, save
from planners.prescriptions.router import Router
from reflexes.rule import name_of
from skill_kernel.config.sections import nearest
from skill_kernel.observation.accessors import Accessor

MOST = 200


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
        self._told: dict[tuple[str, str], Conflict] = {}
        """What a model said of two of them."""
        self._as_shipped: dict[str, bool] = {}
        self._kept: dict[str, Kept] = {}
        ours = load(shipped, accessors, shipped=True) if shipped is not None else Read()
        try:
            theirs = load(own, accessors) if own.exists() else Read()
        except PrescriptionError as error:
            self.problem, theirs = f"{error}; mend or remove that file", Read()
        for one in (*ours.prescriptions, *theirs.prescriptions):
            if one.name in self._kept:
                self.problem = self.problem or f"{own}: '{one.name}' is the name of a shipped one; give it another name"
                continue
            if one.shipped:
                self._as_shipped[one.name] = one.enabled
                enabled = one.name in theirs.enabled or (one.enabled and one.name not in theirs.disabled)
                one = one.model_copy(update={"enabled": enabled})
            self._put(one)
        self._bound(shipped)
        self._weigh()

    # -- what is asked ------------------------------------------------------------------------------------------------

    def all(self) -> list[Kept]:
        """Every one, in order."""
        return list(self._kept.values())

    def of(self, kind: Kind) -> list[Kept]:
        """Those of a kind, enabled or not."""
        return [kept for kept in self._kept.values() if kept.route.kind is kind]

    def holds(self, name: str) -> bool:
        """Whether a task or guideline has that name; a reflex of a file is at the node of the reflexes under its own."""
        return name in self._kept and self._kept[name].route.kind is not Kind.REFLEX

    def get(self, name: str) -> Kept:
        """Raises UnknownPrescriptionError with the nearest name."""
        kept = self._kept.get(name)
        if kept is None:
            known = sorted(self._kept)
            raise UnknownPrescriptionError(
                f"there is no prescription '{name[:60]}'{nearest(name[:60], known)} (known: {listed(known)})"
            )
        return kept

    def conflicts_of_reflex(self, name: str) -> list[Conflict]:
        """Guidelines that contradict a reflex."""
        reflex = self._reflexes.get(name)
        return contradictions(reflex, self._standing(Kind.GUIDELINE)) if reflex is not None else []

    def route(self, sentence: str, kind: Kind | None = None) -> Route:
        """Where a sentence would go. Raises PrescriptionError for an empty or endless one."""
        if len(sentence) > MAX_SENTENCE:
            raise PrescriptionError(f"the sentence has {len(sentence)} characters; say it in at most {MAX_SENTENCE}")
        if not sentence.strip():
            raise PrescriptionError("the sentence is empty; say what the robot should do")
        name = name_of(sentence, frozenset(self._kept))
        checked({"name": name, "sentence": sentence.strip()}, self._accessors)
        return self._router.route(sentence, kind)

    # -- changes ------------------------------------------------------------------------------------------------------

    def add(
        self, sentence: str, *, kind: Kind | None = None, name: str = "", author: str = "", route: Route | None = None
    ) -> Kept:
        """Keep a task or guideline; `route`: what `route` has said of it. Raises PrescriptionError when it cannot be taken:
        nothing has changed then."""
        route = route or self.route(sentence, kind)
        if route.kind is Kind.REFLEX:
            raise PrescriptionError(f"it is a reflex ({route.reason}); add it with: ghostshell reflex add")
        if name and (name in self._kept or name in self._taken):
            raise PrescriptionError(f"there is a prescription '{name}' already; remove it first, or choose another name")
        if len(self._kept) >= MOST:
            raise PrescriptionError(f"there are {len(self._kept)} prescriptions; remove one first")
        if route.kind is Kind.GUIDELINE:
            self._room()
        taken = frozenset(self._kept) | self._taken
        fields = {
            "name": name or name_of(sentence, taken),
            "kind": route.kind,
            "sentence": " ".join(sentence.split()),
            "author": author[:100],
        }
        before = dict(self._kept)
        self._put(checked(fields, self._accessors), route)
        self._keep(before)
        return self._kept[str(fields["name"])]

    def remove(self, name: str) -> None:
        """Raises PrescriptionError, also for a shipped one, which can only be disabled."""
        if self.get(name).prescription.shipped:
            raise PrescriptionError(f"'{name}' comes with the robot's configuration; disable it instead")
        before = dict(self._kept)
        del self._kept[name]
        self._told = {key: value for key, value in self._told.items() if name not in key}
        self._keep(before)

    def enable(self, name: str, enabled: bool) -> Kept:
        """Switch one on or off. Raises PrescriptionError; a guideline is switched off even where the disk refuses."""
        kept = self.get(name)
        if enabled and not kept.prescription.enabled and kept.route.kind is Kind.GUIDELINE:
            self._room()
        before = dict(self._kept) if enabled else None
        self._put(kept.prescription.model_copy(update={"enabled": enabled}), kept.route)
        self._keep(before)
        return self._kept[name]

    def reflexes(self, reflexes: Iterable[Standing], names: Iterable[str] = ()) -> bool:
        """The reflexes that fire as they are now; whether anything has changed. `names`: also of those that do not."""
        new = {one.name: one for one in reflexes}
        self._taken = frozenset(new) | frozenset(names)
        if new == self._reflexes:
            return False
        self._reflexes = new
        self._weigh()
        return True

    def told(self, name: str, other: str, why: str) -> None:
        """A model says that two contradict each other."""
        for one, that in ((name, other), (other, name)):
            self._told[one, that] = Conflict(that, f"{why} (a model says so)")
        self._weigh()

    def _put(self, one: Prescription, route: Route | None = None) -> None:
        found = route or self._router.route(one.sentence, one.kind)
        if found.kind is Kind.REFLEX and one.kind is None:
            found = Route(Kind.REFLEX, found.layer, f"{found.reason}; it acts once it is added with: ghostshell reflex add")
        self._kept[one.name] = Kept(one, found)

    def _room(self) -> None:
        """For one more enabled guideline. Raises PrescriptionError."""
        if (there := len(self._standing(Kind.GUIDELINE))) >= MOST_GUIDELINES:
            raise PrescriptionError(f"{there} guidelines are enabled, as many as can be; disable or remove one first")

    def _bound(self, shipped: Path | None) -> None:
        """Files may enable more guidelines than can be: the last of people's are off then."""
        guidelines, told = self.of(Kind.GUIDELINE), f"at most {MOST_GUIDELINES} can be; disable or remove some"
        if (ours := sum(self._as_shipped.get(k.name, False) for k in guidelines)) > MOST_GUIDELINES:
            raise PrescriptionError(f"{shipped}: {ours} guidelines are enabled, {told}")
        enabled = [k for k in guidelines if k.prescription.enabled]
        if len(enabled) <= MOST_GUIDELINES:
            return
        self.problem = self.problem or f"{self._own}: with it {len(enabled)} guidelines are enabled, {told}"
        for kept in enabled[MOST_GUIDELINES:]:
            self._put(kept.prescription.model_copy(update={"enabled": False}), kept.route)

    def _keep(self, before: dict[str, Kept] | None) -> None:
        """Write people's file; where that fails, everything is as it was `before`."""
        self._weigh()
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
                self._weigh()
            raise

    # -- contradictions -----------------------------------------------------------------------------------------------

    def _standing(self, kind: Kind) -> list[Standing]:
        return [_standing(k) for k in self.of(kind) if k.prescription.enabled]

    def _weigh(self) -> None:
        guidelines = self._standing(Kind.GUIDELINE)
        for name, kept in list(self._kept.items()):
            found: list[Conflict] = []
            if kept.route.kind is Kind.GUIDELINE and kept.prescription.enabled:
                found = contradictions(_standing(kept), [*guidelines, *self._reflexes.values()])
                ruled = {conflict.name for conflict in found}
                said = [c for (one, _), c in self._told.items() if one == name and c.name not in ruled]
                found += [c for c in said if c.name in self._kept and self._kept[c.name].prescription.enabled]
            self._kept[name] = Kept(kept.prescription, kept.route, tuple(found))


def _standing(kept: Kept) -> Standing:
    one = kept.prescription
    return Standing(one.name, one.sentence, Kind.GUIDELINE, one.when, one.task)
