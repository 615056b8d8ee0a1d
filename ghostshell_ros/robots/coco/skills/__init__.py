# SPDX-License-Identifier: Apache-2.0
"""Define what CoCo can do, one file per channel. The model reads the signatures and docstrings of the functions."""

from ghostshell_ros.robots.coco.skills.bgm import play_bgm
from ghostshell_ros.robots.coco.skills.ears import ear_state, ear_swing, shake_ears
from ghostshell_ros.robots.coco.skills.face import display_face, emotion, wink_left, wink_right
from ghostshell_ros.robots.coco.skills.head import head_act, head_pose
from ghostshell_ros.robots.coco.skills.legs import (
    spider_body_lean,
    spider_rotate,
    spider_run_distance,
    spider_sit,
    spider_stand,
)
from ghostshell_ros.robots.coco.skills.legs_show import (
    spider_arm_knock,
    spider_arm_pull,
    spider_push_up,
    spider_shake_ass,
    spider_single_leg_knock,
    spider_wave_move,
)
from ghostshell_ros.robots.coco.skills.speech import speak, speech_role

__all__ = [
    "display_face",
    "ear_state",
    "ear_swing",
    "emotion",
    "head_act",
    "head_pose",
    "play_bgm",
    "shake_ears",
    "speak",
    "speech_role",
    "spider_arm_knock",
    "spider_arm_pull",
    "spider_body_lean",
    "spider_push_up",
    "spider_rotate",
    "spider_run_distance",
    "spider_shake_ass",
    "spider_single_leg_knock",
    "spider_sit",
    "spider_stand",
    "spider_wave_move",
    "wink_left",
    "wink_right",
]
