# SPDX-License-Identifier: Apache-2.0
"""Find what keeps a robot or a team from being launched before any node is started, and say what to do. Imports no ROS."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urlsplit

from ghostshell_ros.halt_door import is_namespace, robots_here, ros_domain
from ghostshell_ros.runtime.data import model_config
from skill_kernel.config.sections import nearest
from skill_kernel.review import Review, review
from skill_kernel.robot import RobotConfigError
from skill_kernel.team import TeamConfig

MAX_DOMAIN = 232
"""DDS has no ports for a higher one (https://docs.ros.org/en/jazzy/Concepts/Intermediate/About-Domain-ID.html)."""
CONNECT_S = 1.0
"""Time in which a server on this machine takes a connection."""


@dataclass(frozen=True)
class Start:
    """Hold what a launch says of one robot: its file, its namespace, its models by name or as provider:model, the file of
    models (empty: the shipped one), its strategy (empty: not told), prompt and dialect. Of a team `team` is the file; it has
    no robot."""

    robot: str = ""
    robot_name: str = ""
    model: str = "offline"
    fast_model: str = ""
    models: str = ""
    strategy: str = ""
    prompt: str = "full"
    dialect: str = "xml"
    team: str = ""

    @classmethod
    def told_by(cls, options: Iterable[str]) -> Start:
        """Return what options of `ghostshell doctor --before-launch` say, each as `--name=value`."""
        named = (option.removeprefix("--").split("=", 1) for option in options if "=" in option)
        return cls(**{name.replace("-", "_"): value for name, value in named})

    def check(self, environment: Mapping[str, str]) -> Review:
        """Return why the robot or the team cannot be launched, and what it will miss if it is."""
        from planners.models.config import fault_of_dialect

        found = Review(tuple(self._faults_of_team())) if self.team else self._review()
        faults, remarks = [*self._faults_of_name(environment), *found.faults], [*found.remarks]
        for spec in dict.fromkeys(filter(None, (self.model, self.fast_model))):
            fault, remark = check_model(spec, self.models, environment)
            if not fault and spec == self.model:
                config = model_config(spec, self.models)
                fault = fault_of_dialect(self.dialect, self.prompt, config.inner or config)
            faults.append(fault)
            remarks.append(remark)
        return Review(tuple(filter(None, faults)), tuple(filter(None, remarks)))

    def _review(self) -> Review:
        from planners.strategy import strategy_names

        found = review(self.robot)
        if not self.strategy or self.strategy in (known := strategy_names()):
            return found
        fault = f"there is no strategy '{self.strategy}'{nearest(self.strategy, known)}; use one of {', '.join(known)}"
        return Review((*found.faults, fault), found.remarks)

    def _faults_of_team(self) -> Iterator[str]:
        from planners.strategy import TeamStrategy, load_strategies

        try:
            team = TeamConfig.load(self.team)
        except RobotConfigError as error:
            yield str(error)
            return
        found, broken = load_strategies()
        known = [name for name, strategy in found.items() if isinstance(strategy, TeamStrategy)]
        chosen = self.strategy or team.strategy
        if chosen and chosen not in known:
            hint = f"{nearest(chosen, known)}; use one of {', '.join(known)}"
            yield broken.get(chosen, f"strategy '{chosen}' of team '{team.name}' plans for no team{hint}")

    def _faults_of_name(self, environment: Mapping[str, str]) -> Iterator[str]:
        name, kind, argument = self.robot_name.strip("/"), *(("team", "team") if self.team else ("robot", "robot_name"))
        if name != self.robot_name or not is_namespace(name):
            yield f"{argument} is '{self.robot_name}'; it must be of letters, digits and underscores, no digit first"
        if fault := fault_of_domain(environment):
            yield fault
        elif name in robots_here(domain := ros_domain(environment)):
            yield (
                f"{kind} '{name}' already runs on this machine, in ROS domain {domain}, and was left alone; end its launch, "
                f"or give this one another name ({argument}:=NAME) or domain (ROS_DOMAIN_ID)"
            )


def check_model(spec: str, models: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return why a model cannot be used, and what speaks against its server; each is "" where all is well."""
    from planners.models.base import ModelError
    from planners.models.config import ConfigError, require_key

    try:
        config = model_config(spec, models)
        require_key(config, environment)
    except (ConfigError, ModelError) as error:
        return str(error), ""
    return "", fault_of_server((config.inner or config).url)


def fault_of_server(url: str) -> str:
    """Return what is wrong with a model's server on this machine, "" for one elsewhere, which is not asked."""
    from planners.models.config import is_local

    parts = urlsplit(url)
    if not url or not is_local(url, this_machine=True):
        return ""
    try:
        with closing(socket.create_connection((parts.hostname or "", parts.port or 80), CONNECT_S)):
            return ""
    except OSError as error:
        return f"no model server takes connections at {url} ({error.strerror or error}); start it, or correct the address"


def fault_of_domain(environment: Mapping[str, str]) -> str:
    """Return what is wrong with the ROS domain, or ""."""
    domain = ros_domain(environment)
    right = domain.isdecimal() and int(domain) <= MAX_DOMAIN
    return "" if right else f"ROS_DOMAIN_ID is '{domain}'; it must be a whole number of 0 to {MAX_DOMAIN}"
