# SPDX-License-Identifier: Apache-2.0
"""Launch files into process specifications: grammar, scoping, commands, and errors that name what is wrong."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from ghostshell_ros.launcher import InlineParameters, LaunchError, ProcessSpec, declared_arguments, describe
from ghostshell_ros.launcher.substitution import Template, equal, parse
from skill_kernel.robot import RobotConfig

REPOSITORY = Path(__file__).resolve().parents[2]
EXECUTABLES = (
    "sim",
    "safety_gate",
    "skill_kernel",
    "observer",
    "reflexes",
    "drivers",
    "lifecycle_manager",
    "mind",
    "process_scheduler",
    "task_planner",
    "action_planner",
    "token_parser",
    "channel_scheduler",
    "memory",
    "dashboard",
    "object_detector",
    "team_planner",
    "joint_forwarder",
)
ROS2_CONTROL = {"controller_manager": ("ros2_control_node", "spawner"), "robot_state_publisher": ("robot_state_publisher",)}


def installed(prefix: Path, package: str, executables: tuple[str, ...]) -> None:
    """Put a package with executables that do nothing into a prefix."""
    (prefix / "share/ament_index/resource_index/packages" / package).touch()
    (prefix / "lib" / package).mkdir(parents=True)
    for name in executables:
        (prefix / "lib" / package / name).write_text("#!/bin/sh\n")
        (prefix / "lib" / package / name).chmod(0o755)


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Return a prefix with the packages `demo` and `ghostshell`, whose executables do nothing."""
    root = tmp_path / "prefix"
    markers = root / "share/ament_index/resource_index/packages"
    markers.mkdir(parents=True)
    for package, executables in (("demo", ("talker",)), ("ghostshell", EXECUTABLES)):
        installed(root, package, executables)
    (root / "share/demo").mkdir()
    (root / "share/ghostshell").mkdir()
    for folder in ("launch", "config"):
        (root / "share/ghostshell" / folder).symlink_to(REPOSITORY / folder)
    return root


@pytest.fixture
def environment(prefix: Path) -> dict[str, str]:
    return {"AMENT_PREFIX_PATH": str(prefix), "HERE": "home"}


@pytest.fixture
def load(tmp_path: Path, environment: dict[str, str]) -> Callable[..., list[ProcessSpec]]:
    """Describe a launch file given as its content, with arguments as keywords."""

    def run(content: str, **arguments: str) -> list[ProcessSpec]:
        file = tmp_path / "test.launch.xml"
        file.write_text(f"<launch>\n{content}\n</launch>")
        return describe(file, arguments, environment)

    return run


def echoed(load: Callable[..., list[ProcessSpec]], value: str, before: str = "", **arguments: str) -> str:
    """Return what an attribute's value becomes."""
    (spec,) = load(f"{before}<executable cmd='x' name='n'><env name='V' value=\"{value}\"/></executable>", **arguments)
    return spec.environment["V"]


def inline(spec: ProcessSpec) -> dict[str, object]:
    values: dict[str, object] = {}
    for word in spec.command:
        if isinstance(word, InlineParameters):
            values.update(word.values)
    return values


def shape(template: Template) -> list[object]:
    return [piece if isinstance(piece, str) else [piece.name, *map(shape, piece.arguments)] for piece in template]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a$(var x)b", ["a", ["var", ["x"]], "b"]),
        ("a$b $ (var x) $", ["a$b $ (var x) $"]),
        ("$$(var x)$", ["$", ["var", ["x"]], "$"]),
        ("$(env A '')b", [["env", ["A"], []], "b"]),
        ("$(env A 'x $(var y) z')", [["env", ["A"], ["x ", ["var", ["y"]], " z"]]]),
        ("""$(env A "x $(var $(var q)) 'z'")""", [["env", ["A"], ["x ", ["var", [["var", ["q"]]]], " 'z'"]]]),
        ("""$(env A 'a$(env B "c")')""", [["env", ["A"], ["a", ["env", ["B"], ['"c"']]]]]),
        (
            "$(env $(var a)$(var b) $(var c)d$(dirname))",
            [["env", [["var", ["a"]], ["var", ["b"]]], [["var", ["c"]], "d", ["dirname"]]]],
        ),
        ("$(var a)) (b", [["var", ["a"]], ") (b"]),
        ("$(env A a=b,c:d;e/f.g#h[i]{j})", [["env", ["A"], ["a=b,c:d;e/f.g#h[i]{j}"]]]),
        ("'$(var x)' 中文", ["'", ["var", ["x"]], "' 中文"]),
        ("", []),
    ],
)
def test_substitutions_are_read_as_launch_reads_them(text: str, pieces: list[object]) -> None:
    assert shape(parse(text, "f:1")) == pieces


