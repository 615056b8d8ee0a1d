# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell teleop`: drive a base with the keyboard from its start to its end."""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import rclpy
import typer
from geometry_msgs.msg import Twist
from ghostshell.msg import ProcessArray
from ghostshell.srv import ControlHalt, ControlProcess
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.robot_client import LOOK_S, WAIT_S, absent
from ghostshell_ros.cli.say import Robot, Wait
from ghostshell_ros.runtime.node_runtime import bounded_end
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.qos import LATCHED
from skill_kernel.config.sections import shown
from skill_kernel.roles import Act, key_role

HELD_S = 0.7
"""Time for which a key counts as held: terminals repeat a held key only after about half a second."""
PERIOD_S = 0.05
END_S = 0.3
"""Limit on the answer of a task that is to end before the base is given back."""
BASE_S = 0.5
"""Limit on the base's service once the other services of the gate, which come later, have been found."""
CONFIRMED_S = 1.0
"""A halt that the gate does not confirm within this time is told to a person."""
TASKS_S = 1.0
"""Limit on the first word of the process scheduler on what runs; a robot may have none."""
DIRECTIONS = {
    "w": (1, 0, 0),
    "s": (-1, 0, 0),
    "a": (0, 0, 1),
    "d": (0, 0, -1),
    "j": (0, 1, 0),
    "l": (0, -1, 0),
    "\x1b[A": (1, 0, 0),
    "\x1b[B": (-1, 0, 0),
    "\x1b[D": (0, 0, 1),
    "\x1b[C": (0, 0, -1),
}
SILENT = {
    "halt": f"NO GATE HAS CONFIRMED THE HALT for {CONFIRMED_S:g} s; use the robot's own switch",
    "clear_halt": f"the gate has not answered for {CONFIRMED_S:g} s; press c again",
}
LEAVE = ("x", "q", "\x03", "\x04")
HELP = """w/s or up/down: forward, back     a/d or left/right: turn   j/l: sideways
space: stand still                +/-: faster, slower       h: halt, c: clear it
x, q or Ctrl-C: give the base back and leave"""


class Keyboard:
    """Turn pressed keys into a velocity, on the caller's clock."""

    def __init__(self, speed: float, turn: float) -> None:
        self.speed, self.turn = speed, turn
        self._wish = (0, 0, 0)
        self._until = 0.0

    def press(self, key: str, now: float) -> str:
        """Take a key. Return halt, clear_halt or leave where it asks for that, else ""."""
        if key in DIRECTIONS:
            self._wish, self._until = DIRECTIONS[key], now + HELD_S
        elif key in "+-" and key:
            factor = 1.25 if key == "+" else 0.8
            self.speed, self.turn = self.speed * factor, self.turn * factor
        elif key in LEAVE:
            self._wish = (0, 0, 0)
            return "leave"
        else:
            self._wish = (0, 0, 0)
            return {"h": "halt", "c": "clear_halt"}.get(key, "")
        return ""

    def shown(self) -> str:
        """Return the speeds in words."""
        return f"{self.speed:.2f} m/s, {self.turn:.2f} rad/s"

    def velocity(self, now: float) -> tuple[float, float, float]:
        """Return m/s forward, m/s to the left and rad/s; zero when no key is held."""
        forward, lateral, turn = self._wish if now < self._until else (0, 0, 0)
        return forward * self.speed, lateral * self.speed, turn * self.turn


class AskedOfGate:
    """Tell what the gate refuses, and what it does not answer in time."""

    def __init__(self) -> None:
        self._open: list[tuple[Any, float, str]] = []

    def add(self, answer: Any, now: float, silent: str) -> None:
        """Wait for an answer, a future; `silent` is what to say without one."""
        self._open.append((answer, now + CONFIRMED_S, silent))

    def news(self, now: float) -> list[str]:
        """Return what a person must know."""
        over = [one for one in self._open if one[0].done() or now > one[1]]
        self._open = [one for one in self._open if one not in over]
        answers = [(answer.result() if answer.done() else None, silent) for answer, _, silent in over]
        return [silent if answer is None else answer.message for answer, silent in answers if not (answer and answer.success)]


def goes_on(processes: Iterable[Any]) -> dict[str, str]:
    """Return the ids and instructions of the processes that live, and may move the base once it is given back."""
    return {p.process_id: shown(p.instruction) for p in processes if not p.ended.sec}


