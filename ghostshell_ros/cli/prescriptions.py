# SPDX-License-Identifier: Apache-2.0
"""`ghostshell task`, `guideline` and `prescribe`: keep sentences with a robot, and say where a sentence belongs."""

from __future__ import annotations

import getpass
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ghostshell_ros.cli.say import Robot, Wait

ANSWER_S = 150.0
"""A reflex may be written by a model, twice."""
ASK_AGAIN_S = 0.5
KINDS = ("task", "guideline", "reflex")


class PrescriptionClient:
    """Calls `prescribe` and hears `prescriptions`; ends the command with status 1 when it is refused, with 2 when nobody
    answers."""

    def __init__(self, robot: str, wait_s: float) -> None:
        self._robot, self._wait_s = robot, wait_s

    def __enter__(self) -> PrescriptionClient:
        import rclpy
        from ghostshell.msg import PrescriptionArray
        from ghostshell.srv import Prescribe

        from ghostshell_ros.runtime.node_runtime import LATCHED

        rclpy.init()
        self._node = rclpy.create_node("ghostshell_cli", namespace=self._robot, use_global_arguments=False)
        self._heard: list[Any] = []
        self._node.create_subscription(PrescriptionArray, "prescriptions", self._heard.append, LATCHED)
        self._client = self._node.create_client(Prescribe, "prescribe")
        return self

    def __exit__(self, *_: object) -> None:
        import rclpy

        self._node.destroy_node()
        rclpy.try_shutdown()

    def all(self) -> list[Any]:
        """Every prescription of the robot."""
        import rclpy

        end_s = time.monotonic() + self._wait_s
        while not self._heard:
            if time.monotonic() > end_s:
                self._nobody()
            rclpy.spin_once(self._node, timeout_sec=0.05)
        return list(self._heard[-1].prescriptions)

    def ask(self, command: str, **fields: Any) -> Any:
        """The answer to one request, whatever it is."""
        self._meet()
        return self._call(command, ANSWER_S, **fields) or self._nobody()

    def do(self, command: str, **fields: Any) -> Any:
        """The answer to a request that must be obeyed."""
        answer = self.ask(command, **fields)
        if not answer.success:
            print(f"ghostshell: {answer.error_msg}", file=sys.stderr)
            raise typer.Exit(1)
        return answer

    def _call(self, command: str, answer_s: float, **fields: Any) -> Any:
        import rclpy
        from ghostshell.srv import Prescribe

        number = getattr(Prescribe.Request, command)
        future = self._client.call_async(Prescribe.Request(command=number, **fields))
        rclpy.spin_until_future_complete(self._node, future, timeout_sec=answer_s)
        return future.result() if future.done() else None

    def _meet(self) -> None:
        """Ask something harmless until it is answered: a service that does not know its client yet loses its answer."""
        end_s = time.monotonic() + self._wait_s
        while True:
            left_s = end_s - time.monotonic()
            if left_s <= 0 or not self._client.wait_for_service(timeout_sec=left_s):
                self._nobody()
            if self._call("ROUTE", min(ASK_AGAIN_S, left_s), kind=255, sentence="stand still") is not None:
                return

    def _nobody(self) -> Any:
        print(
            f"ghostshell: no process_scheduler of robot '{self._robot}' answers within {self._wait_s:g} s; is it launched on "
            "this ROS domain?",
            file=sys.stderr,
        )
        raise typer.Exit(2)


def lines(prescriptions: Sequence[Any]) -> list[str]:
    """Each with its layer and sentence, and below it why it is there and what it contradicts."""
    told = []
    names = max((len(p.name) for p in prescriptions), default=0)
    for one in prescriptions:
        state = "on " if one.enabled else "off"
        told.append(f"{one.name.ljust(names)}  {state}  {KINDS[one.kind]} {one.layer}  {one.sentence}")
        told.append(f"{' ' * names}  because: {one.reason}")
        told += [f"{' ' * names}  CONFLICT with {conflict}" for conflict in one.conflicts]
    return told


def show(prescriptions: Sequence[Any], robot: str, what: str) -> None:
    """Print them, or that there are none."""
    print("\n".join(lines(prescriptions)) if prescriptions else f"{robot}: there are no {what}")


def add(client: PrescriptionClient, sentence: str, name: str, kind: int, author: str) -> None:
    """Add a sentence; what it reads as by itself and what it contradicts is shown."""
    answer = client.do("ADD", sentence=sentence, name=name, kind=kind, author=author)
    print("\n".join(lines([answer.prescription])))
    if answer.prescription.conflicts:
        print("It is kept all the same; remove or disable one of them.")


