# SPDX-License-Identifier: Apache-2.0
"""Answer as the five agents of strategy `team`, from what their prompts show: each robot walks once, and where one cannot,
another does it for it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from bench.reading import layer_of, read_blocks
from bench.simulated_model.model_server import RecordedRequest
from planners.prompts.blocks import Layer


class Walks:
    """Have as many walks done as there are robots, at first one by each."""

    def __init__(self, centimetres: int) -> None:
        self._call = f"spider_run_distance(distance={centimetres})"

    def __call__(self, request: RecordedRequest) -> str:
        system, user = (str(message["content"]) for message in request.body["messages"])
        blocks, layer = read_blocks(user), layer_of(system)
        robots = {robot["robot"]: robot["state"] for robot in blocks.get("ROBOTS", [])}
        plan = blocks.get("PLAN", [])
        if layer is Layer.MANAGER:
            answer = self._review(plan) if "REVIEW" in blocks else {"clear": True}
        elif layer is Layer.PLANNER:
            answer = self._plan(robots, plan, int(blocks["NUMBER"][0]))
        elif layer is Layer.ASSIGNER:
            answer = self._assign(robots, plan, blocks["STEPS"])
        else:
            answer = {"perception": []} if layer is Layer.PERCEIVER else {"verdict": "pass", "thought": "it fits"}
        return json.dumps(answer)

    def _able(self, robots: dict[str, str]) -> list[str]:
        return [robot for robot, state in robots.items() if state in ("free", "busy")]

    def _review(self, plan: list[dict[str, Any]]) -> dict[str, Any]:
        done = sum(step["state"] == "done" for step in plan)
        robots = {step["skill"] for step in plan}
        flag = "Y" if done == len(robots) else "N"
        return {"flag": flag, "thought": f"{done} of {len(robots)} walks are done", "summary": f"{done} walks"}

    def _plan(self, robots: dict[str, str], plan: list[dict[str, Any]], number: int) -> dict[str, Any]:
        kept = {step["skill"] for step in plan if step["state"] in ("done", "running", "waiting")}
        missing = [f"walk_for({robot})" for robot in robots if f"walk_for({robot})" not in kept]
        if missing and not self._able(robots):
            return {"thought": f"no robot can be used: {robots}", "steps": [], "give_up": True}
        return {"thought": "", "steps": [{"step": number + n, "skill": skill} for n, skill in enumerate(missing)]}

    def _assign(self, robots: dict[str, str], plan: list[dict[str, Any]], steps: list[dict[str, Any]]) -> dict[str, Any]:
        load = Counter(dict.fromkeys(self._able(robots), 0))
        load.update(step["agent"] for step in plan if step["agent"] in load)
        given = []
        for step in steps:
            own = step["skill"].removeprefix("walk_for(").removesuffix(")")
            agent = own if own in load else min(load, key=lambda robot: load[robot])
            load[agent] += 1
            given.append({"step": step["step"], "agent": agent, "call": self._call, "why": "it is asked for"})
        return {"assignments": given}
