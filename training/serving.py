# SPDX-License-Identifier: Apache-2.0
"""Serve the local model with a trained adapter on this machine, over the OpenAI protocol, and name it `model:=local`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from planners.models.config import ModelConfig
from training.base import weights

PORT = 8742
"""Port on 127.0.0.1 where `ghostshell local-model` listens by default."""
CONTEXT = 8192
"""Tokens that the model can read and write."""


def local() -> ModelConfig:
    """Return the configuration of the served model: bound to the robot's grammar."""
    return ModelConfig(
        provider="openai",
        model="local",
        base_url=f"http://127.0.0.1:{PORT}/v1",
        grammar="llama.cpp",
        first_token_s=30.0,
        context_tokens=CONTEXT,
    )


def serve(port: int, adapter: Path | None, threads: int, file: Path | None = None) -> Any:
    """Start the server and return it; it runs as long as it is held. `adapter` None serves the base model alone, `port` 0 picks
    a free one. Raises RuntimeError where it cannot start."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(file or weights())
    parameters.model_alias = {"local"}
    parameters.port = port
    parameters.n_ctx, parameters.n_parallel = CONTEXT, 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.sampling.temp = 0.0
    if adapter is not None:
        parameters.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(adapter), 1.0)]
    return xllamacpp.Server(parameters)


def local_model(
    adapter: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="trained adapter, a GGUF file")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="port on 127.0.0.1; 0 picks a free one")] = PORT,
    threads: Annotated[int, typer.Option(min=1, help="processor cores to use")] = 2,
) -> None:
    """Serve the local model until interrupted; a robot uses it with `model:=local prompt:=short`.

    Exit status 2: what it needs is not installed, or the server does not start.
    """
    try:
        server = serve(port, adapter, threads)
    except (ImportError, FileNotFoundError, RuntimeError) as error:
        typer.echo(f"ghostshell: {error}; docs/local_model.md says what to install", err=True)
        raise typer.Exit(2) from error
    typer.echo(f"listening on {server.listening_address}/v1: ghostshell launch coco model:=local prompt:=short")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        typer.echo("")
