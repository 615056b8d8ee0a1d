# SPDX-License-Identifier: Apache-2.0
"""Performs a launch file's description with given arguments and environment: out come the processes to start."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ghostshell_ros.launcher import ament, description, expression, parameters, parser
from ghostshell_ros.launcher.specs import InlineParameters, LaunchError, Place, ProcessSpec, nearest
from ghostshell_ros.launcher.substitution import Call, Template

NAMESPACE = "ros_namespace"
"""The variable in which launch keeps the pushed namespace."""

_UNSUPPORTED_VARIABLES = ("launch-prefix", "launch-prefix-filter", "emulate_tty", "global_params", "ros_remaps")
_OUTPUTS = ("screen", "log", "both")
_MAX_INCLUDE_DEPTH = 50
_NODE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMESPACE = re.compile(r"/|(/[A-Za-z_][A-Za-z0-9_]*)+")


@dataclass(frozen=True)
class DeclaredArgument:
    """An argument as `--show-args` prints it."""

    name: str
    description: str
    default: str | None
    """As it stands in the file, or None when the argument must be given."""
    conditional: bool


def describe(path: Path, arguments: Mapping[str, str], environment: Mapping[str, str]) -> list[ProcessSpec]:
    """Return the processes that `path` starts, in its order, without starting or writing anything.

    Raises LaunchError for anything that `ros2 launch` would not do in the same way.
    """
    resolver = _Resolver(dict(arguments), dict(environment))
    resolver.include(path, tuple(arguments), None)
    for name in arguments:
        if name in resolver.fixed and name not in resolver.declared:
            raise LaunchError(
                f"'{path}' sets '{name}' itself, at {resolver.fixed[name]}, and would ignore it; launch the file "
                "included there, or one of your own"
            )
        if name not in resolver.declared:
            raise LaunchError(f"'{path}' declares no argument '{name}'; {nearest(name, resolver.declared)}")
    return resolver.specs


def declared_arguments(path: Path) -> list[DeclaredArgument]:
    """Return the arguments that the file at `path` declares itself, in its order."""
    return [
        DeclaredArgument(argument.name, _describe(argument), _shown(argument.default), conditional)
        for argument, conditional in parser.parse(path).arguments()
    ]


@dataclass
class _Resolver:
    variables: dict[str, str]
    environment: dict[str, str]
    specs: list[ProcessSpec] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)
    """Arguments that who launches may give."""
    fixed: dict[str, Place] = field(default_factory=dict)
    """Arguments that an include gives to the file it includes."""
    _files: list[str] = field(default_factory=list)
    _last_included: str = ""

    def include(self, path: Path, given: tuple[str, ...], place: Place | None) -> None:
        if len(self._files) >= _MAX_INCLUDE_DEPTH:
            raise LaunchError(f"'{path}' is included {_MAX_INCLUDE_DEPTH} levels deep; does it include itself?", place)
        if not path.is_file():
            raise LaunchError(f"there is no launch file '{path}'", place)
        if not path.name.endswith((".xml", ".launch")):
            raise LaunchError(f"'{path}' is no XML launch file (*.launch.xml); other kinds need ros2 launch", place)
        file = parser.parse(path)
        own = {argument.name for argument, _ in file.arguments()}
        if place is not None:
            self.fixed.update(dict.fromkeys(own.intersection(given), place))
            own.difference_update(given)
        self.declared |= own
        self._check_required(file, given, place)
        self._files.append(os.path.abspath(path))
        self._last_included = self._files[-1]
        self._perform_all(file.actions)
        self._files.pop()

    def _check_required(self, file: description.LaunchFile, given: tuple[str, ...], place: Place | None) -> None:
        missing = [
            argument
            for argument, conditional in file.arguments()
            if not conditional and argument.default is None and argument.name not in given
        ]
        if missing:
            unknown = [name for name in given if name not in self.declared | self.fixed.keys()]
            hint = "".join(f"\n  given, but not declared: {name} ({nearest(name, self.declared)})" for name in unknown)
            listed = "".join(f"\n  {argument.name}:=…  {_describe(argument)}" for argument in missing)
            raise LaunchError(f"'{file.path}' must be given these arguments:{listed}{hint}", place)

    def _perform_all(self, actions: tuple[description.Action, ...]) -> None:
        for action in actions:
            if action.condition is None or self._holds(action.condition):
                self._perform(action)

    def _perform(self, action: description.Action) -> None:
        if isinstance(action, description.Argument):
            self._declare(action)
        elif isinstance(action, description.Let):
            self._set(self.text(action.name), self.text(action.value), action.place)
        elif isinstance(action, description.SetEnvironment):
            name = self.text(action.name)
            if action.value is None:
                self.environment.pop(name, None)
            else:
                self.environment[name] = self.text(action.value)
        elif isinstance(action, description.PushNamespace):
            self.variables[NAMESPACE] = self._namespace(self.text(action.namespace), action.place)
        elif isinstance(action, description.Group):
            before = dict(self.variables), dict(self.environment)
            self._perform_all(action.actions)
            if action.scoped:
                self.variables, self.environment = before
        elif isinstance(action, description.Include):
            self._include(action)
        else:
            self._add_process(action)

    def _declare(self, argument: description.Argument) -> None:
        if argument.name not in self.variables:
            if argument.default is None:
                raise LaunchError(f"argument '{argument.name}' must be given: {_describe(argument)}", argument.place)
            self._set(argument.name, self.text(argument.default), argument.place)
        value = self.variables[argument.name]
        if argument.choices and value not in argument.choices:
            raise LaunchError(
                f"argument '{argument.name}' is '{value}', it must be one of {', '.join(argument.choices)}", argument.place
            )

    def _include(self, include: description.Include) -> None:
        path = Path(self.text(include.file))
        names = tuple(self.text(name) for name, _ in include.arguments)
        for name, value in include.arguments:
            self._set(self.text(name), self.text(value), include.place)
        self.include(path, names, include.place)

    def _set(self, name: str, value: str, place: Place) -> None:
        if name in _UNSUPPORTED_VARIABLES:
            raise LaunchError(
                f"the variable '{name}' has a meaning of its own for ros2 launch, which is not "
                "supported here; take another name",
                place,
            )
        self.variables[name] = value

    def _add_process(self, process: description.Node | description.Executable) -> None:
        if isinstance(process, description.Node):
            command = self._node_command(process)
        else:
            command = tuple(self.text(word) for word in process.command)
        label = self.text(process.label) if process.label else os.path.basename(str(command[0]))
        options = process.options
        environment = dict(self.environment)
        for name, value in options.environment:
            environment[self.text(name)] = self.text(value)
        output = self.text(options.output) if options.output else "log"
        if output not in _OUTPUTS:
            raise LaunchError(f"output is '{output}', only {', '.join(_OUTPUTS)} are known here", process.place)
        self.specs.append(
            ProcessSpec(
                name=f"{label}-{len(self.specs) + 1}",
                command=command,
                environment=environment,
                cwd=self.text(options.cwd) if options.cwd else None,
                shell=isinstance(process, description.Executable) and process.shell,
                output=output,
                respawn=self._boolean(options.respawn) if options.respawn else False,
                respawn_delay_s=options.respawn_delay_s,
                respawn_max_retries=options.respawn_max_retries,
                shutdown_on_exit=options.shutdown_on_exit,
                sigterm_timeout_s=self._timeout("sigterm_timeout", options.sigterm_timeout_s, process.place),
                sigkill_timeout_s=self._timeout("sigkill_timeout", options.sigkill_timeout_s, process.place),
            )
        )

    def _node_command(self, node: description.Node) -> tuple[str | InlineParameters, ...]:
        executable = self.text(node.executable)
        if node.package is not None:
            try:
                executable = str(ament.package_executable(self.text(node.package), executable, self.environment))
            except LaunchError as error:
                raise LaunchError(str(error), node.place) from error
        words: list[str | InlineParameters] = [executable, *(self.text(word) for word in node.arguments)]
        if node.ros_arguments is not None:
            words += ["--ros-args", *(self.text(word) for word in node.ros_arguments)]
        words.append("--ros-args")
        name = self.text(node.name) if node.name else None
        if name is not None:
            if not _NODE_NAME.fullmatch(name):
                raise LaunchError(f"'{name}' is no node name: letters, digits and underscores, no digit first", node.place)
            words += ["-r", f"__node:={name}"]
        namespace = None
        if node.namespace is not None or NAMESPACE in self.variables:
            namespace = self._namespace(self.text(node.namespace) if node.namespace else None, node.place)
            words += ["-r", f"__ns:={namespace}"]
        target = f"{namespace.rstrip('/')}/{name}" if name is not None and namespace is not None else "/**"
        for parameter in node.parameters:
            words += ["--params-file", self._parameter_word(parameter, target)]
        for source, destination in node.remaps:
            words += ["-r", f"{self.text(source)}:={self.text(destination)}"]
        return tuple(words)

    def _parameter_word(
        self, parameter: description.ParameterFile | tuple[description.Parameter, ...], target: str
    ) -> str | InlineParameters:
        if isinstance(parameter, tuple):
            return InlineParameters(
                target,
                {
                    ".".join(self.text(name) for name in leaf.names): parameters.evaluate(leaf.value, self.text)
                    for leaf in parameter
                },
            )
        path = self.text(parameter.path)
        if not os.path.isfile(path):
            raise LaunchError(f"there is no parameter file '{path}'", parameter.place)
        return path

    def _namespace(self, relative: str | None, place: Place) -> str:
        """`relative` below the pushed namespace; an absolute one replaces it."""
        base = self.variables.get(NAMESPACE)
        if relative is None:
            joined = base or ""
        elif not base or relative.startswith("/"):
            joined = relative
        else:
            joined = f"{base.rstrip('/')}/{relative}"
        stripped = joined.rstrip("/")
        absolute = stripped if stripped.startswith("/") else f"/{stripped}"
        if not _NAMESPACE.fullmatch(absolute):
            raise LaunchError(
                f"'{absolute}' is no namespace: parts of letters, digits and underscores, no digit first, parted by '/'", place
            )
        return absolute

    def _holds(self, condition: description.Condition) -> bool:
        text = self.text(condition.expression).strip().lower()
        if text not in ("true", "1", "false", "0"):
            raise LaunchError(f"condition is '{text}', it must be true, 1, false or 0", condition.expression.place)
        return (text in ("true", "1")) is condition.wanted

    def _boolean(self, template: Template) -> bool:
        try:
            return parameters.boolean(self.text(template))
        except ValueError as error:
            raise LaunchError(str(error), template.place) from error

    def _timeout(self, variable: str, own_s: float | None, place: Place) -> float:
        if own_s is not None:
            return own_s
        try:
            return float(self.variables.get(variable, "5"))
        except ValueError as error:
            raise LaunchError(f"{variable} is '{self.variables[variable]}', it must be a number of seconds", place) from error

    def text(self, template: Template) -> str:
        """Return the template with its substitutions performed."""
        return "".join(piece if isinstance(piece, str) else self._call(piece, template.place) for piece in template.pieces)

    def _call(self, call: Call, place: Place) -> str:
        arguments = [self.text(argument) for argument in call.arguments]
        try:
            if call.name in ("var", "env"):
                return self._look_up(call.name, arguments)
            if call.name == "dirname":
                return self._directory()
            if call.name == "eval":
                return expression.evaluate(arguments[0])
            find = ament.package_share if call.name == "find-pkg-share" else ament.package_prefix
            return str(find(arguments[0], self.environment))
        except (LaunchError, ValueError) as error:
            raise LaunchError(f"$({call.name} …): {error}", place) from error

    def _look_up(self, kind: str, arguments: list[str]) -> str:
        table = self.variables if kind == "var" else self.environment
        if arguments[0] in table:
            return table[arguments[0]]
        if len(arguments) > 1:
            return arguments[1]
        if kind == "env":
            raise LaunchError(f"environment variable '{arguments[0]}' is not set and no default is given")
        raise LaunchError(f"variable '{arguments[0]}' is not set; {nearest(arguments[0], self.variables)}")

    def _directory(self) -> str:
        here = os.path.dirname(self._files[-1])
        if os.path.dirname(self._last_included) != here:
            raise LaunchError(
                f"after an <include>, ros2 launch means the folder of '{self._last_included}' and not "
                "of this file; put $(dirname) into a <let> before the <include>"
            )
        return here


def _describe(argument: description.Argument) -> str:
    choices = f"One of: {', '.join(argument.choices)}." if argument.choices else ""
    return " ".join(part for part in (argument.description, choices) if part) or "no description given"


def _shown(template: Template | None) -> str | None:
    if template is None:
        return None
    return "".join(
        piece
        if isinstance(piece, str)
        else "$(" + " ".join([piece.name, *(_shown(argument) or "''" for argument in piece.arguments)]) + ")"
        for piece in template.pieces
    )
