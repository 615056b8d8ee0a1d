# SPDX-License-Identifier: Apache-2.0
"""Write text and attributes as XML. `xml.sax.saxutils` would import an HTTP client: 3 MB in each process."""

import json

_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_ATTRIBUTE = {**_TEXT, **str.maketrans({'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"})}


def escape(text: str) -> str:
    """Return text as it stands between tags."""
    return text.translate(_TEXT)


def attribute(name: str, value: str) -> str:
    """Return `name="value"`."""
    return f'{name}="{value.translate(_ATTRIBUTE)}"'


def value_text(value: object) -> str:
    """Return a typed argument as an attribute says it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
