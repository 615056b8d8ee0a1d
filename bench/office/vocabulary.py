# SPDX-License-Identifier: Apache-2.0
"""Name what an office holds: places, the 12 kinds of facilities (InteractGen IV), people and robots.

The paper prints three of its facilities; the others are ours, and so are all robots' numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bench.things import PAPERS

Height = Literal["floor", "desk", "shelf"]
HEIGHT_M: Mapping[Height, float] = {"floor": 0.1, "desk": 0.75, "shelf": 1.4}
By = Literal["person", "arm"]
"""Who may work a facility: only a person, or also a robot with an arm."""


@dataclass(frozen=True)
class Place:
    """Describe a place. `uneven`: only legs and people come there; `badge`: only who has a badge does. `x`, `y` in m."""

    x: float
    y: float
    uneven: bool = False
    badge: bool = False


PLACES: Mapping[str, Place] = {
    "lobby": Place(0.0, 0.0),
    "reception": Place(6.0, 0.0),
    "workspace": Place(12.0, 4.0),
    "print_room": Place(18.0, 4.0),
    "tea_room": Place(18.0, -4.0),
    "meeting_room": Place(24.0, 0.0),
    "lab": Place(30.0, 4.0, badge=True),
    "director_office": Place(30.0, -4.0, badge=True),
    "storage": Place(12.0, -6.0),
    "library": Place(6.0, 6.0),
    "archive": Place(36.0, 0.0, uneven=True),
    "courtyard": Place(0.0, 10.0, uneven=True),
}


TOO_THIN_CM = 0.2
"""A gripper takes up nothing thinner."""


@dataclass(frozen=True)
class Use:
    """Describe one use of a facility: by whom, of which kinds of items, and whether the item then stays inside. `lead`: only
    leads may."""

    by: By
    items: tuple[str, ...]
    keeps: bool = False
    lead: bool = False


FACILITIES: Mapping[str, Mapping[str, Use]] = {
    "printer": {"print": Use("person", PAPERS), "copy": Use("person", PAPERS)},
    "scanner": {"scan": Use("person", PAPERS)},
    "laminator": {"laminate": Use("person", ("document", "form", "poster"))},
    "binding_machine": {"bind": Use("person", ("report", "document"))},
    "shredder": {"shred": Use("person", ("document", "report", "form"), keeps=True, lead=True)},
    "label_printer": {"label": Use("person", ("parcel", "hard_disk", "tool_kit"))},
    "coffee_machine": {"brew": Use("arm", ("mug",))},
    "water_dispenser": {"fill": Use("arm", ("water_bottle", "mug"))},
    "microwave": {"heat": Use("arm", ("lunch_box",))},
    "fridge": {"store": Use("arm", ("lunch_box", "cake", "water_bottle"), keeps=True)},
    "charging_station": {"charge": Use("arm", ("phone", "tablet", "power_bank", "headphones", "camera"))},
    "smart_locker": {
        "deposit": Use("arm", ("keys", "phone", "hard_disk", "usb_drive", "camera", "glasses", "parcel"), keeps=True)
    },
}
FACILITY_AT: Mapping[str, tuple[str, ...]] = {
    "printer": ("print_room", "library"),
    "scanner": ("print_room",),
    "laminator": ("print_room",),
    "binding_machine": ("library",),
    "shredder": ("director_office",),
    "label_printer": ("storage",),
    "coffee_machine": ("tea_room", "lobby"),
    "water_dispenser": ("tea_room", "workspace"),
    "microwave": ("tea_room",),
    "fridge": ("tea_room",),
    "charging_station": ("workspace", "lab"),
    "smart_locker": ("reception",),
}
"""Where the facilities of a kind stand; those of which there are several are numbered from 1."""

PEOPLE = ("Wang", "Li", "Chen", "Zhao", "Sun", "Liu", "Zhou", "Wu", "Xu", "Ma", "Zhu", "Hu", "Guo", "Lin")
LEADS = 4
"""Number of people who may sign for any team."""
HOMES = ("workspace", "lab", "director_office", "library", "meeting_room", "reception")
"""Places in which people work."""


@dataclass(frozen=True)
class Profile:
    """Describe a kind of robot (InteractGen VI.A). Heights in m, payload in kg, sides of what it carries in cm.

    `arm`: it picks up, hands over and puts down, from `low_m` to `high_m`, what its fingers of `grip_cm` span. Others carry
    what is put into them. `works`: it works facilities. `locker`: what it carries is behind a door that its code opens.
    `holds`: things at a time.
    """

    about: str
    speed_m_s: float
    payload_kg: float
    room_cm: tuple[float, float, float]
    holds: int
    legs: bool = False
    badge: bool = False
    arm: bool = False
    works: bool = False
    low_m: float = 0.0
    high_m: float = 0.0
    grip_cm: float = 0.0
    locker: bool = False

    @property
    def places(self) -> tuple[str, ...]:
        """Return the places it can go to."""
        return tuple(n for n, p in PLACES.items() if (self.legs or not p.uneven) and (self.badge or not p.badge))


PROFILES: Mapping[str, Profile] = {
    "porter": Profile(
        "a wheeled base with a locker. It has no arm: a person or an arm puts things in and takes them out, at a place where "
        "both are. Its locker must be opened with its code before something is taken out",
        speed_m_s=0.8,
        payload_kg=20.0,
        room_cm=(45, 40, 30),
        holds=4,
        badge=True,
        locker=True,
    ),
    "shuttle": Profile(
        "a small wheeled robot with an open tray. It has no arm: a person or an arm loads and unloads it. It opens no doors, "
        "so it does not come into rooms for which a badge is needed",
        speed_m_s=1.0,
        payload_kg=6.0,
        room_cm=(65, 45, 60),
        holds=2,
    ),
    "hound": Profile(
        "a quadruped with an arm, also for uneven ground. It takes up one thing of at most 1.0 kg at a time, from the floor "
        "or a desk, not from a shelf; fingers open 10 cm wide, and it cannot take up paper",
        speed_m_s=0.9,
        payload_kg=1.0,
        room_cm=(35, 25, 10),
        holds=1,
        legs=True,
        arm=True,
        low_m=0.0,
        high_m=0.9,
        grip_cm=10.0,
    ),
    "helper": Profile(
        "a wheeled base with an arm of six joints. It takes up one thing of at most 3.0 kg at a time, from a desk or a shelf, "
        "not from the floor; fingers open 10 cm wide, and it cannot take up paper. It works machines with buttons and doors",
        speed_m_s=0.6,
        payload_kg=3.0,
        room_cm=(35, 25, 10),
        holds=1,
        badge=True,
        arm=True,
        works=True,
        low_m=0.5,
        high_m=1.6,
        grip_cm=10.0,
    ),
}
TEAM = {"porter_1": "porter", "porter_2": "porter", "shuttle_1": "shuttle", "hound_1": "hound", "helper_1": "helper"}
"""The paper's team: two locker bases, a tray shuttle, a quadruped with an arm and a mobile manipulator."""