def test_no_command_is_run_and_only_the_own_checks_become_nothing(load: Callable[..., list[ProcessSpec]]) -> None:
    assert echoed(load, "[$(command '/x/ghostshell doctor --before-launch --model=m')]") == "[]"
    with pytest.raises(LaunchError, match="'xacro r.urdf' is not run here; use ros2 launch"):
        echoed(load, "$(command 'xacro r.urdf')")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$(var a  b)", "exactly one space"),
        ("$(var x", "expected"),
        ("$(", "name must follow"),
        ("$(1x)", "name must follow"),
        ("$(var a'b)", "expected"),
        ("$(var a(b)", "expected"),
        (r"\$(var x)", "backslash"),
        ("$(env A 'b'c)", "expected"),
        ("$(env A 'a", "closing '"),
        ("$(env A 'a$(env B 'c')')", "an argument is missing"),
        ("$(var)", "takes 1 or 2"),
        ("$(dirname x)", "takes 0"),
        ("$(comand echo)", r"'\$\(comand …\)' is not known.*'command'"),
        ("$(find-pkg-shar x)", "did you mean 'find-pkg-share'"),
    ],
)
def test_a_malformed_or_unknown_substitution_is_an_error(text: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message) as caught:
        parse(text, "f.launch.xml:7")
    assert str(caught.value).startswith("f.launch.xml:7: ")


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("coco", "coco", True),
        ("coco", "Coco", False),
        ("", "", True),
        ("true", "1", True),
        ("True", "false", False),
        ("1.0", "1", True),
        ("1e3", "1000", True),
        ("2", "3", False),
        ("2", "two", False),
    ],
)
def test_texts_numbers_and_truth_values_are_compared_as_launch_does(left: str, right: str, same: bool) -> None:
    assert equal(left, right) == ("true" if same else "false")


def test_variables_environment_and_expressions_are_performed(load: Callable[..., list[ProcessSpec]]) -> None:
    before = "<arg name='a' default='1'/><let name='name' value='a'/>"
    assert echoed(load, "$(var $(var name))-$(env HERE)", before) == "1-home"
    assert echoed(load, "$(var nope d)$(env NOPE 'e f')", before) == "de f"
    assert echoed(load, "$(equals $(var a) 1)", before) == "true"
    assert echoed(load, "$(equals $(var a) 1)", before, a="2") == "false"


def test_packages_and_directories_are_found(load: Callable[..., list[ProcessSpec]], prefix: Path, tmp_path: Path) -> None:
    assert echoed(load, "$(find-pkg-share demo)/x") == f"{prefix}/share/demo/x"
    assert echoed(load, "$(dirname)") == str(tmp_path)


