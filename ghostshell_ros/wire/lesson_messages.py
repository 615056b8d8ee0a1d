# SPDX-License-Identifier: Apache-2.0
"""Convert what robots learn to and from messages."""

from ghostshell.msg import Lesson as LessonMsg

from ghostshell_ros.wire.codec import filled
from ghostshell_ros.wire.values import seconds, time_message
from planners.learned import Lesson, LessonKind, Level, Proposal, State

STATES = {state: int(getattr(LessonMsg, state.name)) for state in State}
_STATE_OF = {number: state for state, number in STATES.items()}
_TEXTS = ("text", "correction", "better", "source", "sender", "door", "process")
"""Texts of a proposal that stand in the message under the same name."""


def proposal_message(proposal: Proposal) -> LessonMsg:
    """Return a proposal as a message; of a lesson also how it stands."""
    told = dict(vars(proposal))
    if isinstance(proposal, Lesson):
        times = {"time": time_message(told.pop("time_s")), "changed": time_message(told.pop("changed_s"))}
        told |= {"state": STATES[proposal.state], **times}
    message: LessonMsg = filled(LessonMsg(), told)
    return message


def proposal_of(message: LessonMsg) -> Proposal:
    """Return what a message proposes. Raises ValueError for a kind or level that there is not."""
    return Proposal(
        **{name: getattr(message, name) for name in _TEXTS},
        kind=LessonKind(message.kind),
        level=Level(message.level),
        contradicts=tuple(message.contradicts),
        routines=tuple(message.routines),
    )


def lesson_of(message: LessonMsg) -> Lesson:
    """Return a lesson of a message. Raises ValueError for a kind, level or state that there is not."""
    if message.state not in _STATE_OF:
        raise ValueError(f"lesson {message.id} is in state {message.state}; use PROPOSED, CONFIRMED or REVOKED")
    return Lesson(
        **vars(proposal_of(message)),
        id=message.id,
        state=_STATE_OF[message.state],
        time_s=seconds(message.time),
        by=message.by,
        changed_s=seconds(message.changed),
        why=message.why,
    )
