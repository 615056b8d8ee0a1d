# SPDX-License-Identifier: Apache-2.0
"""What `ghostshell task` and `ghostshell guideline` share: the client of a robot's prescriptions, and how they look."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import typer

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
