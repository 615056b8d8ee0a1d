# SPDX-License-Identifier: Apache-2.0
"""What an exception of a provider's SDK means: one ModelError with a code, and a sentence that says what to do."""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping

from planners.models.base import ModelError
from planners.models.config import NO_KEY, ModelConfig, key_variable, scrub
from skill_kernel.codes import ModelCode

_CODE_BY_TYPE: Mapping[str, int] = {
    # `error.type` inside a stream that began with 200 (https://docs.anthropic.com/en/api/errors), as the status it
    # stands for
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "invalid_request_error": 400,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_TRANSPORT_PACKAGES = {"httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio", "ssl"}


def translate(error: BaseException, config: ModelConfig, key: str, *, wall_s: float) -> ModelError:
    """The ModelError for what an SDK raised; `wall_s` is the time of day in seconds since 1970, for a dated
    Retry-After."""
    if isinstance(error, ModelError):
        return error
    names = {cls.__name__ for cls in type(error).__mro__}
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    kind, said = _provider_words(body)
    said = scrub(said or str(error), key)
    if (isinstance(status, int) and status < 300) or (status is None and "APIError" in names and kind):
        status = _CODE_BY_TYPE.get(kind, 500)
    if isinstance(status, int):
        headers = getattr(getattr(error, "response", None), "headers", {})
        return _from_status(status, kind, said, config, key, _retry_after_s(headers, wall_s))
    if "APITimeoutError" in names:
        return ModelError(
            ModelCode.MODEL_CONNECTION,
            f"{config.name}: no connection to {config.url} within {config.connect_s:g} s; check the address and the network",
            retryable=True,
        )
    packages = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
    if "APIConnectionError" in names or isinstance(error, OSError) or packages & _TRANSPORT_PACKAGES:
        cause = error.__cause__ or error
        detail = scrub(str(cause), key) or type(cause).__name__
        return ModelError(
            ModelCode.MODEL_CONNECTION,
            f"{config.name}: the connection to {config.url} failed ({detail}); check that the server runs and is reachable",
            retryable=True,
        )
    if isinstance(error, ValueError):
        return ModelError(
            ModelCode.MODEL_SERVER,
            f"{config.name}: {config.url} sent what is no valid answer ({type(error).__name__}: {said}); "
            "check that `provider` fits this server",
            retryable=True,
        )
    return ModelError(
        ModelCode.MODEL_SERVER,
        f"{config.name}: the SDK failed ({type(error).__name__}: {said}); "
        "check its version and that `provider` fits this server",
    )


def names_option(error: BaseException, option: str) -> bool:
    """Whether a server rejects a request because of one option."""
    return getattr(error, "status_code", None) in (400, 422) and option in str(error)


def _from_status(status: int, kind: str, said: str, config: ModelConfig, key: str, retry_after_s: float | None) -> ModelError:
    name, variable = config.name, key_variable(config)
    if status in (401, 403):
        remedy = f"check that {variable} holds a valid key for {config.url} and this model"
        if variable is None or key == NO_KEY:
            remedy = "this server wants a key: set `api_key_env` to the name of the variable that holds it, and the variable"
        return ModelError(ModelCode.MODEL_AUTH, f"{name}: the provider refused access ({status}: {said}); {remedy}")
    if status == 429:
        spent = kind == "insufficient_quota"
        when = f"wait {retry_after_s:g} s" if retry_after_s is not None else "wait a while"
        remedy = "the account's quota is used up: raise it" if spent else when
        return ModelError(
            ModelCode.MODEL_RATE_LIMITED,
            f"{name}: rate limited (429: {said}); {remedy}, or choose another model",
            retryable=not spent,
            retry_after_s=retry_after_s,
        )
    if status >= 500:
        return ModelError(
            ModelCode.MODEL_SERVER,
            f"{name}: the provider failed ({status}: {said}); try again later or choose another model",
            retryable=True,
            retry_after_s=retry_after_s,
        )
    if status == 408:
        return ModelError(
            ModelCode.MODEL_TIMEOUT, f"{name}: the provider gave up waiting (408: {said}); try again", retryable=True
        )
    if status == 404:
        remedy = f"check `model` and `base_url` ({config.url}); the address of an OpenAI-compatible server mostly ends in /v1"
    elif status < 400:
        remedy = "set `base_url` to the final address; redirects are not followed, so that no key goes astray"
    else:
        remedy = "check `model` and the request's size and options"
    return ModelError(ModelCode.MODEL_REFUSED, f"{name}: the provider refused the request ({status}: {said}); {remedy}")


def _provider_words(body: object) -> tuple[str, str]:
    """Type and message of the error in a response body, each empty where there is none."""
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(inner, str):
        return "", inner
    if not isinstance(inner, Mapping):
        return "", ""
    kinds = [str(inner.get(field) or "") for field in ("code", "type")]
    kind = next((k for k in kinds if k in _CODE_BY_TYPE), kinds[1] or kinds[0])
    return kind, str(inner.get("message") or "")


def _retry_after_s(headers: Mapping[str, str], wall_s: float) -> float | None:
    """Seconds to wait according to `retry-after-ms` or `Retry-After` (RFC 9110, section 10.2.3), or None."""
    for field, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(field)
        if value is None:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(value).timestamp() - wall_s
            except (TypeError, ValueError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None
