# SPDX-License-Identifier: Apache-2.0
"""The policies of SROS 2, and the keystores made of them: who may do what, and each fault named in a sentence."""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest
from lxml import etree
from typer.testing import CliRunner

from ghostshell_ros import security
from ghostshell_ros.cli import security as command
from ghostshell_ros.cli.main import app
from ghostshell_ros.launcher import describe
from ghostshell_ros.nodes.dashboard.feeds import FEEDS, TEAM_FEEDS
from ghostshell_ros.security import Identity, Policy, PolicyError, faults, make, rights
from ghostshell_ros.wire.events import TOPICS
from scripts.security_policy import PEOPLE, ROBOTS, TEAMS, path_of, policy

ROOT = Path(__file__).resolve().parents[2]
DOMAIN = 7
ALL = (*ROBOTS, *TEAMS)
KEPT = ("coco", "kalos", "kitchen")
"""Those in the keystore of the tests."""
MINDS = ("mind", "action_planner", "task_planner", "process_scheduler", "token_parser", "channel_scheduler", "memory")
"""Processes that hear what a model or a stranger says."""
PAGE = "dashboard"
"""The process of the operator's page, which asks in the name of people."""


@cache
def allowed(robot: str, name: str = "") -> dict[str, set[tuple[str, str]]]:
    """Return by the last part of its name what each enclave may do."""
    read = Policy(robot, name)
    return {enclave.rpartition("/")[2]: rights(read.permissions(enclave, DOMAIN)) for enclave in read.enclaves}


def who(what: str, verb: str = "publish", robot: str = "kalos") -> set[str]:
    """Return the enclaves that may do something."""
    return {
        name
        for name, given in allowed(robot).items()
        if any(v == verb and fnmatch.fnmatchcase(what, topic) for v, topic in given)
    }


@pytest.mark.parametrize("robot", ALL)
def test_the_policy_is_made_from_the_map_of_the_running_graph(robot: str) -> None:
    assert path_of(robot).read_text(encoding="utf-8") == policy(robot), "run python3 -m scripts.security_policy"


def test_what_moves_and_what_is_measured_comes_from_where_it_should() -> None:
    assert who("rt/kalos/cmd_vel_in") == {"drivers"} and who("rt/kalos/cmd_vel") == {"operator"}
    assert who("rt/kalos/cmd_vel_gated") == who("rt/kalos/halted") == {"safety_gate"}
    assert who("rt/kalos/odom") == who("rt/kalos/scan") == {"sim"}
    assert who("rt/kalos/cmd_vel_teleop") == {"teleop", "operator", "safety"}
    assert who("rt/coco/joint_command_in", robot="coco") == {"drivers"}
    assert who("rq/kalos/execute_skill/_action/send_goalRequest") == {"mind", "channel_scheduler", "reflexes"}


def test_a_teams_planner_calls_and_halts_its_robots_and_does_nothing_else_there() -> None:
    given = allowed("kitchen")["team_planner"]
    below = {topic.partition("hebe/")[2] for verb, topic in given if verb == "publish" and "hebe/" in topic}
    calls = {f"execute_skill/_action/{what}Request" for what in ("send_goal", "get_result", "cancel_goal")}
    assert below == {
        *calls,
        *("request_haltRequest", "skill_kernel/process_leaseRequest"),
        *("process_heartbeat", "call_content", "call_control"),
    }


def test_the_page_hears_what_it_shows_and_moves_nothing_itself() -> None:
    heard = {topic for verb, topic in allowed("kalos")[PAGE] if verb == "subscribe"}
    assert {f"rt/*/{feed.topic}" for feed in (*FEEDS, *TEAM_FEEDS)} | {f"rt/*/{topic}" for topic in TOPICS.values()} <= heard
    published = {topic for verb, topic in allowed("kalos")[PAGE] if verb == "publish" and topic.startswith("rt/")}
    assert published <= {"rt/rosout", "rt/parameter_events", "rt/diagnostics", "rt/*/sender_heartbeat"}


