# SPDX-License-Identifier: Apache-2.0
"""Read the table of delays, token rates, prices and errors by row, and draw from it."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from planners.models.config import Prices
from skill_kernel.config.yaml_text import read_yaml, what_is_wrong

ErrorKind = Literal["wrong_call", "malformed", "stale_belief", "silence"]
ErrorModel = Literal["fair", "first"]
Planning = Literal["done", "words", "naive", "criteria"]
"""Policies of System 2: by what DONE does not bear out; by the words of the plan alone; as the first, without the way to a room
as a subtask of its own; as the first, with criteria as expressions where one fits."""
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class TableError(ValueError):
    """The table cannot be used; the message names the file and the fault."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Delay(_Part):
    """Seconds, lognormal; a median of 0 is no delay."""

    median_s: NotNegative
    sigma: Annotated[float, Field(ge=0.0, le=2.0)] = 0.0


class Rate(_Part):
    """Tokens a second, lognormal."""

    median: Positive
    sigma: Annotated[float, Field(ge=0.0, le=2.0)] = 0.0


class Errors(_Part):
    """`rate`: share of the answers that is spoiled; `shares`: how, in sum 1; `ends`: share of the wrong calls that end the
    task, or the asked part of it, too early. The model `first` knows no such ends but System 2's, and takes a stale belief from
    whatever was shown for the same instruction."""

    rate: Share = 0.0
    model: ErrorModel = "fair"
    ends: Share = 0.0
    shares: dict[ErrorKind, Share]

    @model_validator(mode="after")
    def _adds_up(self) -> Errors:
        if abs(sum(self.shares.values()) - 1.0) > 1e-6:
            raise ValueError(f"the shares add up to {sum(self.shares.values()):g}, not to 1")
        return self


class Row(_Part):
    """One model. `errors` replaces the table's for this row."""

    stands_for: str
    first_token: Delay
    tokens_per_s: Rate
    prices: Prices
    errors: Errors | None = None


class Cache(_Part):
    """A provider's cache of prompt fronts."""

    least_tokens: Annotated[int, Field(ge=1)] = 1024
    step_tokens: Annotated[int, Field(ge=1)] = 128
    keep_s: Positive = 300.0


class Table(_Part):
    """bench/typego_models.yaml."""

    seed: int
    rows: dict[str, Row]
    cache: Cache = Cache()
    errors: Errors
    greedy: Share = 0.0
    planning: Planning = "done"

    @model_validator(mode="after")
    def _has_rows(self) -> Table:
        if not self.rows:
            raise ValueError("rows: name at least one model")
        return self

    def with_options(
        self,
        *,
        seed: int | None = None,
        errors: float | None = None,
        scales: Mapping[str, float] | None = None,
        error_model: ErrorModel | None = None,
        planning: Planning | None = None,
    ) -> Table:
        """Return the table with another seed, one error rate for all rows, rows made slower by factors above 1, another error
        model, another policy of System 2. Raises TableError for a factor that is not positive or a row that is not there."""
        rows = dict(self.rows)
        for name, factor in (scales or {}).items():
            if name not in rows:
                raise TableError(f"there is no row {name!r} to scale; the table has {', '.join(rows)}")
            if not 0.0 < factor < math.inf:
                raise TableError(f"row {name!r} cannot be scaled by {factor}; give a number above 0")
            row = rows[name]
            delay = row.first_token.model_copy(update={"median_s": row.first_token.median_s * factor})
            rate = row.tokens_per_s.model_copy(update={"median": row.tokens_per_s.median / factor})
            rows[name] = row.model_copy(update={"first_token": delay, "tokens_per_s": rate})
        changed = self.errors
        if errors is not None:
            if not 0.0 <= errors <= 1.0:
                raise TableError(f"an error rate lies between 0 and 1, not at {errors}")
            changed = self.errors.model_copy(update={"rate": errors})
            rows = {n: r.model_copy(update={"errors": None}) for n, r in rows.items()}
        if error_model is not None:
            changed = changed.model_copy(update={"model": error_model})
        update: dict[str, object] = {"rows": rows, "errors": changed, "seed": self.seed if seed is None else seed}
        return self.model_copy(update=update | ({} if planning is None else {"planning": planning}))


class Draw:
    """Draws the chances of one request: the same seed, row, prompt and turn give the same."""

    def __init__(self, seed: int, row: str, prompt: str, turn: int) -> None:
        self._key = f"{seed}\n{row}\n{turn}\n{prompt}"

    def random(self, what: str) -> random.Random:
        """Return a generator of its own for each question, so that one more does not change the others."""
        digest = hashlib.sha256(f"{what}\n{self._key}".encode("utf-8", "surrogatepass")).digest()
        return random.Random(int.from_bytes(digest[:8], "big"))

    def first_token_s(self, row: Row) -> float:
        """Return the delay of the first token in seconds."""
        delay = row.first_token
        return self.random("first token").lognormvariate(math.log(delay.median_s), delay.sigma) if delay.median_s else 0.0

    def tokens_per_s(self, row: Row) -> float:
        """Return the rate of this answer in tokens a second."""
        return self.random("rate").lognormvariate(math.log(row.tokens_per_s.median), row.tokens_per_s.sigma)

    def error(self, errors: Errors) -> ErrorKind | None:
        """Return the kind of error of this answer, None for an honest one."""
        chance = self.random("error")
        if chance.random() >= errors.rate:
            return None
        kinds = list(errors.shares)
        return chance.choices(kinds, [errors.shares[k] for k in kinds])[0]


def load_table(path: Path) -> Table:
    """Read the table. Raises TableError."""
    try:
        return Table.model_validate(read_yaml(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise TableError(f"{path}: cannot be read ({error.strerror}); name the table with --table") from error
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: is not UTF-8 text") from error
    except yaml.YAMLError as error:
        raise TableError(f"{path}, {what_is_wrong(error)}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise TableError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
