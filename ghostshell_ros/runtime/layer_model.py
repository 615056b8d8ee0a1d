# SPDX-License-Identifier: Apache-2.0
"""Ask the models of a node's planning layers within a budget: a thread for each answer, an event for each question and its
cost."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ghostshell.msg import LlmAnswer, LlmPrompt, ProcessArray, ProcessState

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.qos import QUEUES
from ghostshell_ros.wire.values import ros_text
from planners.models.base import (
    CancelToken,
    Finished,
    ModelClient,
    ModelError,
    ModelRequest,
    Reading,
    Retrying,
    TextDelta,
    Usage,
    used,
)
from planners.models.base import ModelEvent as AnswerPart
from planners.models.budget import BudgetLimits, TokenBudget
from planners.models.model_call import AnswerEnd
from planners.models.repetition import RepetitionWatch
from skill_kernel.codes import ModelCode, TaskCode
from skill_kernel.events import ModelEvent, ModelKind, Notice, RunEvent

ENOUGH_S = 1.0
"""Time that an answer which is read no further may take to end by itself."""
LONG_READING_S = 2.0
"""From then on it is told that the server still reads the prompt."""
MAX_TOKENS = 1_000_000_000


class ModelBudget(TokenBudget):
    """Keep the token budget that a node's parameters set, by the events of all planning nodes of its robot."""

    def __init__(self, node: RuntimeNode) -> None:
        process, hour = "tokens that the planning of one process may use", "tokens that all planning may use in an hour"
        slow = "share of a budget from which on models are asked less often"
        slowest = "gap between two questions of a layer when the budget is nearly spent [s]"
        limits = BudgetLimits(
            node.declare("process_tokens", 500_000, f"{process}, 0: any number", 0, MAX_TOKENS),
            node.declare("hour_tokens", 3_000_000, f"{hour}, 0: any number", 0, MAX_TOKENS),
            node.declare("budget_slow_from", 0.5, slow, 0.0, 0.99),
            node.declare("budget_slowest_s", 20.0, slowest, 0.0, 600.0),
        )
        super().__init__(limits, node.steady_now)

    def hear(self, event: RunEvent) -> None:
        """Count an answer of any planning node."""
        if event.kind is ModelKind.ANSWERED:
            self.answered(event.process_id, event.prompt_tokens + event.completion_tokens)

    def processes(self, message: ProcessArray) -> None:
        """Take the tokens that processes used before this node was started, and forget processes that have ended."""
        for process in message.processes:
            if process.status >= ProcessState.SUCCESS:
                self.forget(process.process_id)
            else:
                self.at_least(process.process_id, process.prompt_tokens + process.completion_tokens)


