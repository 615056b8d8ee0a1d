# SPDX-License-Identifier: Apache-2.0
"""The office in text: what each skill and deed needs, and that a failure changes nothing."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.evaluation.propositions import Moment, evaluate
from bench.office.layout import office
from bench.office.tasks import Step, criterion
from bench.office.vocabulary import FACILITIES, FACILITY_AT, PLACES, PROFILES
from bench.office.world import Absence, Code, Deed, Facility, Item, Layout, Office, Person, Where
from bench.things import ITEMS

ITEMS_HERE = {
    "li_keys": ("keys", "Li"),
    "li_laptop": ("laptop", "Li"),
    "wu_document": ("document", "Wu"),
    "wu_monitor": ("monitor", "Wu"),
    "wu_mug": ("mug", "Wu"),
    "li_parcel": ("parcel", "Li"),
}
SKILLS = ("navigate_to", "pick_up", "put_down", "give", "take", "use_facility", "open_locker", "say", "dance")


def small(**where: Where) -> Office:
    """Return an office with four robots in the workspace, with Li and Wu there, and Ma, a lead, in the lab."""
    names = {"porter_1": "porter", "shuttle_1": "shuttle", "hound_1": "hound", "helper_1": "helper"}
    facilities = {
        "printer_1": Facility("printer", "print_room"),
        "shredder": Facility("shredder", "director_office"),
        "coffee_machine_1": Facility("coffee_machine", "workspace"),
        "smart_locker": Facility("smart_locker", "workspace"),
    }
    people = {"Li": Person("workspace"), "Wu": Person("workspace"), "Ma": Person("lab", lead=True)}
    items = {name: Item(*about) for name, about in ITEMS_HERE.items()}
    first = {name: Where("had", item.owner) for name, item in items.items()} | where
    robots = {name: PROFILES[kind] for name, kind in names.items()}
    codes = {"porter_1": "1111", "smart_locker": "2222"}
    return Office(Layout(people, items, facilities, robots, first, dict.fromkeys(robots, "workspace"), codes))


def does(world: Office, robot: str, skill: str, **given: str) -> str:
    """Return the code of a skill's failure, "" for none."""
    failure = world.attempt(robot, skill, given)
    return failure.code.value if failure else ""


def test_vocabulary_has_the_papers_numbers_of_items_and_facilities() -> None:
    assert len(ITEMS) == 30 and len(FACILITIES) == 12 and FACILITIES.keys() == FACILITY_AT.keys()


@pytest.mark.parametrize(
    ("robot", "skill", "arguments", "code"),
    [
        ("helper_1", "navigate_to", {"place": "archive"}, "UNEVEN_GROUND"),
        ("shuttle_1", "navigate_to", {"place": "lab"}, "NO_BADGE"),
        ("helper_1", "navigate_to", {"place": "moon"}, "UNKNOWN_NAME"),
        ("hound_1", "navigate_to", {"place": "archive"}, ""),
        ("porter_1", "take", {"item": "li_laptop", "person": "Li"}, ""),
        ("hound_1", "take", {"item": "li_laptop", "person": "Li"}, "TOO_HEAVY"),
        ("porter_1", "take", {"item": "wu_monitor", "person": "Wu"}, "TOO_LARGE"),
        ("shuttle_1", "take", {"item": "wu_monitor", "person": "Wu"}, ""),
        ("helper_1", "take", {"item": "wu_document", "person": "Li"}, "NOT_HELD"),
        ("helper_1", "pick_up", {"item": "wu_mug"}, "NOT_VISIBLE"),
        ("porter_1", "put_down", {"place": "workspace"}, "NEEDS_ARM"),
        ("helper_1", "put_down", {"place": "workspace"}, "NOT_HELD"),
        ("helper_1", "use_facility", {"facility": "printer_1", "action": "print"}, "ONLY_PEOPLE"),
        ("helper_1", "use_facility", {"facility": "printer_1", "action": "fly"}, "NO_SUCH_USE"),
        ("hound_1", "use_facility", {"facility": "coffee_machine_1", "action": "brew"}, "NEEDS_ARM"),
        ("helper_1", "open_locker", {"locker": "smart_locker", "code": "9999"}, "WRONG_CODE"),
        ("helper_1", "open_locker", {"locker": "porter_1", "code": "1111"}, "NEEDS_ARM"),
        ("helper_1", "dance", {}, "UNKNOWN_SKILL"),
        ("nobody", "say", {"person": "Li", "text": "hello"}, "UNKNOWN_SKILL"),
    ],
)
def test_skill_needs(robot: str, skill: str, arguments: dict[str, str], code: str) -> None:
    assert does(small(), robot, skill, **arguments) == code


