# SPDX-License-Identifier: Apache-2.0
"""The node channel_scheduler before a kernel that refuses, and with more processes than it remembers or takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ghostshell.action import ExecuteSkill
from ghostshell.msg import CallContent, FunctionToken, KernelState
from ghostshell.msg import CallEvent as CallMessage
from ghostshell.srv import Interrupt
from kernel_robot import ROBOT_YAML

from ghostshell_ros.nodes.channel_scheduler.node import MAX_CHARS, MAX_PROCESSES, ChannelScheduler
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import LATCHED, STREAM
from ros_support import ROOT, Processes, wait_until
from skill_kernel.codes import ParseCode, TaskCode
from skill_kernel.events import CallKind, EventKind, RunEvent, StreamKind


class Kernel(RuntimeNode):
    """Stands where the skill kernel and the token parser stand. It answers a goal when the test says so."""

    def __init__(self, namespace: str) -> None:
        super().__init__("skill_kernel", namespace=namespace)
        self.goals: list[Goal] = []
        self.contents: list[CallContent] = []
        self.events: list[RunEvent] = []
        self._server = GoalServer(self, ExecuteSkill, "execute_skill", on_goal=self.goals.append, on_cancel=lambda goal: None)
        self._state = self.create_publisher(KernelState, "kernel_state", LATCHED)
        self.create_subscription(CallContent, "call_content", self.contents.append, STREAM)
        read_events(self, self.events.append)
        self.tokens = self.create_publisher(FunctionToken, "function_tokens", STREAM)
        self.interrupt_client = self.create_client(Interrupt, "channel_scheduler/interrupt")

    def ready(self) -> bool:
        return self.tokens.get_subscription_count() > 0 and self.interrupt_client.service_is_ready()

    def say(self, *tokens: tuple[int, str], process: str = "p1", stream: str = "s", epoch: int = 0, first: int = 0) -> None:
        """Tokens of a stream; the text is a tag's name or character data."""
        for seq, (kind, text) in enumerate(tokens, first):
            token = FunctionToken(process_id=process, stream_id=stream, epoch=epoch, seq=seq, kind=kind)
            token.name, token.text = ("", text) if kind == FunctionToken.CHAR else (text, "")
            self.call_soon(self.tokens.publish, token)

    def refuse(self, goal: Goal) -> None:
        """Refuse a goal because its subsystem is taken, and then free the subsystem."""
        result = ExecuteSkill.Result(outcome=CallMessage.REFUSED, error_code=ExecuteSkill.Goal.SUBSYSTEM_HELD, start_s=-1.0)
        self.call_soon(goal.abort, result)
        self.call_soon(self._state.publish, KernelState())

    def interrupt(self, process: str, epoch: int) -> None:
        answers: list[Any] = []
        request = Interrupt.Request(process_id=process, epoch=epoch, cause="enough")
        self.call_soon(
            lambda: self.interrupt_client.call_async(request).add_done_callback(lambda f: answers.append(f.result()))
        )
        wait_until(lambda: answers, 5.0, "the interrupt is answered")


@pytest.fixture
def kernel(namespace: str, host: Callable[..., Any], processes: Processes, tmp_path: Path) -> Kernel:
    robot = tmp_path / "toy.yaml"
    robot.write_text(ROBOT_YAML)
    path = os.pathsep.join([str(ROOT), str(ROOT / "test" / "support"), os.environ.get("PYTHONPATH", "")])
    processes.start("channel_scheduler", f"robot:={robot}", f"data_dir:={tmp_path}", env={"PYTHONPATH": path})
    made = Kernel(namespace)
    host(made)
    wait_until(made.ready, 15.0, "the channel scheduler is there")
    made.interrupt("nobody", epoch=1)  # its answer proves that the scheduler hears this node: a token sent before would be lost
    return made


def test_speech_that_was_refused_once_begins_whole(kernel: Kernel) -> None:
    kernel.say((FunctionToken.ACTIVATE, "count_pieces"), (FunctionToken.CHAR, "Hello, "))
    wait_until(lambda: kernel.goals, 10.0, "the call arrives")
    kernel.say((FunctionToken.CHAR, "my "), first=2)
    # Feedback that names no phase tells the scheduler that the goal was accepted, as it is also to be refused.
    kernel.call_soon(kernel.goals[0].feedback, ExecuteSkill.Feedback())
    kernel.call_soon(lambda: kernel.call_later(0.2, lambda: kernel.refuse(kernel.goals[0])))
    wait_until(lambda: len(kernel.goals) == 2, 5.0, "it is tried again")
    first, second = (goal.request.call.call_id for goal in kernel.goals)
    assert first == second and not kernel.contents, "what the first try got would meet the second"
    kernel.call_soon(kernel.goals[1].feedback, ExecuteSkill.Feedback(phase="running"))
    kernel.say((FunctionToken.CHAR, "friend"), (FunctionToken.RESET, "count_pieces"), (FunctionToken.END, ""), first=3)
    wait_until(lambda: kernel.contents and kernel.contents[-1].last, 5.0, "the text is complete")
    assert [c.seq for c in kernel.contents] == list(range(len(kernel.contents)))
    assert "".join(c.text for c in kernel.contents) == "Hello, my friend"
    kernel.call_soon(kernel.goals[1].succeed, ExecuteSkill.Result(outcome=CallMessage.DONE))


