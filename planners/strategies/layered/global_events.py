# SPDX-License-Identifier: Apache-2.0
"""Watch a plan's global events: each fires when its condition comes true, not while it stays so (TypeGo 6)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from planners.plan import GlobalEvent
from planners.strategy import Judge
from skill_kernel.guard.compiler import GuardedExpression
from skill_kernel.guard.condition_text import Trigger, holds, read_condition
from skill_kernel.guard.reading import GuardError
from skill_kernel.observation.accessors import Accessor, View

REARM_S = 1.0
"""Time for which a condition must have been false before it may come true again."""
GAP_S = 5.0
"""The least time between two firings of one event; it doubles with each, so that what flickers cannot keep a task from
its work."""
LONGEST_GAP_S = 120.0
JUDGED_EVERY_S = 2.0
"""A sentence is put to a model so often at most, and only when the scene has changed."""


@dataclass(eq=False)
class _Watched:
    event: GlobalEvent
    expression: GuardedExpression | None
    trigger: Trigger = field(default_factory=lambda: Trigger(REARM_S))
    fired: int = 0
    fired_s: float = 0.0
    judging: bool = False
    judged_s: float = float("-inf")
    judged_scene: object = None

    def comes_true(self, holds: bool | None, now: float) -> bool:
        """Take the condition's value; return whether the event is to fire. Unknown changes nothing."""
        gap_s = min(GAP_S * 2.0 ** max(0, self.fired - 1), LONGEST_GAP_S)
        return self.trigger.see(holds, now) and not (self.fired and now - self.fired_s < gap_s)

    def has_fired(self, now: float) -> None:
        """Keep it from firing again while it stays true."""
        self.trigger.spend()
        self.fired, self.fired_s = self.fired + 1, now


Fire = Callable[[GlobalEvent], bool]
"""Hear of an event that came true; return whether it is taken. One that is not may come true again."""


class GlobalEvents:
    """Watch the events of one plan. `problems` says of those that cannot be watched why."""

    def __init__(self, accessors: Mapping[str, Accessor], judge: Judge | None, now: Callable[[], float]) -> None:
        self._accessors, self._judge, self._now = accessors, judge, now
        self._watched: list[_Watched] = []
        self.problems: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._watched)

    def follow(self, events: Iterable[GlobalEvent]) -> None:
        """Watch these from now on; one that is known, though it may be worded anew, keeps what was seen of it."""
        known, self._watched, self.problems = self._watched, [], []
        for event in events:
            alike = [w for w in known if w.event.condition == event.condition and w not in self._watched]
            watched = min(alike, key=lambda w: w.event.response != event.response, default=None) or self._made(event)
            if watched is not None:
                watched.event = event
                self._watched.append(watched)

    def look(self, view: View, scene: object, fire: Fire) -> None:
        """Evaluate all; `fire` hears of the first that came true. `scene` equal to the one before: nothing to judge anew.
        What a model judges may come later, and then find nobody who takes it: it is judged again at a later look."""
        now = self._now()
        for watched in list(self._watched):
            if watched.expression is None:
                self._ask(watched, scene, now, fire)
            elif watched.comes_true(holds(watched.expression, view.call)[0], now) and fire(watched.event):
                watched.has_fired(now)
                return

    def _ask(self, watched: _Watched, scene: object, now: float, fire: Fire) -> None:
        due = now - watched.judged_s >= JUDGED_EVERY_S and (watched.judged_scene != scene or watched.judged_scene is None)
        if self._judge is None or watched.judging or not due:
            return
        watched.judging, watched.judged_s, watched.judged_scene = True, now, scene

        def answered(holds: bool | None) -> None:
            watched.judging = False
            if holds is None:
                watched.judged_scene = None
            if watched in self._watched and watched.comes_true(holds, self._now()):
                if fire(watched.event):
                    watched.has_fired(self._now())
                else:
                    watched.judged_scene = None

        self._judge(watched.event.condition, answered)

    def _made(self, event: GlobalEvent) -> _Watched | None:
        try:
            expression = read_condition(event.condition, self._accessors).expression
        except GuardError as error:
            self.problems.append(f"event “{event.condition}”: {error}")
            return None
        if expression is None and self._judge is None:
            self.problems.append(f"event “{event.condition}”: no model can judge the sentence")
            return None
        return _Watched(event, expression, fired=event.fired)
