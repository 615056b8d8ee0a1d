# SPDX-License-Identifier: Apache-2.0
"""The accessors of a robot: one table of typed functions over its observation, for prompts, conditions and reflexes."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from skill_kernel.config.observation import STANDARD, NearestBySector, Track
from skill_kernel.observation.model import (
    ArgumentError,
    Kind,
    Observation,
    Pose,
    Sector,
    SeenObject,
    StaleFieldError,
    UnknownAccessorError,
    Value,
)
from skill_kernel.robot import RobotConfig


class View:
    """Made for each evaluation; `now` is on the steady clock that the observation's times are on. `observation` is None
    before the first one: every field is missing then."""

    def __init__(self, observation: Observation | None, table: Mapping[str, Accessor], now: float) -> None:
        self._observation = observation
        self._table = table
        self._now = now

    def call(self, name: str, *arguments: str) -> Result:
        """What an accessor says. Raises StaleFieldError, UnknownAccessorError or ArgumentError."""
        accessor = self._table.get(name)
        if accessor is None:
            near = difflib.get_close_matches(name[:80], self._table, n=1, cutoff=0.5)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise UnknownAccessorError(f"there is no accessor '{name[:80]}'{hint} (known: {', '.join(sorted(self._table))})")
        accessor.check(arguments)
        return accessor.read(self, arguments)

    def fresh(self, field: str, kind: Kind | None = None) -> Value:
        """A field's value. Raises StaleFieldError when it is missing, too old, or of another kind than is wanted."""
        whole = self._observation
        if whole is None:
            raise StaleFieldError(
                field, float("inf"), f"field '{field}' is not known yet: no observation has come; is the observer running?"
            )
        one = whole.fields.get(field)
        if one is None:
            raise StaleFieldError(
                field,
                float("inf"),
                f"field '{field}' is not in the observation; was the robot's file changed? Restart the observer",
            )
        age = one.age(self._now)
        if one.value is None:
            raise StaleFieldError(field, age, f"field '{field}' is missing: {one.missing or 'no reason is given'}")
        if whole.stale(self._now):
            gone = self._now - whole.stamp
            raise StaleFieldError(
                field, age, f"field '{field}' is stale: the observer has said nothing for {gone:.1f} s; is it running?"
            )
        if one.stale(self._now):
            raise StaleFieldError(
                field,
                age,
                f"field '{field}' is stale: {age:.1f} s old, at most {one.max_age_s:g} s allowed; does its source still send?",
            )
        if kind is not None and one.kind is not kind:
            raise self.untold(field, f"it is a {one.kind.value}, no {kind.value}; restart the observer with this robot's file")
        return one.value

    def age(self, field: str) -> float:
        """Seconds since the field was measured, inf when it never was."""
        one = self._observation.fields.get(field) if self._observation is not None else None
        return one.age(self._now) if one is not None else float("inf")

    def untold(self, field: str, why: str) -> StaleFieldError:
        """The error for a field that is fresh and yet does not tell what was asked."""
        return StaleFieldError(field, self.age(field), f"field '{field}' does not tell: {why}")


Result = bool | int | float | str
ResultType = type[bool] | type[int] | type[float] | type[str] | type[object]
"""`object` where the type depends on the argument."""

_RESULT: dict[Kind, ResultType] = {Kind.BOOLEAN: bool, Kind.NUMBER: float, Kind.TEXT: str}


@dataclass(frozen=True)
class Parameter:
    """A text argument. `choices`, where there are any, are all that is allowed."""

    name: str
    choices: tuple[str, ...] = ()
    type: type[str] = str


@dataclass(frozen=True)
class Accessor:
    """A function over the observation. `fields` are those it reads; when one is stale or missing the call raises.

    `returns` is the type of what it gives, object where that depends on its argument: `result_type` then knows.
    """

    name: str
    parameters: tuple[Parameter, ...]
    returns: ResultType
    doc: str
    fields: tuple[str, ...]
    read: Callable[[View, tuple[str, ...]], Result]
    by_argument: Mapping[str, ResultType] | None = None

    def result_type(self, arguments: Sequence[str] = ()) -> ResultType:
        """The type of what a call with these literal arguments gives. Raises ArgumentError as the call would."""
        self.check(arguments)
        return self.returns if self.by_argument is None else self.by_argument[arguments[0]]

    def check(self, arguments: Sequence[object]) -> None:
        """Raise ArgumentError, with the nearest that is allowed, for arguments that do not fit."""
        if len(arguments) != len(self.parameters):
            raise ArgumentError(f"{self.signature()} takes {len(self.parameters)} argument(s), not {len(arguments)}")
        for parameter, given in zip(self.parameters, arguments, strict=True):
            if not isinstance(given, str):
                raise ArgumentError(f"{parameter.name} of {self.name} is a text in quotes, not {type(given).__name__}")
            if parameter.choices and given not in parameter.choices:
                near = difflib.get_close_matches(given[:80], parameter.choices, n=1, cutoff=0.5)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                raise ArgumentError(
                    f"{self.name} knows no {parameter.name} '{given[:80]}'{hint} (known: {', '.join(parameter.choices)})"
                )

    def signature(self) -> str:
        """As it stands in prompts: `visible(label: str) -> bool`."""
        returned = self.returns.__name__ if self.by_argument is None else "bool | float | str"
        return f"{self.name}({', '.join(f'{p.name}: str' for p in self.parameters)}) -> {returned}"


