# SPDX-License-Identifier: Apache-2.0
"""Compiles the streaming parser with mypyc into a folder: `compile_parser.py FOLDER`, from the repository's root."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

SHELL = Path("ghostshell_ros/shell")


def main(root: Path) -> None:
    """Leave in `root` the compiled form of the sources as they are now, and no other."""
    from mypyc.build import mypycify
    from setuptools import setup

    spec = importlib.util.spec_from_file_location("compiled", SHELL / "compiled.py")
    assert spec is not None and spec.loader is not None
    compiled = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compiled)
    target = compiled.folder(root, SHELL)
    if target.is_dir():
        return
    shutil.rmtree(root, ignore_errors=True)
    sources = [str(SHELL / f"{name}.py") for name in compiled.SOURCES if name not in compiled.LEFT_AS_PYTHON]
    with tempfile.TemporaryDirectory() as work:
        extensions = mypycify(
            ["--strict", "--config-file=", *sources], group_name="ghostshell_parser", target_dir=f"{work}/c", opt_level="2"
        )
        setup(
            name="ghostshell_parser",
            packages=[],
            ext_modules=extensions,
            script_args=["-q", "build_ext", "--build-lib", f"{work}/lib", "--build-temp", f"{work}/o"],
        )
        root.mkdir(parents=True)
        shutil.copytree(f"{work}/lib", target.with_suffix(".part"))
    target.with_suffix(".part").rename(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
