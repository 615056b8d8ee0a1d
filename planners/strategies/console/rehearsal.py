# SPDX-License-Identifier: Apache-2.0
"""Run an improved interaction where nothing moves, before a person is asked whether it is to be kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from function_tokens.markup import value_text
from planners.strategies.console.api import ASK, OBSERVE, WAIT_NAME, Api, ApiError, SkillCall
from planners.strategies.console.errors import text_of
from planners.strategies.console.sandbox import SLEEP, HostCall, Raised, Sandbox, Step
from planners.strategies.console.transcript import Entry, shown
from skill_kernel.config.sections import shown as cut

SHOWN_CODE = 100
Executor = Callable[[SkillCall], Any]
"""Performs a call where nothing moves, and returns its value. Raises RuntimeError with the reason where it cannot be done."""


class RehearsalError(RuntimeError):
    """Report the statement that fails, and why."""


class Checked:
    """Perform calls by checking them, as the channel scheduler would: the skill, its arguments, the robot's limits. A call
    returns what it returned last when it was `done`: with the same arguments, else with other ones, else None."""

    def __init__(self, check: Callable[[str, Mapping[str, str]], str], done: Sequence[tuple[SkillCall, Any]] = ()) -> None:
        self._check, self._done = check, list(done)

    def __call__(self, call: SkillCall) -> Any:
        if why := self._check(call.skill, {name: value_text(value) for name, value in call.arguments.items()}):
            raise RuntimeError(why)
        same = [value for known, value in self._done if known == call]
        return next(reversed(same or [value for known, value in self._done if known.skill == call.skill]), None)


def rehearsed(entries: Sequence[Entry], api: Api, execute: Executor, observed: Mapping[str, Any]) -> list[Entry]:
    """Return an interaction as a console shows it when its statements are run one after the other, in a console of its own;
    people say in it what they said. Blocks. Raises RehearsalError for the first call or statement that fails, also where the
    statement would catch it, and SandboxError."""
    sandbox = Sandbox(api.names)
    try:
        return [_run(sandbox, entry, api, execute, observed) for entry in entries[:-1]] + list(entries[-1:])
    finally:
        sandbox.close()


def _run(sandbox: Sandbox, entry: Entry, api: Api, execute: Executor, observed: Mapping[str, Any]) -> Entry:
    step = sandbox.run(entry.code)
    while isinstance(step, HostCall):
        step = _called(sandbox, step, entry, api, execute, observed)
    if isinstance(step, Raised):
        raise _failed(entry, text_of(step))
    return Entry(entry.code, shown(step.printed, step.shown))


def _called(sandbox: Sandbox, call: HostCall, entry: Entry, api: Api, execute: Executor, observed: Mapping[str, Any]) -> Step:
    if call.name in (OBSERVE, SLEEP):
        return sandbox.answer(dict(observed) if call.name == OBSERVE else None)
    if call.name in (WAIT_NAME, ASK):
        return sandbox.answer(entry.heard)
    if not api.skill(call.name):
        raise _failed(entry, f"{call.name}() has no place in what is learned")
    try:
        return sandbox.answer(execute(api.call(call.name, call.args, call.kwargs)))
    except (ApiError, RuntimeError) as error:
        raise _failed(entry, str(error)) from error


def _failed(entry: Entry, why: str) -> RehearsalError:
    return RehearsalError(f"{cut(entry.code, SHOWN_CODE)}: {why}")