def accessors_of(robot: RobotConfig) -> dict[str, Accessor]:
    """The accessors that this robot's fields allow, by name. A field of its own that is a boolean, number or text gives one
    of the field's name."""
    fields = robot.observation
    table: dict[str, Accessor] = {}

    def add(
        name: str,
        returns: ResultType,
        doc: str,
        field: str,
        read: Callable[[View, tuple[str, ...]], Result],
        *parameters: Parameter,
    ) -> None:
        if field in fields:
            table[name] = Accessor(name, parameters, returns, doc, (field,), read)

    process = fields["object_detections"].process if "object_detections" in fields else None
    label = Parameter("label", process.labels if isinstance(process, Track) else ())
    add("visible", bool, "Whether a thing of this label is in sight.", "object_detections", _visible, label)
    add("count", int, "How many things of this label are in sight.", "object_detections", _count, label)
    add(
        "distance_to",
        float,
        "Metres from the robot's middle to the nearest thing of this label; inf when none is in sight.",
        "object_detections",
        _distance_to,
        label,
    )
    add(
        "bearing_to",
        float,
        "Degrees, left positive, to the nearest thing of this label; nan when none is in sight.",
        "object_detections",
        _bearing_to,
        label,
    )
    add(
        "people_visible", int, "How many people are in sight.", "visible_people", lambda v, a: int(_number(v, "visible_people"))
    )

    scanned = fields["obstacles"].process if "obstacles" in fields else None
    sectors = scanned.sectors if isinstance(scanned, NearestBySector) else {}
    for sector, where in (("front", "in front"), ("left", "on the left"), ("right", "on the right"), ("back", "behind")):
        if sector in sectors:
            doc = f"Metres from the robot's edge to the nearest obstacle {where}; inf when the way is free."
            add(f"{sector}_distance_m", float, doc, "obstacles", lambda v, a, name=sector: _sector(v, name))  # type: ignore[misc]
    add(
        "nearest_distance_m",
        float,
        "Metres from the robot's edge to the nearest obstacle anywhere; inf when all is free.",
        "obstacles",
        _nearest_sector,
    )

    add("x_m", float, "Where the robot is in the map: x in metres.", "pose", lambda v, a: _pose(v).x)
    add("y_m", float, "Where the robot is in the map: y in metres.", "pose", lambda v, a: _pose(v).y)
    add("heading_deg", float, "Where the robot looks in the map: degrees from x, left positive, -180 to 180.", "pose", _heading)
    add("speed_mps", float, "Speed in metres a second.", "speed", lambda v, a: _number(v, "speed"))
    add("moving", bool, "Whether the robot walks or turns.", "moving", _own("moving", STANDARD["moving"]))
    add("room", str, "Name of the room the robot is in; '' in none.", "room", _own("room", STANDARD["room"]))
    add("posture", str, fields["posture"].role if "posture" in fields else "", "posture", _own("posture", STANDARD["posture"]))
    add("battery_percent", float, "Charge of the battery in percent.", "battery", lambda v, a: _number(v, "battery"))
    add("charging", bool, "Whether the battery is being charged.", "charging", _own("charging", STANDARD["charging"]))
    subsystem = Parameter("name", tuple(robot.subsystems))
    add("subsystem_busy", bool, "Whether a skill uses this subsystem now.", "subsystems", _busy, subsystem)
    add("heard", str, "The last thing somebody said to the robot; '' when nobody has.", "last_heard", _heard)
    said = Parameter("words")
    add("heard_words", bool, "Whether these words, whole and in this order, are in it.", "last_heard", _heard_words, said)
    add("heard_age_s", float, "Seconds since then; inf when nobody has said anything.", "last_heard", _heard_age)

    for name, config in fields.items():
        if name not in STANDARD and config.kind in _RESULT:
            add(name, _RESULT[config.kind], config.role, name, _own(name, config.kind))
    if fields:
        any_field = Parameter("field", tuple(fields))
        told = {name: _RESULT[config.kind] for name, config in fields.items() if config.kind in _RESULT}
        for told_name, returns, doc, read in (
            ("age_s", float, "Seconds since this field was measured; inf when it never was.", _age),
            ("stale", bool, "Whether this field is too old or missing.", _stale),
        ):
            table[told_name] = Accessor(told_name, (any_field,), returns, doc, (), read)
        if told:
            doc = "What this field says."
            choice = Parameter("field", tuple(told))
            table["value"] = Accessor(
                "value", (choice,), object, doc, (), lambda v, a: _own(a[0], fields[a[0]].kind)(v, a), told
            )
    return table


