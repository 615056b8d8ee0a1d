# SPDX-License-Identifier: Apache-2.0
"""Points the CMake exports of the ROS wheels in this environment at this machine's include folders."""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

import numpy

BUILD_MACHINE = re.compile(
    r"/opt/python/cp\d+-cp\d+/(include/python[\d.]*\d|lib/python[\d.]+/site-packages/numpy/_?core/include)"
)
"""The wheels are built in manylinux images; CMake refuses these folders where they do not exist."""


def repair(prefix: Path) -> int:
    """Rewrite the exports below `prefix`/share that name a folder of the build machine; the number of files changed."""
    python = sysconfig.get_path("include")
    changed = 0
    for export in sorted((prefix / "share").rglob("*.cmake")):
        text = export.read_text(encoding="utf-8")
        mended = BUILD_MACHINE.sub(lambda m: python if m.group(1).startswith("include") else numpy.get_include(), text)
        if mended != text:
            export.write_text(mended, encoding="utf-8")
            changed += 1
    return changed


if __name__ == "__main__":
    print(f"repaired {repair(Path(sys.prefix))} CMake exports")
