# SPDX-License-Identifier: Apache-2.0
"""Kalos patrols its building, a person steps in front, a reflex steps back, and the patrol goes on (TypeGo, task T8)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

pytest.importorskip("mujoco")

from geometry_msgs.msg import PoseStamped
from ghostshell.msg import ProcessState, ReflexStateArray, SkillEvent
from std_srvs.srv import SetBool

from ghostshell_ros.nodes.node_runtime import LATCHED, SENSORS
from ghostshell_ros.sim.world import SimWorld, SimWorldError
from pipeline_support import NODES, Observer, brought_up, config_dir
from ros_support import wait_until

RULE = {
    "name": "keep_clear", "sentence": "when anything is closer than 0.6 m in front, step back 0.4 m", "priority": 80,
    "source": "def condition():\n    return front_distance_m() < 0.6\n\n\ndef action():\n    move_back(distance_m=0.4)\n",
}  # fmt: skip
SEND_AT_M = 5.0
"""Where Kalos is when the person sets out: both then come to the same place of the hallway at about the same time."""


class Watcher(Observer):
    """Knows where Kalos truly is and what its reflexes do, and can send the person."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.place = (0.0, 0.0)
        self.reflexes: ReflexStateArray | None = None
        self.person = self.create_client(SetBool, "world/person")
        self.create_subscription(PoseStamped, "ground_truth/base_link", self._at, SENSORS)
        self.create_subscription(ReflexStateArray, "reflex_states", lambda m: setattr(self, "reflexes", m), LATCHED)

    def _at(self, message: PoseStamped) -> None:
        self.place = message.pose.position.x, message.pose.position.y


def test_a_person_steps_in_front_of_the_patrol_the_reflex_steps_back_and_the_patrol_goes_on(tmp_path: Path) -> None:
    try:
        world = SimWorld("robots/kalos/kalos.xml", world="building")
        world.render("front_camera", 64, 48)
        world.close()
    except SimWorldError as error:
        pytest.skip(str(error))
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"reflexes": [RULE]}))
    config = config_dir(tmp_path, reflexes={"shipped": str(rules)})
    nodes = NODES | {"drive_driver", "navigate_driver", "posture_driver", "object_detector", "reflexes"}
    with brought_up(tmp_path, config, launch="kalos", nodes=nodes, observer_class=Watcher, model="offline") as up:
        watch = up.observer
        assert isinstance(watch, Watcher)
        wait_until(lambda: watch.reflexes and watch.reflexes.reflexes, 20.0, "the reflexes are watching")
        task = watch.task("patrol the hallway")
        wait_until(lambda: watch.place[0] > SEND_AT_M, 60.0, "it is half way through the hallway")
        watch.ask(watch.person, SetBool.Request(data=True))

        def acted() -> list[SkillEvent]:
            return [e for e in watch.events if e.process_id.startswith("reflex-") and e.type == SkillEvent.CALL_ENDED]

        wait_until(acted, 30.0, "the reflex has stepped back")
        assert acted()[0].function == "move_back" and acted()[0].outcome in (SkillEvent.DONE, SkillEvent.FAILED)
        since = next(i for i, e in enumerate(watch.events) if e is acted()[0])
        watch.wait_event(SkillEvent.PROCESS_RESUMED, 10.0, process_id=task.process_id)
        watch.ask(watch.person, SetBool.Request(data=False))
        where = watch.place
        wait_until(lambda: math.dist(where, watch.place) > 1.0, 30.0, "the patrol walks on")
        state = watch.process(task.process_id)
        assert state is not None and state.status == ProcessState.IN_PROGRESS
        assert not [e for e in watch.events[since:] if e.type == SkillEvent.HALTED]
        up.take_events()
        assert not any("is disabled" in line for line in up.log)
