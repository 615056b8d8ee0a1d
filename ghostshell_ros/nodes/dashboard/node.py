# SPDX-License-Identifier: Apache-2.0
"""Node `dashboard`, one for all robots of the ROS domain: serves the operator's page."""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from diagnostic_msgs.msg import DiagnosticArray

from ghostshell_ros.halt_door import robots_here
from ghostshell_ros.nodes.dashboard.access import Access, Record, unreachable
from ghostshell_ros.nodes.dashboard.halts import Halts
from ghostshell_ros.nodes.dashboard.listening import TRIES, listening
from ghostshell_ros.nodes.dashboard.robot_link import RobotLink
from ghostshell_ros.nodes.dashboard.state import PageState, RobotPage, json_object
from ghostshell_ros.runtime.data import data_folder, keys_folder
from ghostshell_ros.runtime.node import Beat, Health, Level, NodeStartError, RuntimeNode
from ghostshell_ros.wire.qos import DIAGNOSTICS
from skill_kernel.config.yaml_text import private
from skill_kernel.roles import Keys, RoleError

if TYPE_CHECKING:
    from ghostshell_ros.nodes.dashboard.serving import Serving

LOOK_S, FIRST_LOOK_S = 1.0, 0.2
"""Time between two looks for new robots, and for another node that may have ended; before the first robot is found."""
FRAME_S = 0.1
"""Time between two states that clients are shown, at least."""
MAX_ROBOTS = 32
"""Robots and teams that the page shows."""
MARK = ("/events/notices", "ghostshell/msg/Notice")
"""Topic, below its namespace, and type by which a robot or a team is known."""
TEAM = "team_planner"
WRITERS = {TEAM, "safety_gate", "process_scheduler"}
"""Nodes that write there, by which a robot and a team are told apart."""
NEEDED = ("starlette", "uvicorn", "websockets")


