# SPDX-License-Identifier: Apache-2.0
"""Run the node `reflexes`: System 0, which acts before any model could (TypeGo 6; semantics, section 6)."""

import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from ghostshell.msg import KernelState, ReflexState, ReflexStateArray
from ghostshell.msg import Observation as ObservationMsg
from ghostshell.srv import CompileReflex
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import Bool

from ghostshell_ros.nodes.reflexes.reflex_performer import ReflexPerformer
from ghostshell_ros.runtime.data import data_folder, keys_folder
from ghostshell_ros.runtime.model_setup import deadlines_of, model_if_any, shipped_file
from ghostshell_ros.runtime.node import Health, Level, RuntimeNode
from ghostshell_ros.runtime.priority import take_declared_priority
from ghostshell_ros.runtime.robot_setup import declare_robot
from ghostshell_ros.runtime.signing import Doorkeeper
from ghostshell_ros.wire.codec import filled
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.observation_messages import from_message
from ghostshell_ros.wire.qos import LATCHED, LATCHED_BY_ANY, OBSERVATION
from ghostshell_ros.wire.values import ros_text, time_message
from planners.language.client import OfflineClient
from planners.models.base import CancelToken, ModelError
from planners.models.config import Deadlines
from planners.prescriptions.grammar import GrammarError
from planners.prescriptions.reflex_book import RuleBook
from planners.prescriptions.reflex_compiler import CompileError, Compiler, Proposal
from reflexes.dry_run import dry_run
from reflexes.loop import ReflexLoop, Watch
from reflexes.rule import LoadedRule, ReflexError, Rule, RuleState, RuleStore, Unreadable
from skill_kernel.codes import ReflexCode
from skill_kernel.config.yaml_text import RecordError
from skill_kernel.events import CallEvent, Notice
from skill_kernel.observation.model import Observation
from skill_kernel.observation.records import recorded
from skill_kernel.roles import ACT_OF, Act, Keys, Role

TELL_S = 1.0
RECORD_PERIOD_S = 0.19
MAX_RECORDED = 1500
"""Observations kept for dry runs: five minutes at 5 Hz."""

STATES = {state: int(getattr(ReflexState, state.name)) for state in RuleState}
_HOLDS = {True: ReflexState.YES, False: ReflexState.NO, None: ReflexState.UNKNOWN}
R = TypeVar("R")

_ACTS = {getattr(CompileReflex.Request, name, None): act for name, act in ACT_OF.items()}


class InvalidCommandError(ValueError):
    """Report a request that no command of CompileReflex stands for, or that lacks what its command needs."""


