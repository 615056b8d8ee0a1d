# SPDX-License-Identifier: Apache-2.0
"""The simulated model behind the local model server: each request gets its row's delay, its rate, and now and then an
error."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.simulated_model.layers import answer
from bench.simulated_model.model_dialects import Answer, RecordedRequest, tokens_in
from bench.simulated_model.model_faults import Fault
from bench.simulated_model.model_server import ModelServer
from bench.simulated_model.prefixes import PrefixCache
from bench.simulated_model.question import Question
from bench.simulated_model.spoiling import malformed, wrong_call
from bench.simulated_model.table import Draw, ErrorKind, Row, Table

_log = logging.getLogger(__name__)
SILENT_S = 3600.0
REMEMBERED = 256
"""Tasks whose observations are kept for stale beliefs."""
COUNTED = 20_000
"""Prompts of which it is known how often they were asked."""
SHOWN_REQUESTS = 64
APOLOGY = "I am sorry, I cannot answer that."


@dataclass(frozen=True)
class Given:
    """An answer that was given, for logs and tests."""

    row: str
    layer: str
    text: str
    error: ErrorKind | None
    prompt_tokens: int
    cached_tokens: int
    first_token_s: float
    tokens_per_s: float


class SimulatedModel:
    """Answers requests; what it keeps from one to the next are counts, prompt fronts and, for stale beliefs, observations
    that it was shown. `on_given` hears of each answer."""

    def __init__(self, table: Table, on_given: Callable[[Given], None] | None = None) -> None:
        self._table = table
        self._on_given = on_given
        self._lock = threading.Lock()
        self._prefixes = PrefixCache(table.cache)
        self._asked: OrderedDict[bytes, int] = OrderedDict()
        self._shown: dict[str, deque[str]] = {}

    def __call__(self, request: RecordedRequest) -> Answer:
        """The answer to a request as it came."""
        question = Question.of(request)
        name, row = self._row(question.model)
        with self._lock:
            turn = self._turn(request.prompt)
            cached = self._prefixes.cached_tokens(name, request.prompt, request.at_s)
            earlier = self._earlier(question)
        draw = Draw(self._table.seed, name, request.prompt, turn)
        kind = draw.error(row.errors or self._table.errors)
        greedy = draw.random("greedy").random() < self._table.greedy
        if kind == "stale_belief" and earlier is None:
            kind = "wrong_call"
        believed = replace(question, shown=earlier) if kind == "stale_belief" else question
        text = _answered(believed, greedy)
        if kind == "wrong_call":
            text = wrong_call(text, question.words, draw.random("wrong call"))
        elif kind == "malformed":
            text = malformed(text, question.words, draw.random("malformed"))
        given = Given(
            name,
            question.layer.value,
            text,
            kind,
            tokens_in(request.prompt),
            cached,
            draw.first_token_s(row),
            draw.tokens_per_s(row),
        )
        if self._on_given is not None:
            self._on_given(given)
        return Answer(
            text,
            prompt_tokens=given.prompt_tokens,
            cached_tokens=cached,
            first_token_s=given.first_token_s,
            rate=given.tokens_per_s,
            fault=Fault.silence(0, SILENT_S) if kind == "silence" else None,
        )

    def _turn(self, prompt: str) -> int:
        """How often this prompt was asked before."""
        key = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).digest()
        turn = self._asked.pop(key, 0)
        self._asked[key] = turn + 1
        if len(self._asked) > COUNTED:
            self._asked.popitem(last=False)
        return turn

    def _row(self, model: str) -> tuple[str, Row]:
        """The row of this name, else the first."""
        name = model if model in self._table.rows else next(iter(self._table.rows))
        return name, self._table.rows[name]

    def _earlier(self, question: Question) -> str | None:
        """A message with the observation that was shown for the same task before this one."""
        key = question.instruction
        if not key or not question.facts:
            return None
        kept = self._shown.setdefault(key, deque(maxlen=4))
        if len(self._shown) > REMEMBERED:
            del self._shown[next(iter(self._shown))]
        before = kept[0] if kept else None
        if not kept or kept[-1] != question.observed:
            kept.append(question.observed)
        return before if before != question.observed else None


def _answered(question: Question, greedy: bool) -> str:
    """The honest answer; a fault of the policy is told on standard error, and the robot is still answered."""
    try:
        return answer(question, greedy=greedy) or APOLOGY
    except Exception:  # noqa: BLE001 - whatever is wrong with the policy, the client waits for an answer
        _log.exception("no answer to the prompt of layer %s for %r", question.layer.value, question.instruction[:200])
        return APOLOGY


def serve(table: Table, *, port: int = 0, on_given: Callable[[Given], None] | None = None) -> ModelServer:
    """A server that is not started yet; use it as a context. Raises OSError when the port is taken."""
    return ModelServer(SimulatedModel(table, on_given), port=port, keep=SHOWN_REQUESTS)
