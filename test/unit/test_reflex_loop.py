# SPDX-License-Identifier: Apache-2.0
"""System 0 on a clock of its own: which rule fires and when, hard priorities, and what becomes of one that misbehaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from guard_corpus import rule as source
from observing import Scene, person
from reflex_kit import vocabulary

from reflexes.dry_run import call_text
from reflexes.loop import REARM_S, STRIKES, Ended, Firing, ReflexLoop
from reflexes.rule import LoadedRule, Rule
from skill_kernel.guard.compiler import compile_guarded

NEAR = "distance_to('person') < 1"


def loaded(name: str, condition: str = NEAR, action: str = "move_back(0.5)", **settings: object) -> LoadedRule:
    text = source(condition, action)
    rule = Rule.model_validate({"name": name, "sentence": name, "source": text, "model": "test", **settings})
    return LoadedRule(rule, compile_guarded(text, vocabulary()))


class World:
    """A loop whose performer writes down what it is asked, on the scene's clock."""

    def __init__(self, *rules: LoadedRule) -> None:
        self.scene = Scene()
        self.events: list[str] = []
        self.cost_s = 0.0
        self._spent_s = 0.0
        self.firing: dict[str, Firing] = {}
        self.loop = ReflexLoop(vocabulary().accessors, self, self._disabled, spent=self._spent)
        self.loop.set_rules(rules)

    def _spent(self) -> float:
        self._spent_s += self.cost_s
        return self._spent_s

    def _disabled(self, rule: LoadedRule, why: str) -> None:
        self.events.append(f"disabled {rule.rule.name}: {why}")

    def start(self, firing: Firing) -> None:
        self.firing[firing.name] = firing
        self.events.append(f"start {firing.name}")

    def cancel(self, firing: Firing, cause: str) -> None:
        self.events.append(f"cancel {firing.name}: {cause}")

    def end(self, name: str, how: Ended = Ended.DONE) -> None:
        self.loop.ended(self.firing.pop(name), how, self.scene.now)

    def sees(self, metres: float | None, *, after_s: float = 0.0) -> None:
        """Return a person so far away, or nobody, in an observation now."""
        self.scene.wait(after_s)
        self.scene.everything()
        if metres is not None:
            self.scene.see(person(metres))
        self.loop.observe(self.scene.observation(), self.scene.now)

    def tick(self, after_s: float = 0.01) -> None:
        self.scene.wait(after_s)
        self.loop.tick(self.scene.now)

    def gone(self) -> None:
        """Nobody in sight for long enough that every rule is armed again."""
        for _ in range(3):
            self.sees(None, after_s=REARM_S)


def test_a_rule_fires_at_once_on_the_observation_that_makes_its_condition_true() -> None:
    world = World(loaded("back"))
    world.sees(3.0)
    assert world.events == []
    world.sees(0.8, after_s=0.1)
    assert world.events == ["start back"]


def test_it_does_not_fire_again_while_its_condition_stays_true_nor_until_it_was_false_for_a_while() -> None:
    world = World(loaded("back", cooldown_s=0.1))
    world.sees(0.8)
    world.end("back")
    for _ in range(50):
        world.sees(0.8, after_s=0.1)
    assert world.events == ["start back"]
    world.sees(3.0, after_s=0.1)
    world.sees(0.8, after_s=REARM_S / 2)
    assert world.events == ["start back"]
    world.gone()
    world.sees(0.8, after_s=0.1)
    assert world.events == ["start back", "start back"]


def test_a_rule_that_repeats_fires_again_after_its_cooldown_while_its_condition_holds() -> None:
    world = World(loaded("back", repeats=True, cooldown_s=2.0))
    world.sees(0.8)
    world.end("back")
    world.sees(0.8, after_s=1.9)
    assert world.events == ["start back"]
    world.sees(0.8, after_s=0.2)
    assert world.events == ["start back", "start back"]


def test_a_rule_that_acts_does_not_fire_once_more() -> None:
    world = World(loaded("back", repeats=True, cooldown_s=0.1))
    for _ in range(20):
        world.sees(0.8, after_s=0.5)
    assert world.events == ["start back"]


def test_of_two_that_need_the_same_the_one_with_the_higher_priority_acts() -> None:
    world = World(loaded("low", priority=10), loaded("high", priority=90))
    world.sees(0.8)
    assert world.events == ["start high"]
    world.end("high")
    world.tick()
    assert world.events == ["start high", "start low"]


def test_a_higher_one_interrupts_a_lower_one_that_holds_what_it_needs() -> None:
    world = World(loaded("low", "distance_to('person') < 2", priority=10), loaded("high", priority=90))
    world.sees(1.5)
    world.sees(0.8, after_s=0.1)
    assert world.events == ["start low", "cancel low: reflex 'high' has a higher priority", "start high"]


