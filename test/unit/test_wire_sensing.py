# SPDX-License-Identifier: Apache-2.0
"""Read measurements and sightings from messages: whatever is not a number was neither measured nor seen."""

from __future__ import annotations

import math

from vision_msgs.msg import Detection3D, Detection3DArray

from ghostshell_ros.wire.sensing import measured, things_of


def test_a_joint_of_which_no_number_is_told_was_not_measured() -> None:
    assert measured(["knee", "hip", "toe"], [math.nan, 0.5, math.inf]) == {"hip": 0.5}
    assert measured(["knee", "hip"], [0.1]) == {"knee": 0.1}


def test_a_thing_whose_pose_is_not_all_numbers_is_not_seen() -> None:
    seen = [Detection3D(id=name) for name in ("cup", "apple", "tea")]
    seen[0].bbox.center.position.z = math.nan
    seen[1].bbox.center.orientation.w = math.inf
    seen[2].bbox.center.position.x = 0.4
    assert dict(things_of(Detection3DArray(detections=seen))) == {"tea": ([0.4, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0])}
