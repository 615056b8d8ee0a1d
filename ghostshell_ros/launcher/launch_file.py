# SPDX-License-Identifier: Apache-2.0
"""Reads an XML launch file and performs it: out come the processes to start. Whatever is not known is an error."""

import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lxml import etree

from ghostshell_ros.launcher import substitution
from ghostshell_ros.launcher.specs import InlineParameters, LaunchError, ProcessSpec, package_executable, package_prefix
from ghostshell_ros.launcher.substitution import Call, Template
from skill_kernel.config.sections import nearest

PACKAGE = "ghostshell"
NAMESPACE = "ros_namespace"
"""The variable in which launch keeps the pushed namespace."""

_ACTIONS = "let set_env push_ros_namespace group include node executable"
_PROCESS = "output respawn respawn_delay respawn_max_retries on_exit"
_GRAMMAR = {
    "launch": ("", "", f"arg {_ACTIONS}"),
    "arg": ("name", "default description", "choice"),
    "choice": ("value", "", ""),
    "let": ("name value", "", ""),
    "set_env": ("name value", "", ""),
    "push_ros_namespace": ("namespace", "", ""),
    "group": ("", "scoped", _ACTIONS),
    "include": ("file", "", "arg"),
    "include/arg": ("name value", "", ""),
    "node": ("exec", f"pkg name namespace args ros_args {_PROCESS}", "param remap env"),
    "executable": ("cmd", f"name {_PROCESS}", "env"),
    "param": ("name value", "type", ""),
    "param from a file": ("from", "", ""),
    "remap": ("from to", "", ""),
    "env": ("name value", "", ""),
}
"""Of each element the attributes that it must have, those that it may have, and the elements inside it.

Actions may have `if` or `unless` besides.
"""
_FIXED = "description on_exit type scoped respawn_delay respawn_max_retries".split()
"""Attributes in which launch allows no substitution."""

_OUTPUTS = ("screen", "log", "both")
"""The values that `ros2 launch` knows; here all output is shown on the screen."""
_MAX_INCLUDE_DEPTH = 50
OWN_CHECKS = "/ghostshell doctor --before-launch "
"""The only command that a launch file may have run (`$(command …)`)."""
Check = Callable[[list[str], Mapping[str, str]], object]
"""Takes the options of that command, and its environment."""
_NODE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMESPACE = re.compile(r"/|(/[A-Za-z_][A-Za-z0-9_]*)+")
_CALL_HERE = "\0"
"""Stands for a substitution while the text around it is split; XML has no such character."""


@dataclass(frozen=True)
class DeclaredArgument:
    """An argument that a file declares, as `--show-args` prints it."""

    name: str
    description: str
    default: str | None
    """As it stands in the file, or None when the argument must be given."""


def describe(
    name: str | os.PathLike[str],
    arguments: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    *,
    on_check: Check = lambda options, environment: None,
) -> list[ProcessSpec]:
    """Return the processes that a launch file starts with these arguments, in its order; nothing is started or written.

    `name` is a file, or the name of one in the package's launch folder; `environment` defaults to the process's own. Each
    check that the file makes of a robot or team goes to `on_check`. Raises LaunchError, whose message names file, line, cause
    and remedy, for anything that `ros2 launch` would not do in the same way.
    """
    surroundings = dict(os.environ if environment is None else environment)
    path = _find(name, surroundings)
    performer = _Performer(dict(arguments), surroundings, on_check)
    performer.include(path, tuple(arguments), None)
    for name in arguments:
        if name not in performer.declared:
            raise LaunchError(f"'{path}' declares no argument '{name}'{nearest(name, performer.declared, else_known=True)}")
    return performer.specs