def test_the_content_of_a_file_is_a_value_and_one_that_is_not_there_an_error(
    load: Callable[..., list[ProcessSpec]], tmp_path: Path
) -> None:
    (tmp_path / "arm.urdf").write_text("<robot name='a'/>\n# $(var x)")
    assert echoed(load, "$(file-content $(dirname)/arm.urdf)") == "<robot name='a'/>\n# $(var x)"
    with pytest.raises(
        LaunchError, match=r"test\.launch\.xml:2: \$\(file-content …\): cannot read '/no/arm\.urdf': No such file"
    ):
        echoed(load, "$(file-content /no/arm.urdf)")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<nod pkg='demo'/>", r"3: element <nod> is not known here.*; did you mean 'node'\?"),
        ("<node pkg='demo' exec='talker' nmae='x'/>", r"attribute 'nmae' of <node> is not known here; .*'name'"),
        ("<node pkg='demo' exec='talker'><parm name='x'/></node>", "<parm> is not known here, inside <node>.*'param'"),
        ("<node pkg='demo'/>", "<node> lacks the attribute 'exec'"),
        ("<node pkg='demo' exec='talker' emulate_tty='true'/>", "'emulate_tty' of <node> is not known"),
        ("<set_remap from='a' to='b'/>", "<set_remap> is not known"),
        ("<node pkg='demo' exec='talker' if='1' unless='0'/>", "both 'if' and 'unless'"),
        ("<let name='a' value='b' if='maybe'/>", "condition is 'maybe', it must be true, 1, false or 0"),
        ("<let name='a' value='b'/>words", "text 'words' inside <launch>"),
        ("<let name='a' value='$(var b)'/>", "variable 'b' is not set"),
        ("<let name='a' value='$(env NO_SUCH)'/>", "'NO_SUCH' is not set and no default"),
        ("<group><arg name='a'/></group>", "<arg> is not known here, inside <group>"),
        ("<let name='a' value=\"$(eval 'x == 1')\"/>", r"'\$\(eval …\)' is not known"),
        ("<let name='a' value='$(equals x)'/>", r"\$\(equals …\) takes 2"),
        ("<node pkg='demo' exec='tallker'/>", "executable 'tallker' is not in .*; there: talker"),
        ("<node pkg='dmo' exec='talker'/>", "package 'dmo' is not in AMENT_PREFIX_PATH"),
        ("<node pkg='demo' exec='talker' name='1a'/>", "'1a' is no node name"),
        ("<node pkg='demo' exec='talker' namespace='a//b'/>", "'/a//b' is no namespace"),
        ("<node pkg='demo' exec='talker' respawn='often'/>", "'often' is not of type bool"),
        ("<node pkg='demo' exec='talker' respawn_delay='-1'/>", "'respawn_delay' of <node> is '-1'"),
        ("<node pkg='demo' exec='talker' on_exit='restart'/>", "it can only be 'shutdown'"),
        ("<node pkg='demo' exec='talker' output='own_log'/>", "output is 'own_log'"),
        ("<node pkg='demo' exec='talker' args=\"'$(env HERE)'\"/>", "quotes in 'args' are not known here"),
        ("<node pkg='demo' exec='talker'><param name='a'/></node>", "<param> lacks the attribute 'value'"),
        ("<node pkg='demo' exec='talker'><param name='a' value='x' type='int'/></node>", "not of type int"),
        ("<node pkg='demo' exec='talker'><param name='a' value='x' type='integer'/></node>", "type 'integer' is not"),
        ("<node pkg='demo' exec='talker'><param name='a' value='[1]' type='int'/></node>", "not of type int"),
        ("<node pkg='demo' exec='talker'><param name='a' value='[1, b]'/></node>", "a list of one of them"),
        ("<node pkg='demo' exec='talker'><param name='a' value=\"'$(env HERE)'\"/></node>", "give the parameter a type"),
        ("<node pkg='demo' exec='talker'><param name='a' value='2024-01-01'/></node>", 'add type="str"'),
        ("<node pkg='demo' exec='talker'><param from='/no/file.yaml'/></node>", "no parameter file '/no/file.yaml'"),
        ("<node pkg='demo' exec='talker'><param from='a' name='b'/></node>", "'name' of <param> is not known"),
        ("<include file='/no/file.launch.xml'/>", "no launch file '/no/file.launch.xml'"),
        ("<include file='$(dirname)/test.launch.xml'/>", "does it include itself"),
    ],
)
def test_an_error_names_file_line_and_what_is_wrong(load: Callable[..., list[ProcessSpec]], content: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message) as caught:
        load(f"\n{content}")
    assert "test.launch.xml:3: " in str(caught.value)


def test_a_file_that_is_no_xml_is_an_error_with_its_line(tmp_path: Path, environment: dict[str, str]) -> None:
    file = tmp_path / "broken.launch.xml"
    file.write_text("<launch>\n  <node>\n</launch>")
    with pytest.raises(LaunchError, match=r"broken\.launch\.xml:3: not well-formed XML: .*tag mismatch"):
        describe(file, {}, environment)


