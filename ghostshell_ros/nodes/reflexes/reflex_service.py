# SPDX-License-Identifier: Apache-2.0
"""The service `compile_reflex`: what a person does with the robot's reflexes. Models and dry runs work on a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ghostshell.srv import CompileReflex
from rclpy.task import Future

from ghostshell_ros.wire.values import ros_text
from planners.models.base import CancelToken, ModelError
from planners.prescriptions.condition_forms import GrammarError
from planners.prescriptions.reflex_compiler import CompileError, Proposal
from reflexes.dry_run import dry_run
from reflexes.rule import LoadedRule, ReflexError
from skill_kernel.codes import ReflexCode
from skill_kernel.observation.model import Observation
from skill_kernel.observation.records import RecordError, observation_from_json

if TYPE_CHECKING:
    from ghostshell_ros.nodes.reflexes.node import ReflexesNode

MOST_BYTES = 64_000_000
LONGEST_LINE = 1_000_000
"""Bytes; a longer one would hold up the loop while it is parsed."""


class InvalidCommandError(ValueError):
    """A request that no command of CompileReflex stands for, or that lacks what its command needs."""


class ReflexService:
    """Answer CompileReflex for a node of reflexes."""

    def __init__(self, node: ReflexesNode) -> None:
        self._node = node
        self._cancel = CancelToken()
        self._busy = False
        node.create_service(CompileReflex, "compile_reflex", self._on_request)

    def close(self) -> None:
        """A model that is being asked is let go."""
        self._cancel.cancel()

    async def _on_request(self, request: CompileReflex.Request, response: CompileReflex.Response) -> CompileReflex.Response:
        code, why = 0, ""
        try:
            report, name = await self._do(request)
            response.success, response.report, response.reflexes = True, ros_text(report), self._node.shown(name)
        except GrammarError as error:
            code, why = ReflexCode.NOT_COMPILED, str(error)
        except CompileError as error:
            code, why = ReflexCode.NOT_COMPILED, f"{error}\n{error.source}" if error.source else str(error)
        except ModelError as error:
            hint = "say it in a usual form and ask for offline to do without a model"
            code, why = ReflexCode.NO_MODEL_ANSWER, f"{error.message}; {hint}"
        except ReflexError as error:
            code, why = ReflexCode.REFLEX_REFUSED, str(error)
        except InvalidCommandError as error:
            code, why = ReflexCode.INVALID_COMMAND, str(error)
        response.error_code, response.error_msg = int(code), ros_text(why)
        return response

    async def _do(self, request: CompileReflex.Request) -> tuple[str, str]:
        """Report, and the name of the reflex to show ("" for all)."""
        command, name = request.command, request.name
        if command == request.LIST:
            if name:
                self._node.book.get(name)
            return "", name
        if command == request.ADD:
            return await self._add(request)
        if not name:
            raise InvalidCommandError("name says which reflex")
        if command == request.TEST:
            return await self._test(name, request.observations_file), name
        report = ""
        if command == request.APPROVE:
            rule = self._node.book.approve(name, request.person)
            report = f"'{name}' is approved by {rule.approver} and fires from now on"
        elif command == request.REMOVE:
            self._node.book.remove(name)
            report, name = f"'{name}' is removed", ""
        elif command == request.ENABLE:
            self._node.book.enable(name)
        elif command == request.DISABLE:
            self._node.book.disable(name, f"by {request.person.strip() or 'somebody'}")
        else:
            raise InvalidCommandError(f"command {command} is unknown; use one of 0 (ADD) to 6 (DISABLE)")
        self._node.on_rules()
        return report, name

    async def _add(self, request: CompileReflex.Request) -> tuple[str, str]:
        settings = {
            "repeats": request.repeats,
            **({"priority": request.priority} if request.priority >= 0 else {}),
            **({"cooldown_s": request.cooldown_s} if request.cooldown_s > 0 else {}),
        }
        sentence, source, person = request.sentence, request.source, request.person.strip()
        if source and not (sentence.strip() and person):
            raise InvalidCommandError("code written by hand needs the sentence it stands for, and the person who wrote it")
        compiler, offline = self._node.compiler, request.offline

        def make() -> Proposal:
            if source:
                return compiler.check(sentence, source, f"by hand, {person}")
            return compiler.compile(sentence, cancel=self._cancel, offline=offline)

        proposal = await self._threaded(make)
        rule = self._node.book.add(proposal, name=request.name, settings=settings)
        self._node.on_rules()
        tried = await self._threaded(lambda: self._tried(self._node.book.loaded(rule.name), list(self._node.recorded)))
        return "\n".join([*(f"Note: {note}" for note in proposal.notes), tried]), rule.name

    async def _test(self, name: str, file: str) -> str:
        loaded = self._node.book.loaded(name)
        return str(await self._threaded(lambda: self._tried(loaded, recorded(file) if file else list(self._node.recorded))))

    def _tried(self, loaded: LoadedRule, observations: list[Observation]) -> str:
        return dry_run(loaded, observations, self._node.words).text()

    async def _threaded(self, work: Callable[[], Any]) -> Any:
        """Run `work` on a thread of its own, for the loop must go on; one at a time."""
        if self._busy:
            raise ReflexError("another reflex is being compiled or tested; ask again when that is done")
        self._busy = True
        future = Future(executor=self._node.executor)

        def run() -> None:
            with suppress(OSError, AttributeError):
                # It inherits the node's priority, but is not what has to be punctual.
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - raised again where it is awaited
                self._node.call_soon(future.set_exception, error)
            else:
                self._node.call_soon(future.set_result, result)

        threading.Thread(target=run, name="reflex-compiler", daemon=True).start()
        try:
            return await future
        finally:
            self._busy = False


def recorded(file: str) -> list[Observation]:
    """Observations out of a file. Raises ReflexError."""
    try:
        path = Path(file).expanduser()
        if path.exists() and not path.is_file():
            raise RecordError("it is no regular file")
        with path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise RecordError(f"it is longer than {MOST_BYTES // 1_000_000} MB; give it in parts")
        lines = [line for line in content.split(b"\n") if line.strip()]
        if any(len(line) > LONGEST_LINE for line in lines):
            raise RecordError(f"a line is longer than {LONGEST_LINE // 1_000_000} MB; it holds one observation a line")
        return [observation_from_json(line.decode()) for line in lines]
    except (OSError, RuntimeError, ValueError) as error:
        raise ReflexError(f"observations in {file} cannot be used: {error}") from error
