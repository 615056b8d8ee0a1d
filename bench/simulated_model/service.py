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

from bench.simulated_model import console, household, office_roles, team_roles
from bench.simulated_model.layers import answer
from bench.simulated_model.model_dialects import CHARS_PER_TOKEN, Answer, RecordedRequest, tokens_in
from bench.simulated_model.model_faults import Fault
from bench.simulated_model.model_server import ModelServer
from bench.simulated_model.prompt import Question
from bench.simulated_model.spoiling import early_end, malformed, other_plan, wrong_call
from bench.simulated_model.table import Cache, Draw, ErrorKind, Errors, Planning, Table
from bench.simulated_model.team_roles import LAYERS as TEAM
from bench.simulated_model.team_roles import stage

_log = logging.getLogger(__name__)
SILENT_S = 3600.0
MAX_TASKS = 256
"""Tasks whose observations are kept for stale beliefs."""
MAX_PROMPTS = 20_000
"""Prompts, and pieces of prompts, that are remembered."""
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


class PrefixCache:
    """Counts the tokens of a prompt's front that a provider has seen before: sent to the same row, in whole steps."""

    def __init__(self, options: Cache) -> None:
        self._options = options
        self._seen: OrderedDict[bytes, float] = OrderedDict()

    def cached_tokens(self, row: str, prompt: str, now_s: float) -> int:
        """Return how many tokens of this prompt's front are known; from now on all of it is."""
        size = self._options.step_tokens * CHARS_PER_TOKEN
        known, unbroken, digest = 0, True, row.encode()
        for start in range(0, len(prompt) - size + 1, size):
            digest = _hash(digest + prompt[start : start + size].encode("utf-8", "surrogatepass"))
            last_s = self._seen.pop(digest, None)
            unbroken = unbroken and last_s is not None and now_s - last_s <= self._options.keep_s
            known += self._options.step_tokens if unbroken else 0
            self._seen[digest] = now_s
        while len(self._seen) > MAX_PROMPTS:
            self._seen.popitem(last=False)
        return known if known >= self._options.least_tokens else 0


class SimulatedModel:
    """Answers requests. It keeps counts, prompt fronts and, for stale beliefs, observations from one to the next; `on_given`
    is called with each answer."""

    def __init__(self, table: Table, on_given: Callable[[Given], None] | None = None) -> None:
        self._table = table
        self._on_given = on_given
        self._lock = threading.Lock()
        self._prefixes = PrefixCache(table.cache)
        self._asked: OrderedDict[bytes, int] = OrderedDict()
        self._shown: dict[str, deque[str]] = {}

    def __call__(self, request: RecordedRequest) -> Answer:
        """Return the answer to a request; a row that the table lacks is its first row."""
        question = Question.of(request)
        name = question.model if question.model in self._table.rows else next(iter(self._table.rows))
        row = self._table.rows[name]
        # What goes wrong in a team's loop hangs on how far it is and not on each word, so that all its variants meet the same.
        if office_roles.is_office(question):
            drawn = office_roles.stage(question)
        else:
            drawn = stage(question) if question.layer in TEAM else request.prompt
        # At a console it hangs on what was said so far, and is the same for all statements that follow.
        talks = question.layer in console.LAYERS
        drawn = console.stage(question) if talks else drawn
        with self._lock:
            turn = 0 if talks else self._turn(drawn)
            cached = self._prefixes.cached_tokens(name, request.prompt, request.at_s)
            earlier = self._earlier(question)
        draw = Draw(self._table.seed, name, drawn, turn)
        errors = row.errors or self._table.errors
        kind = draw.error(errors)
        if kind == "stale_belief" and earlier is None:
            kind = "wrong_call"
        greedy = draw.random("greedy").random() < self._table.greedy
        believed = replace(question, shown=earlier) if kind == "stale_belief" else question
        text = _answered(believed, greedy, self._table.planning, draw)
        if kind == "wrong_call":
            text = self._wrong(text, question, draw, errors)
        elif kind == "malformed":
            text = malformed(text, draw.random("malformed"))
        delay_s, rate = draw.first_token_s(row), draw.tokens_per_s(row)
        given = Given(name, question.layer.value, text, kind, tokens_in(request.prompt), cached, delay_s, rate)
        if self._on_given is not None:
            self._on_given(given)
        return Answer(
            text,
            prompt_tokens=given.prompt_tokens,
            cached_tokens=cached,
            first_token_s=delay_s,
            rate=rate,
            fault=Fault.silence(0, SILENT_S) if kind == "silence" else None,
        )

    def _wrong(self, text: str, question: Question, draw: Draw, errors: Errors) -> str:
        """Return a wrong answer; where the errors are fair, a share of them ends something too early in every layer."""
        chance = draw.random("wrong call")
        if errors.model == "fair":
            if draw.random("end").random() < errors.ends and (ending := early_end(text, question.layer, chance)):
                return ending
            if "<keep/>" in text:
                return other_plan(question, chance)
        return wrong_call(text, question.robot, chance)

    def _turn(self, prompt: str) -> int:
        """Return how often this prompt was asked before."""
        key = _hash(prompt.encode("utf-8", "surrogatepass"))
        turn = self._asked.pop(key, 0)
        self._asked[key] = turn + 1
        if len(self._asked) > MAX_PROMPTS:
            self._asked.popitem(last=False)
        return turn

    def _earlier(self, question: Question) -> str | None:
        """Return another observation that was shown for the same task before this one. A task begins with a question to which
        nothing is planned, done or queued."""
        key, observed = question.instruction, question.observed
        if not key or not question.facts.fields:
            return None
        if self._table.errors.model == "fair" and not any(question.blocks.get(title) for title in _GOES_ON):
            self._shown.pop(key, None)
        kept = self._shown.setdefault(key, deque(maxlen=4))
        if len(self._shown) > MAX_TASKS:
            del self._shown[next(iter(self._shown))]
        before = kept[0] if kept else None
        if not kept or kept[-1] != observed:
            kept.append(observed)
        return before if before != observed else None


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


_GOES_ON = ("PLAN", "DONE", "RUNNING", "QUEUE", "FAULTS", "CONDITION")
"""Blocks of a prompt about a task that has begun before."""


def _answered(question: Question, greedy: bool, planning: Planning, draw: Draw) -> str:
    """Return the honest answer; a fault of a policy is logged, and the client is still answered."""
    try:
        if office_roles.is_office(question):
            if household.is_household(question):
                return household.answer(question, draw.random("mistake"))
            return office_roles.answer(question, draw.random("mistake"))
        if question.layer in TEAM:
            return team_roles.answer(question, draw.random("mistake"))
        if question.layer in console.LAYERS:
            return console.answer(question, draw.random("mistake"))
        return answer(question, greedy=greedy, planning=planning) or APOLOGY
    except Exception:  # noqa: BLE001 - whatever is wrong with the policy, the client waits for an answer
        _log.exception("no answer to the prompt of layer %s for %r", question.layer.value, question.instruction[:200])
        return APOLOGY


def serve(table: Table, *, port: int = 0, on_given: Callable[[Given], None] | None = None) -> ModelServer:
    """Return a server that is not started yet; use it as a context. Raises OSError when the port is taken."""
    return ModelServer(SimulatedModel(table, on_given), takes_tools=False, port=port, keep=SHOWN_REQUESTS)
