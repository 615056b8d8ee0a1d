# SPDX-License-Identifier: Apache-2.0
"""The part of the process scheduler's node that is programmed: tasks, guidelines and reflexes in plain sentences."""

from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any, TypeAlias

from ghostshell.msg import Prescription as PrescriptionMsg
from ghostshell.msg import PrescriptionArray, ReflexState, ReflexStateArray
from ghostshell.srv import CompileReflex, Prescribe
from rclpy.task import Future
from std_msgs.msg import String

from ghostshell_ros.nodes.process_scheduler.process_advice import ProcessAdvice
from ghostshell_ros.runtime.data import data_folder
from ghostshell_ros.runtime.model_setup import shipped_file
from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode
from ghostshell_ros.runtime.robot_setup import RobotSetup
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED
from ghostshell_ros.wire.values import ros_text
from planners.prescriptions.book import PrescriptionBook
from planners.prescriptions.grammar import Grammar
from planners.prescriptions.prescription import Conflict, Kept, Kind, Prescription, Route, UnknownPrescriptionError
from planners.prescriptions.router import Router
from skill_kernel.codes import TaskCode
from skill_kernel.config.sections import shown
from skill_kernel.config.yaml_text import RecordError
from skill_kernel.events import Notice
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.processes.process import Process, ProcessError
from skill_kernel.roles import ANYBODY

COMPILE_MARGIN_S = 20.0
"""So much longer than two answers of the model, which may repair the first, a reflex is waited for."""
LOOKS, LOOK_S = 10, 0.2
"""Tries to find the node reflexes, which may just be starting, and the length of each [s]."""
LOADED_S = 5.0
"""So long after the start what the files contradict is told: who listens to `events` has found this node by then."""
DOOR = "prescribe"
PrescribeRequest: TypeAlias = Prescribe.Request

_KINDS = {kind: getattr(PrescriptionMsg, kind.name) for kind in Kind}
_KIND_OF = {number: kind for kind, number in _KINDS.items()}
_STATES = {ReflexState.PROPOSED: "proposed: it waits for approval", ReflexState.APPROVED: "approved"}
_SWITCHES = {getattr(PrescribeRequest, name): name for name in ("REMOVE", "ENABLE", "DISABLE")}


class RefusedError(RecordError):
    """The reflexes or the process scheduler did not take it."""


