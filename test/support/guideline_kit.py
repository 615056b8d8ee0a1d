# SPDX-License-Identifier: Apache-2.0
"""A desk with guidelines on a virtual clock, and what it sees."""

from __future__ import annotations

from asked_model import AskedModel, Told
from process_desk import REACTIVE, Desk

from bench.virtual_clock import VirtualClock
from planners.prescriptions.prescription import Kept, Prescription, Route
from planners.prescriptions.prescription import Kind as PrescriptionKind
from planners.processes.advisor import AdvisorContext, system_prompt
from planners.processes.guidelines import GuidelineLoop
from planners.prompts.prompt import RobotFacts
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.observation.model import FieldValue, Kind, Observation, SeenObject
from skill_kernel.processes.process import Process
from skill_kernel.robot import RobotConfig

ACCESSORS = accessors_of(RobotConfig.load("kalos"))
PERSON = "visible('person')"


def Guideline(
    name: str, sentence: str, when: str = "", task: str = "", cooldown_s: float = 30.0, rule: tuple[str, str] = ("", "")
) -> Kept:
    """Return a guideline; `rule` is what its sentence was read as."""
    stated = {"when": when, "task": task, "cooldown_s": cooldown_s}
    one = Prescription(name=name, sentence=sentence, kind=PrescriptionKind.GUIDELINE, **stated)
    return Kept(one, Route(PrescriptionKind.GUIDELINE, "S3", "", *rule))


GREET = Guideline("greet", "greet people", PERSON, "say hello", 10.0)
ENGAGE = Guideline("engage", "you may engage a nearby person")
RULED = Guideline("wave", "whenever you see a person, bark", rule=(PERSON, "bark"))


class Watched(Desk):
    """A desk with guidelines, on one virtual clock; observations come 5 times a second unless told otherwise."""

    def __init__(self, *guidelines: Kept, model: bool = True, blind: bool = False) -> None:
        super().__init__()
        self.clock, self.told = VirtualClock(), Told()
        self.model = AskedModel()
        self.halting = False
        context = AdvisorContext(
            self.model, self.clock, system_prompt(RobotFacts("kalos", "", ())), lambda: {"room": "kitchen"}, lambda: ()
        )
        self.loop = GuidelineLoop(
            self.core,
            self.clock,
            ACCESSORS,
            self.told,
            context=context if model else None,
            blind=lambda: blind,
            robot="kalos",
            halting=lambda: self.halting,
        )
        self.loop.set(guidelines)

    def sees(self, *labels: str, for_s: float = 0.2, room: str = "kitchen", battery: float = 80.0, age_s: float = 0.0) -> None:
        """Look for so long, five times a second."""
        for _ in range(round(for_s / 0.2)):
            now = self.clock.now()
            things = tuple(SeenObject(i, label, 0.9, 0.0, 1.0) for i, label in enumerate(labels))
            at = now - age_s
            fields = {
                "object_detections": FieldValue("object_detections", Kind.OBJECTS, things, at, 1.0),
                "room": FieldValue("room", Kind.TEXT, room, at),
                "battery": FieldValue("battery", Kind.NUMBER, battery, at, 5.0),
                "posture": FieldValue("posture", Kind.TEXT, f"moving{now}", at),
                "last_heard": FieldValue("last_heard", Kind.TEXT, "", at),
            }
            self.loop.observe(Observation(now, fields=fields))
            self.clock.run(until_s=now + 0.2)

    @property
    def fired(self) -> list[tuple[str, Process]]:
        """Return the guidelines that have fired, each with its process."""
        return [(name, self.process(process_id)) for name, process_id in self.told.fires]

    def ends(self, name: str) -> None:
        self.finishes(name)
        self.loop.process_ended(self.process(name))

    def times_asked(self) -> int:
        return len(self.model.questions)

    def reactions(self) -> list[str]:
        return [p.instruction for p in self.core.living if p.source is REACTIVE]