def test_an_interrupted_one_may_fire_again_when_the_higher_one_is_over() -> None:
    world = World(loaded("low", "distance_to('person') < 2", priority=10, cooldown_s=0.5), loaded("high", priority=90))
    world.sees(1.5)
    world.sees(0.8, after_s=0.1)
    world.end("low", Ended.NOT_NOW)
    world.end("high")
    world.sees(1.5, after_s=0.6)
    assert world.events[-1] == "start low"


def test_one_of_the_same_or_a_lower_priority_waits_and_fires_if_it_still_has_cause() -> None:
    world = World(loaded("first", "distance_to('person') < 2"), loaded("second"))
    world.sees(1.5)
    world.sees(0.8, after_s=0.1)
    assert world.events == ["start first"]
    world.sees(1.5, after_s=0.1)
    world.end("first")
    world.tick()
    assert world.events == ["start first"]


def test_rules_that_need_different_things_act_at_the_same_time() -> None:
    world = World(loaded("back", priority=90), loaded("bark", action="bark(1)", priority=10))
    world.sees(0.8)
    assert world.events == ["start back", "start bark"]


def test_a_stale_field_is_no_cause_to_fire_and_is_counted() -> None:
    world = World(loaded("back"), loaded("low_battery", "battery_percent() < 20", "sit()", priority=10))
    world.scene.everything()
    world.scene.see(person(0.8))
    world.scene.wait(1.5)
    world.loop.observe(world.scene.observation(), world.scene.now)
    back = world.loop.watches[0]
    assert world.events == [] and back.holds is None and back.stale == 1 and back.stale_field == "object_detections"
    assert world.loop.watches[1].holds is False


def test_without_any_observation_nothing_fires() -> None:
    world = World(loaded("back"), loaded("not_seen", "not visible('person')"))
    world.tick()
    assert world.events == [] and all(w.holds is None for w in world.loop.watches)


def test_an_observer_that_fell_silent_makes_every_condition_unknown() -> None:
    world = World(loaded("sit", "battery_percent() > 20", "sit()", repeats=True, cooldown_s=0.1))
    world.sees(None)
    assert world.events == ["start sit"]
    world.end("sit")
    world.tick(after_s=1.2)
    assert world.events == ["start sit"] and world.loop.watches[0].holds is None


def test_a_stale_while_does_not_count_as_false() -> None:
    world = World(loaded("back", cooldown_s=0.1))
    world.sees(0.8)
    world.end("back")
    for _ in range(10):
        world.tick(after_s=REARM_S)
    world.sees(0.8)
    assert world.events == ["start back"]


def test_a_condition_that_raises_disables_that_rule_only() -> None:
    world = World(loaded("bad", "1 / (battery_percent() - 80) > 0", priority=90), loaded("back"))
    world.sees(0.8)
    assert world.events == ["disabled bad: its condition raised ZeroDivisionError: float division by zero", "start back"]
    world.sees(0.8, after_s=0.1)
    assert len(world.events) == 2


def test_an_action_that_raises_disables_its_rule_and_ends() -> None:
    world = World(loaded("bad", action="bark(1)\nmove_back(0 - distance_to('person'))"))
    world.sees(0.8)
    firing = world.firing["bad"]
    first = world.loop.advance(firing, True, world.scene.now)
    assert first is not None and call_text(first) == "bark(times=1)"
    assert world.loop.advance(firing, True, world.scene.now) is None
    assert world.events[1].startswith("disabled bad: its action raised ArgumentError")
    world.end("bad", Ended.FAILED)
    world.gone()
    world.sees(0.8)
    assert len(world.events) == 2


def test_an_action_reads_what_is_true_when_it_gets_there() -> None:
    world = World(loaded("look", action="bark(1)\nif distance_to('person') < 0.5:\n    move_back(0.5)"))
    world.sees(0.8)
    firing = world.firing["look"]
    assert world.loop.advance(firing, True, world.scene.now) is not None
    world.sees(0.3, after_s=0.2)
    request = world.loop.advance(firing, True, world.scene.now)
    assert request is not None and request.name == "move_back"


def test_an_action_whose_field_is_stale_ends_but_its_rule_stays() -> None:
    world = World(loaded("look", action="bark(1)\nif distance_to('person') < 0.5:\n    move_back(0.5)"))
    world.sees(0.8)
    firing = world.firing["look"]
    world.loop.advance(firing, True, world.scene.now)
    assert world.loop.advance(firing, True, world.scene.now + 5.0) is None
    assert "stale" in firing.cancelled and world.loop.watches[0].disabled == ""