def teleop(
    robot: Robot = "",
    wait: Wait = WAIT_S,
    speed: Annotated[float, typer.Option(min=0.01, help="speed forward, back and sideways, in m/s")] = 0.4,
    turn: Annotated[float, typer.Option(min=0.01, help="speed of turning, in rad/s")] = 0.8,
) -> None:
    """Drive a robot's base with the keyboard.

    The base obeys from the first moment on and nobody else moves it until this command ends. A task that would go on then is
    named, and ended unless you say that it may. If the command ends in any other way than by a key (a lost connection), the
    robot halts. Exit status: 0, 1 when a task does not end, 2 when no robot answers.
    """
    if not sys.stdin.isatty():
        raise typer.BadParameter("teleop reads keys from a terminal; publish cmd_vel_teleop instead")
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("ghostshell_teleop", namespace=robot, use_global_arguments=False)
    try:
        publisher = node.create_publisher(Twist, "cmd_vel_teleop", 10)
        release, control = node.create_client(Trigger, "release_teleop"), node.create_client(ControlHalt, "control_halt")
        ending = node.create_client(ControlProcess, "control_process")
        processes: list[Any] = []
        heard = False

        def hear(message: Any) -> None:
            nonlocal heard
            processes[:], heard = message.processes, True

        def show_halt(message: Any) -> None:
            _show("halted; c clears it" if message.data else "not halted")

        node.create_subscription(ProcessArray, "processes", hear, LATCHED)
        node.create_subscription(Bool, "halted", show_halt, LATCHED)
        begun_s, gate_s = time.monotonic(), wait
        while not release.wait_for_service(timeout_sec=LOOK_S):
            waited_s = time.monotonic() - begun_s
            gate_s = min(gate_s, waited_s) if control.service_is_ready() else gate_s
            if (why := absent(node, robot, waited_s, wait)) or waited_s > min(wait, gate_s + BASE_S):
                fail(why or f"robot '{robot}' has no base that can be driven (no service release_teleop answers)")
        begun_s = time.monotonic()
        while not heard and time.monotonic() - begun_s < TASKS_S:
            rclpy.spin_once(node, timeout_sec=LOOK_S)
        print(HELP)
        keyboard, todo, asked = Keyboard(speed, turn), "", False
        of_gate = AskedOfGate()
        _show(keyboard.shown())
        with _raw_terminal():
            while todo != "leave":
                todo = ""
                for key in _keys(PERIOD_S):
                    if asked and key in ("y", "e", *LEAVE):
                        todo = "leave" if key == "y" else "end"
                        break
                    asked, before = False, keyboard.shown()
                    pressed = keyboard.press(key, time.monotonic())
                    if pressed and todo != "halt":  # a halt among keys that come together wins
                        todo = pressed
                    if before != keyboard.shown():
                        _show(keyboard.shown())
                if todo == "leave" and not asked and (waiting := goes_on(processes)):
                    todo, asked = "", True
                    _show(f"waiting: {'; '.join(waiting.values())}")
                    _show("y: give the base back, let it go on   e: end it first   other keys: drive on")
                if todo == "end":
                    todo = "leave"
                    for process_id in goes_on(processes):
                        stop = ControlProcess.Request(process_id=process_id, cause="teleop")
                        stop.command = ControlProcess.Request.STOP
                        ended = ending.call_async(stop)
                        rclpy.spin_until_future_complete(node, ended, timeout_sec=END_S)
                        if process_id in goes_on(processes) and not (ended.done() and ended.result().success):
                            fail("a task does not confirm its end; the base is not given back, so the robot halts", status=1)
                if todo in ("halt", "clear_halt"):
                    command = ControlHalt.Request.HALT if todo == "halt" else ControlHalt.Request.CLEAR
                    asked_for = ControlHalt.Request(command=command, cause="the key h of teleop")
                    told = control.call_async(signed(node, "control_halt", asked_for, key_role(Act.CLEAR)))
                    of_gate.add(told, time.monotonic(), SILENT[todo])
                message = Twist()
                message.linear.x, message.linear.y, message.angular.z = keyboard.velocity(time.monotonic())
                publisher.publish(message)
                rclpy.spin_once(node, timeout_sec=0.0)
                for news in of_gate.news(time.monotonic()):
                    _show(news)
        released = release.call_async(Trigger.Request())
        rclpy.spin_until_future_complete(node, released, timeout_sec=wait)
        answer = released.result() if released.done() else None
        print(f"{robot}: {answer.message if answer else 'the gate did not answer; it halts the robot'}")
    finally:
        with bounded_end():
            node.destroy_node()
            rclpy.try_shutdown()


def _show(text: str) -> None:
    """Print a line, also where the terminal is raw."""
    print(text, end="\r\n", flush=True)


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Read keys one by one and unechoed. Ctrl-C arrives as a key, so that leaving gives the base back. A signal that ends the
    command leaves the terminal as it was."""
    before = termios.tcgetattr(sys.stdin)
    handlers = {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setraw(sys.stdin, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _keys(timeout_s: float) -> list[str]:
    """Return the keys typed within the time; an escape sequence is one key, a closed terminal the key that leaves."""
    deadline = time.monotonic() + timeout_s
    keys: list[str] = []
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([sys.stdin], [], [], left)[0]:
            break
        typed = os.read(sys.stdin.fileno(), 64).decode(errors="ignore")
        if not typed:
            return [*keys, "\x04"]
        while typed:
            length = 3 if typed.startswith("\x1b[") else 1
            keys.append(typed[:length])
            typed = typed[length:]
    return keys
