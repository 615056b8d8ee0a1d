# SPDX-License-Identifier: Apache-2.0
"""Make the robots that instructions are written for: the shipped ones, and invented ones by number, so that a model learns to
read the skills in its prompt."""

from __future__ import annotations

import inspect
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field

from bench.dry_run import ANY_ROBOT
from function_tokens.mapper import Mapper
from planners.prompts.prompt import GrammarOptions, RobotFacts
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry
from skill_kernel.skills.skill import Content, Skill, SkillReturn, robot_skill

WORDS = Path(__file__).resolve().parent / "words"
SHIPPED = ("coco", "kalos", "hebe", "atlas")
NAMES = ("pip", "luna", "rusty", "bolt", "nova", "milo", "tango", "robo", "zoe", "otto", "iris", "max", "echo", "juno")
TAKES_S = 2.0
"""Duration of every invented skill [s]."""
PARAMETERS = {
    "times": ("times", "count", "repeat", "n"),
    "seconds": ("seconds", "duration", "duration_s", "secs"),
    "metres": ("metres", "distance_m", "distance", "length_m"),
    "degrees": ("degrees", "angle", "angle_deg", "yaw"),
    "colour": ("colour", "color", "hue"),
    "volume": ("volume", "loudness"),
    "room": ("room", "place", "destination"),
    "side": ("side", "which"),
}
"""What a parameter of an invented skill may be called; others keep their names."""


@dataclass(frozen=True)
class Robot:
    """Hold a robot as far as prompts and streams go. `entries` tells for each skill the entry of the phrases that ask for it,
    and `renamed` what the entry's parameters are called here."""

    facts: RobotFacts
    mapper: Mapper
    entries: Mapping[str, str]
    renamed: Mapping[str, Mapping[str, str]]

    @property
    def skills(self) -> SkillRegistry:
        """Return its skills."""
        return self.mapper.registry


def words_of(name: str) -> Any:
    """Return a file of words, by its name without the ending."""
    return yaml.safe_load((WORDS / f"{name}.yaml").read_text(encoding="utf-8"))


@lru_cache(maxsize=4096)
def robot(name: str) -> Robot:
    """Return a robot by its name: a shipped one, `invented:N`, or `unseen:N`, whose skills are never trained on."""
    kind = name.partition(":")[0]
    if kind in SHIPPED:
        config = RobotConfig.load(kind)
        skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
        facts = RobotFacts(config.name, config.description, skills, GrammarOptions(config.builtin_names, config.limits))
        return Robot(facts, Mapper(config, skills), {skill.name: skill.name for skill in skills}, {})
    if kind not in ("invented", "unseen"):
        raise ValueError(f"there is no robot {name!r}; known: {', '.join(SHIPPED)}, invented:N, unseen:N")
    return _invented(random.Random(name), "train" if kind == "invented" else "held_out")


def _invented(chance: random.Random, part: str) -> Robot:
    """Draw a robot of some skills, most of them under other names than in the files of words."""
    declared = words_of_invented()[part]
    chosen = chance.sample(sorted(declared), chance.randint(4, min(12, len(declared))))
    skills: list[Skill] = [_speak()]
    entries: dict[str, str] = {}
    renamed: dict[str, Mapping[str, str]] = {}
    for entry in chosen:
        spec = declared[entry]
        names = {p: chance.choice(PARAMETERS.get(p, (p,))) for p in spec["parameters"]}
        name = _renamed(entry, spec["channel"], chance)
        skills.append(_skill(name, spec, names))
        entries[name], renamed[name] = entry, names
    if part == "train":
        borrowed = robot(chance.choice(("coco", "kalos")))
        usable = [skill for skill in borrowed.skills if not skill.speaks_text]
        for skill in chance.sample(usable, chance.randint(0, 5)):
            name = skill.name if skill.name == "ask" else _renamed(skill.name, "do", chance)
            if name not in entries:
                skills.append(replace(skill, name=name))
                entries[name] = skill.name
    name = chance.choice(NAMES)
    config = ANY_ROBOT.model_copy(update={"name": name})
    registry = SkillRegistry(skills)
    return Robot(RobotFacts(name, "", registry, GrammarOptions()), Mapper(config, registry), entries, renamed)


@lru_cache(maxsize=1)
def words_of_invented() -> dict[str, dict[str, Any]]:
    """Return the invented skills, those to train on and those held out."""
    found: dict[str, dict[str, Any]] = words_of("invented")
    return found


def _renamed(name: str, channel: str, chance: random.Random) -> str:
    words = name.split("_")
    return chance.choice(
        (
            name,
            name,
            "".join(word.title() for word in words),
            words[0] + "".join(word.title() for word in words[1:]),
            f"{channel}_{name}",
            "_".join(reversed(words)),
            f"do_{name}",
            name.replace("_", ""),
        )
    )


def _speak() -> Skill:
    def speak(text: Content = "") -> SkillReturn:
        """Say a text."""
        return SkillReturn(True)

    return _declared(robot_skill("speak", subsystem="voice", speaks_text=True)(speak))


def _skill(name: str, spec: Mapping[str, Any], names: Mapping[str, str]) -> Skill:
    def does(**_: Any) -> SkillReturn:
        return SkillReturn(True)

    hints: dict[str, Any] = {names[p]: _type(values) for p, values in spec["parameters"].items()}
    defaults = {names[p]: values[0] for p, values in spec["parameters"].items()}
    if spec.get("keeps"):
        hints["until_reset"], defaults["until_reset"] = bool, False
    does.__annotations__ = hints
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(p, keyword, default=defaults[p], annotation=hint) for p, hint in hints.items()]
    does.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return _declared(robot_skill(name, "", subsystem=spec["channel"], nominal_s=TAKES_S)(does))


def _type(values: Sequence[Any]) -> Any:
    if isinstance(values[0], str):
        return Literal[tuple(values)]
    return Annotated[int, Field(ge=values[0], le=values[1])]


def _declared(function: Any) -> Skill:
    skill: Skill = function.__robot_skill__
    return skill
