# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell grammar`: print the grammar that a model's server can keep a model to."""

import json
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from ghostshell_ros.cli.output import fail
from planners.prompts.grammar import StreamGrammar
from planners.prompts.prompt import GrammarOptions
from skill_kernel.robot import RobotConfig, RobotConfigError
from skill_kernel.skills.registry import RegistryError, SkillRegistry


def grammar(
    robot: Annotated[str, typer.Option(help="a name in config/robots or the path of a YAML file")] = "coco",
    form: Annotated[
        Literal["gbnf", "ebnf", "json", "tools"],
        typer.Option(help="gbnf (llama.cpp), ebnf (vLLM: the same text), json (Ollama: a schema), tools (dialect:=tools)"),
    ] = "gbnf",
) -> None:
    """Print the grammar of the streams that a robot understands, or its functions as tools, made from its skills as they are
    installed here."""
    try:
        config = RobotConfig.load(robot)
        skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    except (RobotConfigError, RegistryError) as error:
        fail(error, command="grammar")
    made = StreamGrammar(skills, GrammarOptions(config.builtin_names, config.limits))
    if form == "json":
        print(json.dumps(made.json_schema(), ensure_ascii=False))
    elif form == "tools":
        print(json.dumps([asdict(tool) for tool in made.tools()], ensure_ascii=False, indent=1))
    else:
        print(made.gbnf(), end="")