def test_who_may_clear_a_halt_approve_instruct_and_ask_is_a_person() -> None:
    assert who("rq/kalos/control_haltRequest") == {"operator", "safety", PAGE}
    assert who("rq/kalos/compile_reflexRequest") == {"operator", "approver", "mind", "process_scheduler", PAGE}
    assert who("rq/kalos/run_task/_action/send_goalRequest") == {"operator", PAGE} and who("rt/instruction") == {"operator"}
    assert who("rq/query_memoryRequest") == {*PEOPLE, "skill_kernel", "mind", "action_planner", "task_planner", PAGE}
    assert who("rq/kalos/haltRequest") == {*PEOPLE}
    nodes = {"teleop", "mind", "process_scheduler", "lifecycle_manager", "skill_kernel", PAGE}
    assert who("rq/kalos/request_haltRequest") == {*PEOPLE, *nodes}
    assert {name for name in who("rt/kalos/observation", "subscribe") if name in PEOPLE} == set(PEOPLE)
    read = Policy("kalos")
    for role in PEOPLE:  # nothing but what is meant for people, not even a parameter
        asked = {
            topic for verb, topic in rights(read.permissions(f"/kalos/{role}", DOMAIN)) if verb == "publish" and topic[1] == "q"
        }
        assert not [topic for topic in asked if "parameters" in topic or "interrupt" in topic]


@pytest.mark.parametrize("robot", ALL)
def test_a_process_that_reads_what_a_model_wrote_cannot_move_or_clear(robot: str) -> None:
    for name in MINDS if robot in ROBOTS else ("team_planner",):
        published = {topic for verb, topic in allowed(robot)[name] if verb == "publish"}
        moving = (
            "*/cmd_vel*",
            "*/joint_command*",
            "*/posture",
            "*/posture_in",
            "*/attitude*",
            "*/control_haltRequest",
            "*/scan",
            "*/odom",
        )
        assert not [topic for topic in published for pattern in moving if fnmatch.fnmatchcase(topic, pattern)], name


@pytest.mark.parametrize(
    ("file", "robots", "arguments"),
    [
        ("coco", {"coco": "dog/two"}, {"robot_name": "dog/two"}),
        ("kalos", {"kalos": "dog/two"}, {"robot_name": "dog/two", "gamepad": "true"}),
        ("tabletop", {"tabletop": "dog/two"}, {"robot_name": "dog/two"}),
        ("kitchen", {"atlas": "", "hebe": "", "kitchen": "crew"}, {"team": "crew"}),
        ("home", {"atlas": "", "hebe": "", "kalos": "", "home": "crew"}, {"team": "crew"}),
    ],
)
@pytest.mark.parametrize("composed", ["true", "false"])
def test_every_process_is_launched_in_an_enclave_of_the_policy(
    file: str, robots: dict[str, str], arguments: dict[str, str], composed: str
) -> None:
    environment = {**os.environ, "ROS_SECURITY_ENCLAVE_OVERRIDE": "/mine", "GHOSTSHELL_DATA": "/data"}
    environment.pop("ROS_SECURITY_KEYSTORE", None)
    arguments = {**arguments, "composed": composed, "security": "enforce"}
    specs = describe(ROOT / "launch" / f"{file}.launch.xml", arguments, environment)
    known = [enclave for robot, name in robots.items() for enclave in Policy(robot, name).enclaves]
    for spec in specs:
        assert spec.command[spec.command.index("--enclave") + 1] in known, spec.name
        set_for = {name: value for name, value in spec.environment.items() if name.startswith("ROS_SECURITY")}
        assert set_for == {
            "ROS_SECURITY_ENABLE": "true",
            "ROS_SECURITY_STRATEGY": "Enforce",
            "ROS_SECURITY_KEYSTORE": "/data/keystore",
            "ROS_SECURITY_ENCLAVE_OVERRIDE": "",
        }
    assert len({frozenset(spec.environment.items()) for spec in specs}) == 1  # or no fork would do
    off = describe(ROOT / "launch" / f"{file}.launch.xml", {}, {**environment, "ROS_SECURITY_ENCLAVE_OVERRIDE": "/mine"})
    assert all("ROS_SECURITY_ENABLE" not in spec.environment for spec in off)


