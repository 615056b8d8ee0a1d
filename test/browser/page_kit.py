# SPDX-License-Identifier: Apache-2.0
"""Show the page to a browser without a robot: its own files, and a state made here, over the protocol of docs/page.md."""

from __future__ import annotations

import io
import json
import math
import mimetypes
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw
from playwright.sync_api import Page, Route, WebSocketRoute

ROOT = Path(__file__).resolve().parents[2]
STATIC, PICTURES = ROOT / "ghostshell_ros/nodes/dashboard/static", ROOT / "out/browser"
WIDE, PHONE = (1280, 800), (390, 844)
ADDRESS = "http://127.0.0.1:8780/"
CSP = "default-src 'self'; img-src 'self' blob:; connect-src 'self' ws:; base-uri 'none'; form-action 'self'"
NOW_S = 1_800_000_000.0
ROOMS = [
    {"name": "hallway", "box": [-1.5, -1.05, 11.5, 1.05]},
    {"name": "kitchen", "box": [-1.5, 1.05, 3.0, 4.5]},
    {"name": "office", "box": [3.0, 1.05, 7.5, 4.5]},
    {"name": "lounge", "polygon": [[7.5, 1.05], [11.5, 1.05], [11.5, 4.5], [7.5, 4.5]]},
    {"name": "lobby", "box": [5.5, -3.5, 8.5, -1.05]},
]
OUTCOMES = ["DONE", "DONE", "DONE", "FAILED", "INTERRUPTED", "REFUSED", "DROPPED"]


def quiet_robot() -> dict[str, Any]:
    """Return the state of a robot of which nothing is known yet."""
    return {
        "link": "live",
        "age_s": 0.1,
        "team": False,
        "halted": {"on": False, "cause": "", "number": 0},
        "processes": {},
        "calls": {},
        "chat": [],
        "streams": {},
        "questions": {},
        "rules": [],
        "observation": {},
        "map": {"pose": None, "rooms": [], "objects": [], "trail": []},
        "drivers": {},
        "diagnostics": {},
        "cameras": [],
        "loops": {},
    }


def call(process: str, function: str, channels: list[str], start: float, end: float = -1.0, **more: Any) -> dict[str, Any]:
    """Return a call as the state holds it; a time of -1 s is not known yet."""
    ended = end >= 0
    about = {
        "process": process,
        "function": function,
        "label": f"{function}()",
        "channels": channels,
        "kind": "ENDED" if ended else "STARTED",
    }
    return {**about, "outcome": "DONE" if ended else "", "start": start, "end": end, "text": "", "error": "", **more}