@pytest.mark.parametrize(
    ("robot", "item", "where", "code"),
    [
        ("helper_1", "wu_mug", Where("lies", "workspace", "shelf"), ""),
        ("hound_1", "wu_mug", Where("lies", "workspace", "shelf"), "OUT_OF_REACH"),
        ("helper_1", "li_keys", Where("lies", "workspace", "floor"), "OUT_OF_REACH"),
        ("hound_1", "li_keys", Where("lies", "workspace", "floor"), ""),
        ("helper_1", "wu_document", Where("lies", "workspace"), "TOO_THIN"),
        ("helper_1", "wu_monitor", Where("lies", "workspace"), "TOO_LARGE"),
        ("hound_1", "li_laptop", Where("lies", "workspace"), "TOO_HEAVY"),
        ("helper_1", "li_keys", Where("lies", "lab"), "NOT_HERE"),
        ("shuttle_1", "li_keys", Where("lies", "workspace"), "NEEDS_ARM"),
        ("helper_1", "wu_document", Where("file"), "NOT_VISIBLE"),
        ("helper_1", "li_keys", Where("inside", "smart_locker"), "LOCKED"),
        ("hound_1", "li_keys", Where("inside", "coffee_machine_1"), "NOT_VISIBLE"),
    ],
)
def test_pick_up_needs_reach_grip_payload_and_sight(robot: str, item: str, where: Where, code: str) -> None:
    assert does(small(**{item: where}), robot, "pick_up", item=item) == code


def test_hand_holds_one_thing_and_a_locker_opens_with_its_code() -> None:
    world = small(li_keys=Where("lies", "workspace"))
    assert does(world, "helper_1", "take", item="wu_mug", person="Wu") == ""
    assert does(world, "helper_1", "pick_up", item="li_keys") == "HANDS_FULL"
    assert does(world, "porter_1", "take", item="li_laptop", person="Li") == ""
    assert does(world, "porter_1", "give", item="li_laptop", person="Wu") == "LOCKED"
    assert does(world, "porter_1", "open_locker", locker="porter_1", code="1111") == ""
    assert does(world, "porter_1", "navigate_to", place="lab") == ""
    assert does(world, "porter_1", "give", item="li_laptop", person="Ma") == "LOCKED"
    assert does(world, "porter_1", "open_locker", locker="porter_1", code="1111") == ""
    assert does(world, "porter_1", "give", item="li_laptop", person="Ma") == ""
    assert world.items["li_laptop"] == Where("had", "Ma")


@pytest.mark.parametrize("giver", ["porter_1", "shuttle_1", "hound_1", "helper_1"])
@pytest.mark.parametrize("taker", ["porter_1", "shuttle_1", "hound_1", "helper_1"])
def test_hand_over_is_an_offer_and_a_matching_take_and_needs_an_arm(giver: str, taker: str) -> None:
    if giver == taker:
        return
    world = small(li_keys=Where("had", giver))
    world.open.add(giver)
    arms = {"hound_1", "helper_1"}
    assert does(world, taker, "take", item="li_keys", person=giver) == "NOTHING_OFFERED"
    assert does(world, giver, "give", item="li_keys", person=taker) == ("" if arms & {giver, taker} else "NEEDS_ARM")
    if arms & {giver, taker}:
        other = next(robot for robot in world.robot_at if robot not in (giver, taker))
        assert does(world, other, "take", item="li_keys", person=giver) == "NOTHING_OFFERED"
        assert does(world, taker, "take", item="li_keys", person=giver) == ""
        assert world.items["li_keys"] == Where("had", taker)


def test_offer_lapses_when_the_giver_goes() -> None:
    world = small(li_keys=Where("had", "helper_1"))
    assert does(world, "helper_1", "give", item="li_keys", person="hound_1") == ""
    assert does(world, "helper_1", "navigate_to", place="lobby") == ""
    assert does(world, "helper_1", "navigate_to", place="workspace") == ""
    assert does(world, "hound_1", "take", item="li_keys", person="helper_1") == "NOTHING_OFFERED"


@pytest.mark.parametrize(("kind", "code"), [("busy", "PERSON_BUSY"), ("away", "PERSON_AWAY"), ("later", "PERSON_BUSY")])
def test_people_are_not_there_while_absent(kind: str, code: str) -> None:
    world = small()
    world.absences = {"Li": Absence(kind, 10.0, 20.0)}  # type: ignore[arg-type]
    expected = []
    for world.now_s in (0.0, 15.0, 25.0):
        expected.append(does(world.copy(), "porter_1", "take", item="li_laptop", person="Li"))
    assert expected == ["", code, ""]


