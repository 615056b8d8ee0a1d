# SPDX-License-Identifier: Apache-2.0
"""Give the sections of a robot's YAML file a common base: unknown keys are refused, with the nearest one that is known."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

Positive = Annotated[float, Field(gt=0)]

SHOWN = 80
"""Longest piece of somebody's text that a message repeats, in characters."""

CAUSE_CHARS = 300
"""Characters of what somebody says why something stops or pauses."""

_WANTED = {
    "list_type": "must be a list, such as [a, b]",
    "tuple_type": "must be a list, such as [a, b]",
    "dict_type": "must hold keys with values",
    "model_type": "must hold keys with values",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
}
"""Maps pydantic's name of a fault of type to what a person is told."""


def shown(value: object, most: int = SHOWN) -> str:
    """Return a value for a message: one line of at most `most` characters, and none of them hidden."""
    text = " ".join(str(value).split())
    text = text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shaped(pattern: str, what: str) -> AfterValidator:
    """Return the check that a text is of this pattern; `what` says in an error what is wrong with it."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"'{shown(value)}' is {what}")
        return value

    return AfterValidator(check)


class Section(BaseModel):
    """Hold a part of a robot's file. It is frozen; infinities and NaN are no numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def nearest(word: str, known: Iterable[str], *, else_known: bool = False) -> str:
    """Return a hint for the end of a sentence: the known word most like this one, whatever its case.

    Where none is like it the hint is empty, or with `else_known` those that are known.
    """
    folded = {one.casefold(): one for one in reversed([*known])}
    near = difflib.get_close_matches(word[:80].casefold(), folded, n=1, cutoff=0.5)
    if near:
        return f"; did you mean '{folded[near[0]]}'?"
    return f"; known: {', '.join(sorted(folded.values())[:40])}" if folded and else_known else ""


def one_sentence(model: type[BaseModel], error: ValidationError) -> str:
    """Return the first fault as a sentence that names the key and, for an unknown one, what is valid in its place. Values are
    not shown of a model that hides them (`hide_input_in_errors`)."""
    first = error.errors(include_url=False)[0]
    where = [str(part) for part in first["loc"] if part != "[key]"]
    key = shown(".".join(where))
    more = f" ({error.error_count() - 1} more like this)" if error.error_count() > 1 else ""
    if not where:  # a fault of the whole section names its key itself
        return str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        valid = _keys(model, where[:-1])
        return f"key '{key}' is unknown{nearest(where[-1], valid)} (valid here: {', '.join(valid)}){more}"
    if first["type"] == "union_tag_not_found":
        tag = str(first["ctx"]["discriminator"]).strip("'")
        return f"key '{key}.{tag}' is missing{more}"
    if first["type"] == "missing":
        given = list(first["input"]) if isinstance(first["input"], Mapping) else []
        valid = _keys(model, where[:-1])
        near = difflib.get_close_matches(where[-1], [str(k) for k in given if str(k) not in valid], n=1)
        return f"key '{key}' is missing{f' (is {near[0]!r} meant?)' if near else ''}{more}"
    if first["type"] == "union_tag_invalid":
        known = [tag.strip(" '") for tag in str(first["ctx"]["expected_tags"]).split(",")]
        given_tag = str(first["ctx"]["tag"])
        what = str(first["ctx"]["discriminator"]).strip("'")
        return (
            f"key '{key}.{what}': there is no '{shown(given_tag)}'{nearest(given_tag, known)} (known: {', '.join(known)}){more}"
        )
    reason = _WANTED.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    hidden = isinstance(first["input"], Mapping) or model.model_config.get("hide_input_in_errors")
    given_value = "" if hidden or reason.startswith(f"'{shown(first['input'])}'") else f", not {shown(repr(first['input']))}"
    return f"key '{key}': {reason[0].lower() + reason[1:]}{given_value}{more}"


def _keys(model: type[BaseModel], path: list[str]) -> list[str]:
    """Return the keys that are valid where the path of an error leads: through fields, entries of tables and tags of unions."""
    models = [model]
    for part in path:
        tagged = [m for m in models if part in _tags(m)]
        models = (
            tagged or [n for m in models if part in m.model_fields for n in _models(m.model_fields[part].annotation)] or models
        )
    return list(dict.fromkeys(key for m in models for key in m.model_fields))


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    """Return the values that tell a member of a tagged union."""
    return tuple(tag for field in model.model_fields.values() if field.is_required() for tag in get_args(field.annotation))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and get_origin(annotation) is None:
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