class PrescriptionServer:
    """Serves `prescribe` (Prescribe), hears sentences on the topic `prescription` and publishes all prescriptions on
    `prescriptions` (latched), reflexes among them; client of `compile_reflex`, reader of `reflex_states`.

    A sentence on the topic is routed: a task begins at once, a guideline is kept and enabled, a reflex is compiled and
    proposed. A stop word there stops, as anywhere. Declares `prescriptions`.
    """

    def __init__(
        self,
        node: RuntimeNode,
        robot: RobotSetup,
        advice: ProcessAdvice,
        events: EventWriter,
        *,
        stops: Callable[[str], bool],
        begin: Callable[..., Process],
    ) -> None:
        self._node, self._advice, self._events, self._stops, self._begin_process = node, advice, events, stops, begin
        config = robot.config
        named = node.declare("prescriptions", "", "file of the robot's own; empty: config/prescriptions/<robot>.yaml, if any")
        shipped = shipped_file("prescriptions", config.name, "prescriptions", named)
        own = data_folder(node.get_parameter("data_dir").value) / config.name / "prescriptions.yaml"
        try:
            router = Router(Grammar(robot.vocabulary(), config), config.name)
            self._book = PrescriptionBook(router, accessors_of(config), own=own, shipped=shipped)
        except RecordError as error:
            raise NodeStartError(f"parameter prescriptions: {error}") from error
        if self._book.problem:
            node.get_logger().error(self._book.problem)
        self._reflexes: list[ReflexState] = []
        self._told_reflexes: list[tuple[str, int, str]] | None = None
        self._proposed: set[str] = set()
        """Reflexes that are there or were; one that a person has removed is not proposed once more."""
        self._publisher = node.create_publisher(PrescriptionArray, "prescriptions", LATCHED)
        self._compile = ServiceClient(node, CompileReflex, "compile_reflex")
        self._compile_s = 2 * advice.deadlines.reflex_s + COMPILE_MARGIN_S
        node.create_subscription(ReflexStateArray, "reflex_states", self._reflex_states, LATCHED)
        node.create_subscription(String, "prescription", self._heard, INSTRUCTION)
        node.create_service(Prescribe, "prescribe", self._prescribe)
        self._changed()
        node.call_soon(node.call_later, LOADED_S, self._loaded)

    # -- sentences and requests ---------------------------------------------------------------------------------------

    def _heard(self, message: String) -> None:
        """On the topic nobody is answered: what became of it is told on `events`."""
        self._start(self._take(message.data))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Have the executor run a coroutine to its end."""
        executor = self._node.executor
        if executor is None:
            raise RuntimeError(f"{self._node.get_name()} is not spun; add it to a NodeHost first")
        executor.create_task(work)

    async def _take(self, sentence: str) -> None:
        try:
            if self._stops(sentence):
                return
            route = self._book.route(sentence)
            if route.kind is Kind.TASK:
                self._begin(sentence)
                return
            added = await self._add("", sentence, route, "topic")
            if route.kind is Kind.REFLEX:
                how = "test and approve it: ghostshell reflex approve"
                self._tell(f"'{added.name}' is proposed as a reflex ({route.reason}); {how}")
        except RecordError as error:
            self._tell(str(error), error_code=_code(error), sentence=sentence)
        except Exception as error:  # noqa: BLE001 - whoever said the sentence hears of it
            self._tell(self._node.caught(error), error_code=TaskCode.NODE_UNAVAILABLE, sentence=sentence)

    async def _prescribe(self, request: PrescribeRequest, response: Prescribe.Response) -> Prescribe.Response:
        try:
            await self._do(request, response)
            response.success = True
        except RecordError as error:
            response.error_code, response.error_msg = _code(error), ros_text(str(error))
        return response

    async def _do(self, request: PrescribeRequest, response: Prescribe.Response) -> None:
        command, name, sentence = request.command, request.name.strip(), request.sentence
        stated = _KIND_OF.get(request.kind)
        if stated is None and request.kind != PrescribeRequest.ANY:
            raise RecordError(f"kind {request.kind} is unknown; use TASK, GUIDELINE, REFLEX or ANY")
        if command == PrescribeRequest.ROUTE:
            response.prescription = _message(name, sentence, self._book.route(sentence, stated))
        elif command == PrescribeRequest.ADD:
            route = self._book.route(sentence, stated)
            response.prescription = await self._add(name, sentence, route, ANYBODY.named(request.author))
        elif command == PrescribeRequest.RUN:
            if name:  # else the sentence itself, whatever it reads as
                kept = self._book.get(name)
                if kept.route.kind is not Kind.TASK:
                    raise RecordError(f"'{name}' is a {kept.route.kind.value}; only a task is run")
                sentence, response.prescription = kept.prescription.sentence, _kept_message(kept)
            response.process_id = self._begin(sentence, sender=ANYBODY.named(request.author)).process_id
        elif command in _SWITCHES:
            response.prescription = self._switch(_SWITCHES[command], name)
        else:
            raise RecordError(f"command {command} is unknown; use ADD, REMOVE, ENABLE, DISABLE, ROUTE or RUN")

    async def _add(self, name: str, sentence: str, route: Route, author: str) -> PrescriptionMsg:
        if route.kind is not Kind.REFLEX:
            return _kept_message(self._weighed(self._book.add(sentence, name=name, author=author, route=route)))
        if self._book.holds(name):
            raise RefusedError(f"there is a prescription '{name}' already; remove it first, or choose another name")
        made = await self._propose_reflex(sentence=sentence, name=name, person=author)
        return _message(made, sentence, route)

    def _switch(self, command: str, name: str) -> PrescriptionMsg:
        enabled = command == "ENABLE"
        if not self._book.holds(name) and any(reflex.name == name for reflex in self._reflexes):
            raise RefusedError(f"'{name}' is a reflex, which asks for a role: ghostshell reflex {command.lower()} {name}")
        kept = self._book.get(name)
        if enabled and not kept.prescription.enabled:
            return _kept_message(self._weighed(self._book.enable(name, True)))
        try:
            if command == "REMOVE":
                self._book.remove(name)
            else:
                kept = self._book.enable(name, enabled)
        finally:
            self._changed()
        return _kept_message(kept)

    def _begin(self, sentence: str, sender: str = "") -> Process:
        try:
            return self._begin_process(sentence, door=DOOR, sender=sender)
        except ProcessError as error:
            raise RefusedError(str(error)) from error

    def _weighed(self, kept: Kept) -> Kept:
        """Publish a prescription that counts from now on, and tell what it contradicts."""
        self._changed()
        self._told(kept)
        return kept

    # -- reflexes -----------------------------------------------------------------------------------------------------

    async def _propose_reflex(self, **fields: Any) -> str:
        """Have the node reflexes propose a reflex; its name. Raises RefusedError, also when it does not answer."""
        # A service that does not know its client yet loses its answer, and only looking may be repeated.
        looks = CompileReflex.Request(command=CompileReflex.Request.LIST)
        for _ in range(LOOKS):
            if await self._answer(looks, LOOK_S) is not None:
                break
        else:
            raise RefusedError("the node reflexes does not answer; is it launched (reflexes:=true)?")
        answer = await self._answer(CompileReflex.Request(command=CompileReflex.Request.ADD, **fields), self._compile_s)
        if answer is None:
            raise RefusedError(f"the node reflexes has not answered within {self._compile_s:g} s")
        if not answer.success:
            raise RefusedError(answer.error_msg)
        return str(answer.reflexes[0].name) if answer.reflexes else str(fields.get("name", ""))

    async def _answer(self, request: CompileReflex.Request, deadline_s: float) -> Any:
        answered = Future(executor=self._node.executor)
        asked = self._compile.ask(request, answered.set_result, deadline_s=deadline_s, wait_s=LOOK_S)
        try:
            return await answered
        finally:
            asked.cancel()

    def _reflex_states(self, message: ReflexStateArray) -> None:
        self._reflexes = list(message.reflexes)
        approved = [r for r in self._reflexes if r.state == ReflexState.APPROVED]
        firing = [Prescription(name=r.name, sentence=r.sentence, kind=Kind.REFLEX) for r in approved]
        weighed = self._book.reflexes(firing, [r.name for r in self._reflexes])
        told = [(r.name, r.state, r.sentence) for r in self._reflexes]
        if weighed or told != self._told_reflexes:
            self._told_reflexes = told
            self._publish()
        self._proposed.update(r.name for r in self._reflexes)
        for kept in self._book.of(Kind.REFLEX):
            if kept.name not in self._proposed and kept.prescription.enabled:
                self._proposed.add(kept.name)
                self._start(self._propose(kept))

    async def _propose(self, kept: Kept) -> None:
        """Propose a reflex of a file of prescriptions; it acts once a person has approved it."""
        try:
            await self._propose_reflex(sentence=kept.prescription.sentence, name=kept.name)
        except RefusedError as error:
            self._tell(f"the prescription '{kept.name}' did not become a reflex: {error}", error_code=_code(error))

    # -- what is told -------------------------------------------------------------------------------------------------

    def _loaded(self) -> None:
        """Tell what the files hold like what is added, each pair once."""
        for number, kept in enumerate(guidelines := self._book.of(Kind.GUIDELINE)):
            self._told(kept, {k.name for k in guidelines[:number]})

    def _changed(self) -> None:
        """Follow and publish the guidelines anew: they may be others, or other ones enabled."""
        self._advice.follow([k for k in self._book.of(Kind.GUIDELINE) if k.prescription.enabled])
        self._publish()

    def _publish(self) -> None:
        messages = [_kept_message(kept) for kept in self._book.all() if kept.route.kind is not Kind.REFLEX]
        messages += [_reflex_message(r, self._book.conflicts_of_reflex(r.name)) for r in self._reflexes]
        self._publisher.publish(PrescriptionArray(stamp=self._node.get_clock().now().to_msg(), prescriptions=messages))

    def _told(self, kept: Kept, but: Collection[str] = ()) -> None:
        for conflict in (c for c in kept.conflicts if c.name not in but):
            self._tell(f"guideline '{kept.name}' contradicts '{conflict.name}': {conflict.why}; both stay enabled")

    def _tell(self, text: str, *, error_code: int = 0, sentence: str = "") -> None:
        if error_code:
            self._events.write(Notice(error_code=error_code, error_msg=text, text=shown(sentence, 200)))
        else:
            self._events.write(Notice(text=text))


def _message(
    name: str, sentence: str, route: Route, conflicts: Iterable[Conflict] = (), enabled: bool | None = None
) -> PrescriptionMsg:
    """Return a sentence and its layer; unless `enabled` says else, a reflex does not act yet and all others do."""
    return PrescriptionMsg(
        name=name,
        kind=_KINDS[route.kind],
        sentence=ros_text(sentence),
        layer=route.layer,
        reason=ros_text(route.reason),
        enabled=route.kind is not Kind.REFLEX if enabled is None else enabled,
        conflicts=[ros_text(f"{conflict.name}: {conflict.why}") for conflict in conflicts],
    )


def _kept_message(kept: Kept) -> PrescriptionMsg:
    return _message(kept.name, kept.prescription.sentence, kept.route, kept.conflicts, kept.prescription.enabled)


def _reflex_message(reflex: ReflexState, conflicts: Iterable[Conflict]) -> PrescriptionMsg:
    route = Route(Kind.REFLEX, "S0", _STATES.get(reflex.state, f"disabled: {reflex.reason}"))
    return _message(reflex.name, reflex.sentence, route, conflicts, reflex.state == ReflexState.APPROVED)


def _code(error: RecordError) -> int:
    if isinstance(error, UnknownPrescriptionError):
        return int(PrescribeRequest.NO_SUCH_PRESCRIPTION)
    return int(PrescribeRequest.PRESCRIPTION_REFUSED if isinstance(error, RefusedError) else PrescribeRequest.BAD_PRESCRIPTION)
