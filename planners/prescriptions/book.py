# SPDX-License-Identifier: Apache-2.0
"""The tasks and guidelines of a robot, shipped and added: where each belongs, and which contradict one another. Approved
reflexes have a book of their own."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from planners.prescriptions.contradictions import contradictions
from planners.prescriptions.prescription import (
    MAX_GUIDELINES,
    Conflict,
    Kept,
    Kind,
    Prescription,
    PrescriptionFile,
    Route,
    UnknownPrescriptionError,
    checked,
    load,
    save,
)
from planners.prescriptions.router import Router
from reflexes.rule import MAX_SENTENCE, name_of
from skill_kernel.config.sections import nearest, shown
from skill_kernel.config.yaml_text import RecordError
from skill_kernel.observation.accessors import Accessor

MAX_PRESCRIPTIONS = 200


class PrescriptionBook:
    """Hold prescriptions by name, in order. `shipped` is the robot's own file, `own` what people added; both may be absent.

    Raises RecordError when the shipped file is wrong. `problem` says why people's file could not be read: it is then left as
    it is, and nothing can be kept until it is mended or removed.
    """

    def __init__(self, router: Router, accessors: Mapping[str, Accessor], *, own: Path, shipped: Path | None = None) -> None:
        self._router, self._accessors, self._own = router, accessors, own
        self.problem = ""
        self._reflexes: dict[str, Prescription] = {}
        self._taken: frozenset[str] = frozenset()
        """Names of all reflexes, also of those that do not fire."""
        self._kept: dict[str, Kept] = {}
        """Without their conflicts, which change with the others."""
        ours = load(shipped, accessors, shipped=True) if shipped is not None else PrescriptionFile()
        self._as_shipped = {one.name: one.enabled for one in ours.prescriptions}
        try:
            theirs = load(own, accessors) if own.exists() else PrescriptionFile()
        except RecordError as error:
            self.problem, theirs = f"{error}; mend or remove that file", PrescriptionFile()
        for one in (*ours.prescriptions, *theirs.prescriptions):
            if one.name in self._kept:
                self.problem = self.problem or f"{own}: '{one.name}' is the name of a shipped one; give it another name"
                continue
            if one.shipped:
                enabled = one.name in theirs.enabled or (one.enabled and one.name not in theirs.disabled)
                one = one.model_copy(update={"enabled": enabled})
            self._kept[one.name] = _routed(one, router.route(one.sentence, one.kind))
        self._disable_surplus(shipped)

    def all(self) -> list[Kept]:
        """Return every one, in order."""
        return [self.get(name) for name in self._kept]

    def of(self, kind: Kind) -> list[Kept]:
        """Return those of a kind, enabled or not."""
        return [kept for kept in self.all() if kept.route.kind is kind]

    def holds(self, name: str) -> bool:
        """Return whether a task or guideline has that name. A reflex of a file has its name at the node of the reflexes."""
        return name in self._kept and self._kept[name].route.kind is not Kind.REFLEX

    def get(self, name: str) -> Kept:
        """Return one by name. Raises UnknownPrescriptionError with the nearest name."""
        if name in self._kept:
            return replace(self._kept[name], conflicts=tuple(self._conflicts(name)))
        raise UnknownPrescriptionError(f"there is no prescription '{shown(name)}'{nearest(name, self._kept, else_known=True)}")

    def conflicts_of_reflex(self, name: str) -> list[Conflict]:
        """Return the guidelines that contradict a reflex."""
        reflex = self._reflexes.get(name)
        return contradictions(reflex, self._guidelines().values()) if reflex is not None else []

    def route(self, sentence: str, kind: Kind | None = None) -> Route:
        """Return where a sentence would go. Raises RecordError for one that is empty or too long."""
        if len(sentence) > MAX_SENTENCE:
            raise RecordError(f"the sentence has {len(sentence)} characters; say it in at most {MAX_SENTENCE}")
        checked({"name": name_of(sentence), "sentence": sentence or " "}, self._accessors)
        return self._router.route(sentence, kind)

    def add(
        self, sentence: str, *, kind: Kind | None = None, name: str = "", author: str = "", route: Route | None = None
    ) -> Kept:
        """Keep a task or guideline. `route` is the answer of `route` where that was asked. Raises RecordError when it cannot be
        taken: nothing has changed then."""
        route = route or self.route(sentence, kind)
        taken = frozenset(self._kept) | self._taken
        if route.kind is Kind.REFLEX:
            raise RecordError(f"it is a reflex ({route.reason}); add it with: ghostshell reflex add")
        if name in taken:
            raise RecordError(f"there is a prescription '{name}' already; remove it first, or choose another name")
        if len(self._kept) >= MAX_PRESCRIPTIONS:
            raise RecordError(f"there are {len(self._kept)} prescriptions; remove one first")
        if route.kind is Kind.GUIDELINE:
            self._check_room()
        words = {"sentence": " ".join(sentence.split()), "author": author[:100]}
        one = checked({"name": name or name_of(sentence, taken), "kind": route.kind, **words}, self._accessors)
        self._keep({**self._kept, one.name: _routed(one, route)})
        return self.get(one.name)

    def remove(self, name: str) -> None:
        """Remove one. Raises RecordError, also for a shipped one, which can only be disabled."""
        if self.get(name).prescription.shipped:
            raise RecordError(f"'{name}' comes with the robot's configuration; disable it instead")
        self._keep({other: kept for other, kept in self._kept.items() if other != name})

    def enable(self, name: str, enabled: bool) -> Kept:
        """Switch one on or off. Raises RecordError; a guideline is switched off even where the disk refuses."""
        kept = self.get(name)
        if enabled and not kept.prescription.enabled and kept.route.kind is Kind.GUIDELINE:
            self._check_room()
        self._keep({**self._kept, name: _switched(kept, enabled)}, anyway=not enabled)
        return self.get(name)

    def reflexes(self, reflexes: Iterable[Prescription], names: Iterable[str] = ()) -> bool:
        """Take the reflexes that fire now and the `names` of all; return whether those that fire have changed."""
        before, self._reflexes = self._reflexes, {one.name: one for one in reflexes}
        self._taken = frozenset(self._reflexes) | frozenset(names)
        return self._reflexes != before

    def _check_room(self) -> None:
        """Raise RecordError where no more guidelines can be enabled."""
        if (there := len(self._guidelines())) >= MAX_GUIDELINES:
            raise RecordError(f"{there} guidelines are enabled, as many as can be; disable or remove one first")

    def _disable_surplus(self, shipped: Path | None) -> None:
        """Disable the last of people's guidelines where the files enable more than can be."""
        enabled, told = [*self._guidelines()], f"at most {MAX_GUIDELINES} can be; disable or remove some"
        ours = [n for n, on in self._as_shipped.items() if on and self._kept[n].route.kind is Kind.GUIDELINE]
        if len(ours) > MAX_GUIDELINES:
            raise RecordError(f"{shipped}: {len(ours)} guidelines are enabled, {told}")
        if len(enabled) > MAX_GUIDELINES:
            self.problem = self.problem or f"{self._own}: with it {len(enabled)} guidelines are enabled, {told}"
        for name in enabled[MAX_GUIDELINES:]:
            self._kept[name] = _switched(self._kept[name], False)

    def _keep(self, changed: dict[str, Kept], *, anyway: bool = False) -> None:
        """Write people's file, and hold what it holds. Where that fails, raise RecordError and change nothing but `anyway`."""
        self._kept = changed if anyway else self._kept
        if self.problem:
            raise RecordError(f"nothing can be kept: {self.problem}")
        all_of_them = [kept.prescription for kept in changed.values()]
        switched = [one for one in all_of_them if one.shipped and one.enabled != self._as_shipped[one.name]]
        off, on = ([one.name for one in switched if one.enabled is wanted] for wanted in (False, True))
        save(self._own, [one for one in all_of_them if not one.shipped], disabled=off, enabled=on)
        self._kept = changed

    def _guidelines(self) -> dict[str, Prescription]:
        """Return the guidelines that are enabled, by name."""
        kept = {name: kept.prescription for name, kept in self._kept.items() if kept.route.kind is Kind.GUIDELINE}
        return {name: one for name, one in kept.items() if one.enabled}

    def _conflicts(self, name: str) -> list[Conflict]:
        guidelines = self._guidelines()
        others = [*guidelines.values(), *self._reflexes.values()]
        return contradictions(guidelines[name], others) if name in guidelines else []


def _routed(one: Prescription, route: Route) -> Kept:
    if route.kind is Kind.REFLEX and one.kind is None:
        route = replace(route, reason=f"{route.reason}; it acts once it is added with: ghostshell reflex add")
    return Kept(one, route)


def _switched(kept: Kept, enabled: bool) -> Kept:
    return replace(kept, prescription=kept.prescription.model_copy(update={"enabled": enabled}))
