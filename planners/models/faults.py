# SPDX-License-Identifier: Apache-2.0
"""Translate exceptions of a provider's SDK: one ModelError with a code, and a sentence that says what to do."""

import email.utils
import math
import re
from collections.abc import Mapping

from planners.models.base import ModelError
from planners.models.config import NO_KEY, ModelConfig, key_variable
from planners.models.scrubber import Secrets
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
    # Of OpenAI, of llama.cpp
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
}
_TOO_LONG = re.compile(
    r"context.{0,20}(?:length|size|window|limit|exceed)|exceed.{0,30}context|prompt (?:is too long|contains \d+ tokens)"
    r"|(?:input|prompt).{0,20}tokens?.{0,40}exceed|too many (?:input |prompt )?tokens",
    re.IGNORECASE,
)
"""Wordings of providers for a request that does not fit into the model's context."""
_NO_TOOLS = re.compile(r"\btools?\b|function.call", re.IGNORECASE)
"""Words of servers for a request whose tools they do not take: Ollama, llama.cpp, vLLM, DeepSeek."""
MAX_RETRY_AFTER_S = 86_400.0
"""A server that says more is believed so much."""
QUOTA = "the account's quota is used up: raise it"
_TRANSPORT_PACKAGES = {"httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio", "ssl"}


def translate(error: BaseException, config: ModelConfig, key: str, secrets: Secrets, *, wall_s: float) -> ModelError:
    """Return the ModelError for what an SDK raised, without secrets; `wall_s` is the time of day in seconds since 1970, for a
    dated Retry-After."""
    if isinstance(error, ModelError):
        return error
    names = {cls.__name__ for cls in type(error).__mro__}
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    kind, said = _provider_words(body)
    said = secrets.sentence(said or str(error))
    if (isinstance(status, int) and status < 300) or (status is None and "APIError" in names and kind):
        status = _CODE_BY_TYPE.get(kind, 500)
    if isinstance(status, int):
        headers = getattr(getattr(error, "response", None), "headers", {})
        return _from_status(status, kind, said, config, key, _retry_after_s(headers, wall_s))
    packages = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
    code, retryable = ModelCode.MODEL_CONNECTION, True
    if "APITimeoutError" in names:
        what = f"no connection to {config.url} within {config.connect_s:g} s; check the address and the network"
    elif "APIConnectionError" in names or isinstance(error, OSError) or packages & _TRANSPORT_PACKAGES:
        cause = error.__cause__ or error
        detail = secrets.sentence(str(cause)) or type(cause).__name__
        what = f"the connection to {config.url} failed ({detail}); check that the server runs and is reachable"
    else:
        code, retryable = ModelCode.MODEL_SERVER, isinstance(error, ValueError)
        whose = f"{config.url} sent what is no valid answer" if retryable else "the SDK failed"
        what = f"{whose} ({type(error).__name__}: {said}); check the SDK's version and that `provider` fits this server"
    return ModelError(code, f"{config.name}: {what}", retryable=retryable)


def names_option(error: BaseException, option: str) -> bool:
    """Return whether a server rejects a request because of one option."""
    return getattr(error, "status_code", None) in (400, 422) and option in str(error)


def _from_status(status: int, kind: str, said: str, config: ModelConfig, key: str, retry_after_s: float | None) -> ModelError:
    variable = key_variable(config)
    spent = kind == "insufficient_quota"
    code, what = ModelCode.MODEL_REFUSED, "the provider refused the request"
    remedy = "check `model` and the request's size and options"
    too_long = status in (400, 413, 422) and bool(_TOO_LONG.search(f"{kind.replace('_', ' ')} {said}"))
    if too_long:
        what = "the request exceeds the model's context"
        remedy = "serve the model with a longer context (Ollama: OLLAMA_CONTEXT_LENGTH), or lower `history_tokens`"
    if status in (401, 403):
        code, what = ModelCode.MODEL_AUTH, "the provider refused access"
        remedy = f"check that {variable} holds a valid key for {config.url} and this model"
        if variable is None or key == NO_KEY:
            remedy = "this server wants a key: export it in a variable, and set `api_key_env` to the name of that variable"
    elif status in (400, 404, 422, 500, 501) and _NO_TOOLS.search(said):
        what = "the server does not take the functions as tools"
        remedy = "start it so that it does (llama.cpp: --jinja, vLLM: --enable-auto-tool-choice), or launch with dialect:=xml"
    elif status == 429:
        code, what = ModelCode.MODEL_RATE_LIMITED, "rate limited"
        when = f"wait {retry_after_s:g} s" if retry_after_s is not None else "wait a while"
        remedy = f"{QUOTA if spent else when}, or choose another model"
    elif status >= 500:
        code, what, remedy = ModelCode.MODEL_SERVER, "the provider failed", "try again later or choose another model"
    elif status == 408:
        code, what, remedy = ModelCode.MODEL_TIMEOUT, "the provider gave up waiting", "try again"
    elif status == 404:
        remedy = f"check `model` and `base_url` ({config.url}); the address of an OpenAI-compatible server mostly ends in /v1"
    elif status < 400:
        remedy = "set `base_url` to the final address; redirects are not followed, so that no key goes astray"
    return ModelError(
        code,
        f"{config.name}: {what} ({status}: {said}); {remedy}",
        retryable=code not in (ModelCode.MODEL_AUTH, ModelCode.MODEL_REFUSED) and not spent,
        retry_after_s=retry_after_s,
        too_long=too_long,
    )


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
            return min(max(0.0, seconds), MAX_RETRY_AFTER_S)
    return None