def test_missing_and_unknown_arguments_are_named(load: Callable[..., list[ProcessSpec]]) -> None:
    content = "<arg name='robot' description='which one'/><arg name='speed' default='1'/>"
    with pytest.raises(LaunchError, match="robot:=…  which one\n.*not declared: robbot .did you mean 'robot'"):
        load(content, robbot="x")
    with pytest.raises(LaunchError, match=r"declares no argument 'sped'; did you mean 'speed'\?"):
        load(content, robot="x", sped="2")
    with pytest.raises(LaunchError, match="'c' is 'z', it must be one of x, y"):
        load("<arg name='c'><choice value='x'/><choice value='y'/></arg>", c="z")


def test_an_argument_that_the_file_sets_itself_is_not_silently_ignored(environment: dict[str, str]) -> None:
    with pytest.raises(LaunchError, match=r"coco\.launch\.xml' declares no argument 'robot'"):
        describe("coco", {"robot": "my.yaml"}, environment)
    assert describe("coco", {"model": "offline"}, environment)


def test_declared_arguments_are_listed_with_what_they_need(tmp_path: Path) -> None:
    file = tmp_path / "a.launch.xml"
    file.write_text(
        "<launch><arg name='a' description='first'/><arg name='b' default='$(var a)/x'><choice value='1'/></arg></launch>"
    )
    first, second = declared_arguments(file)
    assert (first.name, first.description, first.default) == ("a", "first", None)
    assert (second.name, second.description, second.default) == ("b", "One of: 1.", "$(var a)/x")