def test_overruns_in_a_row_disable_a_rule_and_one_alone_does_not() -> None:
    world = World(loaded("slow", budget_ms=1.0))
    world.sees(3.0)
    world.cost_s = 0.002
    for _ in range(STRIKES - 1):
        world.tick()
    world.cost_s = 0.0
    world.tick()
    assert world.events == []
    world.cost_s = 0.002
    for _ in range(STRIKES):
        world.tick()
    assert world.events == ["disabled slow: it took 2.0 ms, its budget is 1 ms"]
    assert world.loop.watches[0].overruns == 2 * STRIKES - 1


def test_one_huge_overrun_disables_at_once() -> None:
    world = World(loaded("slow"))
    world.cost_s = 0.3
    world.sees(3.0)
    assert world.events == ["disabled slow: it took 300.0 ms, its budget is 2 ms"]


def test_an_action_that_takes_too_long_is_cancelled_and_its_rule_disabled() -> None:
    world = World(loaded("back", limit_s=1.0))
    world.sees(0.8)
    world.tick(after_s=0.9)
    assert world.events == ["start back"]
    world.tick(after_s=0.2)
    why = "its action took longer than 1 s"
    assert world.events[1:] == [f"cancel back: {why}", f"disabled back: {why}"]
    world.tick()
    assert len(world.events) == 3


def test_a_removed_rule_that_acts_is_cancelled_and_an_unchanged_one_keeps_its_state() -> None:
    back, bark = loaded("back"), loaded("bark", action="bark(1)")
    world = World(back, bark)
    world.sees(0.8)
    world.loop.set_rules([loaded("bark", action="bark(1)")])
    assert world.events[2:] == ["cancel back: the reflex was removed or changed"]
    world.end("back", Ended.NOT_NOW)
    assert [w.fired for w in world.loop.watches] == [1] and len(world.loop.active) == 1


def test_a_cancelled_action_asks_for_nothing_more() -> None:
    world = World(loaded("low", "distance_to('person') < 2", priority=10), loaded("high", priority=90))
    world.sees(1.5)
    low = world.firing["low"]
    world.sees(0.8, after_s=0.1)
    assert world.loop.advance(low, True, world.scene.now) is None


@pytest.mark.parametrize("order", [lambda x: x, lambda x: list(reversed(x))])
def test_the_order_in_which_rules_are_given_does_not_matter(order: Callable[[list[LoadedRule]], list[LoadedRule]]) -> None:
    world = World(*order([loaded("b"), loaded("a"), loaded("c", priority=60)]))
    world.sees(0.8)
    assert world.events == ["start c"]
    assert [w.loaded.rule.name for w in world.loop.watches] == ["c", "a", "b"]


def test_the_same_question_is_asked_once_a_round() -> None:
    asked: list[str] = []
    table = dict(vocabulary().accessors)
    read = table["distance_to"].read
    table["distance_to"] = replace(table["distance_to"], read=lambda v, label: (asked.append(label), read(v, label))[1])
    world = World()
    loop = ReflexLoop(table, world, lambda *_: None)
    loop.set_rules([loaded(f"r{n}", f"distance_to('person') < 0.{n + 1}") for n in range(8)])
    world.scene.everything()
    loop.observe(world.scene.observation(), world.scene.now)
    assert asked == ["person"]


def test_a_halt_cancels_what_acts_and_lets_nothing_fire_until_it_is_cleared() -> None:
    world = World(loaded("back", repeats=True, cooldown_s=0.1), loaded("bark", action="bark(1)", priority=10))
    world.sees(0.8)
    world.loop.suspend("the robot is halted")
    assert world.events[2:] == ["cancel back: the robot is halted", "cancel bark: the robot is halted"]
    assert world.loop.advance(world.firing["back"], True, world.scene.now) is None
    world.end("back", Ended.NOT_NOW)
    world.sees(0.8, after_s=0.5)
    assert len(world.events) == 4
    world.loop.suspend("")
    world.sees(0.8, after_s=0.1)
    assert world.events[4:] == ["start back"]


def test_an_action_that_is_cancelled_already_does_not_disable_its_rule_for_taking_long() -> None:
    world = World(loaded("back", limit_s=1.0))
    world.sees(0.8)
    world.loop.interrupt(world.firing["back"], "an operator has the base")
    world.tick(after_s=2.0)
    assert world.events == ["start back", "cancel back: an operator has the base"]


def test_an_unchanged_rule_compiled_anew_runs_its_new_code_at_once_or_after_its_action() -> None:
    still, acts = loaded("still", "battery_percent() < 20"), loaded("acts", action="bark(1)")
    world = World(still, acts)
    world.sees(0.8)
    new_still, new_acts = loaded("still", "battery_percent() < 20"), loaded("acts", action="bark(1)")
    world.loop.set_rules([new_still, new_acts])
    used = {w.loaded.rule.name: w.loaded for w in world.loop.watches}
    assert used["still"] is new_still and used["acts"] is acts
    world.end("acts")
    assert next(w for w in world.loop.watches if w.loaded.rule.name == "acts").loaded is new_acts
