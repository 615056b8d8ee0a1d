# SPDX-License-Identifier: Apache-2.0
"""Tell what 30 kinds of things that people carry about weigh and measure (InteractGen IV prints three of its own)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """Describe a kind of item: mass [g] and sides [cm]."""

    mass_g: float
    size_cm: tuple[float, float, float]


ITEMS: Mapping[str, Kind] = {
    "ballpoint_pen": Kind(10, (14, 1, 1)),
    "stapler": Kind(220, (13, 4, 5)),
    "document": Kind(5, (29.7, 21, 0.05)),
    "report": Kind(40, (29.7, 21, 0.1)),
    "contract": Kind(15, (29.7, 21, 0.1)),
    "form": Kind(5, (29.7, 21, 0.05)),
    "poster": Kind(60, (60, 42, 0.1)),
    "notebook": Kind(250, (21, 15, 2)),
    "textbook": Kind(900, (25, 18, 4)),
    "laptop": Kind(1400, (32, 22, 2)),
    "tablet": Kind(500, (25, 18, 1)),
    "phone": Kind(180, (15, 7, 1)),
    "usb_drive": Kind(15, (6, 2, 1)),
    "hard_disk": Kind(230, (12, 8, 2)),
    "charger": Kind(150, (9, 6, 3)),
    "power_bank": Kind(350, (14, 7, 2)),
    "headphones": Kind(260, (19, 17, 8)),
    "camera": Kind(700, (13, 10, 8)),
    "keys": Kind(60, (8, 4, 1)),
    "glasses": Kind(30, (15, 6, 4)),
    "umbrella": Kind(400, (30, 6, 6)),
    "mug": Kind(330, (12, 9, 9)),
    "water_bottle": Kind(700, (24, 7, 7)),
    "lunch_box": Kind(650, (20, 14, 7)),
    "cake": Kind(800, (22, 22, 9)),
    "tissue_box": Kind(180, (23, 12, 8)),
    "tool_kit": Kind(2600, (35, 22, 9)),
    "parcel": Kind(2000, (32, 24, 9.5)),
    "monitor": Kind(5200, (55, 40, 12)),
    "paper_ream": Kind(2500, (30, 21, 5)),
}
PAPERS = ("document", "report", "contract", "form", "poster")
"""Kinds that are printed, signed, copied and bound."""