def test_a_stream_of_tokens_that_no_parser_bounds_is_ended(kernel: Kernel) -> None:
    half = "x" * (MAX_CHARS // 2)
    kernel.say((FunctionToken.CHAR, half), (FunctionToken.CHAR, half), (FunctionToken.CHAR, "one more"))
    kernel.say((FunctionToken.SELF_CONTAINED, "clock_now"), first=3)
    wait_until(lambda: any(e.kind == StreamKind.ENDED for e in kernel.events), 10.0, "the stream has ended")
    assert ParseCode.LIMIT_EXCEEDED in {e.error_code for e in kernel.events}
    assert not any(goal.request.call.function == "clock_now" for goal in kernel.goals)


def test_the_process_forgotten_first_is_the_one_unused_for_longest(kernel: Kernel) -> None:
    kernel.interrupt("old", epoch=5)
    for n in range(2 * MAX_PROCESSES - 1):
        kernel.interrupt(f"other{n}", epoch=5)
    kernel.interrupt("old", epoch=6)
    kernel.interrupt("one more", epoch=5)
    kernel.say((FunctionToken.SELF_CONTAINED, "clock_now"), (FunctionToken.END, ""), process="old", epoch=5)
    wait_until(lambda: any(e.kind == StreamKind.ENDED for e in kernel.events), 5.0, "the late stream has ended")
    assert not kernel.goals, "the scheduler still knows that it was interrupted"
    kernel.say((FunctionToken.SELF_CONTAINED, "clock_now"), (FunctionToken.END, ""), process="other0", epoch=4)
    wait_until(lambda: kernel.goals, 5.0, "of this one it knows nothing any more")
    kernel.call_soon(kernel.goals[0].succeed, ExecuteSkill.Result(outcome=CallMessage.DONE))


def test_a_process_too_many_is_refused_and_takes_no_other_one_s_place(kernel: Kernel) -> None:
    for n in range(MAX_PROCESSES):
        kernel.say((FunctionToken.SELF_CONTAINED, "clock_now"), (FunctionToken.END, ""), process=f"p{n}", stream=f"s{n}")
    kernel.call_soon(time.sleep, 0.5)  # all goals arrive before one is taken
    wait_until(lambda: len(kernel.goals) == MAX_PROCESSES, 30.0, "all of them are at work")
    kernel.say((FunctionToken.SELF_CONTAINED, "clock_now"), (FunctionToken.END, ""), process="more", stream="more")

    def told(kind: EventKind, process: str) -> list[RunEvent]:
        return [e for e in kernel.events if e.kind == kind and e.process_id == process]

    wait_until(lambda: told(StreamKind.TURN_ENDED, "more"), 5.0, "it is refused")
    over = told(StreamKind.TURN_ENDED, "more")[0]
    assert over.error_code == TaskCode.TOO_MANY_PROCESSES and "end one" in over.error_msg
    assert told(StreamKind.ENDED, "more") and len(kernel.goals) == MAX_PROCESSES
    for goal in kernel.goals:
        kernel.call_soon(goal.succeed, ExecuteSkill.Result(outcome=CallMessage.DONE))
    wait_until(lambda: all(told(CallKind.ENDED, f"p{n}") for n in range(MAX_PROCESSES)), 5.0, "each outcome is heard")
    kernel.say((FunctionToken.SELF_CONTAINED, "clock_now"), (FunctionToken.END, ""), process="more", stream="again")
    wait_until(lambda: len(kernel.goals) == MAX_PROCESSES + 1, 5.0, "there is room again")
    kernel.call_soon(kernel.goals[-1].succeed, ExecuteSkill.Result(outcome=CallMessage.DONE))


def test_of_very_many_streams_of_a_process_those_of_long_ago_are_forgotten(ros: None) -> None:
    node = ChannelScheduler()
    try:
        for n in range(1200):
            node._token(FunctionToken(process_id="p", stream_id=f"s{n}", kind=FunctionToken.END))
        process = node._process("p")
        assert len(process.next_seq) <= 1000 and len(process.characters) <= 1000 and "s1199" in process.next_seq
    finally:
        node.close()
        node.destroy_node()
