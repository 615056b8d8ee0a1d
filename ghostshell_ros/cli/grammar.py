# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell grammar`: print the grammar that a model's server can keep a model to."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated

import typer

from ghostshell_ros.cli.output import fail


class Form(str, Enum):
    """Name a notation for grammars."""

    GBNF = "gbnf"
    EBNF = "ebnf"
    JSON = "json"


def grammar(
    robot: Annotated[str, typer.Option(help="a name in config/robots or the path of a YAML file")] = "coco",
    form: Annotated[
        Form, typer.Option(help="gbnf (llama.cpp), ebnf (vLLM: the same text), json (Ollama: a schema)")
    ] = Form.GBNF,
) -> None:
    """Print the grammar of the streams that a robot understands, made from its skills as they are installed here."""
    from planners.prompts.grammar import StreamGrammar
    from planners.prompts.prompt import GrammarOptions
    from skill_kernel.robot import RobotConfig, RobotConfigError
    from skill_kernel.skills.registry import RegistryError, SkillRegistry

    try:
        config = RobotConfig.load(robot)
        skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    except (RobotConfigError, RegistryError) as error:
        fail(error, command="grammar")
    made = StreamGrammar(skills, GrammarOptions(config.builtin_names, config.limits))
    print(
        json.dumps(made.json_schema(), ensure_ascii=False) if form is Form.JSON else made.gbnf(), end="\n" * (form is Form.JSON)
    )
