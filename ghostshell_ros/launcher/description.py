# SPDX-License-Identifier: Apache-2.0
"""The typed content of a launch file, before anything in it is performed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ghostshell_ros.launcher.parameters import ParameterValue
from ghostshell_ros.launcher.specs import Place
from ghostshell_ros.launcher.substitution import Template


@dataclass(frozen=True)
class Condition:
    """An `if` (wanted true) or `unless` (wanted false)."""

    expression: Template
    wanted: bool


@dataclass(frozen=True)
class Argument:
    """`<arg>` of the file itself."""

    place: Place
    condition: Condition | None
    name: str
    default: Template | None
    description: str
    choices: tuple[str, ...]


@dataclass(frozen=True)
class Let:
    """`<let>`."""

    place: Place
    condition: Condition | None
    name: Template
    value: Template


@dataclass(frozen=True)
class SetEnvironment:
    """`<set_env>`, and `<unset_env>` with no value."""

    place: Place
    condition: Condition | None
    name: Template
    value: Template | None


@dataclass(frozen=True)
class PushNamespace:
    """`<push_ros_namespace>`."""

    place: Place
    condition: Condition | None
    namespace: Template


@dataclass(frozen=True)
class Group:
    """`<group>`."""

    place: Place
    condition: Condition | None
    scoped: bool
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Include:
    """`<include>`."""

    place: Place
    condition: Condition | None
    file: Template
    arguments: tuple[tuple[Template, Template], ...]


@dataclass(frozen=True)
class ProcessOptions:
    """Hold what `<node>` and `<executable>` have in common."""

    cwd: Template | None
    output: Template | None
    environment: tuple[tuple[Template, Template], ...]
    respawn: Template | None
    respawn_delay_s: float
    respawn_max_retries: int
    shutdown_on_exit: bool
    sigterm_timeout_s: float | None
    sigkill_timeout_s: float | None


@dataclass(frozen=True)
class ParameterFile:
    """`<param from="…"/>`."""

    place: Place
    path: Template


@dataclass(frozen=True)
class Parameter:
    """`<param name="…" …/>`; a nested one has several names, outermost first."""

    place: Place
    names: tuple[Template, ...]
    value: ParameterValue


@dataclass(frozen=True)
class Node:
    """`<node>`. Each inner tuple of parameters becomes one parameter file."""

    place: Place
    condition: Condition | None
    package: Template | None
    executable: Template
    name: Template | None
    namespace: Template | None
    label: Template | None
    arguments: tuple[Template, ...]
    ros_arguments: tuple[Template, ...] | None
    parameters: tuple[ParameterFile | tuple[Parameter, ...], ...]
    remaps: tuple[tuple[Template, Template], ...]
    options: ProcessOptions


@dataclass(frozen=True)
class Executable:
    """`<executable>`."""

    place: Place
    condition: Condition | None
    command: tuple[Template, ...]
    label: Template | None
    shell: bool
    options: ProcessOptions


Action = Argument | Let | SetEnvironment | PushNamespace | Group | Include | Node | Executable


@dataclass(frozen=True)
class LaunchFile:
    """A whole file."""

    path: str
    actions: tuple[Action, ...]

    def arguments(self) -> Iterator[tuple[Argument, bool]]:
        """Return every argument that the file declares, and whether it is declared only under a condition."""
        yield from _arguments(self.actions, conditional=False)


def _arguments(actions: tuple[Action, ...], *, conditional: bool) -> Iterator[tuple[Argument, bool]]:
    for action in actions:
        if isinstance(action, Argument):
            yield action, conditional
        elif isinstance(action, Group):
            yield from _arguments(action.actions, conditional=conditional or action.condition is not None)
