# SPDX-License-Identifier: Apache-2.0
"""The reflexes that the benchmark of System 0 loads."""

from __future__ import annotations

from typing import Any

REFLEXES = 50


def rules() -> list[dict[str, Any]]:
    """Two that fire here and others of the usual kinds that do not."""

    def rule(name: str, condition: str, action: str, **settings: Any) -> dict[str, Any]:
        source = f"def condition():\n    return {condition}\n\n\ndef action():\n    {action}\n"
        return {"name": name, "sentence": name, "source": source, "cooldown_s": 0.1, **settings}

    kinds = (
        "front_distance_m() < 0.0{n}",
        "nearest_distance_m() < 0.0{n}",
        "distance_to('person') < 0.{n}",
        "battery_percent() < 0.{n} and not charging()",
        "any(distance_to(x) < 0.0{n} for x in ['ball', 'chair'])",
        "heard_words('halt{n}') and heard_age_s() < 2",
        "room() == 'kitchen' and speed_mps() > {n}.0",
        "x_m() > 1{n}",
    )
    made = [
        rule("stop", "front_distance_m() < 0.2", "stop()", priority=90),
        rule("detour", "left_distance_m() < 0.2", "move_back(distance_m=0.2)", priority=80),
    ]
    return made + [rule(f"other_{n}", kinds[n % 8].format(n=n + 10), "bark(times=1)") for n in range(REFLEXES - len(made))]
