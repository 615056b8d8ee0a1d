# SPDX-License-Identifier: Apache-2.0
"""Text as a ROS string can hold it."""

from __future__ import annotations


def ros_text(text: str, nul: str = " ") -> str:
    """The text without what the middleware cuts at or refuses: NUL becomes `nul`, half of a surrogate pair "?"."""
    return text.replace("\0", nul).encode("utf-8", errors="replace").decode("utf-8")
