# SPDX-License-Identifier: Apache-2.0
"""Language models behind one protocol; `planners.models.factory.make_client` builds one, and no SDK is imported before
it is needed."""

from planners.models.base import (
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