task = typer.Typer(help="Goals kept under a name, to be begun again and again.", no_args_is_help=True)
TaskName = Annotated[str, typer.Argument(help="name of the task")]
TASK, GUIDELINE, REFLEX, ANY = 0, 1, 2, 255


@task.command("add")
def add_task(
    sentence: Annotated[str, typer.Argument(help='such as "go to the kitchen and see whether the door is open"')],
    name: Annotated[str, typer.Option(help="empty: made of the sentence")] = "",
    robot: Robot = "coco",
    wait: Wait = 5.0,
) -> None:
    """Keep a task; it does not begin by that."""
    with PrescriptionClient(robot, wait) as client:
        add(client, sentence, name, TASK, getpass.getuser())


@task.command("list")
def list_tasks(
    robot: Robot = "coco",
    wait: Wait = 5.0,
    all_: Annotated[bool, typer.Option("--all", help="guidelines and reflexes, too")] = False,
) -> None:
    """Show the tasks of a robot, with the reason why each is one."""
    with PrescriptionClient(robot, wait) as client:
        show([p for p in client.all() if all_ or p.kind == TASK], robot, "prescriptions" if all_ else "tasks")


@task.command("run")
def run_task(name: TaskName, robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Begin a task now; `ghostshell ps` shows how it goes."""
    with PrescriptionClient(robot, wait) as client:
        print(f"{name}: process {client.do('RUN', name=name, author=getpass.getuser()).process_id}")


@task.command("remove")
def remove_task(name: TaskName, robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Forget a task."""
    _do("REMOVE", name, robot, wait)


def prescribe(
    sentence: Annotated[str, typer.Argument(help="a task, a guideline or a reflex in plain words")],
    robot: Robot = "coco",
    wait: Wait = 5.0,
    dry: Annotated[bool, typer.Option("--dry", help="only say where it belongs")] = False,
) -> None:
    """Send a sentence to the layer whose latency fits, and say which and why: a task begins, a guideline holds from now on, a
    reflex waits for approval."""
    with PrescriptionClient(robot, wait) as client:
        found = client.do("ROUTE", sentence=sentence, kind=ANY).prescription
        if dry:
            print(f"{KINDS[found.kind]} ({found.layer}): {found.reason}")
            return
        if found.kind == TASK:
            answer = client.do("RUN", sentence=sentence, author=getpass.getuser())
            print(f"task ({found.layer}): {found.reason}\nprocess {answer.process_id}")
            return
        answer = client.do("ADD", sentence=sentence, kind=ANY, author=getpass.getuser())
        print("\n".join(lines([answer.prescription])))
        if answer.prescription.kind == REFLEX:
            print(f"Approve it with: ghostshell reflex approve {answer.prescription.name} --robot {robot}")


guideline = typer.Typer(help="Standing wishes: when one applies, the robot begins a task by itself.", no_args_is_help=True)
GuidelineName = Annotated[str, typer.Argument(help="name of the guideline")]


@guideline.command("add")
def add_guideline(
    sentence: Annotated[str, typer.Argument(help='such as "you may pause a task that is not urgent to greet a visitor"')],
    name: Annotated[str, typer.Option(help="empty: made of the sentence")] = "",
    robot: Robot = "coco",
    wait: Wait = 5.0,
) -> None:
    """Keep a guideline; it holds from now on. What it contradicts is shown."""
    with PrescriptionClient(robot, wait) as client:
        add(client, sentence, name, GUIDELINE, getpass.getuser())


@guideline.command("list")
def list_guidelines(robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Show the guidelines of a robot, and the reflexes that contradict one."""
    with PrescriptionClient(robot, wait) as client:
        show([p for p in client.all() if p.kind == GUIDELINE or (p.kind != TASK and p.conflicts)], robot, "guidelines")


@guideline.command("remove")
def remove_guideline(name: GuidelineName, robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Forget a guideline."""
    _do("REMOVE", name, robot, wait)


@guideline.command("enable")
def enable(name: GuidelineName, robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Let a guideline hold again."""
    _do("ENABLE", name, robot, wait)


@guideline.command("disable")
def disable(name: GuidelineName, robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Keep a guideline from holding until it is enabled."""
    _do("DISABLE", name, robot, wait)


def _do(command: str, name: str, robot: str, wait: float) -> None:
    with PrescriptionClient(robot, wait) as client:
        answer = client.do(command, name=name)
        print(f"{name}: {command.lower()}d")
        for conflict in answer.prescription.conflicts:
            print(f"CONFLICT with {conflict}")