class ReflexesNode(RuntimeNode):
    """Evaluate all approved reflexes at `rate_hz` and at once on each `observation` (ghostshell/Observation). One that fires
    stops the base, pauses whoever holds what it needs, calls its skills, and lets them go on.
    """

    def __init__(self) -> None:
        super().__init__("reflexes")
        self._setup = declare_robot(self)
        rate = self.declare("rate_hz", 100.0, "rounds a second [Hz]", 10.0, 500.0)
        shipped = self.declare("shipped", "", "file of the robot's own reflexes; empty: config/reflexes/<robot>.yaml, if any")
        client = model_if_any(self, self._setup, "new reflexes are read by the grammar alone")
        self._client = None if isinstance(client, OfflineClient) else client
        config = self._setup.config
        folder = data_folder(self.get_parameter("data_dir").value) / config.name / "reflexes"
        self.words = self._setup.vocabulary()
        file = shipped_file("reflexes", config.name, "shipped", shipped)
        store = RuleStore(folder, file, seal=partial(Keys(keys_folder()).seal, Role.APPROVER))
        self.book = RuleBook(store, self.words, wall=time.time)
        self._events = EventWriter(self, CallEvent, Notice)
        self._performer = ReflexPerformer(self, self._setup, self._events)
        self._loop = ReflexLoop(self.words.accessors, self._performer, self._on_disabled)
        self._performer.loop, self._performer.on_change = self._loop, self._tell_soon
        self._recorded: deque[tuple[bytes, float, float]] = deque(maxlen=MAX_RECORDED)
        """Each as it came, which is a quarter of what it is as an object, with the steady and the ROS time at which it came."""
        deadlines = Deadlines() if self._client is None else deadlines_of(self, "model")
        self._new_compiler = partial(Compiler, robot=config, client=self._client, deadline_s=deadlines.reflex_s)
        self.compiler = self._new_compiler(self.words)
        self._cancel, self._busy = CancelToken(), False
        self._pool = ThreadPoolExecutor(1, "reflex-compiler", initializer=_take_ordinary_priority)
        self._door = Doorkeeper(self, "compile_reflex")
        self.create_service(CompileReflex, "compile_reflex", self._on_request)
        self._states = self.create_publisher(ReflexStateArray, "reflex_states", LATCHED)
        self.create_subscription(ObservationMsg, "observation", self._on_observation, OBSERVATION)
        self.create_subscription(KernelState, "kernel_state", self._on_kernel, LATCHED)
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED_BY_ANY)
        self._period_s = 1.0 / rate
        self._ticked_s = self.steady_now()
        self._late: list[float] = []
        self._rounds = 0
        self._timing = (0.0, 0.0, 0.0)
        self._telling = False
        self._timer = self.steady_timer(self._period_s, self._tick)
        self.steady_timer(TELL_S, self._tell)
        for unreadable in self.book.unreadable:
            self.get_logger().error(f"reflex '{unreadable.name}' is refused: {unreadable.why}")
        for name, why in self.book.unfit.items():
            self.get_logger().error(f"reflex '{name}' is not run: {why}")
        self.on_rules()
        take_declared_priority(self, 5, -5)

    def _on_observation(self, message: ObservationMsg) -> None:
        now, ros_now_s = self.steady_now(), self.now_s()
        self._rounds += 1
        self._loop.observe(from_message(message, now, ros_now_s), now)
        if not self._recorded or now - self._recorded[-1][1] >= RECORD_PERIOD_S:
            self._recorded.append((serialize_message(message), now, ros_now_s))

    def _tick(self) -> None:
        now = self.steady_now()
        self._late.append(now - self._ticked_s - self._period_s)
        self._ticked_s = now
        self._rounds += 1
        self._loop.tick(now)

    def _on_kernel(self, message: KernelState) -> None:
        before = self._setup.registry.version
        if problem := self._setup.follow(message.skills_version):
            self.get_logger().error(problem)
        if self._setup.registry.version != before:
            self.words = self._setup.vocabulary()
            self.compiler = self._new_compiler(self.words)
            self.book.reload(self.words)
            self.on_rules()
        self._performer.kernel_changed(message)

    def _on_halted(self, message: Bool) -> None:
        self._loop.suspend("the robot is halted" if message.data else "")

    def _on_disabled(self, loaded: LoadedRule, why: str) -> None:
        name = loaded.rule.name
        self.get_logger().error(f"reflex '{name}' is disabled: {why}")
        text = f"reflex '{name}' is disabled: {why}; mend it, or enable it with: ghostshell reflex enable {name}"
        self._events.write(Notice(text=text))
        self.call_soon(self._keep_disabled, name, why)

    def _keep_disabled(self, name: str, why: str) -> None:
        try:
            self.book.disable(name, why)
        except ReflexError as error:
            self.get_logger().error(str(error))
        self.on_rules()

    def on_rules(self) -> None:
        """Take in that rules came, went or changed."""
        runnable = self.book.runnable()
        self._loop.set_rules(runnable)
        if not runnable:
            self._timer.cancel()
        elif self._timer.is_canceled():
            self._ticked_s = self.steady_now()
            self._timer.reset()
        self._tell_soon()

    def shown(self, name: str) -> list[ReflexState]:
        """Return the messages of the reflex of that name ("" for all)."""
        watches = {w.loaded.rule.name: w for w in self._loop.watches}
        offset = self.now_s() - self.steady_now()
        rules = [r for r in self.book.rules if name in ("", r.name)]
        shown = [
            _message(r, watches.get(r.name), unfit=self.book.unfit.get(r.name, ""), ros_minus_steady_s=offset)
            for r in sorted(rules, key=lambda r: (-r.priority, r.name))
        ]
        return shown + [_refused_message(u) for u in self.book.unreadable if name in ("", u.name)]

    def _tell_soon(self) -> None:
        """Publish the states a little later, once for all changes: the message is long, and stopping comes first."""
        if not self._telling:
            self._telling = True
            self.call_later(0.02, self._publish)

    def _tell(self) -> None:
        late = sorted(max(0.0, one) for one in self._late) or [0.0]
        self._timing = (self._rounds / TELL_S, late[len(late) // 2], late[-1])
        self._rounds, self._late = 0, []
        if self.book.rules:
            self._publish()

    def _publish(self) -> None:
        self._telling = False
        rate, late, latest = self._timing
        self._states.publish(
            ReflexStateArray(
                stamp=self.get_clock().now().to_msg(),
                rate_hz=rate,
                late_ms=late * 1e3,
                latest_ms=latest * 1e3,
                reflexes=self.shown(""),
            )
        )

    def give_up(self, process_id: str, why: str) -> None:
        """End the firing that is this process to the kernel."""
        self._performer.give_up(process_id, why)

    def health(self) -> Health:
        """Return what is run, and how punctually."""
        rate, _, latest = self._timing
        values: dict[str, object] = {
            "reflexes": len(self._loop.watches),
            "rounds_hz": round(rate, 1),
            "latest_ms": round(latest * 1e3, 2),
        }
        if not self._performer.ready():
            return Health("waiting for the skill kernel", Level.WARN, values)
        if unknown := sorted({w.stale_field for w in self._loop.watches if w.stale_field}):
            return Health(f"cannot tell for stale fields: {', '.join(unknown)}", Level.WARN, values)
        return Health("watching", Level.OK, values)

    def close(self) -> None:
        self._cancel.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._client is not None:
            self._client.close()

    # -- the service compile_reflex ------------------------------------------------------------------------------------

    async def _on_request(self, request: CompileReflex.Request, response: CompileReflex.Response) -> CompileReflex.Response:
        code, why = 0, ""
        caller = self._door.caller(request)
        if refusal := caller.refusal(_ACTS.get(request.command, Act.LOOK)):
            response.error_code, response.error_msg = int(ReflexCode.NOT_PERMITTED), refusal
            return response
        request.person = caller.named(request.person)
        try:
            report, name = await self._do(request)
            response.success, response.report, response.reflexes = True, ros_text(report), self.shown(name)
        except GrammarError as error:
            code, why = ReflexCode.NOT_COMPILED, str(error)
        except CompileError as error:
            code, why = ReflexCode.NOT_COMPILED, f"{error}\n{error.source}" if error.source else str(error)
        except ModelError as error:
            hint = "say it in a usual form and ask for offline to do without a model"
            code, why = ReflexCode.NO_MODEL_ANSWER, f"{error.message}; {hint}"
        except (ReflexError, RecordError) as error:
            code, why = ReflexCode.REFLEX_REFUSED, str(error)
        except InvalidCommandError as error:
            code, why = ReflexCode.INVALID_COMMAND, str(error)
        response.error_code, response.error_msg = int(code), ros_text(why)
        return response

    async def _do(self, request: CompileReflex.Request) -> tuple[str, str]:
        """Carry a request out; return the report, and the name of the reflex to show ("" for all)."""
        command, name = request.command, request.name
        if command == request.LIST:
            if name:
                self.book.get(name)
            return "", name
        if command == request.ADD:
            return await self._add(request)
        if not name:
            raise InvalidCommandError("name says which reflex")
        if command == request.TEST:
            return await self._test(name, request.observations), name
        report = ""
        if command == request.APPROVE:
            kept = self.book.get(name)
            if (request.sentence, request.source) != (ros_text(kept.sentence), ros_text(kept.source)):
                raise ReflexError(f"'{name}' is not what sentence and source say was shown; look at it again, then approve it")
            rule = self.book.approve(name, request.person)
            report = f"'{name}' is approved by {rule.approver} and fires from now on"
        elif command == request.REMOVE:
            self.book.remove(name)
            report, name = f"'{name}' is removed", ""
        elif command == request.ENABLE:
            self.book.enable(name)
        elif command == request.DISABLE:
            self.book.disable(name, f"by {request.person.strip() or 'somebody'}")
        else:
            raise InvalidCommandError(f"command {command} is unknown; use one of 0 (ADD) to 6 (DISABLE)")
        self.on_rules()
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
        compiler, offline = self.compiler, request.offline

        def make() -> Proposal:
            if source:
                return compiler.check(sentence, source, f"by hand, {person}")
            return compiler.compile(sentence, cancel=self._cancel, offline=offline)

        proposal = await self._threaded(make)
        rule = self.book.add(proposal, name=request.name, settings=settings)
        self.on_rules()
        tried = await self._threaded(partial(self._tried, self.book.loaded(rule.name), ""))
        return "\n".join([*(f"Note: {note}" for note in proposal.notes), tried]), rule.name

    async def _test(self, name: str, observations: str) -> str:
        return await self._threaded(partial(self._tried, self.book.loaded(name), observations))

    def _tried(self, loaded: LoadedRule, observations: str) -> str:
        """Return what the reflex would have done on `observations`, "" for those of the last minutes."""
        tried = recorded(observations) if observations else map(_observation, list(self._recorded))
        return dry_run(loaded, tried, self.words).text()

    async def _threaded(self, work: Callable[[], R]) -> R:
        """Run `work` on a thread of its own, for the loop must go on; one at a time."""
        if self._busy:
            raise ReflexError("another reflex is being compiled or tested; ask again when that is done")
        self._busy = True
        try:
            return await self.run_on(self._pool, work)
        finally:
            self._busy = False


def _observation(kept: tuple[bytes, float, float]) -> Observation:
    return from_message(deserialize_message(kept[0], ObservationMsg), *kept[1:])


def _take_ordinary_priority() -> None:
    """Give up the node's priority for a thread that inherits it, but is not what has to be punctual."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _message(rule: Rule, watch: Watch | None, *, unfit: str = "", ros_minus_steady_s: float = 0.0) -> ReflexState:
    """Return a rule and the state of its evaluation. `unfit` says why an approved rule is not evaluated."""
    same = ("name", "sentence", "source", "model", "hash", "approver", "shipped", "reason", "priority", "cooldown_s", "repeats")
    message: ReflexState = filled(ReflexState(), {name: getattr(rule, name) for name in same})
    message.state, message.holds, message.approved = STATES[rule.state], ReflexState.UNKNOWN, time_message(rule.approved_s)
    if unfit:
        message.state, message.reason = ReflexState.DISABLED, ros_text(unfit)
    if watch is not None:
        message.holds, message.stale_field, message.acting = _HOLDS[watch.holds], watch.stale_field, watch.firing is not None
        message.evaluations, message.stale, message.fired = watch.evaluations, watch.stale, watch.fired
        message.overruns, message.last = watch.overruns, ros_text(watch.last)
        if watch.fired:
            message.last_fired = time_message(watch.fired_at_s + ros_minus_steady_s)
        if watch.evaluations:
            message.mean_us, message.longest_us = watch.cost_s / watch.evaluations * 1e6, watch.longest_s * 1e6
    return message


def _refused_message(unreadable: Unreadable) -> ReflexState:
    """Return the state of a file that cannot be read as a reflex any more."""
    why = ros_text(unreadable.why)
    return ReflexState(name=unreadable.name, state=ReflexState.DISABLED, reason=why, holds=ReflexState.UNKNOWN)
