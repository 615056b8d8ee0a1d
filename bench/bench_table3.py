# SPDX-License-Identifier: Apache-2.0
"""The paper's table 3: time from the first token of an answer to the first action and to its end, function tokens in XML beside
native calls of the same actions, through the openai and anthropic SDKs at the same token rate.

The model is a local server that sends given answers at a set rate (a token is four characters of text, of a function's
name or of its JSON arguments; what else a provider spends on a native call is not counted). Native calls are run in two
ways: when the answer is complete, as the paper has it, and in the dialect `tools`, each as soon as its arguments are.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.bench_coco_tasks import TASKS
from bench.common import Table, arguments, report
from bench.dry_run import AssumedConditions
from bench.loop import Loop
from bench.performing import Robot, perform
from bench.scoring import Expected, Task, TaskFile, score
from bench.simulated_model.model_server import Answer, ModelServer, ToolUse
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken
from function_tokens.scheduling.calls import Call
from function_tokens.scheduling.scheduler import Scheduler
from planners.models.base import CancelToken, Finished, Message, ModelError, ModelRequest, TextDelta, Usage
from planners.models.config import ModelConfig
from planners.models.factory import make_client
from planners.models.tool_calls import CallWriter
from planners.prompts.grammar import StreamGrammar, Tool
from skill_kernel.calls import CallResult
from skill_kernel.codes import ModelCode, Outcome
from skill_kernel.events import CallEvent, CallKind, RunEvent

KEYS = {"OPENAI_API_KEY": "local", "ANTHROPIC_API_KEY": "local"}
PAPER = {
    "sequential": {"ours_ms": 80, "native_ms": 5290, "ours": "T", "native": "T"},
    "parallel": {"ours_ms": 90, "native_ms": 3570, "ours": "T", "native": "T"},
    "condition": {"ours_ms": 320, "native_ms": None, "ours": "T", "native": "F"},
    "event": {"ours_ms": None, "native_ms": None, "ours": "T", "native": "F"},
}
"""GhostShell, table 3: Claude-4-Sonnet on the real robot."""

WAYS = ("xml", "tools", "complete")
_COUNT = "One, two, three, four, five, six, seven, eight."
_LOOP = 6


@dataclass(frozen=True)
class Pattern:
    """A task in both encodings. `native_lacks` says what flat native calls cannot express of it."""

    key: str
    title: str
    stream: str
    calls: tuple[ToolUse, ...]
    task: Task
    interrupt_s: float | None = None
    native_lacks: str = ""


def patterns() -> list[Pattern]:
    """One task for each of the four patterns."""
    triangle = next(t for t in TaskFile.load(TASKS).tasks if t.name == "Triangle Walk")
    side, turn = ToolUse("spider_run_distance", {"distance": 30}), ToolUse("spider_rotate", {"angle": 120})
    parallel = Task(
        name="move & head & ears",
        kind="objective",
        pattern="parallel",
        reference="",
        instruction="",
        expect={
            "move": Expected(call="spider_run_distance"),
            "head": Expected(call="head_act"),
            "left": Expected(call="ear_swing", args={"side": "left"}),
            "right": Expected(call="ear_swing", args={"side": "right"}),
        },
        order=(("together", "move", "head", "left", "right"),),
    )
    condition = Task(
        name="rotate until counted to 8",
        kind="objective",
        pattern="condition",
        reference="",
        instruction="",
        expect={"turn": Expected(call="spider_rotate"), "count": Expected(text="(?i)one.*eight")},
        order=(("until", "turn", "count"),),
    )
    event = Task(
        name="dance until interrupted",
        kind="objective",
        pattern="event",
        reference="",
        instruction="",
        expect={"wave": Expected(call="spider_wave_move", outcome="INTERRUPTED")},
    )
    waves = '<spider_wave_move times="20"/>' * _LOOP
    return [
        Pattern("sequential", "sequential (walk a triangle)", triangle.reference, (side, turn) * 3, triangle),
        Pattern(
            "parallel",
            "parallel (move & head & ears)",
            '<spider_run_distance distance="30"/><head_act action="nod"/><ear_swing side="left"/><ear_swing side="right"/>',
            (
                ToolUse("spider_run_distance", {"distance": 30}),
                ToolUse("head_act", {"action": "nod"}),
                ToolUse("ear_swing", {"side": "left"}),
                ToolUse("ear_swing", {"side": "right"}),
            ),
            parallel,
        ),
        Pattern(
            "condition",
            "condition (rotate until counted to 8)",
            f'<spider_rotate angle="360">{_COUNT}</spider_rotate>',
            (ToolUse("spider_rotate", {"angle": 360}), ToolUse("speak", {"text": _COUNT})),
            condition,
            native_lacks="flat calls cannot tie a call's end to the end of others; expressed: both side by side, the "
            "turn for a fixed angle",
        ),
        Pattern(
            "event",
            "event (dance until interrupted at 1 s)",
            f'<play_bgm name="dance">{waves}</play_bgm>',
            (ToolUse("play_bgm", {"name": "dance"}), *(ToolUse("spider_wave_move", {"times": 20}),) * _LOOP),
            event,
            interrupt_s=1.0,
            native_lacks="when the answer must be complete first, nothing runs yet that an event could end; run call by "
            "call it can be ended, by the scheduler below and not by the interface",
        ),
    ]


@dataclass
class Body:
    """Runs the calls of one answer on the real scheduler: notes when each starts, ends one only when told to."""

    robot: Robot
    starts: list[float] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    first_action_s: float | None = None

    def __post_init__(self) -> None:
        ids = itertools.count(1)
        self.scheduler = Scheduler(
            self.robot.mapper,
            self,
            Loop(),
            self._event,
            new_call_id=lambda: f"c{next(ids)}",
            conditions=AssumedConditions({}, None),
        )
        self.scheduler.open_stream("s")

    def start(self, call: Call) -> None:
        self.starts.append(time.monotonic())
        self.scheduler.started(call.call_id)

    def content(self, call: Call, text: str, last: bool) -> None:
        """Speech is not timed."""

    def reset(self, call: Call) -> None:
        self.scheduler.ended(call.call_id, CallResult(Outcome.DONE))

    def stop(self, call: Call, cause: str) -> None:
        self.scheduler.ended(call.call_id, CallResult(Outcome.INTERRUPTED))

    def take(self, tokens: Iterable[FunctionToken]) -> None:
        """Feed function tokens."""
        for token in tokens:
            self.scheduler.feed("s", token)

    def _event(self, event: RunEvent) -> None:
        if isinstance(event, CallEvent) and event.kind is CallKind.ENDED:
            self.outcomes.append(event.outcome_name)


def run_once(pattern: Pattern, provider: str, robot: Robot, rate: float, first_token_s: float) -> dict[str, Any]:
    """One answer in each encoding; times in seconds from the first token."""
    bodies = {"xml": Body(robot), "tools": Body(robot), "complete": Body(robot)}
    result: dict[str, Any] = {}
    tools = StreamGrammar(robot.registry, robot.options).tools()
    for name, answer in (("xml", Answer(pattern.stream)), ("tools", Answer(tool_calls=pattern.calls))):
        with ModelServer(answer, rate=rate, first_token_s=first_token_s) as server:
            parser, waiting = StreamingParser(), list[FunctionToken]()
            heard = [bodies[name]] if name == "xml" else [bodies["tools"], bodies["complete"]]
            for event in _events(server, provider, pattern, heard, result, name, tools if name == "tools" else ()):
                first_token_at = server.requests[-1].at_s + first_token_s
                if isinstance(event, TextDelta):
                    tokens = parser.feed(event.text)
                    waiting += tokens
                    bodies[name].take(tokens)
                elif isinstance(event, Finished):
                    result[name]["total_s"] = time.monotonic() - first_token_at
                    if name == "tools":
                        bodies["complete"].take(waiting)
            for body in heard:
                body.first_action_s = body.starts[0] - first_token_at if body.starts else None
    result["complete"] = {"total_s": result["tools"].get("total_s")}
    for name, body in bodies.items():
        result[name] |= {"first_action_s": body.first_action_s, "done": _completed(pattern, name == "xml", body, robot)}
    return result


def _events(
    server: ModelServer,
    provider: str,
    pattern: Pattern,
    bodies: list[Body],
    result: dict[str, Any],
    name: str,
    tools: tuple[Tool, ...],
) -> Iterator[Any]:
    """Yield the events of one answer. The external event, if any, cancels the generation and interrupts the bodies."""
    url = server.openai_url if provider == "openai" else server.anthropic_url
    config = ModelConfig.model_validate({"provider": provider, "model": "local", "base_url": url})
    client = make_client(config)
    client.prepare()
    cancel, fired = CancelToken(), []

    def fire() -> None:
        fired.append(time.monotonic())
        cancel.cancel()

    request = ModelRequest("A robot.", (Message("user", pattern.title),), tools=tools)
    timer = threading.Timer((pattern.interrupt_s or 0.0) + server.first_token_s, fire)
    timer.daemon = True
    if pattern.interrupt_s is not None:
        timer.start()
    facts: dict[str, Any] = {"completion_tokens": None}
    result[name] = facts
    try:
        for event in client.stream(request, cancel=cancel):
            if isinstance(event, Usage):
                facts["completion_tokens"] = event.completion_tokens
            yield event
    except ModelError as error:
        if error.code is not ModelCode.MODEL_CANCELLED:
            raise
        for body in bodies:
            body.scheduler.interrupt("external event")
        facts["interrupt_ms"] = (time.monotonic() - fired[0]) * 1e3
    finally:
        timer.cancel()
        client.close()


def _completed(pattern: Pattern, xml: bool, body: Body | None, robot: Robot) -> bool:
    """Return whether what ran is what the task asks for: from its schedule, or from what really ran where an event ends it."""
    if body is not None and pattern.interrupt_s is not None:
        return Outcome.INTERRUPTED.value in body.outcomes and not body.scheduler.live_calls
    stream = pattern.stream if xml else "".join(map(_as_text, pattern.calls))
    done = perform(pattern.task, stream, robot)
    return score(pattern.task, done.calls, {}, done.error).correctness == 1.0


def _as_text(call: ToolUse) -> str:
    return CallWriter().feed(0, "", call.name, call.written)


def measure(robot: Robot, rate: float, first_token_s: float, repeats: int) -> dict[str, Any]:
    """Every pattern through both SDKs; medians of the repeats, in milliseconds."""
    results: dict[str, Any] = {}
    for pattern in patterns():
        for provider in ("anthropic", "openai"):
            runs = [run_once(pattern, provider, robot, rate, first_token_s) for _ in range(repeats)]
            row: dict[str, Any] = {
                "pattern": pattern.key,
                "title": pattern.title,
                "provider": provider,
                "first_action_ms": {way: _median_ms(r[way]["first_action_s"] for r in runs) for way in WAYS},
                "total_ms": {way: _median_ms(r[way].get("total_s") for r in runs) for way in WAYS},
                "done": {way: all(r[way]["done"] for r in runs) for way in WAYS},
                "tokens_of_the_answer": {n: _count(pattern, n) for n in ("xml", "tools")},
                "completion_tokens_reported": {n: runs[-1][n]["completion_tokens"] for n in ("xml", "tools")},
                "native_lacks": pattern.native_lacks,
                "paper": PAPER[pattern.key],
            }
            if pattern.interrupt_s is not None:
                row["interrupt_to_all_ended_ms"] = {
                    way: round(statistics.median(r[way]["interrupt_ms"] for r in runs), 2) for way in ("xml", "tools")
                }
            own = row["first_action_ms"]["xml"]
            row["ratio"] = {
                way: None if own is None or (other := row["first_action_ms"][way]) is None else round(other / own, 2)
                for way in WAYS[1:]
            }
            results[f"{pattern.key}, {provider}"] = row
    return results


def _median_ms(values: Iterator[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return round(statistics.median(known) * 1e3, 1) if known else None


def _count(pattern: Pattern, encoding: str) -> int:
    """Tokens of the whole answer, as the server counts them."""
    if encoding == "xml":
        return math.ceil(len(pattern.stream) / 4)
    return sum(math.ceil(len(c.name) / 4) + math.ceil(len(c.written) / 4) for c in pattern.calls)


def main() -> None:
    """Measure, print, write out/bench/table3.json."""
    parser = arguments(__doc__)
    parser.add_argument("--rate", type=float, default=50.0, help="tokens a second (default 50)")
    parser.add_argument("--first-token-s", type=float, default=0.4, help="delay of the first token (default 0.4)")
    parser.add_argument("--repeats", type=int, default=3, help="answers a pattern, encoding and SDK (default 3)")
    options = parser.parse_args()
    results = measure(Robot.coco(), options.rate, options.first_token_s, options.repeats)
    mark = {True: "T", False: "F"}
    rows: list[list[object]] = []
    for row in results.values():
        times, paper = row["first_action_ms"], row["paper"]
        rows.append(
            [
                row["title"],
                row["provider"],
                *(times[way] for way in WAYS),
                *(row["ratio"][way] for way in WAYS[1:]),
                "/".join(mark[row["done"][way]] for way in WAYS),
                "/".join(_or_dash(row["total_ms"][way]) for way in WAYS[:2]),
                "/".join(str(row["tokens_of_the_answer"][way]) for way in WAYS[:2]),
                f"{_or_dash(paper['ours_ms'])}/{_or_dash(paper['native_ms'])} {paper['ours']}/{paper['native']}",
            ]
        )
    columns = (
        "task",
        "SDK",
        "XML",
        "tools",
        "native, complete",
        "ratio",
        "ratio",
        "done",
        "whole answer [ms]",
        "answer [tokens]",
        "paper: ours/native",
    )
    title = f"first token to first action [ms] at {options.rate:g} tokens/s, first token after {options.first_token_s:g} s"
    lacks = {row["title"]: row["native_lacks"] for row in results.values() if row["native_lacks"]}
    notes: list[list[object]] = [[title, f"native: {what}"] for title, what in lacks.items()]
    for row in results.values():
        if (ended := row.get("interrupt_to_all_ended_ms")) is not None:
            told = f"interrupt to all ended: XML {ended['xml']} ms, tools {ended['tools']} ms"
            notes.append([f"event, {row['provider']}", told])
    measured = {
        "rate_tokens_per_s": options.rate,
        "first_token_s": options.first_token_s,
        "tokenizer": "4 characters a token; text, function names and JSON arguments count, the frame of a call does not",
        "paper_source": "GhostShell, table 3 (Claude-4-Sonnet, real robot): milliseconds, and T/F for task completion",
        "results": results,
    }
    report("table3", measured, [Table(title, columns, rows), Table("notes", ("task", "what"), notes)], as_json=options.json)


def _or_dash(value: object) -> str:
    return "–" if value is None else str(value)


if __name__ == "__main__":
    main()
