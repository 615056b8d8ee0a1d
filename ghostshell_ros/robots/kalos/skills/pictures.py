# SPDX-License-Identifier: Apache-2.0
"""Taking pictures with the front camera."""

from __future__ import annotations

import time

from ghostshell_ros.robots.kalos.body import KalosBody
from skill_kernel import SkillReturn, robot_skill

TAKE_S = 2.5
"""Longest time: 2 s until an image comes, and writing it."""


@robot_skill(subsystem="default", nominal_s=TAKE_S, on_failure="continue")
def take_pic(*, body: KalosBody) -> SkillReturn:
    """Take a picture (photo) with the front camera and keep it; the result says where. It cannot be interrupted."""
    from PIL import Image

    pixels = body.senses.image()
    if pixels is None:
        return SkillReturn.failure("the camera sent no picture within 2 s; is the simulator or the camera running?")
    seconds = body.wall()
    name = time.strftime("%Y%m%d-%H%M%S", time.gmtime(seconds)) + f"-{int(seconds % 1 * 1000):03d}.png"
    try:
        body.pictures.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(body.pictures / name)
    except OSError as error:
        return SkillReturn.failure(f"the picture could not be kept in {body.pictures}: {error}")
    height, width = pixels.shape[:2]
    return SkillReturn.success(f"picture of {width} x {height} kept as {body.pictures / name}")
