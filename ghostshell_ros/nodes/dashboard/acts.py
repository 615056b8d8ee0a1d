# SPDX-License-Identifier: Apache-2.0
"""Do what people ask of robots on the page, each act signed by the key of who asks. On the executor's thread only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ghostshell.srv import AnswerQuestion, CompileReflex, ControlHalt, ControlProcess, Learn, Prescribe, QueryMemory

from ghostshell_ros.nodes.dashboard.access import Visitor
from ghostshell_ros.nodes.dashboard.robot_link import RobotLink
from ghostshell_ros.nodes.dashboard.robot_services import TRIED_S, RobotServices, Then
from ghostshell_ros.nodes.dashboard.routine_rules import KIND as ROUTINE
from ghostshell_ros.nodes.dashboard.state import State
from ghostshell_ros.runtime.lesson_client import LEARN
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.recollection import MEMORY
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.values import ros_text, seconds
from skill_kernel.processes.questions import in_private
from skill_kernel.roles import ACT_OF, Act

SILENT = "{} does not answer; whether it was done is not known: look at the state"
NO_INSTRUCTION = "all can read instructions: give a private answer in the box of the question that it is for"
MEMORYS_NAME = "the memory"
_PATIENT = {"deadline_s": TRIED_S, "wait_s": TRIED_S}
RECORDS = 20
"""Sources that an answer of the memory shows at most."""
ACTS: dict[str, Act] = {
    "instruct": Act.INSTRUCT,
    "pause": Act.INSTRUCT,
    "resume": Act.INSTRUCT,
    "stop": Act.INSTRUCT,
    "answer": Act.INSTRUCT,
    "clear": Act.CLEAR,
    "memory": Act.LOOK,
}
"""Acts of the page and what each is by the table of roles; what an act on a rule is, its action says."""


class Acts:
    """Do acts of visitors; `then` hears the outcome of each, once, unless the robot does not answer at all.

    `work` runs on another thread what takes long.
    """

    def __init__(self, node: RuntimeNode, robots: Mapping[str, RobotLink], work: Callable[..., object]) -> None:
        self._node, self._robots, self._work = node, robots, work
        self._asked: dict[str, ServiceClient] = {}
        """Services of the memory, by name."""

    def do(self, visitor: Visitor, act: str, robot: str, about: Mapping[str, Any], seen: State, then: Then) -> None:
        """Do an act for a visitor, who was shown the state `seen`."""
        link = self._robots.get(robot)
        services = link.services if link is not None else None
        if act == "rule":
            needed = _act_on(str(about.get("kind")), str(about.get("action")))
        else:
            needed = ACTS.get(act)
        if needed is None:
            then(False, f"the page cannot {act or 'do that'}")
        elif why := visitor.refusal(needed):
            then(False, why)
        elif services is None:
            then(False, f"there is no robot {robot}")
        elif act == "rule":
            self._rule(visitor, services, about, seen, then)
        elif act == "memory":
            self._ask_memory(visitor, services, str(about.get("text", "")), then)
        elif act == "instruct":
            text = str(about.get("text", "")).strip()
            if in_private(text)[1]:
                then(False, NO_INSTRUCTION)
                return
            services.instruct(ros_text(text), f"page ({visitor.name})", visitor.signs(needed), then)
        else:
            self._serve(visitor, services, act, about, then)

    def _serve(self, visitor: Visitor, services: RobotServices, act: str, about: Mapping[str, Any], then: Then) -> None:
        if act == "clear":
            number = about.get("number")
            if not isinstance(number, int) or not 0 < number < 2**32:
                then(False, "say which halt, by its number: one that comes meanwhile stays")
                return
            service, request = "control_halt", ControlHalt.Request(command=ControlHalt.Request.CLEAR, number=number)
        elif act == "answer":
            service = "answer_question"
            request = AnswerQuestion.Request(question_id=_text(about, "question"), text=_text(about, "text"))
        else:
            service = "control_process"
            request = ControlProcess.Request(process_id=_text(about, "process"), cause=f"page ({visitor.name})")
            request.command = getattr(ControlProcess.Request, act.upper())
            if not request.process_id:
                then(False, f"say which process to {act}")
                return

        def answered(answer: Any) -> None:
            if act == "clear":  # a refusal names a newer halt, which can be cleared once it is shown
                services.looked(answer)
            _tell(answer, services.name, then)

        services.ask(service, request, visitor.signs(ACTS[act]), answered)

    # -- rules --------------------------------------------------------------------------------------------------------

    def _rule(self, visitor: Visitor, services: RobotServices, about: Mapping[str, Any], seen: State, then: Then) -> None:
        kind, name, action = (str(about.get(key, "")) for key in ("kind", "name", "action"))
        shown = seen.get("robots", {}).get(services.name, {}).get("rules", [])
        rule = next((r for r in shown if (r["kind"], r["name"]) == (kind, name)), None)
        needed = _act_on(kind, action)
        if rule is None or needed is None or action not in rule["actions"]:
            then(False, f"{kind} {name} cannot be {action}d as it is now")
            return
        role = visitor.signs(needed)
        if kind == "reflex":
            request = CompileReflex.Request(name=name, person=f"page ({visitor.name})")
            request.command = getattr(CompileReflex.Request, action.upper())
            if action == "approve":  # what was shown, and nothing else
                request.sentence, request.source = rule["text"], dict(rule["detail"])["code"]
            services.ask("compile_reflex", request, role, lambda answer: _tell(answer, services.name, then))
        elif kind == ROUTINE and (routines := services.routines) is not None:
            self._work(lambda: then(*routines.do(action, name, f"page ({visitor.name})")))
        elif kind == "learned":
            command = {"approve": Learn.Request.CONFIRM, "revoke": Learn.Request.REVOKE}[action]
            told = Learn.Request(command=command, robot=services.name, id=int(name), who=f"page ({visitor.name})")
            signed_by = signed(self._node, LEARN, told, role)
            self._of_memory(Learn, LEARN).ask(signed_by, partial(_tell, whose=MEMORYS_NAME, then=then), **_PATIENT)
        else:
            given = Prescribe.Request(name=name, author=f"page ({visitor.name})", kind=Prescribe.Request.ANY)
            given.command = getattr(Prescribe.Request, action.upper())
            services.ask("prescribe", given, role, lambda answer: _tell(answer, services.name, then))

    # -- memory -------------------------------------------------------------------------------------------------------

    def _ask_memory(self, visitor: Visitor, services: RobotServices, question: str, then: Then) -> None:
        request = QueryMemory.Request(question=ros_text(question), robot=services.name, limit=RECORDS)
        if not visitor.refusal(Act.PRIVATE):
            request = signed(self._node, MEMORY, request, visitor.signs(Act.PRIVATE))

        def answered(answer: Any) -> None:
            if answer is None or not answer.success:
                _tell(answer, MEMORYS_NAME, then)
                return
            sources = [
                {"id": r.id, "time": seconds(r.time), "kind": r.kind, "robot": r.robot, "room": r.room, "text": r.text}
                for r in answer.records
            ]
            then(True, json.dumps({"answer": answer.answer, "note": answer.note, "sources": sources}, ensure_ascii=False))

        self._of_memory(QueryMemory, MEMORY).ask(request, answered, **_PATIENT)

    def _of_memory(self, kind: Any, name: str) -> ServiceClient:
        """Return the client of a service of the memory, which all robots share."""
        if name not in self._asked:
            self._asked[name] = ServiceClient(self._node, kind, name)
        return self._asked[name]


def _act_on(kind: str, action: str) -> Act | None:
    """Return what an action on a rule is by the table of roles; None for one that there is not."""
    if kind == "reflex":
        return ACT_OF.get(action.upper()) if action in ("test", "approve", "enable", "disable", "remove") else None
    if kind == ROUTINE:
        return Act.LOOK if action == "test" else Act.INSTRUCT if action in ("approve", "revoke") else None
    if kind == "learned":
        return Act.INSTRUCT if action in ("approve", "revoke") else None
    return Act.INSTRUCT if action in ("enable", "disable", "remove", "run") else None


def _text(about: Mapping[str, Any], name: str) -> str:
    return ros_text(str(about.get(name, "")))


def _tell(answer: Any, whose: str, then: Callable[[bool, str], object]) -> None:
    """Tell the outcome that a service gives."""
    if answer is None:
        then(False, SILENT.format(whose))
        return
    said = getattr(answer, "error_msg", "") or getattr(answer, "message", "") or getattr(answer, "report", "")
    process = getattr(answer, "process_id", "")
    then(bool(answer.success), said or (f"process {process}" if process else ""))