class Dashboard(RuntimeNode):
    """Serve the page of all robots. A second node of this machine and ROS domain stands by until the first ends."""

    def __init__(self) -> None:
        super().__init__("dashboard")
        host = self.declare("host", "127.0.0.1", "address on which the page is served")
        self._port = self.declare("port", 8780, "port of the page; where it is taken, the next free one", 1, 65_500)
        names = self.declare("names", [""], "names under which others reach the page; needed where host is not this machine")
        self._host, self._names = host, [name for name in names if name]
        if why := unreachable(host, self._names):
            raise NodeStartError(why)
        self.data = data_folder()
        self.access = Access(Keys(keys_folder()), self.data / "page", self._names)
        self.records = Record(self.data / "page")
        self.state = PageState()
        self.robots: dict[str, RobotLink] = {}
        self.halts = Halts(self.context.get_domain_id())
        self.work = ThreadPoolExecutor(2, thread_name_prefix="page-work")
        self._lock: IO[str] | None = None
        self._listener: socket.socket | None = None
        self._server: Serving | None = None
        self._woken, self._wake = os.pipe()
        self._serving: threading.Thread | None = None
        self._note: dict[str, Any] = {}
        self._problem = ""
        self._watching = 0
        self._health: Any = None
        self._frames = self.steady_timer(FRAME_S, self._show)
        self._frames.cancel()
        # A page that was killed is to show its robots again at once.
        Beat(self, FIRST_LOOK_S, LOOK_S, lambda: self._listener is not None and not self.robots, self._look)
        self._look()

    # -- the page ---------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self._listener is None and not self._serve():
            return
        if new := self._found():
            self._add(new)
            self._keep()
        if self._watching:
            self._look_closer()

    def _add(self, robots: Mapping[str, bool]) -> None:
        """Show robots from now on; those that are True are teams."""
        for name, team in robots.items():
            if name not in self.robots and len(self.robots) < MAX_ROBOTS:
                page = self.state.robots[name] = RobotPage(team=team)
                link = self.robots[name] = RobotLink(self, name, page, on_halt=self._show)
                self._note["robots"][name] = team
                self.work.submit(self.halts.prepare, name)
                if self._watching:
                    link.look(True)

    def _look_closer(self) -> None:
        """Look for what only who looks at the page wants to know."""
        from ghostshell_ros.nodes.dashboard.cameras import camera_topics
        from ghostshell_ros.nodes.dashboard.recordings import recordings

        services = {name for name, _ in self.get_service_names_and_types()}
        for name, link in self.robots.items():
            if link.services is not None:
                link.services.connect(services)
            link.page.facts("cameras", camera_topics(self, name))
        self.state.recordings = recordings(self.data)

    def _found(self) -> dict[str, bool]:
        """Return the robots and teams that are there, and whether each is a team."""
        mark, kind = MARK
        topics = self.get_topic_names_and_types()
        names = {name.removesuffix(mark).strip("/") for name, kinds in topics if name.endswith(mark) and kind in kinds}
        found = {}
        for name in sorted(name for name in names if name and name not in self.robots):
            writers = {writer.node_name for writer in self.get_publishers_info_by_topic(f"/{name}{mark}")}
            if writers & WRITERS:  # else its nodes are not discovered yet
                found[name] = TEAM in writers
        return found

    def _serve(self) -> bool:
        """Serve the page, unless another node does. Return whether this one does."""
        if lacking := [name for name in NEEDED if find_spec(name) is None]:
            self._tell(f"there is no page without {', '.join(lacking)}: pip install -r requirements/page.txt", error=True)
            return False
        path = self.data / "page" / f"domain_{self.context.get_domain_id()}.json"
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = open(path, "a+", encoding="utf-8", opener=private)  # noqa: SIM115 - kept open for its lock
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._lock.close()
                self._tell("another dashboard serves the page of this ROS domain; this one stands by until it ends")
                return False
            self._lock.seek(0)
            before = json_object(self._lock.read())
            listener = self._listen(before)
            token = self.access.token()
        except (OSError, RoleError) as error:
            if self._lock is not None:
                self._lock.close()
            self._tell(f"there is no page: {error}", error=True)
            return False
        host = self._names[0] if self._names else self._host
        address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        self._note = {"address": address, "robots": {}}
        here, known = robots_here(str(self.context.get_domain_id())), before.get("robots")
        if isinstance(known, dict):  # a page that was killed shows them before they are discovered again
            self._add({name: team is True for name, team in known.items() if name in here})
        self._keep()
        # Not by the log, which every program of the graph can read.
        sys.stdout.write(f"page: {address}/?token={token}\n")
        sys.stdout.flush()
        self._problem = ""
        self._listener = listener
        self._serving = threading.Thread(target=self._run, args=(listener,), name="page", daemon=True)
        self._serving.start()
        return True

    def _run(self, listener: socket.socket) -> None:
        """Serve clients. What that takes is imported when the first one comes: until then a robot pays nothing for its page."""
        ready, _, _ = select.select([listener.fileno(), self._woken], [], [])
        if self._woken not in ready:
            from ghostshell_ros.nodes.dashboard.serving import Serving

            self._server = Serving(self)
            self._server.run(listener)

    def _keep(self) -> None:
        """Keep what `ghostshell page`, and the node after a kill, need to know, if the disk takes it."""
        if self._lock is None:
            return
        with suppress(OSError):
            self._lock.seek(0)
            self._lock.truncate()
            self._lock.write(json.dumps(self._note))
            self._lock.flush()

    def _listen(self, before: dict[str, Any]) -> socket.socket:
        """Listen at the port of the last time, where pages that are open look, or at the first free one. Raises OSError."""
        with suppress(ValueError, LookupError, TypeError, OSError):
            port = urlsplit(before["address"]).port
            if port and self._port <= port < self._port + TRIES:
                return listening(self._host, port, tries=1)
        return listening(self._host, self._port)

    def _tell(self, problem: str, *, error: bool = False) -> None:
        if problem != self._problem:
            self._problem = problem
            (self.get_logger().error if error else self.get_logger().info)(problem)

    def look(self, clients: int) -> None:
        """Hear how many clients watch: without any, only what tells the story is heard of the robots."""
        begins, ends = clients and not self._watching, self._watching and not clients
        self._watching = clients
        if begins:
            self._frames.reset()
            self._look_closer()
        elif ends:
            self._frames.cancel()
        if begins or ends:
            self._hear_health(bool(clients))
            for link in self.robots.values():
                link.look(bool(clients))
            self._show()

    def _hear_health(self, on: bool) -> None:
        """Hear the reports of all nodes, or make them none."""
        if self._health is not None:
            self.destroy_subscription(self._health)
            self._health = None
        if on:
            self._health = self.create_subscription(DiagnosticArray, "/diagnostics", self._on_health, DIAGNOSTICS)

    def _on_health(self, message: DiagnosticArray) -> None:
        """Hand on the reports of a robot's nodes to its page, and those of nodes that serve all robots to each."""
        for name, link in self.robots.items():
            own = [status for status in message.status if status.hardware_id in ("", name)]
            if own:
                link.reader.diagnostics(DiagnosticArray(status=own))

    def _show(self) -> None:
        """Show clients what is new."""
        if self._watching and self._server is not None:
            state = self.state.render(self.now_s())
            self._server.show(state)

    def health(self) -> Health:
        """Return whether the page is served, and to how many."""
        if self._listener is None:
            return Health(self._problem or "starting", Level.WARN if self._problem.startswith("there is no") else Level.OK)
        return Health("serves the page", values={"clients": self._watching, "robots": len(self.robots)})

    def close(self) -> None:
        """Serve no more."""
        os.write(self._wake, b"x")
        if self._server is not None:
            self._server.end()
        if self._serving is not None and self._listener is not None:
            self._serving.join(3.0)
            self._listener.close()
        self.work.shutdown(wait=False, cancel_futures=True)
        self.halts.close()
        if self._lock is not None:
            self._lock.close()
