# SPDX-License-Identifier: Apache-2.0
"""Reads an XML file into elements that remember their line, so that every later error can name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from ghostshell_ros.launcher.specs import LaunchError, Place


@dataclass(frozen=True)
class Element:
    """One XML element of a launch file."""

    tag: str
    attributes: Mapping[str, str]
    children: tuple[Element, ...]
    place: Place


@dataclass
class _Open:
    tag: str
    attributes: dict[str, str]
    children: list[Element]
    place: Place


def read(path: Path) -> Element:
    """Return the root element of `path`.

    Raises LaunchError when the file cannot be read, is not well-formed, or holds text between its elements.
    """
    file = str(path)
    open_elements = [_Open("", {}, [], Place(file, 1))]
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        open_elements.append(_Open(tag, attributes, [], Place(file, parser.CurrentLineNumber)))

    def end(_: str) -> None:
        done = open_elements.pop()
        element = Element(done.tag, done.attributes, tuple(done.children), done.place)
        open_elements[-1].children.append(element)

    def text(characters: str) -> None:
        if characters.strip():
            place = Place(file, parser.CurrentLineNumber)
            raise LaunchError(
                f"text '{characters.strip()}' inside <{open_elements[-1].tag}>: values belong into attributes", place
            )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    try:
        parser.Parse(path.read_bytes(), True)
    except OSError as error:
        raise LaunchError(f"cannot read launch file '{path}': {error.strerror}") from error
    except expat.ExpatError as error:
        raise LaunchError(f"not well-formed XML: {expat.ErrorString(error.code)}", Place(file, error.lineno)) from error
    return open_elements[0].children[0]
