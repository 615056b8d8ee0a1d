# SPDX-License-Identifier: Apache-2.0
"""Annotated parameter types that CoCo's skills share; the limits they name stand in the robot's YAML."""

from typing import Annotated

from pydantic import Field

from skill_kernel import Limited

Percent = Annotated[float, Field(ge=0, le=100, description="%")]
Seconds = Annotated[float, Field(ge=0, le=600, description="s"), Limited("duration_s")]
Times = Annotated[int, Field(ge=1, le=100, description="times"), Limited("repetitions")]