def declared_arguments(name: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> list[DeclaredArgument]:
    """Return the arguments that the launch file declares itself, in its order; `name` and `environment` as in `describe`."""
    return list(_declared(_read(_find(name, os.environ if environment is None else environment))))


def _find(name: str | os.PathLike[str], environment: Mapping[str, str]) -> Path:
    """Return the file called `name`, or the package's launch file of that name with or without `.launch.xml`.

    Raises LaunchError, which lists the existing files, when there is neither.
    """
    path = Path(name)
    if path.is_file():
        return path
    if path.name != str(path):
        raise LaunchError(f"there is no launch file '{path}'")
    folder = package_prefix(PACKAGE, environment) / "share" / PACKAGE / "launch"
    for candidate in (folder / path.name, folder / f"{path.name}.launch.xml"):
        if candidate.is_file():
            return candidate
    there = sorted(file.name for file in folder.glob("*.launch.xml"))
    hint = nearest(path.name, [name.partition(".")[0] for name in there])
    raise LaunchError(f"there is no launch file '{path}' here nor in '{folder}'{hint}; there: {', '.join(there) or 'none'}")


def _declared(root: Any) -> Iterator[DeclaredArgument]:
    for element in root.iterchildren("arg"):
        choices = _choices(element)
        parts = (element.get("description"), f"One of: {', '.join(choices)}." if choices else "")
        description = " ".join(filter(None, parts)) or "no description given"
        yield DeclaredArgument(element.get("name"), description, element.get("default"))


def _choices(element: Any) -> list[str]:
    return [choice.get("value") for choice in element]


def _read(path: Path) -> Any:
    """Return the root element of a launch file, checked; raises LaunchError, naming file and line."""
    try:
        root = etree.fromstring(path.read_bytes(), etree.XMLParser(remove_comments=True, remove_pis=True))
    except OSError as error:
        raise LaunchError(f"cannot read launch file '{path}': {error.strerror}") from error
    except etree.XMLSyntaxError as error:
        raise LaunchError(f"not well-formed XML: {error.msg}", f"{path}:{error.lineno}") from error
    if root.tag != "launch":
        raise LaunchError(f"the outermost element is <{root.tag}>, it must be <launch>", f"{path}:{root.sourceline}")
    _check(root, "launch", str(path))
    return root


def _check(element: Any, kind: str, file: str) -> None:
    """Refuse what launch does not know of an element and of those inside it, performed or not."""
    place, tag, attributes = f"{file}:{element.sourceline}", element.tag, element.attrib
    required, optional, inside = (words.split() for words in _GRAMMAR[kind])
    known = [*required, *optional, *(("if", "unless") if kind in _ACTIONS.split() else ())]
    for name in required:
        if name not in attributes:
            raise LaunchError(f"<{tag}> lacks the attribute '{name}'", place)
    for name, text in attributes.items():
        if name not in known:
            raise LaunchError(f"attribute '{name}' of <{tag}> is not known here{nearest(name, known, else_known=True)}", place)
        if name not in _FIXED and tag not in ("choice", "param"):
            substitution.parse(text, place)
    if "if" in attributes and "unless" in attributes:
        raise LaunchError(f"<{tag}> has both 'if' and 'unless'; keep one", place)
    for before, text in ((element, element.text), *((child, child.tail) for child in element)):
        if text and text.strip():
            where = f"{file}:{before.sourceline}"
            raise LaunchError(f"text '{text.strip()}' inside <{tag}>: values belong into attributes", where)
    for child in element:
        if child.tag not in inside:
            where, hint = f"{file}:{child.sourceline}", nearest(child.tag, inside, else_known=True)
            raise LaunchError(f"element <{child.tag}> is not known here, inside <{tag}>{hint}", where)
        kind = "param from a file" if child.tag == "param" and "from" in child.attrib else child.tag
        _check(child, "include/arg" if tag == "include" else kind, file)


def _content(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"cannot read '{file}': {getattr(error, 'strerror', None) or error}") from error


def _options(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise LaunchError(f"'{text}' cannot be split into options ({error}); leave quotes out of arguments") from error


class _Performer:
    def __init__(self, variables: dict[str, str], environment: dict[str, str], on_check: Check) -> None:
        self.variables, self.environment, self._on_check = variables, environment, on_check
        self.specs: list[ProcessSpec] = []
        self.declared: set[str] = set()
        """Arguments that who launches may give."""
        self._files: list[Path] = []

    def include(self, path: Path, given: tuple[str, ...], place: str | None) -> None:
        if len(self._files) >= _MAX_INCLUDE_DEPTH:
            raise LaunchError(f"'{path}' is included {_MAX_INCLUDE_DEPTH} levels deep; does it include itself?", place)
        if not path.is_file():
            raise LaunchError(f"there is no launch file '{path}'", place)
        if not path.name.endswith((".xml", ".launch")):
            raise LaunchError(f"'{path}' is no XML launch file (*.launch.xml); other kinds need ros2 launch", place)
        root = _read(path)
        arguments = list(_declared(root))
        own = {argument.name for argument in arguments}
        # An include sets what it gives: who launches may not.
        self.declared |= own if place is None else own.difference(given)
        missing = [a for a in arguments if a.default is None and a.name not in given]
        if missing:
            unknown = [name for name in given if name not in own]
            near = {name: nearest(name, own, else_known=True).removeprefix("; ") for name in unknown}
            hint = "".join(f"\n  given, but not declared: {name} ({words})" for name, words in near.items())
            listed = "".join(f"\n  {argument.name}:=…  {argument.description}" for argument in missing)
            raise LaunchError(f"'{path}' must be given these arguments:{listed}{hint}", place)
        self._files.append(path)
        for element in root:
            self._perform(element)
        self._files.pop()

    def _place(self, element: Any) -> str:
        return f"{self._files[-1]}:{element.sourceline}"

    def _perform(self, element: Any) -> None:
        if not self._holds(element):
            return
        get, place = partial(self._get, element), self._place(element)
        tag = element.tag
        if tag == "arg":
            self._declare(element)
        elif tag == "let":
            self.variables[get("name")] = get("value")
        elif tag == "set_env":
            self.environment[get("name")] = get("value")
        elif tag == "push_ros_namespace":
            self.variables[NAMESPACE] = self._namespace(get("namespace"), place)
        elif tag == "group":
            before = dict(self.variables), dict(self.environment)
            for child in element:
                self._perform(child)
            if substitution.typed(element.get("scoped", "true"), "bool", place):
                self.variables, self.environment = before
        elif tag == "include":
            path = Path(get("file"))
            names = tuple(self._get(argument, "name") for argument in element)
            for name, argument in zip(names, element, strict=True):
                self.variables[name] = self._get(argument, "value")
            self.include(path, names, place)
        else:
            self._add_process(element)

    def _holds(self, element: Any) -> bool:
        for name, wanted in (("if", True), ("unless", False)):
            if name in element.attrib:
                text = self._get(element, name).strip().lower()
                if text not in substitution.TRUTH:
                    raise LaunchError(f"condition is '{text}', it must be true, 1, false or 0", self._place(element))
                return substitution.TRUTH[text] is wanted
        return True

    def _declare(self, element: Any) -> None:
        name, choices = element.get("name"), _choices(element)
        if name not in self.variables:
            self.variables[name] = self._get(element, "default")
        value = self.variables[name]
        if choices and value not in choices:
            raise LaunchError(f"argument '{name}' is '{value}', it must be one of {', '.join(choices)}", self._place(element))

    def _add_process(self, element: Any) -> None:
        get, place = partial(self._get, element), self._place(element)
        label = "" if element.tag == "node" else get("name")
        command = self._node_command(element) if element.tag == "node" else tuple(self._words(element, "cmd"))
        if not command:
            raise LaunchError("attribute 'cmd' of <executable> is empty", place)
        if (output := get("output") or "screen") not in _OUTPUTS:
            raise LaunchError(f"output is '{output}', only {', '.join(_OUTPUTS)} are known here", place)
        if element.get("on_exit", "shutdown") != "shutdown":
            raise LaunchError(f"attribute 'on_exit' is '{element.get('on_exit')}', it can only be 'shutdown'", place)
        delay_s = substitution.typed(text := element.get("respawn_delay", "0"), "float", place)
        if not 0.0 <= delay_s < float("inf"):
            raise LaunchError(f"'respawn_delay' of <{element.tag}> is '{text}', it must be seconds, not negative", place)
        own = {self._get(env, "name"): self._get(env, "value") for env in element.iterchildren("env")}
        self.specs.append(
            ProcessSpec(
                name=f"{label or os.path.basename(str(command[0]))}-{len(self.specs) + 1}",
                command=command,
                environment=self.environment | own,
                respawn=substitution.typed(get("respawn") or "false", "bool", place),
                respawn_delay_s=delay_s,
                respawn_max_retries=substitution.typed(element.get("respawn_max_retries", "-1"), "int", place),
                shutdown_on_exit="on_exit" in element.attrib,
            )
        )

    def _node_command(self, node: Any) -> tuple[str | InlineParameters, ...]:
        get, place = partial(self._get, node), self._place(node)
        executable = get("exec")
        if "pkg" in node.attrib:
            try:
                executable = str(package_executable(get("pkg"), executable, self.environment))
            except LaunchError as error:
                raise LaunchError(str(error), place) from error
        words: list[str | InlineParameters] = [executable, *self._words(node, "args")]
        if "ros_args" in node.attrib:
            words += ["--ros-args", *self._words(node, "ros_args")]
        words.append("--ros-args")
        target = "/**"
        name = get("name")
        if "name" in node.attrib:
            if not _NODE_NAME.fullmatch(name):
                raise LaunchError(f"'{name}' is no node name: letters, digits and underscores, no digit first", place)
            words += ["-r", f"__node:={name}"]
        if "namespace" in node.attrib or NAMESPACE in self.variables:
            namespace = self._namespace(get("namespace"), place)
            words += ["-r", f"__ns:={namespace}"]
            if "name" in node.attrib:
                target = f"{namespace.rstrip('/')}/{name}"
        for parameter in node.iterchildren("param"):
            words += ["--params-file", self._parameters(parameter, target)]
        for remap in node.iterchildren("remap"):
            words += ["-r", f"{self._get(remap, 'from')}:={self._get(remap, 'to')}"]
        return tuple(words)

    def _parameters(self, element: Any, target: str) -> str | InlineParameters:
        """Return the file that a <param> names, or the parameter that it gives."""
        if "from" not in element.attrib:
            kind, place = element.get("type", "yaml"), self._place(element)
            template = substitution.parse(element.get("value"), place)
            if kind == "yaml" and len(template) > 1 and any(isinstance(p, str) and set("'\"") & set(p) for p in template):
                raise LaunchError("a substitution and quotes in one value: give the parameter a type", place)
            value = substitution.typed(self._performed(template, place), kind, place)
            return InlineParameters(target, {self._get(element, "name"): value})
        path = self._get(element, "from")
        if not os.path.isfile(path):
            raise LaunchError(f"there is no parameter file '{path}'", self._place(element))
        return path

    def _namespace(self, relative: str, place: str) -> str:
        """Return `relative` below the pushed namespace; an absolute one replaces it."""
        absolute = posixpath.join("/", self.variables.get(NAMESPACE, ""), relative).rstrip("/") or "/"
        if not _NAMESPACE.fullmatch(absolute):
            raise LaunchError(
                f"'{absolute}' is no namespace: parts of letters, digits and underscores, no digit first, parted by '/'", place
            )
        return absolute

    def _words(self, element: Any, name: str) -> list[str]:
        """Return the words of a command line; its text is split at spaces, the result of a substitution never is."""
        place = self._place(element)
        template = substitution.parse(element.get(name, ""), place)
        text = "".join(piece if isinstance(piece, str) else _CALL_HERE for piece in template)
        if set("'\"") & set(text):
            raise LaunchError(f"quotes in '{name}' are not known here; put a text with spaces into a <let>", place)
        results = iter([self._call(piece, place) for piece in template if isinstance(piece, Call)])
        words = text.split()
        return [re.sub(_CALL_HERE, lambda _: next(results), word) for word in words]

    def _get(self, element: Any, name: str) -> str:
        """Return an attribute with its substitutions performed, "" where the element lacks it."""
        place = self._place(element)
        return self._performed(substitution.parse(element.get(name, ""), place), place)

    def _performed(self, template: Template, place: str) -> str:
        return "".join(piece if isinstance(piece, str) else self._call(piece, place) for piece in template)

    def _call(self, call: Call, place: str) -> str:
        arguments = [self._performed(argument, place) for argument in call.arguments]
        try:
            if call.name in ("var", "env"):
                return self._look_up(call.name, arguments)
            if call.name == "dirname":
                return os.path.dirname(os.path.abspath(self._files[-1]))
            if call.name == "equals":
                return substitution.equal(*arguments)
            if call.name == "file-content":
                return _content(arguments[0])
            if call.name == "command":
                if OWN_CHECKS not in arguments[0]:
                    raise LaunchError(f"'{arguments[0][:80]}' is not run here; use ros2 launch, or write what it prints")
                self._on_check(_options(arguments[0].partition(OWN_CHECKS)[2]), dict(self.environment))
                return ""
            prefix = package_prefix(arguments[0], self.environment)
            return str(prefix / "share" / arguments[0] if call.name == "find-pkg-share" else prefix)
        except LaunchError as error:
            raise LaunchError(f"$({call.name} …): {error}", place) from error

    def _look_up(self, kind: str, arguments: list[str]) -> str:
        table = self.variables if kind == "var" else self.environment
        if arguments[0] in table:
            return table[arguments[0]]
        if len(arguments) > 1:
            return arguments[1]
        if kind == "env":
            raise LaunchError(f"environment variable '{arguments[0]}' is not set and no default is given")
        raise LaunchError(f"variable '{arguments[0]}' is not set{nearest(arguments[0], self.variables, else_known=True)}")
