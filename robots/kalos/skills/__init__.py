# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F403 - a skill is found by its decorator, whatever else a module holds
"""Define what Kalos can do, one file per kind. The model reads the signatures and docstrings of the functions."""

from robots.kalos.skills.locomotion import *
from robots.kalos.skills.seeking import *
from robots.kalos.skills.sound import *
from robots.remembering import *
