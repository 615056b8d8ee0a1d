# SPDX-License-Identifier: Apache-2.0
"""Ask a second model when the first one stays silent or fails: who says something first gives the answer."""

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from planners.models.base import (
    CancelToken,
    Finished,
    ModelClient,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextDelta,
    Usage,
    prompt_tokens,
)
from skill_kernel.codes import ModelCode

LEAST_S = 0.1
"""Time that the second model has at least."""


class HedgedClient:
    """Join two models in one client with the name of the first. Once one writes text, the other is cancelled at its server.

    The second is asked when the first has written nothing for `after_s` seconds, or has failed. When both fail the first one's
    error is raised. The prompt of one that was cancelled counts among the tokens used, by estimate; its price does not.
    """

    def __init__(self, first: ModelClient, second: ModelClient, after_s: float) -> None:
        self._clients, self._after_s = (first, second), after_s
        self.name, self.is_language_model = first.name, first.is_language_model

    def prepare(self) -> None:
        """Prepare both. Raises ModelError when either could answer no request."""
        for client in self._clients:
            client.prepare()

    def close(self) -> None:
        """Release both."""
        for client in self._clients:
            client.close()

    def stream(self, request: ModelRequest, *, cancel: CancelToken) -> Iterator[ModelEvent]:
        """Ask as `ModelClient.stream` does."""
        heard: queue.SimpleQueue[tuple[int, ModelEvent | Exception | None]] = queue.SimpleQueue()
        tokens: list[CancelToken] = []
        ended: dict[int, Exception | None] = {}
        kept: dict[type, ModelEvent] = {}
        chosen: int | None = None
        unheard = 0

        def ask() -> None:
            number, token, left_s = len(tokens), CancelToken(), request.deadline_s - (time.monotonic() - began_s)
            tokens.append(token)
            asked = replace(request, deadline_s=max(left_s, LEAST_S))
            threading.Thread(target=read, args=(number, token, asked), name=f"hedge-{number}", daemon=True).start()

        def read(number: int, token: CancelToken, asked: ModelRequest) -> None:
            try:
                for event in self._clients[number].stream(asked, cancel=token):
                    heard.put((number, event))
                heard.put((number, None))
            except Exception as error:  # noqa: BLE001 - whatever an SDK raises ends this answer, not the other one
                heard.put((number, error))

        forget = cancel.on_cancel(lambda: heard.put((-1, ModelError(ModelCode.MODEL_CANCELLED, "the answer was cancelled"))))
        began_s = time.monotonic()
        ask()
        due_s = began_s + self._after_s
        try:
            while True:
                alone = chosen is None and len(tokens) == 1
                try:
                    number, event = heard.get(timeout=max(0.0, due_s - time.monotonic()) if alone else None)
                except queue.Empty:
                    ask()
                    continue
                if event is None or isinstance(event, Exception):
                    if number in (-1, chosen):
                        if event is not None:
                            raise event
                        return
                    ended[number] = event
                    if chosen is None and len(ended) == len(tokens):
                        if alone and event is not None:
                            ask()
                        elif (error := ended[0]) is not None and all(ended.values()):
                            raise error
                        else:
                            yield from kept.values()
                            return
                elif chosen is None and isinstance(event, TextDelta):
                    chosen, unheard = number, len(tokens) - 1 - len(ended)
                    for other in tokens[:number] + tokens[number + 1 :]:
                        other.cancel()
                    yield event
                elif number == chosen and isinstance(event, Usage):
                    yield replace(event, prompt_tokens=event.prompt_tokens + unheard * prompt_tokens(request))
                elif number == chosen:
                    yield event
                elif chosen is None and isinstance(event, (Usage, Finished)):
                    kept[type(event)] = event  # of an answer without a word
                elif chosen is None:
                    yield event
        finally:
            forget()
            for token in tokens:
                token.cancel()
