# SPDX-License-Identifier: Apache-2.0
"""Turns the elements of an XML launch file into its typed description; whatever is not known is an error."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ghostshell_ros.launcher import description, parameters, substitution, xml_reader
from ghostshell_ros.launcher.description import Action, Condition, LaunchFile, ProcessOptions
from ghostshell_ros.launcher.specs import LaunchError, nearest
from ghostshell_ros.launcher.substitution import Call, Template
from ghostshell_ros.launcher.xml_reader import Element

T = TypeVar("T")


def parse(path: Path) -> LaunchFile:
    """Return the description of the launch file at `path`; raises LaunchError, naming file and line."""
    root = xml_reader.read(path)
    if root.tag != "launch":
        raise LaunchError(f"the outermost element is <{root.tag}>, it must be <launch>", root.place)
    reader = _Reader(root)
    actions = tuple(_action(child) for child in reader.all_children())
    reader.finish()
    return LaunchFile(str(path), actions)


class _Reader:
    """Hands out an element's attributes and children and knows, in the end, which nobody asked for."""

    def __init__(self, element: Element) -> None:
        self.element = element
        self.place = element.place
        self._asked: set[str] = set()
        self._asked_children: set[str] = set()

    def text(self, name: str) -> str | None:
        self._asked.add(name)
        return self.element.attributes.get(name)

    def required_text(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise LaunchError(f"<{self.element.tag}> lacks the attribute '{name}'", self.place)
        return value

    def plain(self, name: str) -> str | None:
        """Text in which only backslashes count, as in names and descriptions."""
        value = self.text(name)
        return None if value is None else substitution.unescape(value)

    def template(self, name: str) -> Template | None:
        value = self.text(name)
        return None if value is None else substitution.parse(value, self.place)

    def required_template(self, name: str) -> Template:
        return substitution.parse(self.required_text(name), self.place)

    def literal(self, name: str, read: Callable[[str], T], wanted: str) -> T | None:
        """Return a value that must be literal in the file, because launch allows no substitution there."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return read(value)
        except ValueError as error:
            raise LaunchError(
                f"attribute '{name}' of <{self.element.tag}> is '{value}', it must be {wanted}", self.place
            ) from error

    def condition(self) -> Condition | None:
        positive, negative = self.template("if"), self.template("unless")
        if positive is not None and negative is not None:
            raise LaunchError(f"<{self.element.tag}> has both 'if' and 'unless'; keep one", self.place)
        if positive is not None:
            return Condition(positive, True)
        return None if negative is None else Condition(negative, False)

    def children(self, tag: str) -> tuple[_Reader, ...]:
        self._asked_children.add(tag)
        return tuple(_Reader(child) for child in self.element.children if child.tag == tag)

    def all_children(self) -> tuple[Element, ...]:
        self._asked_children.update(child.tag for child in self.element.children)
        return self.element.children

    def finish(self) -> None:
        for name in self.element.attributes:
            if name not in self._asked:
                raise LaunchError(
                    f"attribute '{name}' of <{self.element.tag}> is not known here; {nearest(name, self._asked)}", self.place
                )
        for child in self.element.children:
            if child.tag not in self._asked_children:
                raise LaunchError(
                    f"element <{child.tag}> inside <{self.element.tag}> is not known here; "
                    f"{nearest(child.tag, self._asked_children)}",
                    child.place,
                )


def _action(element: Element) -> Action:
    if element.tag not in _ACTIONS:
        raise LaunchError(f"element <{element.tag}> is not known here; {nearest(element.tag, _ACTIONS)}", element.place)
    reader = _Reader(element)
    action = _ACTIONS[element.tag](reader)
    reader.finish()
    return action


def _argument(reader: _Reader) -> description.Argument:
    choices = []
    for child in reader.children("choice"):
        choices.append(substitution.unescape(child.required_text("value")))
        child.finish()
    return description.Argument(
        reader.place,
        reader.condition(),
        substitution.unescape(reader.required_text("name")),
        reader.template("default"),
        reader.plain("description") or "",
        tuple(choices),
    )


def _let(reader: _Reader) -> description.Let:
    return description.Let(
        reader.place, reader.condition(), reader.required_template("name"), reader.required_template("value")
    )


def _set_env(reader: _Reader) -> description.SetEnvironment:
    return description.SetEnvironment(
        reader.place, reader.condition(), reader.required_template("name"), reader.required_template("value")
    )


def _unset_env(reader: _Reader) -> description.SetEnvironment:
    return description.SetEnvironment(reader.place, reader.condition(), reader.required_template("name"), None)


def _push_namespace(reader: _Reader) -> description.PushNamespace:
    return description.PushNamespace(reader.place, reader.condition(), reader.required_template("namespace"))


def _group(reader: _Reader) -> description.Group:
    scoped = reader.literal("scoped", parameters.boolean, "true or false")
    return description.Group(
        reader.place, reader.condition(), scoped is not False, tuple(_action(child) for child in reader.all_children())
    )


def _include(reader: _Reader) -> description.Include:
    return description.Include(
        reader.place, reader.condition(), reader.required_template("file"), _pairs(reader, "arg", "name", "value")
    )


def _node(reader: _Reader) -> description.Node:
    return description.Node(
        place=reader.place,
        condition=reader.condition(),
        package=reader.template("pkg"),
        executable=reader.required_template("exec"),
        name=reader.template("name"),
        namespace=reader.template("namespace"),
        label=reader.template("exec_name"),
        arguments=_words(reader.template("args")) or (),
        ros_arguments=_words(reader.template("ros_args")),
        parameters=tuple(_parameters(child) for child in reader.children("param")),
        remaps=_pairs(reader, "remap", "from", "to"),
        options=_options(reader),
    )


def _executable(reader: _Reader) -> description.Executable:
    command = _words(reader.required_template("cmd"))
    if not command:
        raise LaunchError("attribute 'cmd' of <executable> is empty", reader.place)
    return description.Executable(
        place=reader.place,
        condition=reader.condition(),
        command=command,
        label=reader.template("name"),
        shell=reader.literal("shell", parameters.boolean, "true or false") is True,
        options=_options(reader),
    )


def _options(reader: _Reader) -> ProcessOptions:
    on_exit = reader.text("on_exit")
    if on_exit not in (None, "shutdown"):
        raise LaunchError(f"attribute 'on_exit' is '{on_exit}', it can only be 'shutdown'", reader.place)
    retries = reader.literal("respawn_max_retries", int, "a whole number")
    return ProcessOptions(
        cwd=reader.template("cwd"),
        output=reader.template("output"),
        environment=_pairs(reader, "env", "name", "value"),
        respawn=reader.template("respawn"),
        respawn_delay_s=reader.literal("respawn_delay", _seconds, "a number of seconds, not negative") or 0.0,
        respawn_max_retries=-1 if retries is None else retries,
        shutdown_on_exit=on_exit == "shutdown",
        sigterm_timeout_s=reader.literal("sigterm_timeout", _seconds, "a number of seconds, not negative"),
        sigkill_timeout_s=reader.literal("sigkill_timeout", _seconds, "a number of seconds, not negative"),
    )


def _pairs(reader: _Reader, tag: str, first: str, second: str) -> tuple[tuple[Template, Template], ...]:
    pairs = []
    for child in reader.children(tag):
        pairs.append((child.required_template(first), child.required_template(second)))
        child.finish()
    return tuple(pairs)


def _parameters(reader: _Reader) -> description.ParameterFile | tuple[description.Parameter, ...]:
    source = reader.template("from")
    if source is None:
        return _inline_parameters(reader, ())
    reader.finish()
    return description.ParameterFile(reader.place, source)


def _inline_parameters(reader: _Reader, outer: tuple[Template, ...]) -> tuple[description.Parameter, ...]:
    names = (*outer, reader.required_template("name"))
    kind_name, value = reader.text("type"), reader.text("value")
    nested = reader.children("param")
    reader.finish()
    if nested and (value is not None or kind_name is not None):
        raise LaunchError("a <param> has either 'value' and 'type' or nested <param>s, not both", reader.place)
    if nested:
        return tuple(leaf for child in nested for leaf in _inline_parameters(child, names))
    if value is None:
        raise LaunchError("<param> needs 'value', 'from' or nested <param>s", reader.place)
    kind = parameters.parse_kind(kind_name or "yaml", reader.place)
    return (description.Parameter(reader.place, names, parameters.parse_value(value, kind, reader.place)),)


def _words(template: Template | None) -> tuple[Template, ...] | None:
    """Return the words of a command line; its text is split as by a shell, the result of a substitution never is."""
    if template is None:
        return None
    words: list[list[str | Call]] = []
    word: list[str | Call] = []
    for piece in template.pieces:
        if isinstance(piece, Call):
            word.append(piece)
            continue
        try:
            tokens = shlex.split(piece)
        except ValueError as error:
            raise LaunchError(
                f"'{piece.strip()}' cannot be split into words: {error}; quotes may not reach over a substitution",
                template.place,
            ) from error
        if not tokens or (piece[0].isspace() and word):
            words.append(word)
            word = []
        for token in tokens[:-1]:
            words.append([*word, token])
            word = []
        word.extend(tokens[-1:])
        if tokens and piece[-1].isspace():
            words.append(word)
            word = []
    if word:
        words.append(word)
    return tuple(Template(tuple(pieces), template.place) for pieces in words)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.0 <= seconds < float("inf"):
        raise ValueError(text)
    return seconds


_ACTIONS: dict[str, Callable[[_Reader], Action]] = {
    "arg": _argument,
    "let": _let,
    "set_env": _set_env,
    "unset_env": _unset_env,
    "push_ros_namespace": _push_namespace,
    "push-ros-namespace": _push_namespace,
    "group": _group,
    "include": _include,
    "node": _node,
    "executable": _executable,
}
