# SPDX-License-Identifier: Apache-2.0
"""Name what is compared in the office, and do one run of it: the same in this process, in others and on a cluster."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bench.evaluation.virtual_models import Models
from bench.office.collection import held_out, load
from bench.office.measures import line
from bench.office.react import TeamReact
from bench.office.run import MakeModel, perform
from bench.simulated_model.service import SimulatedModel
from bench.simulated_model.table import Table, load_table
from bench.simulated_model.where import default_table
from bench.virtual_door import settings_of
from planners.models.base import CancelToken, ModelClient, ModelError, ModelRequest, TextDelta, Usage, used
from planners.models.model_call import AnswerEnd, Handle
from planners.prompts.blocks import Layer
from planners.strategies.team.strategy import Team
from planners.strategy import TeamStrategy
from skill_kernel.clock import Clock
from skill_kernel.events import ModelEvent, ModelKind

SIMULATED = "simulated"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "team": {},
    "no_perceiver": {"team.perceiver": False},
    "no_validator": {"team.validator": False},
    "no_manager": {"team.manager": False},
    "no_planner": {"team.planner": False},
    "react": {"team.answer_s": 120.0, "team.work_s": 600.0},
}
"""Strategy `team`, the four ablations of the paper's figure 12, and its single-agent baseline."""


@dataclass(frozen=True)
class Job:
    """One run: a task by its id, a variant, the number of the run, and the model."""

    task: str
    variant: str
    run: int
    model: str = SIMULATED

    @property
    def key(self) -> dict[str, Any]:
        return {"task": self.task, "variant": self.variant, "run": self.run, "model": self.model}


@lru_cache(maxsize=1)
def _tasks() -> Mapping[str, Any]:
    return {task.id: task for task in load()}


@lru_cache(maxsize=1)
def _table() -> Table:
    return load_table(default_table())


def work(job: Job) -> dict[str, Any]:
    """Do a run; return its line. What the simulated model draws depends on task and run alone."""
    task, strategy = _tasks()[job.task], strategy_of(job.variant)
    number = int.from_bytes(hashlib.sha256(f"office {job.task} {job.run}".encode()).digest()[:4], "big")
    begun = time.perf_counter()
    run = perform(task, strategy, settings_of(strategy.parameters, **VARIANTS[job.variant]), _model(job.model, number))
    wall_s = round(time.perf_counter() - begun, 3)
    return {**job.key, "held_out": job.task in held_out(), **line(run), "wall_s": wall_s}


def strategy_of(variant: str) -> TeamStrategy:
    """Return the strategy of a variant."""
    return TeamReact() if variant == "react" else Team()


def _model(name: str, seed: int) -> MakeModel:
    if name == SIMULATED:
        table = _table().with_options(seed=seed)
        return lambda clock, hear: Models(SimulatedModel(table), table, clock, hear)
    client = _client(name)
    return lambda clock, hear: ClientModels(client, clock, hear)


@lru_cache(maxsize=4)
def _client(name: str) -> ModelClient:
    from ghostshell_ros.runtime.data import config_folder
    from planners.models.config import load_models, parse_spec
    from planners.models.factory import make_client

    client = make_client(parse_spec(name, load_models(config_folder() / "models.yaml")))
    client.prepare()
    return client


class ClientModels:
    """Ask a real model in between: its answer is waited for, and comes on the virtual clock after as long as it took."""

    def __init__(self, client: ModelClient, clock: Clock, tell: Callable[[ModelEvent], None]) -> None:
        self._client, self._clock, self._tell = client, clock, tell

    def allowance(self, process_id: str, layer: str) -> tuple[bool, float, str]:
        return True, 0.0, ""

    def ask(
        self,
        layer: Layer,
        process_id: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream_id: str = "",
    ) -> Handle:
        begun = time.monotonic()
        end, usage = self._ask(request)
        took_s = time.monotonic() - begun
        said = _Said()

        def tell() -> None:
            start_s = self._clock.now() - took_s
            told = ModelEvent(
                kind=ModelKind.ANSWERED,
                process_id=process_id,
                layer=layer.value,
                error_code=end.code,
                start_s=max(0.0, start_s),
                end_s=self._clock.now(),
                cost_usd=usage.cost_usd or 0.0,
                prompt_tokens=usage.prompt_tokens,
                cached_tokens=usage.cached_tokens,
                completion_tokens=usage.completion_tokens,
            )
            self._tell(told)
            if not said.over:
                on_text(end.text)
            if not said.over:
                on_end(end)

        self._clock.call_later(took_s, tell)
        return said

    def _ask(self, request: ModelRequest) -> tuple[AnswerEnd, Usage]:
        text, usage = "", None
        try:
            for event in self._client.stream(request, cancel=CancelToken()):
                if isinstance(event, TextDelta):
                    text += event.text
                elif isinstance(event, Usage):
                    usage = event
        except ModelError as error:
            return AnswerEnd(text, int(error.code), error.message), used(usage, request, text, whole=False)
        return AnswerEnd(text), used(usage, request, text, whole=True)


class _Said:
    """A `Handle` of an answer that has come already, and is told later."""

    over = False

    def cancel(self) -> None:
        self.over = True

    def enough(self) -> None:
        self.over = True


def in_turn(jobs: list[Job]) -> Iterator[dict[str, Any]]:
    """Do runs one after the other."""
    yield from map(work, jobs)


def in_processes(jobs: list[Job], number: int) -> Iterator[dict[str, Any]]:
    """Do runs in so many processes; lines come as runs end."""
    from multiprocessing import get_context

    with get_context("spawn").Pool(number) as pool:
        yield from pool.imap_unordered(work, jobs, chunksize=4)


def on_cluster(jobs: list[Job]) -> Iterator[dict[str, Any]]:
    """Do runs on a Ray cluster: the one of RAY_ADDRESS, else one that is started on this machine. Raises ImportError without
    Ray."""
    import ray

    ray.init(include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        remote = ray.remote(work)
        waiting: list[Any] = []
        queue = list(jobs)
        limit = 4 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while queue or waiting:
            while queue and len(waiting) < limit:
                waiting.append(remote.remote(queue.pop(0)))
            ready, waiting = ray.wait(waiting)
            yield from ray.get(ready)
    finally:
        ray.shutdown()