@pytest.mark.parametrize("robot", ALL)
def test_policy_and_permissions_have_the_form_that_their_standards_ask_for(robot: str) -> None:
    grammar = etree.RelaxNG(etree.parse(ROOT / "test" / "support" / "security.rng"))
    grammar.assertValid(etree.parse(path_of(robot)))
    read = Policy(robot)
    for enclave in read.enclaves:
        grammar.assertValid(permissions := etree.fromstring(read.permissions(enclave, DOMAIN)))
        assert permissions.findtext(".//subject_name") == f"CN={enclave}" and permissions.findtext(".//id") == str(DOMAIN)
    grammar.assertValid(governance := etree.fromstring(read.governance(DOMAIN)))
    assert governance.findtext(".//id") == str(DOMAIN)
    assert governance.findtext(".//allow_unauthenticated_participants") == "false"


def test_a_robot_of_another_name_has_the_same_rights_under_it() -> None:
    named, plain = Policy("kalos", "dog/two"), Policy("kalos")
    for enclave in plain.enclaves:
        moved = {(verb, topic.replace("/kalos/", "/dog/two/", 1)) for verb, topic in rights(plain.permissions(enclave, DOMAIN))}
        assert rights(named.permissions(enclave.replace("/kalos/", "/dog/two/"), DOMAIN)) == moved


