# SPDX-License-Identifier: Apache-2.0
"""People may be asked when they want to, what they say in private stays there, and a reply is never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from planners.people import SAID_KEPT, Kind, People, Person, Reply, Said, load_people, read_reply
from skill_kernel.abilities import Abilities, abilities_of
from skill_kernel.robot import RobotConfig, RobotConfigError

HOUR_S = 3600.0


def people(hour: float = 10.0) -> People:
    return People(
        {"Li": Person(), "Wang": Person(quiet=(("12:00", "13:00"), ("22:00", "07:00")))},
        now=lambda: 5.0,
        day_s=lambda: hour * HOUR_S,
    )


@pytest.mark.parametrize(
    ("text", "kind", "instead"),
    [
        ("Yes, please!", Kind.ACCEPT, ""),
        ("好的", Kind.ACCEPT, ""),
        ("no", Kind.DECLINE, ""),
        ("Not now.", Kind.LATER, ""),
        ("Done!", Kind.DONE, ""),
        ("ask Li instead", Kind.INSTEAD, "Li"),
        ("No, better ask LI", Kind.INSTEAD, "Li"),
        ("找Li吧", Kind.INSTEAD, "Li"),
        ("don't ask Li", Kind.OTHER, ""),
        ("ask Li or Bo", Kind.OTHER, ""),
        ("Did you ask Li?", Kind.OTHER, ""),
        ("ask Lisa", Kind.OTHER, ""),
        ("yes, but slowly", Kind.OTHER, ""),
        ("I am busy", Kind.OTHER, ""),
    ],
)
def test_a_reply_is_what_it_plainly_means_or_words(text: str, kind: Kind, instead: str) -> None:
    reply = read_reply(text, ("Li", "Bo"))
    assert (reply.kind, reply.instead, reply.text) == (kind, instead, text)


@pytest.mark.parametrize(
    ("text", "instead"),
    [("ask Li Wei instead", "Li Wei"), ("ask Li instead", "Li"), ("问李明", "李明"), ("ask Li or Li Wei", "")],
)
def test_who_names_somebody_with_a_longer_name_has_not_named_another(text: str, instead: str) -> None:
    assert read_reply(text, ("Li", "Li Wei", "李", "李明", "Bo")).instead == instead
    assert read_reply("ask li instead", ("Li", "LI")).instead == "", "nobody guesses which"


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        ("no, because I see a doctor", Kind.DECLINE, "no (private)"),
        ("No because I see a doctor", Kind.DECLINE, "no (private)"),
        ("no. I see a doctor", Kind.DECLINE, "no (private)"),
        ("不，因为我看 doctor", Kind.DECLINE, "no (private)"),
        ("Not now, I see a doctor", Kind.LATER, "later (private)"),
        ("no, don't ask Li to see a doctor", Kind.DECLINE, "no (private)"),
        ("no, ask Li, I see a doctor", Kind.INSTEAD, "(private)"),
        ("yes please", Kind.ACCEPT, "yes (private)"),
        ("yes, if the doctor is late", Kind.OTHER, "(private)"),
        ("no problem, the doctor can wait", Kind.OTHER, "(private)"),
        ("No.5, where the doctor is", Kind.OTHER, "(private)"),
        ("I see a doctor, no", Kind.OTHER, "(private)"),
    ],
)
def test_a_private_no_stays_one_with_its_reason_which_nobody_reads(said: str, kind: Kind, told: str) -> None:
    reply = read_reply(said, ("Li", "Bo"), private=True)
    assert (reply.kind, reply.text) == (kind, told)
    if "doctor" in said and kind is not Kind.INSTEAD:
        assert read_reply(said, ("Li", "Bo")) == Reply(Kind.OTHER, said), "a model reads the words of an open answer"


@pytest.mark.parametrize(
    ("hour", "quiet"), [(11.9, False), (12.0, True), (13.0, False), (21.9, False), (23.0, True), (3.0, True), (7.0, False)]
)
def test_nobody_asks_in_quiet_hours_also_across_midnight(hour: float, quiet: bool) -> None:
    assert bool(people(hour).refusal("Wang")) is quiet and people(hour).refusal("Li") == ""


def test_a_person_with_an_open_request_is_not_asked_and_a_stranger_never() -> None:
    known = people()
    known.opened("Li")
    assert "open request" in known.refusal("Li") and known.refusal("Wang") == ""
    known.closed("Li")
    assert known.refusal("Li") == "" and known.refusal("Bo") == "nobody knows 'Bo'; known: Li, Wang"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("I hate broccoli", "Li: i HATE  broccoli!"),
        ("hate broccoli", "they hate broccoli, it seems"),
        ("I see the caf\u00e9 doctor", "sees the cafe\u0301 doctor"),
        ("meet at \uff14\uff17\uff11\uff11", "at 4711"),
    ],
)
def test_private_words_are_found_however_short_or_encoded_and_whatever_was_said_since(said: str, told: str) -> None:
    known = People({"Li": Person(), "Bo": Person()})
    known.hear("Li", said, private=True)
    for _ in range(SAID_KEPT):
        known.hear("Bo", "so it is")
    assert (known.leaked(told, "Bo"), known.leaked(told, "Li")) == ("Li", "")
    assert not known.leaked("they hate the doctor", "Bo")


def test_all_that_is_said_is_told_on_with_whether_it_is_private() -> None:
    told: list[Said] = []
    known = People({"Li": Person()}, now=lambda: 5.0, on_said=told.append)
    known.hear("Li", "I am  in the lab")
    known.hear("Li", "I see a doctor", private=True)
    assert told == [Said("Li", "I am in the lab", 5.0), Said("Li", "I see a doctor", 5.0, private=True)] == known.said("Li")


def test_what_is_private_is_shown_to_nobody_else_and_found_in_what_would_tell_it() -> None:
    known = people()
    known.hear("Li", "I am in the lab")
    known.hear("Li", "My locker code is 4711, I see a doctor", private=True)
    assert [said.text for said in known.said("Wang")] == ["I am in the lab"]
    assert len(known.said("Li")) == 2
    assert known.leaked("Open it with 4711, please", "Wang") == "Li"
    assert known.leaked("Li will SEE a doctor today", "Wang") == "Li"
    assert known.leaked("Open the locker", "Wang") == "" and known.leaked("the code is 4711", "Li") == ""


def test_the_shipped_people_are_read_and_a_wrong_file_is_told(tmp_path: Path) -> None:
    assert set(load_people("office")) == {"Wang", "Li"} and load_people("") == {}
    file = tmp_path / "crew.yaml"
    for text, why in [("people: {Li: {quiet: [['25:00', '08:00']]}}", "not a time of the day"), ("people: {}", "people")]:
        file.write_text(text)
        with pytest.raises(RobotConfigError, match=why):
            load_people(str(file))


def test_abilities_are_those_of_yaml_and_urdf() -> None:
    hebe, atlas, kalos = (abilities_of(RobotConfig.load(name)) for name in ("hebe", "atlas", "kalos"))
    assert (hebe.speed_m_s, hebe.arms, atlas.speed_m_s, atlas.arms, kalos.arms) == (0.6, 2, 0.0, 1, 0)
    assert hebe.reach_m == 1.16, "the lengths between the joints of one arm, in hebe.urdf, up to its fingers"
    assert "kitchen" in kalos.places and len(set(kalos.places)) == len(kalos.places)
    assert kalos.shown().keys() >= {"speed_m_s", "places", "arms"} and "reach_m" not in kalos.shown()


URDF = """<robot name="crane"><link name="base"/>
<link name="arm"><inertial><mass value="2"/></inertial></link><link name="tip"><inertial><mass value="0"/></inertial></link>
<joint name="lift" type="revolute"><parent link="base"/><child link="arm"/><origin xyz="0 0 1"/><axis xyz="0 1 0"/>
<limit effort="49.05"/></joint>
<joint name="finger" type="prismatic"><parent link="arm"/><child link="tip"/><origin xyz="0 0 1"/><axis xyz="0 1 0"/>
<limit effort="5"/></joint></robot>"""


def test_the_payload_is_what_the_weakest_joint_holds_with_the_arm_level(tmp_path: Path) -> None:
    """49.05 N·m hold 5 kg at 1 m; half of that metre carries the arm's own 2 kg."""
    (tmp_path / "crane.urdf").write_text(URDF)
    (tmp_path / "crane.xml").touch()
    (tmp_path / "crane.yaml").write_text(
        "name: crane\nskills: [crane]\nmodel: crane.xml\nsubsystems: {main: {exclusive_per_process: false, parallel: true}}\n"
        "arms: {arm: {joints: [lift], hand: grip, fingers: [finger]}}\n"
    )
    robot = RobotConfig.load(tmp_path / "crane.yaml")
    assert abilities_of(robot) == Abilities(arms=1, reach_m=1.0, payload_kg=4.0)
    (tmp_path / "crane.urdf").write_text("no XML")
    assert abilities_of(robot) == Abilities(arms=1), "nobody says"
