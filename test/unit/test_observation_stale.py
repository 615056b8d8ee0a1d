# SPDX-License-Identifier: Apache-2.0
"""A field that is stale or missing says so and never passes as fresh, on a virtual clock."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observing import CALLS, KALOS, TABLE, Scene, person, turn
from thorough import examples

from skill_kernel.observation.accessors import View
from skill_kernel.observation.model import (
    OBSERVATION_MAX_AGE_S,
    FieldValue,
    Kind,
    Observation,
    Pose,
    Sector,
    SeenObject,
    StaleFieldError,
    Value,
    alike,
)
from skill_kernel.skills.drivers import Scan

ABOUT_AGE = ("age_s", "stale")


def test_a_person_seen_while_the_detector_works_is_unknown_once_it_is_dead() -> None:
    scene = Scene()
    scene.see(person(1.2))
    assert scene.view().call("visible", "person") is True
    scene.wait(1.1)
    for call in (("visible", "person"), ("distance_to", "person"), ("people_visible",), ("count", "person")):
        with pytest.raises(StaleFieldError, match=r"1\.1 s old, at most 1 s"):
            scene.view().call(*call)


def test_a_detector_that_never_spoke_does_not_say_that_nothing_is_there() -> None:
    with pytest.raises(StaleFieldError, match="object_detections' is missing: nothing has come from topic"):
        Scene().view().call("visible", "person")


def test_what_was_seen_and_is_gone_is_at_no_distance_and_that_is_fresh() -> None:
    scene = Scene()
    scene.see(person(1.2))
    scene.wait(0.6)
    scene.see()
    assert scene.view().call("visible", "person") is False
    assert scene.view().call("distance_to", "person") == math.inf
    assert math.isnan(scene.view().call("bearing_to", "person"))


def test_a_thing_in_sight_at_an_unknown_distance_is_not_far_away() -> None:
    scene = Scene()
    scene.see(person(math.nan))
    with pytest.raises(StaleFieldError, match="how far it is cannot be told"):
        scene.view().call("distance_to", "person")
    assert scene.view().call("bearing_to", "person") == pytest.approx(0.0)


def test_before_the_first_observation_every_accessor_raises() -> None:
    view = View(None, TABLE, 5.0)
    for name, *arguments in CALLS:
        if name not in ABOUT_AGE:
            with pytest.raises(StaleFieldError, match="is the observer running"):
                view.call(name, *arguments)
    assert view.call("stale", "pose") is True
    assert view.call("age_s", "pose") == math.inf


def test_when_the_observer_is_silent_what_does_not_age_is_stale_too() -> None:
    scene = Scene()
    scene.everything()
    last = scene.observation()
    assert scene.view(last).call("posture") == "stand"
    scene.wait(OBSERVATION_MAX_AGE_S + 0.1)
    for field in ("posture", "last_heard", "subsystems"):
        assert scene.view(last).call("stale", field) is True
    with pytest.raises(StaleFieldError, match=r"observer has said nothing for 1\.1 s"):
        scene.view(last).call("heard")


def test_a_state_holds_as_long_as_somebody_publishes_it() -> None:
    scene = Scene()
    scene.everything()
    scene.wait(1000.0)
    assert scene.view().call("posture") == "stand"
    scene.observer.miss("posture", "nobody publishes 'posture_state'; is its node running?")
    with pytest.raises(StaleFieldError, match="nobody publishes"):
        scene.view().call("posture")


def test_nobody_having_spoken_is_an_answer() -> None:
    view = Scene().view()
    assert (view.call("heard"), view.call("heard_age_s"), view.call("stale", "last_heard")) == ("", math.inf, False)


def test_a_field_made_of_another_is_as_old_as_that_one() -> None:
    scene = Scene()
    scene.mapped()
    scene.odometry(x=1.0, y=2.0)
    assert scene.view().call("room") == "kitchen"
    scene.wait(0.6)
    with pytest.raises(StaleFieldError, match=r"field 'room' is stale: 0\.6 s"):
        scene.view().call("room")


def test_a_pose_without_its_place_in_the_map_is_missing_and_so_is_the_room() -> None:
    scene = Scene()
    scene.odometry(x=1.0)
    with pytest.raises(StaleFieldError, match="nobody tells where odom lies in the map"):
        scene.view().call("x_m")
    with pytest.raises(StaleFieldError, match="made of 'pose', and nobody tells"):
        scene.view().call("room")
    assert scene.view().call("moving") is False


def test_the_pose_is_turned_into_the_map() -> None:
    scene = Scene()
    scene.mapped(Pose(1.0, 0.0, math.pi / 2))
    scene.odometry(x=2.0, yaw=math.pi / 2)
    view = scene.view()
    assert (view.call("x_m"), view.call("y_m")) == pytest.approx((1.0, 2.0))
    assert abs(view.call("heading_deg")) == pytest.approx(180.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "a lot", None])
def test_a_battery_that_gives_no_number_is_missing(value: object) -> None:
    scene = Scene()
    scene.observer.take("battery", 0.8, scene.now)
    scene.observer.take("battery", value, scene.now)
    with pytest.raises(StaleFieldError, match="no number"):
        scene.view().call("battery_percent")


@pytest.mark.parametrize("broken", [{"x": math.nan}, {"yaw": math.inf}, {"speed": math.nan}])
def test_odometry_that_is_not_all_numbers_counts_as_silence(broken: dict[str, float]) -> None:
    scene = Scene()
    scene.mapped()
    scene.odometry(x=1.0)
    scene.wait(0.4)
    scene.odometry(**broken)
    scene.wait(0.2)
    with pytest.raises(StaleFieldError, match=r"0\.6 s old"):
        scene.view().call("x_m")


@pytest.mark.parametrize("ranges", [[], [math.nan] * 360])
def test_a_scan_that_measured_nothing_counts_as_silence(ranges: list[float]) -> None:
    scene = Scene()
    assert scene.scan(turn(3.0))
    scene.wait(0.4)
    assert not scene.scan(Scan(-math.pi, math.radians(1), ranges, 0.05, 12.0))
    scene.wait(0.2)
    with pytest.raises(StaleFieldError, match=r"field 'obstacles' is stale"):
        scene.view().call("front_distance_m")


def test_a_field_of_another_kind_than_the_robots_file_says_is_not_taken_for_nothing_there() -> None:
    wrong = {name: FieldValue(name, Kind.TEXT, "", 100.0, 5.0) for name in KALOS.observation}
    wrong |= {
        name: FieldValue(name, Kind.SECTORS, (), 100.0, 5.0) for name in ("posture", "room", "last_heard", "object_detections")
    }
    view = View(Observation(100.0, 1, 0.0, wrong), TABLE, 100.0)
    for name, *arguments in CALLS:
        if name not in ABOUT_AGE:
            with pytest.raises(StaleFieldError, match="restart the observer"):
                view.call(name, *arguments)


KINDS = st.sampled_from(
    [(Kind.NUMBER, 4.0), (Kind.BOOLEAN, False), (Kind.TEXT, ""), (Kind.OBJECTS, ()), (Kind.SECTORS, ()), (Kind.TABLE, {})]
)


@given(
    kind_and_value=KINDS,
    measured=st.floats(0, 1000),
    limit=st.floats(0.01, 100),
    wait=st.floats(0, 200),
    made_after=st.floats(0, 200),
)
def test_a_field_is_given_exactly_while_it_is_younger_than_its_limit(
    kind_and_value: tuple[Kind, object], measured: float, limit: float, wait: float, made_after: float
) -> None:
    kind, value = kind_and_value
    field = FieldValue("f", kind, value, measured, limit)  # type: ignore[arg-type]
    now = measured + wait
    view = View(Observation(max(measured, now - made_after), 1, 0.0, {"f": field}), {}, now)
    old = now - measured > limit or now - max(measured, now - made_after) > OBSERVATION_MAX_AGE_S
    if old:
        with pytest.raises(StaleFieldError) as raised:
            view.fresh("f")
        assert raised.value.age_s == pytest.approx(now - measured)
    else:
        assert view.fresh("f") == value


SOURCES = ("odom", "scan", "detector", "battery")
READS = {
    "odom": (("speed_mps",), ("moving",), ("x_m",), ("room",)),
    "scan": (("front_distance_m",), ("nearest_distance_m",)),
    "detector": (("visible", "ball"), ("distance_to", "person"), ("people_visible",)),
    "battery": (("battery_percent",), ("charging",)),
}
LIMIT = {"odom": 0.5, "scan": 0.5, "detector": 1.0, "battery": 5.0}


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.sampled_from(SOURCES), st.floats(0.01, 2.0)), max_size=25))
def test_whatever_falls_silent_whenever_every_accessor_raises_exactly_when_its_source_is_too_old(
    story: list[tuple[str, float]],
) -> None:
    scene, spoke = Scene(), {}
    scene.mapped()
    for source, wait in story:
        if source == "odom":
            scene.odometry(x=1.0)
        elif source == "scan":
            scene.scan(turn(2.0))
        elif source == "detector":
            scene.see(person(2.0))
        else:
            scene.observer.take("battery", 0.5, scene.now)
            scene.observer.take("charging", 1, scene.now)
        spoke[source] = scene.now
        scene.wait(wait)
        view = scene.view()
        for one, calls in READS.items():
            fresh = one in spoke and scene.now - spoke[one] <= LIMIT[one]
            for call in calls:
                if fresh:
                    view.call(*call)
                else:
                    with pytest.raises(StaleFieldError):
                        view.call(*call)


@pytest.mark.parametrize("broken", [Pose(math.nan, 0.0, 0.0), Pose(0.0, math.inf, 0.0), Pose(0.0, 0.0, -math.inf)])
def test_a_place_in_the_map_that_is_not_finite_counts_as_silence(broken: Pose) -> None:
    scene = Scene()
    scene.mapped(Pose(1.0, 2.0, 0.0))
    scene.odometry(0.5)
    scene.mapped(broken)
    assert (scene.view().call("x_m"), scene.view().call("y_m")) == (1.5, 2.0)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (True, False, False),
        (0.5, 0.51, True),
        (0.5, 0.54, False),
        (math.inf, math.inf, True),
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (Pose(1.0, 2.0, 0.5), Pose(1.01, 2.0, 0.51), True),
        (Pose(1.0, 2.0, 0.5), Pose(1.0, 2.0, 0.6), False),
        ((Sector("front", 1.0),), (Sector("front", 0.95),), False),
        ((Sector("front", math.inf),), (Sector("front", 1.0),), False),
        ((SeenObject(1, "person", 0.5, 0.1, 2.0),), (SeenObject(1, "person", 0.9, 0.11, 2.01, seen_s=0.2),), True),
        ((SeenObject(1, "person", 0.5, 0.1, 2.0),), (SeenObject(2, "person", 0.5, 0.1, 2.0),), False),
        ((SeenObject(1, "person", 0.5, 0.1, 2.0),), (), False),
        (None, (), False),
    ],
)
def test_what_differs_by_no_more_than_noise_is_alike(one: Value | None, other: Value | None, same: bool) -> None:
    values = [FieldValue("field", Kind.TEXT, value) for value in (one, other)]
    assert alike(*values) is same


def test_a_field_that_is_missing_for_another_reason_has_changed() -> None:
    assert not alike(
        FieldValue("field", Kind.TEXT, None, missing="gone"), FieldValue("field", Kind.TEXT, None, missing="silent")
    )