def test_a_node_command_is_built_as_launch_ros_builds_it(
    load: Callable[..., list[ProcessSpec]], prefix: Path, tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text("{}")
    (spec,) = load(
        "<let name='q' value='q u'/>"
        "<node pkg='demo' exec='talker' name='n' namespace='ns' args='--x $(env HERE)/y $(var q)' ros_args='-p a:=b'>"
        "<param name='i' value='1'/><param from='$(dirname)/p.yaml'/><remap from='a' to='/b'/></node>"
    )
    assert spec.name == "talker-1"
    assert spec.command == (
        f"{prefix}/lib/demo/talker",
        "--x",
        "home/y",
        "q u",
        "--ros-args",
        "-p",
        "a:=b",
        "--ros-args",
        "-r",
        "__node:=n",
        "-r",
        "__ns:=/ns",
        "--params-file",
        InlineParameters("/ns/n", {"i": 1}),
        "--params-file",
        f"{tmp_path}/p.yaml",
        "-r",
        "a:=/b",
    )


def test_parameters_of_a_node_without_name_or_namespace_go_to_all_nodes_of_its_process(
    load: Callable[..., list[ProcessSpec]],
) -> None:
    for attributes in ("", "name='n'", "namespace='ns'"):
        (spec,) = load(f"<node pkg='demo' exec='talker' {attributes}><param name='i' value='1'/></node>")
        assert InlineParameters("/**", {"i": 1}) in spec.command


@pytest.mark.parametrize(
    ("attributes", "value"),
    [
        ("value='1'", 1),
        ("value='1.5'", 1.5),
        ("value='true'", True),
        ("value='off'", False),
        ("value='text'", "text"),
        ("value=\"'1'\"", "1"),
        ("value='$(var n)'", 3),
        ("value='$(var n)' type='str'", "3"),
        ("value='007' type='str'", "007"),
        ("value='2' type='float'", 2.0),
        ("value='$(var n)' type='float'", 3.0),
        ("value='1' type='bool'", True),
        ("value='True' type='bool'", True),
        ("value='1e-3'", "1e-3"),
        ("value='[1, 2]'", [1, 2]),
        ("value='[1, $(var n)]'", [1, 3]),
        ("value='[a, b]'", ["a", "b"]),
        ("value='' type='str'", ""),
        ("value=''", ""),
        ("value='a&#10;b: 中' type='str'", "a\nb: 中"),
    ],
)
def test_a_parameter_keeps_its_type(load: Callable[..., list[ProcessSpec]], attributes: str, value: object) -> None:
    (spec,) = load(f"<arg name='n' default='3'/><node pkg='demo' exec='talker'><param name='p' {attributes}/></node>")
    found = inline(spec)["p"]
    assert (found, type(found)) == (value, type(value))
    (parameters,) = [word for word in spec.command if isinstance(word, InlineParameters)]
    assert yaml.safe_load(parameters.to_yaml()) == {"/**": {"ros__parameters": {"p": value}}}


def test_namespaces_nest_and_an_absolute_one_replaces_them(load: Callable[..., list[ProcessSpec]]) -> None:
    node = "<node pkg='demo' exec='talker' {}/>"
    specs = load(
        "<group><push_ros_namespace namespace='a'/><push_ros_namespace namespace='b/'/>"
        + node.format("")
        + node.format("namespace='c'")
        + node.format("namespace='/d'")
        + "</group>"
        + node.format("")
        + node.format("namespace=''")
    )
    assert [spec.command[-1] for spec in specs] == ["__ns:=/a/b", "__ns:=/a/b/c", "__ns:=/d", "--ros-args", "__ns:=/"]


def test_a_group_keeps_variables_and_environment_to_itself_unless_it_is_not_scoped(
    load: Callable[..., list[ProcessSpec]],
) -> None:
    inner = "<let name='a' value='in'/><set_env name='E' value='in'/><set_env name='HERE' value='away'/>"
    end = "<executable cmd='x $(var a)'/>"
    (scoped,) = load(f"<let name='a' value='out'/><group>{inner}</group>{end}")
    assert (scoped.command, "E" in scoped.environment, scoped.environment["HERE"]) == (("x", "out"), False, "home")
    (leaking,) = load(f"<let name='a' value='out'/><group scoped='false'>{inner}</group>{end}")
    assert (leaking.command, leaking.environment["E"], leaking.environment["HERE"]) == (("x", "in"), "in", "away")


def test_conditions_hold_on_every_action(load: Callable[..., list[ProcessSpec]]) -> None:
    specs = load(
        "<arg name='on' default='TRUE'/><arg name='off' default=' 0 '/>"
        "<executable cmd='a' if='$(var on)'/><executable cmd='b' unless='$(var on)'/>"
        "<group unless='$(var off)'><executable cmd='c'/></group>"
        "<group if='$(var off)'><executable cmd='d'/></group>"
        "<let name='v' value='1' if='false'/><include file='/no/such' if='0'/>"
        "<executable cmd='e $(var v unset)'/>"
    )
    assert [spec.command for spec in specs] == [("a",), ("c",), ("e", "unset")]


def test_an_included_file_shares_the_scope_of_the_one_that_includes_it(
    load: Callable[..., list[ProcessSpec]], tmp_path: Path
) -> None:
    (tmp_path / "inner.launch.xml").write_text(
        "<launch><arg name='need'/><arg name='a' default='never'/><arg name='b' default='default'/>"
        "<push_ros_namespace namespace='inside'/><executable cmd='i $(var need) $(var a) $(var b)'/></launch>"
    )
    include = "<include file='$(dirname)/inner.launch.xml'><arg name='need' value='$(var a)!'/></include>"
    after = "<executable cmd='o $(var need unset) $(var b unset) $(var ros_namespace none)'/>"
    inner, outer = load(f"<arg name='a' default='1'/>{include}{after}")
    assert (inner.command, outer.command) == (("i", "1!", "1", "default"), ("o", "1!", "default", "/inside"))
    inner, outer = load(f"<arg name='a' default='1'/><group>{include}</group>{after}", b="given")
    assert (inner.command, outer.command) == (("i", "1!", "1", "given"), ("o", "unset", "given", "none"))
    with pytest.raises(LaunchError, match="must be given these arguments:\n  need"):
        load("<include file='$(dirname)/inner.launch.xml'/>")


def test_process_options_are_taken_over(load: Callable[..., list[ProcessSpec]]) -> None:
    (spec,) = load(
        "<executable cmd='run $(env HERE)' name='label' output='both' "
        "respawn='true' respawn_delay='0.5' respawn_max_retries='2' on_exit='shutdown'>"
        "<env name='X_$(env HERE)' value='y'/></executable>"
    )
    assert (spec.name, spec.command, spec.environment["X_home"]) == ("label-1", ("run", "home"), "y")
    assert (spec.respawn, spec.respawn_delay_s, spec.respawn_max_retries, spec.shutdown_on_exit) == (True, 0.5, 2, True)


def executables(specs: list[ProcessSpec]) -> list[str]:
    return [os.path.basename(str(spec.command[0])) for spec in specs]


def words(spec: ProcessSpec) -> list[str]:
    return [word for word in spec.command if isinstance(word, str)]


APART = ["safety_gate", "skill_kernel", "reflexes", "drivers"]
"""Nodes with a process of their own, or one of their kind, however a robot is brought up."""
MIND = ["process_scheduler", "task_planner", "action_planner", "token_parser", "channel_scheduler"]
FOR_ALL = ["memory", "dashboard"]
"""Nodes outside of a robot's namespace, which serve all robots."""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [*APART, "mind", "dashboard", "sim"]),
        ({"use_sim": "false"}, [*APART, "mind", "dashboard"]),
        ({"page": "false"}, [*APART, "mind", "sim"]),
        ({"composed": "false"}, [*APART, "observer", "lifecycle_manager", *MIND, *FOR_ALL, "sim"]),
    ],
)
def test_coco_is_brought_up_whole(environment: Mapping[str, str], arguments: dict[str, str], expected: list[str]) -> None:
    specs = describe("coco", {"robot_name": "kit", **arguments}, environment)
    assert executables(specs) == expected
    assert [name for name, spec in zip(expected, specs, strict=True) if "__ns:=/kit" not in words(spec)] == [
        name for name in expected if name in FOR_ALL
    ]
    for_good = {"sim", "safety_gate", "skill_kernel"}
    assert [spec.respawn for spec in specs] == [name not in for_good for name in expected]
    for spec, name in zip(specs, expected, strict=True):
        shared = name in ("drivers", "mind")
        assert (f"__node:={name}" in words(spec)) is not shared