@pytest.mark.parametrize("text", [None, "", "<policy", "\0", "<policy><enclaves><enclave/></enclaves></policy>"])
def test_what_is_no_policy_is_refused(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "mine.xml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(PolicyError, match="is no policy of SROS 2"):
        Policy(str(file))


@pytest.mark.parametrize("name", ["../../x", "a//b", "a b", 'a"b', "7", "a/../b", "ä"])
def test_a_name_that_no_robot_can_have_makes_no_enclave(name: str) -> None:
    with pytest.raises(PolicyError):
        Policy("kalos", name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "keystore"
    for robot in KEPT:
        make(folder, Policy(robot), DOMAIN)
    return folder


@pytest.fixture
def keystore(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "keystore", symlinks=True))


def test_a_keystore_has_the_layout_of_sros2_and_hides_its_keys(made: Path) -> None:
    shared = {"public/identity_ca.cert.pem", "public/permissions_ca.cert.pem", "private/permissions_ca.key.pem"}
    for name in {*shared, "private/identity_ca.key.pem", "enclaves/governance.p7s"}:
        assert (made / name).is_file(), name
    for robot in KEPT:
        assert list(faults(made, Policy(robot), DOMAIN)) == []
    names = {"cert.pem", "key.pem", "permissions.p7s", "governance.p7s", "identity_ca.cert.pem", "permissions_ca.cert.pem"}
    assert {file.name for file in (made / "enclaves/coco/mind").iterdir()} == names
    assert [file for file in made.rglob("*key.pem") if file.stat().st_mode & 0o077] == []
    assert made.stat().st_mode & 0o077 == 0


def spoil(own: Path, file: str, change: Callable[[bytes], bytes]) -> None:
    (own / file).write_bytes(change((own / file).read_bytes()))


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file is missing": (lambda own: (own / "permissions.p7s").unlink(), "/kalos/mind lacks permissions.p7s"),
    "a link leads nowhere": (lambda own: (own.parents[1] / "governance.p7s").unlink(), "/kalos/mind lacks governance.p7s"),
    "one topic more": (
        lambda own: spoil(own, "permissions.p7s", lambda text: text.replace(b"rt/kalos/llm_chunks", b"rt/kalos/cmd_vel_in")),
        "/kalos/mind: its permissions are not those of the policy",
    ),
    "no permissions at all": (
        lambda own: (own / "permissions.p7s").write_text("nothing"),
        "/kalos/mind: its key, certificate or permissions cannot be read",
    ),
    "broken permissions": (
        lambda own: (own / "permissions.p7s").write_bytes(b"<dds\xff\0<topic/></dds>"),
        "/kalos/mind: its key, certificate or permissions cannot be read",
    ),
    "a topic without a side": (
        lambda own: (own / "permissions.p7s").write_bytes(b"<dds><topic>rt/x</topic></dds>"),
        "/kalos/mind: its permissions are not those of the policy",
    ),
    "another's key": (
        lambda own: shutil.copy(own.parent / "sim" / "key.pem", own / "key.pem"),
        "/kalos/mind: its key does not belong to its certificate",
    ),
    "no key": (
        lambda own: (own / "key.pem").write_text("nothing"),
        "/kalos/mind: its key, certificate or permissions cannot be read",
    ),
    "self-made": (
        lambda own: Identity.issued(own / "key.pem", own / "cert.pem", "/kalos/mind"),
        "/kalos/mind: its key, certificate or permissions cannot be read",
    ),
    "an open key": (lambda own: (own / "key.pem").chmod(0o644), "other users may use the private key"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_what_is_wrong_with_a_keystore_is_said_in_a_sentence(what: str, keystore: Path) -> None:
    spoils, sentence = FAULTS[what]
    spoils(keystore / "enclaves" / "kalos" / "mind")
    assert any(found.startswith(sentence) for found in faults(keystore, Policy("kalos"), DOMAIN))
    make(keystore, Policy("kalos"), DOMAIN)
    assert list(faults(keystore, Policy("kalos"), DOMAIN)) == []


def test_a_foreign_authority_an_old_certificate_and_another_domain_are_named(
    keystore: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, own = Policy("kalos"), keystore / "enclaves" / "kalos" / "mind"
    assert {found.partition(": ")[2] for found in faults(keystore, read, 8)} == {
        "it was made for another ROS domain (ROS_DOMAIN_ID)"
    }
    make(keystore, Policy("coco"), 8)  # one keystore, one domain
    assert all("made for another ROS domain" in found for found in faults(keystore, read, DOMAIN))
    make(keystore, Policy("coco"), DOMAIN)
    monkeypatch.setattr(security, "VALID", timedelta(days=-1) + timedelta(hours=1))
    authority = Identity(keystore / "private/ca.key.pem", keystore / "public/ca.cert.pem")
    Identity.issued(own / "key.pem", own / "cert.pem", "/kalos/mind", authority)
    (found,) = faults(keystore, read, DOMAIN)
    assert found.startswith("/kalos/mind: its certificate or the authority's ends on 2")
    monkeypatch.undo()
    Identity.issued(keystore / "private/ca.key.pem", keystore / "public/ca.cert.pem", "GhostShell")
    found = {sentence.partition(": ")[2] for sentence in faults(keystore, read, DOMAIN)}
    assert found == {"its certificate is not signed by the keystore's authority"}


def test_no_key_is_made_without_the_authority(keystore: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_SECURITY_KEYSTORE", str(keystore))
    shutil.rmtree(keystore / "private")
    before = (keystore / "enclaves/kalos/mind/key.pem").read_bytes()
    done = CliRunner().invoke(app, ["security", "init", "kalos"])
    assert done.exit_code == 1 and "no keys can be made" in done.output and "ca.key.pem" in done.output
    assert (keystore / "enclaves/kalos/mind/key.pem").read_bytes() == before
    assert list(faults(keystore, Policy("kalos"), DOMAIN)) == []  # a robot runs without it


def test_the_command_makes_checks_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_SECURITY_KEYSTORE", str(tmp_path / "keystore"))
    monkeypatch.setenv("ROS_DOMAIN_ID", "5")
    monkeypatch.setattr(
        command, "refusal", lambda environment, enclave: f"no {enclave} in {environment['ROS_SECURITY_KEYSTORE']}"
    )
    run = CliRunner().invoke
    before = run(app, ["security", "check", "coco"])
    assert before.exit_code == 1 and "/coco/mind lacks" in before.output and "security init coco" in before.output
    done = run(app, ["security", "init", "coco", "--name", "cc"])
    assert done.exit_code == 0 and "ROS domain 5" in done.output and "ROS_SECURITY_ENCLAVE_OVERRIDE=/cc/operator" in done.output
    checked = run(app, ["security", "check", "coco", "--name", "cc"])
    assert checked.exit_code == 1 and checked.output.strip() == f"no /cc/safety_gate in {tmp_path}/keystore"
    monkeypatch.setattr(command, "refusal", lambda *_: "")
    assert run(app, ["security", "check", "coco", "--name", "cc"]).exit_code == 0
    nobody = run(app, ["security", "check", "nobody"])
    assert nobody.exit_code == 2 and "'nobody' is no policy" in nobody.output
