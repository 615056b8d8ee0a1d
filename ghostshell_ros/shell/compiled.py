# SPDX-License-Identifier: Apache-2.0
"""Finds the parser as mypyc compiled it at the set-up; where it is not, the same source runs as Python."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

SOURCES = (
    "content", "inner_quotes", "parse_error", "parser", "reporter", "simple_tags",
    "skippers", "tag_scanner", "token_output", "tokens", "xml_chars",
)  # fmt: skip
"""Modules of the Shell that belong to the parser."""
LEFT_AS_PYTHON = ("parse_error", "tokens")
"""Those of them that others subclass, raise or make by `tuple.__new__`; there is nothing to gain in them."""
FOLDER = "GHOSTSHELL_COMPILED"
"""Environment variable: the folder that `scripts/compile_parser.py` writes to. Unset: the parser runs as Python."""


def folder(root: Path, sources: Path) -> Path:
    """Where the compiled form of just these sources for just this Python lies below `root`, so that no other is taken."""
    digest = hashlib.sha256(str(sysconfig.get_config_var("EXT_SUFFIX")).encode())
    for name in SOURCES:
        digest.update((sources / f"{name}.py").read_bytes())
    return root / digest.hexdigest()[:16]


def use(path: list[str]) -> None:
    """Put the compiled modules, if there are any, before their sources in a package's `__path__`."""
    root = os.environ.get(FOLDER)
    if not root:
        return
    try:
        found = folder(Path(root), Path(__file__).parent)
        (library,) = found.glob("*__mypyc.*")
        name = library.name.split(".")[0]
        spec = spec_from_file_location(name, library, loader=ExtensionFileLoader(name, str(library)))
        if spec is None or spec.loader is None:
            return
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    except (OSError, ValueError, ImportError):  # not compiled, for another source, or not for this machine
        return
    sys.modules[name] = module
    path.insert(0, str(found / "ghostshell_ros" / "shell"))