class LayerModel:
    """Ask the models of a node's layers. On the executor's thread only; a model is read on a thread of its own.

    Writes a ModelEvent for each question, answer and skipped question. Publishes questions and answers
    on `prompts` and `answers` while there is a subscriber. A cancelled answer is reported with MODEL_CANCELLED at once, and
    its cost is estimated from its length.
    """

    def __init__(
        self, node: RuntimeNode, clients: Mapping[str, ModelClient], events: EventWriter, budget: TokenBudget | None = None
    ) -> None:
        self.node, self._clients, self.events, self._budget = node, clients, events, budget
        self._asked_s: dict[tuple[str, str], float] = {}
        self.answers: set[Answer] = set()
        """Those that have not ended."""
        self._prompts = node.create_publisher(LlmPrompt, "prompts", QUEUES)
        self.told_answers = node.create_publisher(LlmAnswer, "answers", QUEUES)

    def thinks(self, layer: str) -> bool:
        """Return whether a language model answers this layer, and not the parser of direct commands."""
        return layer in self._clients and self._clients[layer].is_language_model

    def allowance(self, process_id: str, layer: str) -> tuple[bool, float, str]:
        """Return whether the budget lets a layer ask, in how many seconds at the earliest, and why not."""
        if self._budget is None:
            return True, 0.0, ""
        ok, gap_s, why = self._budget.allow(process_id, str(layer))
        asked_s = self._asked_s.get((process_id, layer))
        wait_s = 0.0 if asked_s is None else max(0.0, asked_s + gap_s - self.node.steady_now())
        return ok, wait_s, why

    def ask(
        self,
        layer: str,
        process_id: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream_id: str = "",
    ) -> Answer:
        """Ask. `on_text` and `on_end` are called on the executor's thread, never from within this call.

        A question that the budget forbids is not asked and ends with BUDGET_SPENT.
        """
        client = self._clients[layer]
        answer = Answer(self, client, layer, process_id, stream_id, request, on_text, on_end)
        ok, _, why = self.allowance(process_id, layer)
        if not ok:
            self.events.write(ModelEvent(kind=ModelKind.SKIPPED, process_id=process_id, layer=str(layer), reason=why))
            self.node.call_soon(answer.end, int(TaskCode.BUDGET_SPENT), why)
            return answer
        self._asked_s[process_id, layer] = self.node.steady_now()
        while len(self._asked_s) > 500:
            del self._asked_s[next(iter(self._asked_s))]
        self.events.write(ModelEvent(kind=ModelKind.ASKED, model=client.name, **answer.about))
        self.answers.add(answer)
        answer.begin()
        if self._prompts.get_subscription_count():
            self._prompts.publish(self._prompt(answer))
        return answer

    def close(self) -> None:
        for answer in list(self.answers):
            answer.cancel()

    def _prompt(self, answer: Answer) -> LlmPrompt:
        request = answer.request
        messages = [
            {"role": m.role, "text": m.whole, "images": [hashlib.sha256(i.data).hexdigest() for i in m.images]}
            for m in request.messages
        ]
        return LlmPrompt(
            stamp=self.node.get_clock().now().to_msg(),
            model=answer.client.name,
            **answer.about,
            sha256=request.sha256(),
            system=ros_text(request.front),
            messages_json=ros_text(json.dumps(messages, ensure_ascii=False)),
        )


