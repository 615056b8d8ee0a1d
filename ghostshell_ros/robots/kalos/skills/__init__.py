# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F403 - a skill is found by its decorator, whatever else a module holds
"""Define what Kalos can do, one file per kind. The model reads the signatures and docstrings of the functions."""

from ghostshell_ros.robots.asking import *
from ghostshell_ros.robots.kalos.skills.locomotion import *
from ghostshell_ros.robots.kalos.skills.seeking import *
from ghostshell_ros.robots.kalos.skills.sound import *
from ghostshell_ros.robots.remembering import *