def test_coco_passes_its_arguments_to_the_nodes(environment: Mapping[str, str]) -> None:
    arguments = {"model": "007", "default_robot": "false", "use_sim_time": "true", "viewer": "true", "log_level": "warn"}
    by_name = {os.path.basename(str(spec.command[0])): spec for spec in describe("coco", arguments, environment)}
    mind = inline(by_name["mind"])
    assert (mind["model"], mind["global_instruction"], mind["use_sim_time"], mind["robot"]) == ("007", False, True, "coco")
    assert inline(by_name["sim"]) == {"robot": "coco", "viewer": True, "publish_clock": True}
    assert all("--log-level warn" in " ".join(words(spec)) for spec in by_name.values())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [*APART, "mind", "dashboard"]),
        ({"drivers": "false"}, [*APART[:-1], "mind", "dashboard"]),
        ({"composed": "false"}, [*APART, "observer", "lifecycle_manager", *MIND, *FOR_ALL]),
    ],
)
def test_any_robot_is_brought_up_from_its_file(
    environment: Mapping[str, str], arguments: dict[str, str], expected: list[str]
) -> None:
    specs = describe(
        "robot",
        {
            "robot": "my robots/kit.yaml",
            "robot_name": "kit",
            "model": "007",
            "models": "my.yaml",
            "default_robot": "false",
            "use_sim_time": "true",
            **arguments,
        },
        environment,
    )
    assert executables(specs) == expected
    needs_robot = set(expected) - {"token_parser", *FOR_ALL}
    hears_instructions = {"mind", "process_scheduler"}
    asks_a_model = {"mind", "process_scheduler", "task_planner", "action_planner", "reflexes", "channel_scheduler"}
    for spec, name in zip(specs, expected, strict=True):
        given = inline(spec)
        assert ("__ns:=/kit" in words(spec)) is (name not in FOR_ALL), "one memory and one page serve all robots"
        assert (f"__node:={name}" in words(spec)) is (name not in ("drivers", "mind"))
        assert given.get("robot") == ("my robots/kit.yaml" if name in needs_robot else None)
        assert given.get("model") == ("007" if name in asks_a_model else None)
        assert given.get("models_file") == ("my.yaml" if name in asks_a_model else None)
        assert given.get("strategy") == ("layered" if name in hears_instructions else None)
        assert given.get("global_instruction") is (False if name in hears_instructions else None)
        assert given["use_sim_time"] is True
        assert spec.shutdown_on_exit is (name in ("safety_gate", "skill_kernel"))


def composed_nodes(specs: list[ProcessSpec]) -> list[list[str]]:
    """Return the nodes of each process `mind`."""
    return [words(spec)[1].split() for spec in specs if os.path.basename(str(spec.command[0])) == "mind"]