class Answer:
    """Read one answer while it is written; a `Handle` of the cores."""

    def __init__(
        self,
        owner: LayerModel,
        client: ModelClient,
        layer: str,
        process_id: str,
        stream_id: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
    ) -> None:
        self.client, self.request = client, request
        self.about: dict[str, Any] = {"process_id": process_id, "stream_id": stream_id, "layer": str(layer)}
        self._owner, self._node = owner, owner.node
        self._on_text, self._on_end = (owner.node.guarded(callback, process_id) for callback in (on_text, on_end))
        self._cancel = CancelToken()
        self._written: list[str] = []
        self._times_s: list[float] = []
        self._finish = ""
        self._asked_s = owner.node.steady_now()
        self._usage: Usage | None = None
        self._began_s = owner.node.now_s()
        self._over = self._muted = self._forgot = self._reads_long = False
        self._repetition = RepetitionWatch()

    def begin(self) -> None:
        events = self.client.stream(self.request, cancel=self._cancel)
        threading.Thread(target=self._read, args=(events,), name=f"model-{self.about['layer']}", daemon=True).start()

    def cancel(self) -> None:
        """Stop the answer and report nothing more of it."""
        self._cut(int(ModelCode.MODEL_CANCELLED), "the answer was no longer wanted")

    def enough(self) -> None:
        """Read no further. The answer gets ENOUGH_S to end by itself, because its end tells the number of tokens."""
        if not self._over and not self._muted:
            self._muted = True
            self._node.call_later(ENOUGH_S, self._cut)

    def _cut(self, code: int = 0, why: str = "") -> None:
        if not self._over:
            self._cancel.cancel()
            self._told(code, why)

    def _read(self, events: Iterator[AnswerPart]) -> None:
        """Read the model's iterator, which blocks, on a thread of its own."""
        soon, name = self._node.call_soon, self.client.name
        try:
            for event in events:
                soon(self._event, event)
        except ModelError as error:
            who = f"model {name}: " if self.client.is_language_model else ""
            soon(self.end, int(error.code), who + error.message.removeprefix(f"{name}: "))
        except Exception as error:  # noqa: BLE001 - whatever an SDK raises must end the answer, not the node
            soon(self.end, int(ModelCode.MODEL_CONNECTION), f"model {name}: {type(error).__name__} in its client")
        else:
            soon(self.end, 0, "")

    def _event(self, event: AnswerPart) -> None:
        if self._over:
            return
        if isinstance(event, TextDelta):
            self._written.append(event.text)
            self._times_s.append(self._node.steady_now() - self._asked_s)
            if self.client.is_language_model and (why := self._repetition.feed(event.text)):
                self._cancel.cancel()
                self.end(int(ModelCode.MODEL_NOT_UNDERSTOOD), f"model {self.client.name}: {why}")
            elif not self._muted:
                self._on_text(event.text)
        elif isinstance(event, Usage):
            self._usage = event
        elif isinstance(event, Reading):
            if not self._reads_long and event.read < event.total and self._node.steady_now() - self._asked_s > LONG_READING_S:
                self._reads_long = True
                self._notice(
                    f"model {self.client.name} has read {event.read} of the prompt's {event.total} tokens; it answers then"
                )
        elif isinstance(event, Retrying):
            name, self._forgot = self.client.name, self._forgot or event.error.too_long
            self._notice(f"model {name} failed, next try in {event.wait_s:.1f} s: {event.error.message}")
        elif isinstance(event, Finished):
            self._finish = event.reason
            if event.reason not in ("stop", "end_turn"):
                self._notice(f"the model ended its answer for the reason '{event.reason}'")

    def _notice(self, why: str) -> None:
        self._owner.events.write(Notice(error_msg=why, **self.about))

    def end(self, code: int, why: str) -> None:
        """End it, unless it has ended."""
        if not self._over:
            self._told(0 if self._muted else code, "" if self._muted else why, whole=not code)
            if not self._muted:
                self._on_end(AnswerEnd("".join(self._written), code, why, self._forgot, self._finish == "length"))

    def _told(self, code: int, why: str, *, whole: bool = False) -> None:
        """Report the answer's end. `whole` says that the model itself ended it, so its token counts are complete."""
        self._over = True
        if self not in self._owner.answers:  # the budget forbade it: nothing but its end is told
            return
        usage = self._used(code, whole=whole)
        cost = {
            "error_code": code,
            "error_msg": ros_text(why),
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "cost_usd": usage.cost_usd if usage.cost_usd is not None else -1.0,
        }
        self._owner.answers.discard(self)
        if self._owner.told_answers.get_subscription_count():
            self._owner.told_answers.publish(self._message(cost))
        about = {**self.about, **cost, "start_s": self._began_s, "end_s": self._node.now_s()}
        self._owner.events.write(ModelEvent(kind=ModelKind.ANSWERED, model=self.client.name, **about))

    def _message(self, cost: Mapping[str, Any]) -> LlmAnswer:
        return LlmAnswer(
            stamp=self._node.get_clock().now().to_msg(),
            model=self.client.name,
            sha256=self.request.sha256(),
            pieces=[ros_text(text) for text in self._written],
            times_s=self._times_s,
            end_s=self._node.steady_now() - self._asked_s,
            finish=self._finish,
            **self.about,
            **cost,
        )

    def _used(self, code: int, *, whole: bool) -> Usage:
        """Return the tokens and cost; none where no language model began to answer.

        A model that was cancelled or timed out has read the prompt all the same.
        """
        asked = self._written or self._usage or code in (ModelCode.MODEL_CANCELLED, ModelCode.MODEL_TIMEOUT)
        if not asked or not self.client.is_language_model:
            return self._usage or Usage(0, 0)
        return used(self._usage, self.request, "".join(self._written), whole=whole)