def _objects(view: View, label: str) -> list[SeenObject]:
    seen = view.fresh("object_detections", Kind.OBJECTS)
    return (
        [thing for thing in seen if isinstance(thing, SeenObject) and thing.label == label] if isinstance(seen, tuple) else []
    )


def _visible(view: View, arguments: tuple[str, ...]) -> bool:
    return bool(_objects(view, arguments[0]))


def _count(view: View, arguments: tuple[str, ...]) -> int:
    return len(_objects(view, arguments[0]))


def _distance_to(view: View, arguments: tuple[str, ...]) -> float:
    things = _objects(view, arguments[0])
    known = [thing.distance for thing in things if not math.isnan(thing.distance)]
    if things and not known:
        raise view.untold("object_detections", f"the {arguments[0]} is in sight, but how far it is cannot be told")
    return min(known, default=math.inf)


def _bearing_to(view: View, arguments: tuple[str, ...]) -> float:
    things = _objects(view, arguments[0])
    nearest = min(things, key=lambda t: (math.isnan(t.distance), t.distance, -t.confidence), default=None)
    return math.nan if nearest is None else math.degrees(nearest.bearing)


def _sectors(view: View) -> list[Sector]:
    value = view.fresh("obstacles", Kind.SECTORS)
    return [sector for sector in value if isinstance(sector, Sector)] if isinstance(value, tuple) else []


def _sector(view: View, name: str) -> float:
    for sector in _sectors(view):
        if sector.name == name and not math.isnan(sector.distance):
            return sector.distance
    raise view.untold("obstacles", f"the lidar does not measure what is in sector '{name}'")


def _nearest_sector(view: View, _: tuple[str, ...]) -> float:
    known = [sector.distance for sector in _sectors(view) if not math.isnan(sector.distance)]
    if not known:
        raise view.untold("obstacles", "the lidar measures in no sector")
    return min(known)


def _pose(view: View) -> Pose:
    value = view.fresh("pose", Kind.POSE)
    assert isinstance(value, Pose)
    return value


def _heading(view: View, _: tuple[str, ...]) -> float:
    return math.degrees(math.remainder(_pose(view).yaw, math.tau))


def _number(view: View, field: str) -> float:
    value = view.fresh(field, Kind.NUMBER)
    assert isinstance(value, (int, float))
    return float(value)


def _own(field: str, kind: Kind) -> Callable[[View, tuple[str, ...]], Result]:
    def read(view: View, _: tuple[str, ...]) -> Result:
        value = view.fresh(field, kind)
        assert isinstance(value, (bool, int, float, str))
        return value

    return read


def _busy(view: View, arguments: tuple[str, ...]) -> bool:
    table = view.fresh("subsystems", Kind.TABLE)
    assert isinstance(table, Mapping)
    if arguments[0] not in table:
        raise view.untold("subsystems", f"the kernel says nothing of subsystem '{arguments[0]}'")
    return bool(table[arguments[0]] == "busy")


def _heard(view: View, _: tuple[str, ...]) -> str:
    return str(view.fresh("last_heard", Kind.TEXT))


def _heard_words(view: View, arguments: tuple[str, ...]) -> bool:
    return f" {plain_words(arguments[0])} " in f" {plain_words(_heard(view, ()))} "


def plain_words(text: str) -> str:
    """The words of a text in small letters with one blank between; apostrophes inside words stay."""
    return " ".join(re.findall(r"\w+(?:'\w+)*", text.lower().replace("’", "'")))


def _heard_age(view: View, _: tuple[str, ...]) -> float:
    view.fresh("last_heard", Kind.TEXT)
    return view.age("last_heard")


def _age(view: View, arguments: tuple[str, ...]) -> float:
    return view.age(arguments[0])


def _stale(view: View, arguments: tuple[str, ...]) -> bool:
    try:
        view.fresh(arguments[0])
    except StaleFieldError:
        return True
    return False
