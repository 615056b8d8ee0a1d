# SPDX-License-Identifier: Apache-2.0
"""`ghostshell simulated-model`: a language model that is none, for trying the planning layers without a key and a network."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.models import PORT

if TYPE_CHECKING:
    from bench.simulated_model.service import Given


def simulated_model(
    port: Annotated[int, typer.Option(min=0, max=65535, help="port on 127.0.0.1; 0 picks a free one")] = PORT,
    errors: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="share of the answers that is spoiled; default: the table's")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="seed of delays and errors; default: the table's")] = None,
    fast_scale: Annotated[float, typer.Option(min=0.001, help="latency of the row `fast` times this")] = 1.0,
    table: Annotated[Path | None, typer.Option(help="YAML file of rows; default: bench/typego_models.yaml")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="print each answer as it is given")] = False,
) -> None:
    """Serve the simulated model until interrupted, over the OpenAI and the Anthropic protocol.

    It answers each planning layer's prompt from the text of the prompt alone, with set delays, token rates and errors.
    Exit status 2: the table or the port cannot be used.
    """
    from bench.simulated_model.service import serve
    from bench.simulated_model.table import TableError, load_table
    from bench.simulated_model.where import default_table

    try:
        rows = load_table(table or default_table())
        scales = {"fast": fast_scale} if fast_scale != 1.0 else {}
        server = serve(
            rows.with_options(seed=seed, errors=errors, scales=scales), port=port, on_given=_print if verbose else None
        )
    except TableError as error:
        typer.echo(f"ghostshell: {error}", err=True)
        raise typer.Exit(2) from error
    except OSError as error:
        typer.echo(f"ghostshell: port {port} cannot be used ({error.strerror}); choose another with --port", err=True)
        raise typer.Exit(2) from error
    with server:
        typer.echo(_next(server.port, server.openai_url, list(rows.rows)))
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            typer.echo("")


def _next(port: int, url: str, rows: list[str]) -> str:
    """Say what to type next."""
    if port == PORT:
        names = "model:=simulated fast_model:=simulated-fast"
    else:
        fast = rows[1] if len(rows) > 1 else rows[0]
        names = f"model:=openai:{rows[0]}@{url} fast_model:=openai:{fast}@{url}"
    return f"simulated model on {url}; in another terminal: ros2 launch ghostshell kalos.launch.xml {names}"


def _print(given: Given) -> None:
    spoiled = f" [{given.error}]" if given.error else ""
    typer.echo(
        f"{given.row} {given.layer}{spoiled} {given.prompt_tokens} tokens ({given.cached_tokens} cached), "
        f"{given.first_token_s:.2f} s: {' '.join(given.text.split())}"
    )