@pytest.mark.parametrize(
    ("robot", "arguments", "beside"),
    [
        ("coco", {}, {"observer", "lifecycle_manager", "memory"}),
        ("kalos", {}, {"observer", "lifecycle_manager", "memory", "object_detector"}),
        ("coco", {"memory": "false"}, {"observer", "lifecycle_manager"}),
    ],
)
def test_what_shares_a_process(environment: Mapping[str, str], robot: str, arguments: dict[str, str], beside: set[str]) -> None:
    specs = describe(robot, arguments, environment)
    assert [set(nodes) for nodes in composed_nodes(specs)] == [{*MIND, *beside}]
    assert not {*MIND, *beside} & set(executables(specs))
    (mind,) = (spec for spec in specs if "mind" in executables([spec]))
    assert f"-r memory:__ns:=/ --ros-args -r __ns:=/{robot}" in " ".join(words(mind)), "one memory serves all robots"


def test_the_planners_model_is_not_the_detectors(environment: Mapping[str, str]) -> None:
    """The last of several files counts, and both give themselves a model."""
    (mind,) = (spec for spec in describe("kalos", {"model": "007"}, environment) if "mind" in executables([spec]))
    files = [word for option, word in itertools.pairwise(mind.command) if option == "--params-file"]
    planners = max(at for at, file in enumerate(files) if isinstance(file, InlineParameters) and "model" in file.values)
    later = [Path(file) for file in files[planners:] if isinstance(file, str)]
    own = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in later}
    assert own["object_detector"]["/**/object_detector"]["ros__parameters"]["model"] == ""


@pytest.mark.parametrize("composed", ["true", "false"])
def test_the_detector_is_told_whose_eyes_it_looks_through(environment: Mapping[str, str], composed: str) -> None:
    specs = describe("robot", {"robot": "coco", "robot_name": "desk", "detector": "true", "composed": composed}, environment)
    (detector,) = (spec for spec in specs if "object_detector" in " ".join((*executables([spec]), *words(spec)[1].split())))
    told: dict[str, dict[str, Any]] = {}
    for option, file in itertools.pairwise(detector.command):
        if option == "--params-file" and isinstance(file, InlineParameters):
            told.setdefault(file.node, {}).update(file.values)
        elif option == "--params-file":
            sections = yaml.safe_load(Path(str(file)).read_text(encoding="utf-8"))
            for node, section in sections.items():
                told.setdefault(node, {}).update(section["ros__parameters"])
    # In rcl the pattern that came last for the first time wins, whatever a later file says of an earlier one.
    of_node = [values for node, values in told.items() if node in ("/**", "/**/object_detector", "/desk/object_detector")]
    assert [values["robot"] for values in of_node if "robot" in values][-1] == "coco"


def test_two_robots_have_one_memory_between_them(environment: Mapping[str, str]) -> None:
    nodes = composed_nodes(describe("two_robots", {}, environment))
    assert ["memory" in of_one for of_one in nodes] == [True, False]
    assert not any("memory" in of_one for of_one in composed_nodes(describe("two_robots", {"memory": "false"}, environment)))
    assert executables(describe("two_robots", {"memory": "false"}, environment)).count("mind") == 2


@pytest.mark.parametrize("launch", ["two_robots", "kitchen", "home"])
def test_robots_of_one_launch_have_one_page_between_them(environment: Mapping[str, str], launch: str) -> None:
    assert executables(describe(launch, {}, environment)).count("dashboard") == 1
    assert "dashboard" not in executables(describe(launch, {"page": "false"}, environment))


def test_two_robots_are_told_their_own(environment: Mapping[str, str]) -> None:
    def told(**arguments: str) -> list[tuple[object, object]]:
        specs = describe("two_robots", arguments, environment)
        minds = [inline(spec) for spec in specs if os.path.basename(str(spec.command[0])) == "mind"]
        return [(mind["strategy"], mind["global_instruction"]) for mind in minds]

    assert told() == [("stream", True), ("layered", False)]
    given = {"strategy": "stream", "coco_strategy": "layered", "default_robot": "kalos"}
    assert told(**given) == [("layered", False), ("stream", True)]


