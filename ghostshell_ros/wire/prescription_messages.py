# SPDX-License-Identifier: Apache-2.0
"""Convert prescriptions to messages."""

from __future__ import annotations

from collections.abc import Iterable

from ghostshell.msg import Prescription as PrescriptionMsg
from ghostshell.msg import ReflexState

from ghostshell_ros.wire.values import ros_text
from planners.prescriptions.book import Kept
from planners.prescriptions.prescription import Conflict, Kind, Route

NUMBERS = {Kind.TASK: PrescriptionMsg.TASK, Kind.GUIDELINE: PrescriptionMsg.GUIDELINE, Kind.REFLEX: PrescriptionMsg.REFLEX}
_STATES = {ReflexState.PROPOSED: "proposed: it waits for approval", ReflexState.APPROVED: "approved"}


def routed(name: str, sentence: str, route: Route) -> PrescriptionMsg:
    """Return a sentence and its layer; a reflex does not act before it is approved."""
    return PrescriptionMsg(
        name=name,
        kind=NUMBERS[route.kind],
        sentence=ros_text(sentence),
        layer=route.layer,
        reason=ros_text(route.reason),
        enabled=route.kind is not Kind.REFLEX,
    )


def prescription_message(kept: Kept) -> PrescriptionMsg:
    """Return a kept prescription."""
    message = routed(kept.name, kept.prescription.sentence, kept.route)
    message.enabled = kept.prescription.enabled
    message.conflicts = [ros_text(conflict.text()) for conflict in kept.conflicts]
    return message


def reflex_prescription(reflex: ReflexState, conflicts: Iterable[Conflict]) -> PrescriptionMsg:
    """Return a reflex as a prescription."""
    return PrescriptionMsg(
        name=reflex.name,
        kind=PrescriptionMsg.REFLEX,
        sentence=reflex.sentence,
        layer="S0",
        reason=_STATES.get(reflex.state, f"disabled: {reflex.reason}"),
        enabled=reflex.state == ReflexState.APPROVED,
        conflicts=[ros_text(conflict.text()) for conflict in conflicts],
    )