def busy_robot() -> dict[str, Any]:
    """Return the state of a robot in the middle of its work, with something in every part of the page."""
    robot = quiet_robot()
    t = NOW_S
    usage = {"layer": "s2", "asked": 2, "prompt_tokens": 8123, "completion_tokens": 212, "cost_usd": 0.0183}
    fast = {"layer": "s1", "asked": 7, "prompt_tokens": 19200, "completion_tokens": 640, "cost_usd": 0.0061}
    robot["processes"] = {
        "p1": {
            "instruction": "Look for a ball in the lounge. If you find one, walk up to it and bark twice.",
            "source": "USER",
            "states": [
                ["WAITING", t - 42, ""],
                ["IN_PROGRESS", t - 41.4, ""],
                ["PAUSED", t - 20, "s0"],
                ["IN_PROGRESS", t - 17, ""],
            ],
            "usage": [usage, fast],
            "subtasks": [
                ["go to the lounge", "DONE"],
                ["look for a ball", "ACTIVE"],
                ["bark twice if there is one", "PENDING"],
            ],
            "step": "search(ball)",
            "queued": 2,
            "steps_done": 5,
            "asking": {"s2": t - 1.8},
            "budget": {},
        },
        "p2": {
            "instruction": "Tell me what you see on the way",
            "source": "REACTIVE",
            "states": [["WAITING", t - 16, "for the loudspeaker"]],
            "usage": [],
            "subtasks": [],
            "step": "",
            "queued": 1,
            "steps_done": 0,
            "asking": {},
            "budget": {},
        },
        "reflex-step_back-1": {
            "instruction": "step back from what is closer than 0.2 m in front",
            "source": "REFLEX",
            "states": [["IN_PROGRESS", t - 20, ""], ["SUCCESS", t - 17.2, ""]],
            "usage": [],
            "subtasks": [],
            "step": "",
            "queued": 0,
            "steps_done": 0,
            "asking": {},
            "budget": {},
        },
    }
    robot["calls"] = {
        "c1": call("p1", "stand", ["movement"], t - 40, t - 38.6),
        "c2": call("p1", "text", ["sound"], t - 39.8, t - 37, label="“I am on my way.”"),
        "c3": call("p1", "goto_waypoint", ["movement"], t - 38.5, t - 20, label="goto_waypoint(lounge)", outcome="INTERRUPTED"),
        "c4": call("reflex-step_back-1", "move_back", ["movement"], t - 20, t - 17.2, label="move_back(0.3)"),
        "c5": call("p1", "goto_waypoint", ["movement"], t - 17, t - 6, label="goto_waypoint(lounge)"),
        "c6": call("p1", "grasp", ["movement"], -1, t - 6, outcome="REFUSED", error="Kalos has no arms: it cannot grasp"),
        "c7": call("p1", "search", ["movement"], t - 5.5, label="search(ball)"),
        "c8": call("p1", "text", ["sound"], t - 4, t - 1.5, label="“I see a red ball.”"),
        "c9": call("p1", "bark", ["sound"], -1, label="bark(2)", kind="QUEUED"),
    }
    robot["chat"] = [
        {"at": t - 90, "from": "person", "text": "what can you do?", "process": "p0"},
        {"at": t - 88, "from": "robot", "text": "I can walk, look for things, and speak.", "process": "p0"},
        {"at": t - 42, "from": "person", "text": robot["processes"]["p1"]["instruction"], "process": "p1"},
        {"at": t - 37, "from": "robot", "text": "I am on my way.", "process": "p1"},
        {"at": t - 20, "from": "notice", "text": "The reflex step_back acts: something is closer than 0.2 m.", "process": ""},
        {"at": t - 1.5, "from": "robot", "text": "I see a red ball.", "process": "p1"},
    ]
    robot["streams"] = {
        "p1": 'I am on my way. <goto_waypoint waypoint="lounge"/><search target="ball"/>I see a red ball. <bark ti'
    }
    robot["questions"] = {
        "q1": {
            "process": "p1",
            "text": "There are two balls. Which one?",
            "choices": ["the red one", "the blue one"],
            "until": t + 45,
        },
        "q2": {
            "process": "p2",
            "text": "Will you sign the form?",
            "choices": ["yes", "no", "later"],
            "any_words": True,
            "person": "Li",
            "why": "Wang needs it today",
            "until": t + 20,
        },
    }
    robot["rules"] = [
        {
            "kind": "reflex",
            "name": "step_back",
            "text": "step back from what is closer than 0.2 m in front",
            "state": "approved",
            "detail": [
                ["condition", "obstacle('front') < 0.2"],
                ["action", "<move_back distance_m='0.3'/>"],
                ["fired", "3 times"],
            ],
            "actions": ["test", "disable"],
        },
        {
            "kind": "reflex",
            "name": "greet",
            "text": "whenever a person comes into view, nod",
            "state": "proposed",
            "detail": [["condition", "people_visible() > 0"]],
            "actions": ["test", "approve", "remove"],
        },
        {
            "kind": "guideline",
            "name": "quiet",
            "text": "do not bark in the office",
            "state": "enabled",
            "detail": [],
            "actions": ["disable"],
        },
        {
            "kind": "habit",
            "name": "evening",
            "text": "a kind that nobody knew when the page was written",
            "state": "odd",
            "detail": [],
            "actions": ["bless"],
        },
    ]
    robot["observation"] = {
        "pose": {"role": "Where it is", "value": "x 8.6, y 2.1, 64°", "age": 0.1, "stale": False},
        "room": {"role": "The room it is in", "value": "lounge", "age": 0.1, "stale": False},
        "battery": {"role": "Charge in percent", "value": "81", "age": 7.2, "stale": True},
        "objects": {"role": "What it sees", "value": "ball (0.9) 1.2 m ahead; chair (0.7)", "age": 0.4, "stale": False},
        "people": {"role": "Who is there", "value": "", "age": -1, "stale": True},
    }
    trail = [[x / 10, 0.3 * math.sin(x / 12)] for x in range(86)] + [[8.6, y / 10] for y in range(3, 22)]
    objects = [
        {"name": "ball", "x": 9.4, "y": 3.4, "seen_s": t - 2},
        {"name": "bottle", "x": 5.0, "y": 3.5, "seen_s": t - 4000},
    ]
    robot["map"] = {"pose": [8.6, 2.1, 1.1], "rooms": ROOMS, "objects": objects, "trail": trail}
    robot["drivers"] = {"base_driver": "active", "speak_driver": "active"}
    robot["diagnostics"] = {
        "safety_gate": {"level": 0, "message": "limits speed near an obstacle"},
        "memory": {"level": 1, "message": "the disk is nearly full: 2 % left"},
        "object_detector": {"level": 0, "message": "11 pictures a second"},
    }
    robot["cameras"] = ["camera/image", "sim/view"]
    robot["loops"] = {
        "s3": {"busy": False, "queue": 0, "cost_usd": 0.0021, "budget": None},
        "s2": {"busy": True, "queue": 0, "cost_usd": 0.0183, "budget": "$0.50/h"},
        "s1": {"busy": True, "queue": 2, "cost_usd": 0.0061, "budget": "3,000,000 tokens/h"},
        "s0": {"busy": False, "queue": 0, "cost_usd": -1, "budget": None},
    }
    return robot


