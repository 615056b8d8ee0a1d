# SPDX-License-Identifier: Apache-2.0
"""Language models behind one protocol; `planners.llm.factory.make_client` builds one, and no SDK is imported before
it is needed."""

from planners.llm.base import (
    CancelToken,
    Finished,
    Image,
    Message,
    ModelClient,
    ModelError,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    Usage,
)

__all__ = [
    "CancelToken",
    "Finished",
    "Image",
    "Message",
    "ModelClient",
    "ModelError",
    "ModelEvent",
    "ModelRequest",
    "Retrying",
    "TextDelta",
    "Usage",
]
