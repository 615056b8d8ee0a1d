# SPDX-License-Identifier: Apache-2.0
"""Convert reflexes to messages."""

from ghostshell.msg import ReflexState

from ghostshell_ros.wire.codec import filled
from ghostshell_ros.wire.values import ros_text, time_message
from reflexes.loop import Watch
from reflexes.rule import Rule, RuleState, Unreadable

STATES = {state: int(getattr(ReflexState, state.name)) for state in RuleState}
_HOLDS = {True: ReflexState.YES, False: ReflexState.NO, None: ReflexState.UNKNOWN}


def reflex_message(rule: Rule, watch: Watch | None, *, unfit: str = "", ros_minus_steady_s: float = 0.0) -> ReflexState:
    """Return a rule and the state of its evaluation. `unfit` says why an approved rule is not evaluated."""
    same = ("name", "sentence", "source", "model", "hash", "approver", "shipped", "reason", "priority", "cooldown_s", "repeats")
    message: ReflexState = filled(ReflexState(), {name: getattr(rule, name) for name in same})
    message.state, message.holds, message.approved = STATES[rule.state], ReflexState.UNKNOWN, time_message(rule.approved_s)
    if unfit:
        message.state, message.reason = ReflexState.DISABLED, ros_text(unfit)
    if watch is not None:
        message.holds, message.stale_field, message.acting = _HOLDS[watch.holds], watch.stale_field, watch.firing is not None
        message.evaluations, message.stale, message.fired = watch.evaluations, watch.stale, watch.fired
        message.overruns, message.last = watch.overruns, ros_text(watch.last)
        if watch.fired:
            message.last_fired = time_message(watch.fired_at_s + ros_minus_steady_s)
        if watch.evaluations:
            message.mean_us, message.longest_us = watch.cost_s / watch.evaluations * 1e6, watch.longest_s * 1e6
    return message


def refused_message(unreadable: Unreadable) -> ReflexState:
    """Return the state of a file that cannot be read as a reflex any more."""
    why = ros_text(unreadable.why)
    return ReflexState(name=unreadable.name, state=ReflexState.DISABLED, reason=why, holds=ReflexState.UNKNOWN)
