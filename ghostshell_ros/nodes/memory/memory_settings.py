# SPDX-License-Identifier: Apache-2.0
"""Parameters of the node memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ghostshell_ros.runtime.model_setup import shipped_config
from ghostshell_ros.runtime.node_runtime import NodeStartError, RuntimeNode
from planners.memory.consolidation import ConsolidationSettings, ModelWriter
from planners.memory.embedding import Embedder, SentenceTransformerEmbedder
from planners.memory.store import DAY_S, Retention
from planners.models.config import ConfigError, load_models, parse_spec
from planners.models.factory import make_client

FOREVER_DAYS = 36_500.0


@dataclass(frozen=True)
class MemorySettings:
    """What the node is configured with."""

    robots: tuple[str, ...]
    data_dir: str
    power_safe: bool
    max_queue: int
    observation_period_s: float
    consolidation_period_s: float
    consolidation: ConsolidationSettings
    embedder: Embedder | None
    model: ModelWriter | None


def declare_memory(node: RuntimeNode) -> MemorySettings:
    """Declare the parameters and read them. Raises NodeStartError with the reason."""

    def days(name: str, default: float, description: str) -> float:
        return node.declare(name, default, f"{description} [days]", minimum=0.01, maximum=FOREVER_DAYS) * DAY_S

    retention = Retention(
        raw_s=node.declare("keep_raw_h", 24.0, "raw observations are kept so long [h]", minimum=0.1, maximum=87_600.0) * 3600.0,
        sentences_s=days("keep_sentences_days", 30.0, "what was seen, heard and done"),
        episodes_s=days("keep_episodes_days", 365.0, "summaries of tasks and hours"),
        max_raw=node.declare("max_raw", 500_000, "raw observations at most", minimum=1000, maximum=100_000_000),
    )
    folder = node.declare("embedding_model", "", "sentence-transformers model, by name or folder; empty: full text alone")
    threads = node.declare("embedding_threads", 1, "of the CPU, for sentence embeddings", minimum=1, maximum=64)
    robots = node.declare("robots", [""], "namespaces of the robots; empty: all that are seen")
    return MemorySettings(
        robots=tuple(filter(None, (r.strip("/") for r in robots))),
        data_dir=node.declare("data_dir", "", "folder of the memory; empty: $GHOSTSHELL_DATA or the user's data folder"),
        power_safe=node.declare("power_safe", True, "flush each commit, so that what is acknowledged survives a power cut"),
        max_queue=node.declare("max_queue", 20_000, "records that wait to be written at most", minimum=100, maximum=1_000_000),
        observation_period_s=node.declare(
            "observation_period_s",
            1.0,
            "an observation is kept so often, and when the scene changes [s]",
            minimum=0.2,
            maximum=3600.0,
        ),
        consolidation_period_s=node.declare(
            "consolidation_period_s", 1.0, "how often new records are made into sentences [s]", minimum=0.05, maximum=3600.0
        ),
        consolidation=ConsolidationSettings(
            retention,
            frozenset(filter(None, node.declare("people", ["person"], "labels of the detector that are people"))),
            frozenset(filter(None, node.declare("facilities", ["door"], "labels of the detector that are facilities"))),
        ),
        embedder=SentenceTransformerEmbedder(folder, threads=threads) if folder else None,
        model=_declare_model(node),
    )


def _declare_model(node: RuntimeNode) -> ModelWriter | None:
    spec = node.declare("model", "", "language model for free questions and summaries, as in models.yaml; empty: none")
    file = node.declare("models_file", "", "file of named models; empty: config/models.yaml of this package")
    if spec in ("", "offline"):
        return None
    try:
        config = parse_spec(spec, load_models(Path(file) if file else shipped_config() / "models.yaml"))
        return ModelWriter(make_client(config))
    except ConfigError as error:
        raise NodeStartError(f"parameter model: {error}") from error
