# SPDX-License-Identifier: Apache-2.0
"""The act of Kalos's demonstration in which a person steps in its way (task T8 of TypeGo)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from function_tokens.run_model import runs
from skill_kernel.codes import Outcome
from skill_kernel.events import NoticeKind, ProcessKind

pytest.importorskip("mujoco")


from bench.demo.story import Story, StoryClient
from ghostshell_ros.runtime.node_runtime import NodeHost
from pipeline_support import KALOS_NODES, BroughtUp, assert_mapped, brought_up
from ros_support import wait_until


@pytest.fixture
def kalos(ros: None, tmp_path: Path) -> Iterator[BroughtUp]:
    nodes = KALOS_NODES | {"observer", "reflexes"}
    with brought_up(tmp_path, launch="kalos", nodes=nodes, model="offline", memory="true") as robot:
        yield robot


@pytest.mark.slow
def test_a_person_steps_in_its_way_a_reflex_backs_it_off_and_the_patrol_goes_on(kalos: BroughtUp) -> None:
    assert_mapped(kalos, "kalos")
    client = StoryClient(kalos.observer.get_namespace())
    with NodeHost([client]) as host:
        host.start()
        wait_until(lambda: not client.lacking, 30.0, "all that the story needs is there")
        story = Story(client, ("sound",))
        patrol = story.say("Patrol the hallway twice.", "patrol", 20.0)
        (walking,) = story.view.acts(patrol)

        reflex = story.step_in_front(patrol)

    assert reflex.instruction == "when anything is closer than 0.2 m in front, step back 0.5 m"
    (back,) = story.view.acts(reflex)
    assert (back.function, back.outcome, back.channels) == ("move_back", Outcome.DONE, ("movement",))
    (still_walking,) = story.view.acts(patrol)
    assert still_walking.call_id == walking.call_id and runs(still_walking), "the same call, not a new one"
    # It is still while the reflex moves it, and goes on when that has ended.
    paused, went_on = (s.begin_s for s in list(patrol.states)[-2:])
    # The scheduler tells of the pause when the kernel has told it, by then the reflex may move.
    assert paused < back.start_s + 0.5 and runs(back) is False and 0.0 <= went_on - back.end_s < 1.0
    assert not [e for e in kalos.observer.events if e.kind in (NoticeKind.HALTED, ProcessKind.ENDED)]
