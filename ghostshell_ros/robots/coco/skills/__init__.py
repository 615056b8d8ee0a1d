# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F403 - a skill is found by its decorator, whatever else a module holds
"""Define what CoCo can do, one file per kind. The model reads the signatures and docstrings of the functions."""

from ghostshell_ros.robots.asking import *
from ghostshell_ros.robots.coco.skills.head import *
from ghostshell_ros.robots.coco.skills.legs import *
from ghostshell_ros.robots.coco.skills.sound import *