def long_recording(calls: int) -> dict[str, Any]:
    """Return a replayed robot with so many calls, eight a task on three channels, one a second."""
    robot = quiet_robot()
    channels = [["legs"], ["head"], ["voice"]]
    for n in range(calls):
        process, at = f"r{n // 8}", NOW_S - 100_000 + n
        if process not in robot["processes"]:
            states = [["IN_PROGRESS", at, ""], ["SUCCESS", at + 9, ""]]
            robot["processes"][process] = {"instruction": f"task {n // 8}", "source": "USER", "states": states}
        outcome = OUTCOMES[n % len(OUTCOMES)]
        robot["calls"][f"r{n}"] = call(process, f"skill_{n % 5}", channels[n % 3], at, at + 0.4 + n % 4, outcome=outcome)
    return robot


def state_of(robots: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the whole state."""
    you = {"acts": ["LOOK", "HALT", "INSTRUCT", "PRIVATE", "CLEAR", "SWITCH_OFF", "APPROVE"], "name": "operator"}
    return {"now": NOW_S, "you": you, "recordings": [], "replaying": "", "robots": robots, **more}


def picture(words: str) -> bytes:
    """Return a JPEG."""
    image = Image.new("RGB", (640, 480), "#35424a")
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 300, 640, 480), fill="#6b6256")
    draw.ellipse((400, 300, 470, 370), fill="#b8382c")
    draw.text((20, 20), words, fill="white")
    held = io.BytesIO()
    image.save(held, "JPEG")
    return held.getvalue()


class MadeServer:
    """Answer a page as the node would, from a state that a test holds."""

    def __init__(self, page: Page, state: dict[str, Any]) -> None:
        self.page, self.state, self.rev = page, state, 0
        self.acts: list[dict[str, Any]] = []
        self.halts: list[str] = []
        self.frames_ok = 0
        self.halting = True
        """Whether a halt that is asked for is latched."""
        self.refusing = False
        """Whether the page's token has been ended."""
        self.answers: dict[str, tuple[bool, str]] = {}
        self._sockets: list[WebSocketRoute] = []
        self._halt_sockets: list[WebSocketRoute] = []
        page.route(f"{ADDRESS}**", self._file)
        page.route_web_socket("**/ws", self._main)
        page.route_web_socket("**/halt", self._halt)
        page.route_web_socket("**/camera/**", self._camera)

    def open(self) -> None:
        """Open the page and wait until it shows the state."""
        self.page.goto(ADDRESS)
        self.page.locator("#robots button, #nobody:not([hidden])").first.wait_for()

    def patch(self, *changes: tuple[list[Any], Any], deleted: tuple[list[Any], ...] = ()) -> None:
        """Send changes to the page."""
        self.rev += 1
        for path, value in changes:
            node = self.state
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = value
        self._send({"t": "patch", "rev": self.rev, "set": [list(change) for change in changes], "del": list(deleted)})

    def cut(self) -> None:
        """Cut the page's connection for the state."""
        for socket in self._sockets:
            socket.close()
        self._sockets.clear()

    def cut_halt(self) -> None:
        """Cut the page's connection for halts."""
        self._halt_sockets.pop().close()

    def _send(self, message: dict[str, Any]) -> None:
        for socket in self._sockets:
            socket.send(json.dumps(message))

    def _file(self, route: Route) -> None:
        name = route.request.url.removeprefix(ADDRESS).split("?")[0] or "index.html"
        path = STATIC / name
        if self.refusing or not path.is_file():
            route.fulfill(status=403 if self.refusing else 404)
            return
        headers = {"Content-Security-Policy": CSP, "Content-Type": mimetypes.guess_type(name)[0] or "text/plain"}
        route.fulfill(status=200, body=path.read_bytes(), headers=headers)

    def _main(self, socket: WebSocketRoute) -> None:
        if self.refusing:
            socket.close()
            return
        self._sockets.append(socket)
        socket.on_message(lambda text: self._act(socket, json.loads(text)))
        socket.send(json.dumps({"t": "snapshot", "rev": self.rev, "state": self.state}))

    def _act(self, socket: WebSocketRoute, act: dict[str, Any]) -> None:
        self.acts.append(act)
        ok, message = self.answers.get(act["act"], (True, "done"))
        socket.send(json.dumps({"t": "did", "id": act["id"], "ok": ok, "message": message}))

    def _halt(self, socket: WebSocketRoute) -> None:
        def asked(text: str) -> None:
            robot = json.loads(text)["robot"]
            self.halts.append(robot)
            if robot not in self.state["robots"]:
                socket.send(json.dumps({"robot": robot, "ok": False, "message": f"there is no robot {robot}"}))
            elif self.halting:
                socket.send(json.dumps({"robot": robot, "ok": True, "message": "halted"}))
                number = self.state["robots"][robot]["halted"]["number"] + 1
                self.patch((["robots", robot, "halted"], {"on": True, "cause": "page", "number": number}))

        self._halt_sockets.append(socket)
        socket.on_message(asked)

    def _camera(self, socket: WebSocketRoute) -> None:
        frame = picture(socket.url.split("/camera/")[1])

        def shown(_: Any) -> None:
            self.frames_ok += 1
            if self.frames_ok % 50:
                socket.send(frame)

        socket.on_message(shown)
        socket.send(frame)
