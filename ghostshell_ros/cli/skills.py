# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell skills` and `reload`: list what a person can say to a robot, by the skills that it tells, and let it read
them anew."""

import json
from collections.abc import Iterable
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal

import typer
from pydantic import Field

from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.robot_client import WAIT_S, RobotClient
from ghostshell_ros.cli.say import Robot, Wait
from planners.language.parser import CommandParser
from planners.language.phrases import Phrases
from skill_kernel.config.sections import shown
from skill_kernel.skills.skill import Content, Skill

DOES_SHOWN = 76
"""Characters of what a skill does."""


def skills(
    robot: Robot = "",
    wait: Wait = WAIT_S,
    chinese: Annotated[bool, typer.Option("--chinese", help="sentences in Chinese, where there are some")] = False,
) -> None:
    """List sentences that a robot understands without a language model, for each of its skills."""
    for one in phrases_of(told_skills(robot, wait), robot):
        said = one.chinese if chinese and one.chinese else one.english
        print(f"{'; '.join(said)}\n    {shown(one.does, DOES_SHOWN)}")


def reload(robot: Robot = "", wait: Wait = WAIT_S) -> None:
    """Let a robot read its skill modules again from disk. When they cannot be read, the present skills stay."""
    nobody = f"the skill_kernel of robot '{robot}' does not answer within {wait:g} s; the output of its launch says why"
    with RobotClient(robot, wait, service="std_srvs/Trigger skill_kernel/reload_skills", nobody=nobody) as client:
        answer = client.ask_again(client.type.Request())
    if not answer.success:
        fail(answer.message, command="reload", status=1)
    print(f"{robot}: {answer.message}")


def told_skills(robot: str, wait_s: float) -> list[Any]:
    """Return the skills that a robot tells; end the command with status 2 when it does not."""
    nobody = f"the skill_kernel of robot '{robot}' does not answer within {wait_s:g} s; the output of its launch says why"
    with RobotClient(robot, wait_s, service="ghostshell/ListSkills list_skills", nobody=nobody) as client:
        return list(client.ask_again(client.type.Request()).skills)


def phrases_of(told: Iterable[Any], robot: str) -> list[Phrases]:
    """Return the sentences for skills that a robot told."""
    return CommandParser([skill_of(info) for info in told], robot_name=robot).phrasebook.phrases()


def skill_of(info: Any) -> Skill:
    """Return a skill that was told (SkillInfo) as far as one must know it to speak of it; it cannot be performed."""
    schema = json.loads(info.parameters_json)
    made, content = [], None
    for name, one in schema["properties"].items():
        given = "default" in one or name in schema["required"]
        content = name if info.takes_content and not given else content
        default = one.get("default", Parameter.empty)
        annotation = Content if name == content else _annotation(one)
        made.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    return Skill(
        name=info.name,
        function=skill_of,
        description=info.description,
        subsystems=tuple(info.subsystems),
        nominal_s=0.0,
        stop_s=None,
        on_failure=info.on_failure,
        speaks_text=False,
        signature=Signature(made),
        content=content,
        content_streams=False,
        injected=frozenset(),
    )


def _annotation(schema: dict[str, Any]) -> Any:
    """Return the type of a parameter by its JSON Schema."""
    if "enum" in schema or "const" in schema:
        return Literal[tuple(schema.get("enum", (schema.get("const"),)))]
    kind = {"number": float, "integer": int, "boolean": bool}.get(schema.get("type", ""), str)
    if kind not in (int, float):
        return kind
    bounds = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
    limits: dict[str, Any] = {name: schema[key] for name, key in bounds.items() if key in schema}
    return Annotated[kind, Field(**limits, description=schema.get("description"))]
