# SPDX-License-Identifier: Apache-2.0
"""Furniture and clutter of random shape for rendered training worlds: what the detector must not report."""

from __future__ import annotations

import math

from scripts.detector.shapes import ANY, MUTED, VIVID, Random, Shape

GREENS = [(0.30, 0.42, 0.25), (0.15, 0.4, 0.12), (0.45, 0.55, 0.2)]


def table(r: Random) -> Shape:
    w, d, h = r.uniform(0.3, 1.0), r.uniform(0.25, 0.5), r.uniform(0.35, 0.85)
    shape = Shape("", radius=math.hypot(w, d), top=h + 0.02, materials={"top": (ANY, 0.1), "legs": (ANY, 0.1)})
    shape.box("top", (w, d, 0.02), (0, 0, h))
    if r.random() < 0.7:
        for x in (-1, 1):
            for y in (-1, 1):
                shape.box("legs", (0.03, 0.03, h / 2), (x * (w - 0.05), y * (d - 0.05), h / 2))
    else:
        shape.box("legs", (w * 0.95, d * 0.95, h / 2 - 0.01), (0, 0, h / 2 - 0.01))
    return shape


def block(r: Random) -> Shape:
    """Add a low box, which small things may lie on."""
    w, d, h = r.uniform(0.12, 0.5), r.uniform(0.12, 0.4), r.uniform(0.06, 0.35)
    shape = Shape("", radius=math.hypot(w, d), top=2 * h, materials={"side": (ANY, 0.1)})
    shape.box("side", (w, d, h), (0, 0, h))
    return shape


def shelf(r: Random) -> Shape:
    w, d, h = r.uniform(0.3, 0.9), r.uniform(0.12, 0.2), r.uniform(0.4, 1.0)
    shape = Shape("", radius=w, materials={"wood": (MUTED, 0.1), "a": (ANY, 0.0), "b": (ANY, 0.0), "c": (ANY, 0.0)})
    shape.box("wood", (w, 0.01, h), (0, d, h))
    for side in (-1, 1):
        shape.box("wood", (0.015, d, h), (side * w, 0, h))
    count = int(r.integers(2, 5))
    for k in range(count + 1):
        z = 2 * h * k / count
        shape.box("wood", (w, d, 0.012), (0, 0, max(0.012, z)))
        x = -w + 0.04
        while k < count and x < w - 0.05:
            thick, tall = r.uniform(0.01, 0.03), r.uniform(0.2, 0.42) * 2 * h / count
            if r.random() < 0.7:
                shape.box(str(r.choice(["a", "b", "c"])), (thick, d * 0.7, tall), (x + thick, 0, z + 0.012 + tall))
            x += 2 * thick + r.uniform(0.0, 0.05)
    return shape


def sofa(r: Random) -> Shape:
    w, h = r.uniform(0.4, 1.1), r.uniform(0.17, 0.23)
    shape = Shape("", radius=w, top=2 * h, materials={"cloth": (ANY, 0.0), "pillow": (ANY, 0.0)})
    shape.box("cloth", (w, 0.35, h), (0, 0, h))
    shape.box("cloth", (w, 0.1, h + 0.2), (0, 0.35, h + 0.2))
    if r.random() < 0.6:
        for x in (-1, 1):
            shape.box("cloth", (0.09, 0.4, h + 0.1), (x * w, 0, h + 0.1))
    if r.random() < 0.4:
        shape.box("pillow", (0.15, 0.05, 0.15), (r.uniform(-0.5, 0.5) * w, 0.18, 2 * h + 0.15), 'euler="-0.3 0 0"')
    return shape


def bin_or_pillar(r: Random) -> Shape:
    a, h = r.uniform(0.06, 0.25), r.choice([r.uniform(0.2, 0.6), r.uniform(1.0, 2.0)])
    shape = Shape("", radius=a, materials={"side": (ANY, 0.2), "rim": (ANY, 0.2)})
    shape.pillar("side", a, 0, h)
    shape.pillar("rim", a * 1.04, h - 0.03, h + 0.005)
    return shape


def plant(r: Random) -> Shape:
    a, h = r.uniform(0.08, 0.2), r.uniform(0.12, 0.45)
    shape = Shape("", radius=a, materials={"pot": (ANY, 0.1), "green": (GREENS, 0.0)})
    shape.pillar("pot", a, 0, h)
    for _ in range(int(r.integers(1, 5))):
        half = (r.uniform(0.06, 0.24), r.uniform(0.06, 0.24), r.uniform(0.1, 0.34))
        shape.egg("green", half, (*r.uniform(-0.12, 0.12, 2), h + half[2] * r.uniform(0.6, 1.2)))
    return shape


def lamp(r: Random) -> Shape:
    h = r.uniform(0.9, 1.7)
    shape = Shape("", radius=0.2, materials={"pole": (ANY, 0.4), "shade": (ANY, 0.0)})
    shape.pillar("pole", 0.14, 0, 0.03)
    shape.pillar("pole", 0.015, 0, h)
    if r.random() < 0.6:
        shape.pillar("shade", r.uniform(0.1, 0.22), h - 0.1, h + r.uniform(0.1, 0.25))
    else:
        shape.egg("shade", (0.2, 0.2, 0.1), (0, 0, h))
    return shape


def screen(r: Random) -> Shape:
    """Add a monitor on a desk, or a picture that hangs where it is put."""
    w, h, up = r.uniform(0.15, 0.5), r.uniform(0.12, 0.35), r.uniform(0.7, 1.2)
    shape = Shape("", radius=w, materials={"frame": (ANY, 0.1), "face": (ANY, 0.5)})
    shape.box("frame", (w, 0.02, h), (0, 0, up + h))
    shape.box("face", (w * 0.9, 0.022, h * 0.88), (0, 0, up + h))
    if r.random() < 0.6:
        shape.box("frame", (0.5, 0.3, up / 2), (0, 0, up / 2))
    return shape


def clutter(r: Random) -> Shape:
    """Small, bright, and none of the things to find: a cube, a mug, a can, a bowl, a pot, a cone of boxes."""
    shape = Shape("", radius=0.12, materials={"a": (VIVID, 0.3), "b": (ANY, 0.1)})
    style, a = int(r.integers(0, 6)), r.uniform(0.03, 0.09)
    if style == 0:
        shape.box("a", (a, a * r.uniform(0.5, 1.5), a), (0, 0, a))
    elif style == 1:
        shape.pillar("a", a * 0.8, 0, a * 1.8)
        shape.box("b", (a * 0.5, 0.008, a * 0.5), (a, 0, a))
    elif style == 2:
        shape.pillar("a", a * 0.6, 0, a * 2.0)
        shape.pillar("b", a * 0.62, a * 0.3, a * 1.6)
    elif style == 3:
        shape.egg("a", (a * 1.6, a * 1.6, a * 0.5), (0, 0, a * 0.5))
    elif style == 4:
        shape.egg("a", (a * 1.3, a * 1.3, a * 2.0), (0, 0, a * 1.8))
        shape.pillar("b", a * 0.5, a * 3.2, a * 4.0)
    else:
        for k in range(4):
            shape.box("a" if k % 2 else "b", (a * (1.2 - 0.3 * k), a * (1.2 - 0.3 * k), a * 0.5), (0, 0, a * (0.5 + k)))
    return shape


LARGE = (table, block, block, shelf, sofa, bin_or_pillar, plant, lamp, screen)