def test_robot_that_is_down_and_machine_out_of_order_fail() -> None:
    world = small()
    world.absences = {"helper_1": Absence("down"), "coffee_machine_1": Absence("down")}
    assert does(world, "helper_1", "navigate_to", place="lab") == "ROBOT_DOWN"
    deed = Deed("use", "wu_mug", "coffee_machine_1", "brew")
    failure = world.do("Wu", deed)
    assert failure is not None and failure.code is Code.OUT_OF_ORDER


@pytest.mark.parametrize(
    ("person", "deed", "code"),
    [
        ("Wu", Deed("sign", "wu_document"), ""),
        ("Li", Deed("sign", "wu_document"), "NOT_HELD"),
        ("Wu", Deed("use", "wu_document", "printer_1", "copy"), ""),
        ("Wu", Deed("use", "wu_mug", "printer_1", "copy"), "WRONG_ITEM"),
        ("Wu", Deed("use", "wu_document", "shredder", "shred"), "NOT_AUTHORISED"),
        ("Wu", Deed("bring", "wu_document", to="Ma"), ""),
        ("Li", Deed("bring", "wu_document", to="Ma"), "NOT_VISIBLE"),
        ("Wu", Deed("bring", "wu_document", to="moon"), "UNKNOWN_NAME"),
        ("Li", Deed("lend", "li_keys"), ""),
    ],
)
def test_deed_needs(person: str, deed: Deed, code: str) -> None:
    failure = small().do(person, deed)
    assert (failure.code.value if failure else "") == code


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_failure_changes_nothing_and_every_item_is_in_one_place(seed: int) -> None:
    chance = random.Random(seed)
    layout = office(seed % 5)
    world = Office(layout, {"Wang": Absence("busy"), "hound_1": Absence("down", 40.0)})
    names = [*layout.items, *layout.people, *layout.robots, *layout.facilities, *PLACES, "print", "store", "nothing"]
    for world.now_s in range(60):  # type: ignore[assignment]
        before = world.state()
        if chance.random() < 0.7:
            given = {n: chance.choice(names) for n in ("place", "item", "person", "facility", "action", "locker", "text")}
            given |= {"item": chance.choice(list(layout.items)), "place": chance.choice(list(PLACES))}
            given["code"] = chance.choice(list(layout.codes.values()))
            failure = world.attempt(chance.choice(list(layout.robots)), chance.choice(SKILLS), given)
        else:
            deed = Deed(
                chance.choice(("use", "sign", "bring", "lend")),
                chance.choice(list(layout.items)),
                chance.choice(list(layout.facilities)),
                chance.choice(("print", "copy", "scan", "store")),
                chance.choice(names),
            )
            failure = world.do(chance.choice(list(layout.people)), deed)
        if failure is not None:
            assert world.state() == before and failure.why
        assert set(world.items) == set(layout.items)
        for robot, profile in layout.robots.items():
            has = world.had_by(robot)
            assert len(has) <= profile.holds
            assert sum(ITEMS[layout.items[item].kind].mass_g for item in has) <= 1000 * profile.payload_kg


def test_criterion_knows_the_order_of_signing_and_returning() -> None:
    world = small()
    steps = (
        Step("get", "wu_document", ("Wu",)),
        Step("sign", "wu_document", ("Li",), deps=(0,)),
        Step("deliver", "wu_document", ("Wu",), deps=(1,)),
    )
    wanted = criterion(steps, world.layout)
    moments = [Moment(0.0, frozenset(world.facts()))]

    def then(*acts: tuple[str, str, dict[str, str]]) -> float:
        for act in acts:
            assert world.attempt(*act) is None
            moments.append(Moment(moments[-1].at + 1, frozenset(world.facts())))
        return evaluate(wanted, moments).complete

    assert then() == 0.0
    take, give = ("take", "give")
    assert then(("porter_1", take, {"item": "wu_document", "person": "Wu"})) == pytest.approx(1 / 3)
    there = ("porter_1", "open_locker", {"locker": "porter_1", "code": "1111"})
    assert then(there, ("porter_1", give, {"item": "wu_document", "person": "Li"})) == pytest.approx(1 / 3)
    assert world.do("Li", Deed("sign", "wu_document")) is None
    moments.append(Moment(moments[-1].at + 1, frozenset(world.facts())))
    assert not evaluate(wanted, moments).success
    back = ("porter_1", take, {"item": "wu_document", "person": "Li"})
    assert then(back, ("porter_1", give, {"item": "wu_document", "person": "Wu"})) == 1.0
