# SPDX-License-Identifier: Apache-2.0
"""Bodies of random shape for rendered training worlds, as MJCF: the things to find, and furniture that is none of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

Random = np.random.Generator
Palette = list[tuple[float, float, float]]

VIVID: Palette = [
    (0.9, 0.1, 0.1),
    (0.95, 0.5, 0.05),
    (0.95, 0.85, 0.1),
    (0.2, 0.7, 0.2),
    (0.1, 0.3, 0.9),
    (0.6, 0.1, 0.7),
    (0.9, 0.2, 0.6),
    (0.05, 0.6, 0.6),
    (0.95, 0.95, 0.95),
    (0.1, 0.1, 0.12),
]
MUTED: Palette = [
    (0.52, 0.40, 0.28),
    (0.75, 0.62, 0.45),
    (0.35, 0.25, 0.18),
    (0.9, 0.9, 0.88),
    (0.3, 0.3, 0.33),
    (0.5, 0.52, 0.55),
    (0.7, 0.72, 0.7),
    (0.34, 0.38, 0.45),
    (0.55, 0.3, 0.25),
]
ANY = VIVID + MUTED
APPLES: Palette = [
    (0.85, 0.05, 0.06),
    (0.7, 0.08, 0.1),
    (0.8, 0.25, 0.1),
    (0.5, 0.7, 0.12),
    (0.85, 0.8, 0.15),
    (0.3, 0.55, 0.1),
]
BALLS: Palette = [(0.98, 0.45, 0.03), *VIVID[1:6], VIVID[8], (0.85, 0.55, 0.3), (0.9, 0.3, 0.1)]
BOTTLES: Palette = [
    (0.02, 0.6, 0.18),
    (0.06, 0.22, 0.9),
    (0.4, 0.2, 0.06),
    (0.8, 0.88, 0.9),
    (0.1, 0.35, 0.15),
    (0.8, 0.1, 0.1),
]
SKIN: Palette = [(0.8, 0.6, 0.48), (0.92, 0.75, 0.65), (0.55, 0.38, 0.27), (0.35, 0.23, 0.16)]
HAIR: Palette = [(0.18, 0.12, 0.08), (0.05, 0.05, 0.05), (0.6, 0.45, 0.2), (0.6, 0.6, 0.6)]


@dataclass
class Shape:
    """One body: its geoms, what it is made of (name → palette and gloss), and its size for placing and judging.

    `area` is about what it covers seen from the front [m²], `radius` its reach from its middle and `top` the height of a
    surface that things can lie on (0: none), both in m.
    """

    label: str
    geoms: list[str] = field(default_factory=list)
    materials: dict[str, tuple[Palette, float]] = field(default_factory=dict)
    area: float = 0.0
    radius: float = 0.3
    top: float = 0.0

    def add(self, kind: str, size: str, where: str, material: str) -> None:
        self.geoms.append(f'<geom type="{kind}" size="{size}" {where} material="{{name}}_{material}"/>')

    def box(self, material: str, half: tuple[float, float, float], at: tuple[float, float, float], turn: str = "") -> None:
        self.add("box", _n(*half), f'pos="{_n(*at)}" {turn}', material)

    def rod(self, material: str, radius: float, a: tuple[float, float, float], b: tuple[float, float, float]) -> None:
        self.add("capsule", _n(radius), f'fromto="{_n(*a, *b)}"', material)

    def pillar(self, material: str, radius: float, low: float, high: float, x: float = 0.0, y: float = 0.0) -> None:
        self.add("cylinder", _n(radius, (high - low) / 2), f'pos="{_n(x, y, (low + high) / 2)}"', material)

    def egg(self, material: str, half: tuple[float, float, float], at: tuple[float, float, float]) -> None:
        self.add("ellipsoid", _n(*half), f'pos="{_n(*at)}"', material)


def _n(*numbers: float) -> str:
    return " ".join(f"{number:.4f}" for number in numbers)


def person(r: Random) -> Shape:
    """Upright, 1.5 to 1.95 m, standing or in mid-step, in any clothes."""
    s = r.uniform(1.5, 1.95) / 1.7
    shape = Shape("person", area=0.5 * s * s, radius=0.3)
    shape.materials = {
        "shirt": (ANY, 0.0),
        "trousers": (ANY, 0.0),
        "skin": (SKIN, 0.0),
        "hair": (HAIR, 0.0),
        "shoes": (ANY, 0.1),
    }
    leg, thick, half = 0.8 * s, r.uniform(0.055, 0.09), r.uniform(0.08, 0.12)
    stride = r.choice([0.0, 0.0, r.uniform(-0.3, 0.3)])
    for side in (1, -1):
        x = side * stride
        shape.rod("trousers", thick, (x, side * half, 0.1), (0, side * half, leg))
        shape.box("shoes", (0.12, 0.045, 0.035), (x + 0.05, side * half, 0.035))
        swing = -x + r.uniform(-0.1, 0.25)
        shoulder, wide = (0.0, side * 0.21, 1.32 * s), r.uniform(0.24, 0.4)
        hand = (swing, side * wide, r.choice([0.83, 0.83, 1.1]) * s)
        sleeve = r.choice(["shirt", "shirt", "skin"])
        shape.rod(sleeve, r.uniform(0.04, 0.055), shoulder, hand)
        shape.egg("skin", (0.05, 0.05, 0.05), (hand[0], hand[1], hand[2] - 0.06))
    deep, broad, tall = r.uniform(0.11, 0.17), r.uniform(0.17, 0.24), r.uniform(0.30, 0.36) * s
    if r.random() < 0.6:
        shape.egg("shirt", (deep, broad, tall), (0, 0, 1.1 * s))
    else:
        shape.box("shirt", (deep * 0.8, broad * 0.9, tall * 0.85), (0, 0, 1.1 * s))
    if r.random() < 0.2:
        shape.pillar("trousers", broad, 0.45 * s, 0.95 * s)
    shape.egg("skin", (0.10, 0.085, 0.125), (0.01, 0, 1.56 * s))
    if r.random() < 0.9:
        shape.egg("hair", (0.10, 0.094, 0.105), (-0.02, 0, 1.60 * s))
    return shape


def chair(r: Random) -> Shape:
    """Four legs, a column or two frames; a solid back or slats; some with arms."""
    w, d, h = r.uniform(0.17, 0.25), r.uniform(0.17, 0.25), r.uniform(0.38, 0.5)
    back, thin = r.uniform(0.14, 0.26), r.uniform(0.012, 0.03)
    shape = Shape("chair", area=0.2, radius=0.3, materials={"seat": (ANY, 0.2), "legs": (ANY, 0.3)})
    legs = "seat" if r.random() < 0.5 else "legs"
    shape.box("seat", (d, w, r.uniform(0.015, 0.04)), (0, 0, h))
    if r.random() < 0.65:
        shape.box("seat", (0.02, w * 0.95, back), (-d + 0.02, 0, h + back + r.uniform(0.02, 0.08)))
    else:
        for side in (-0.9, 0, 0.9):
            shape.box("seat", (0.015, 0.02, back), (-d + 0.02, side * w, h + back))
        shape.box("seat", (0.015, w, 0.03), (-d + 0.02, 0, h + 2 * back))
    style = r.random()
    if style < 0.75:
        for x in (-1, 1):
            for y in (-1, 1):
                if style < 0.5:
                    shape.pillar(legs, thin, 0.0, h, x * (d - 0.03), y * (w - 0.03))
                else:
                    shape.rod(legs, thin, (x * (d + 0.02), y * (w + 0.02), thin), (x * (d - 0.05), y * (w - 0.05), h))
    else:
        shape.pillar(legs, 0.03, 0.06, h)
        for k in range(5):
            a = math.tau * k / 5
            shape.rod(legs, 0.02, (0, 0, 0.08), (0.27 * math.cos(a), 0.27 * math.sin(a), 0.04))
    if r.random() < 0.2:
        for y in (-1, 1):
            shape.box(legs, (d * 0.8, 0.02, 0.015), (0, y * w, h + 0.2))
            shape.pillar(legs, 0.012, h, h + 0.2, d * 0.6, y * w)
    return shape


def ball(r: Random) -> Shape:
    """Add a sphere with seams, stripes, patches or none."""
    a = r.uniform(0.07, 0.15)
    shape = Shape("ball", area=math.pi * a * a, radius=a, materials={"skin": (BALLS, 0.3), "seam": (ANY, 0.1)})
    shape.add("sphere", _n(a), f'pos="0 0 {_n(a)}"', "skin")
    style = r.random()
    if style < 0.65:
        for k in range(int(r.integers(1, 4))):
            turn = f'euler="{_n(*r.uniform(-3, 3, 3))}"' if k or style < 0.3 else ""
            shape.add("cylinder", _n(a * 1.005, r.uniform(0.002, 0.012)), f'pos="0 0 {_n(a)}" {turn}', "seam")
    elif style < 0.85:
        for _ in range(12):
            v = r.normal(size=3)
            v *= 0.72 * a / np.linalg.norm(v)
            shape.add("sphere", _n(a * 0.34), f'pos="{_n(v[0], v[1], v[2] + a)}"', "seam")
    return shape


def apple(r: Random) -> Shape:
    """Nearly a sphere, mostly with a stem, some with a leaf."""
    a = r.uniform(0.034, 0.048)
    flat = r.uniform(0.88, 1.02)
    shape = Shape("apple", area=math.pi * a * a, radius=a)
    stems = [(0.3, 0.25, 0.15), (0.2, 0.15, 0.1)]
    shape.materials = {"skin": (APPLES, 0.5), "stem": (stems, 0.0), "leaf": ([(0.2, 0.5, 0.15)], 0.0)}
    shape.egg("skin", (a, a, a * flat), (0, 0, a * flat))
    if r.random() < 0.85:
        shape.rod("stem", 0.004, (0, 0, a * flat * 1.8), (r.uniform(-0.01, 0.01), 0, a * flat * 2 + r.uniform(0.008, 0.025)))
    if r.random() < 0.25:
        shape.egg("leaf", (0.015, 0.008, 0.003), (0.012, 0, a * flat * 2 + 0.008))
    return shape


def bottle(r: Random) -> Shape:
    """Add a body, a neck, a cap, some with a label around."""
    a, h = r.uniform(0.028, 0.045), r.uniform(0.13, 0.23)
    neck, tall = r.uniform(0.3, 0.5) * a, r.uniform(0.04, 0.09)
    shape = Shape("bottle", area=2 * a * h + 2 * neck * tall, radius=a)
    shape.materials = {"glass": (BOTTLES, 0.6), "cap": (VIVID, 0.3), "label": (ANY, 0.0)}
    shape.pillar("glass", a, 0.0, h)
    if r.random() < 0.5:
        shape.egg("glass", (a, a, tall * r.uniform(0.3, 0.8)), (0, 0, h))
    shape.pillar("glass", neck, h, h + tall)
    shape.pillar("cap", neck * 1.15, h + tall - 0.002, h + tall + r.uniform(0.012, 0.022))
    if r.random() < 0.4:
        low = r.uniform(0.15, 0.4) * h
        shape.pillar("label", a * 1.01, low, low + r.uniform(0.25, 0.5) * h)
    return shape


def door(r: Random) -> Shape:
    """Add an upright leaf with a handle, some with a pane or panels; it may hang a little above the floor."""
    w, h, thin = r.uniform(0.38, 0.65), r.uniform(0.65, 1.05), r.uniform(0.015, 0.03)
    shape = Shape("door", area=4 * w * h, radius=w)
    shape.materials = {"leaf": (ANY, 0.2), "handle": (MUTED + VIVID[8:], 0.6), "pane": (MUTED, 0.8)}
    shape.box("leaf", (w, thin, h), (0, 0, h))
    side, at, style = float(r.choice([-1, 1])), r.uniform(0.25, 0.55) * 2 * h, r.random()
    for y in (-1, 1):
        x, out = side * w * 0.84, y * (thin + 0.03)
        if style < 0.5:
            shape.rod("handle", 0.014, (x, out, at), (x, out, at + r.uniform(0.1, 0.35)))
        elif style < 0.75:
            shape.rod("handle", 0.012, (x, out, at), (x - side * 0.12, out, at))
        else:
            shape.egg("handle", (0.03, 0.03, 0.03), (x, out, at))
    if r.random() < 0.3:
        shape.box("pane", (w * 0.6, thin + 0.002, h * 0.3), (0, 0, h * 1.45))
    elif r.random() < 0.3:
        for z in (0.55, 1.4):
            shape.box("pane", (w * 0.65, thin + 0.004, h * 0.28), (0, 0, h * z))
    return shape


MAKERS = {"person": person, "chair": chair, "ball": ball, "apple": apple, "bottle": bottle, "door": door}
LABELS = tuple(MAKERS)
"""Classes of the detector, in the order of its outputs."""

WIDTH, HEIGHT = 320, 240
"""Of the frames and of the detector's input, in px."""