def test_the_kitchens_robots_share_one_simulator_and_one_planner(environment: Mapping[str, str]) -> None:
    specs = describe("kitchen", {"model": "simulated"}, environment)
    (sim,) = (spec for spec in specs if "sim" in executables([spec]))
    (team,) = (spec for spec in specs if "team_planner" in executables([spec]))
    assert inline(sim)["robots"] == "atlas hebe" and inline(sim)["world"] == "kitchen"
    assert inline(team)["global_instruction"] is True and inline(team)["model"] == "simulated"
    minds = [inline(spec) for spec in specs if "mind" in executables([spec])]
    assert [(mind["robot"], mind["global_instruction"]) for mind in minds] == [("atlas", False), ("hebe", False)]
    assert "sim" not in executables(describe("kitchen", {"use_sim": "false"}, environment))


def test_an_arm_of_ros2_control_gets_its_controllers_and_what_feeds_them(prefix: Path, environment: Mapping[str, str]) -> None:
    urdf = REPOSITORY / "ghostshell_ros/robots/atlas/atlas.urdf"
    given = {"urdf": str(urdf), "model": "anthropic"}
    with pytest.raises(LaunchError, match="sudo apt install ros-jazzy-robot-state-publisher"):
        describe("arm_ros2_control", given, environment)
    for package, executables in ROS2_CONTROL.items():
        installed(prefix, package, executables)
    specs = describe("arm_ros2_control", given, environment)
    publisher, manager, spawner, forwarder = specs[:4]
    assert inline(publisher)["robot_description"] == urdf.read_text()
    file = str(prefix / "share/ghostshell/config/ros2_control/atlas.yaml")
    assert file in manager.command and manager.shutdown_on_exit and "__node:=" not in str(manager.command)
    words = ["joint_state_broadcaster", "joint_position_controller", "--param-file", file]
    assert list(spawner.command[1:5]) == words and not spawner.shutdown_on_exit
    assert all("__ns:=/atlas" in spec.command for spec in specs[:4]) and "__node:=joint_forwarder" in forwarder.command
    assert {"safety_gate", "skill_kernel", "drivers", "mind"} < {spec.name.rpartition("-")[0] for spec in specs}
    controllers = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    moved = controllers["/**/joint_position_controller"]["ros__parameters"]["joints"]
    assert moved == list(RobotConfig.load("atlas").joints)
    driven = [joint.get("name") for joint in ElementTree.parse(urdf).getroot().iterfind("ros2_control/joint")]
    assert driven == moved


def test_a_robot_needs_a_file_and_a_name(environment: Mapping[str, str]) -> None:
    with pytest.raises(LaunchError, match=r"(?s)must be given these arguments:\n  robot:=….*\n  robot_name:=…"):
        describe("robot", {}, environment)


@pytest.mark.parametrize("name", ["coco", "robot"])
def test_every_argument_is_described(environment: Mapping[str, str], name: str) -> None:
    for argument in declared_arguments(name, environment):
        assert argument.description != "no description given", argument.name


def test_a_launch_file_nobody_knows_is_an_error_that_lists_those_there_are(environment: Mapping[str, str]) -> None:
    with pytest.raises(LaunchError, match=r"no launch file 'kokko'.*there: .*coco\.launch\.xml"):
        describe("kokko", {}, environment)
    with pytest.raises(LaunchError, match="did you mean 'coco'"):
        describe("coko", {}, environment)
    with pytest.raises(LaunchError, match="AMENT_PREFIX_PATH is empty"):
        describe("coco", {}, {})


@pytest.mark.parametrize("launch", ["coco", "kalos", "two_robots", "kitchen", "home", "robot"])
@pytest.mark.parametrize(
    ("given", "variable", "expected"),
    [
        ({}, None, "LOCALHOST"),
        ({"discovery": "SUBNET"}, None, "SUBNET"),
        ({}, "SUBNET", "SUBNET"),
        ({"discovery": "OFF"}, "SUBNET", "OFF"),
    ],
)
def test_every_node_is_found_on_this_machine_alone_unless_something_else_is_said(
    environment: dict[str, str], launch: str, given: dict[str, str], variable: str | None, expected: str
) -> None:
    robot = {"robot": "coco", "robot_name": "kit"} if launch == "robot" else {}
    ranged = {"ROS_AUTOMATIC_DISCOVERY_RANGE": variable} if variable else {}
    specs = describe(launch, {**robot, **given}, {**environment, **ranged})
    assert {spec.environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] for spec in specs} == {expected}
