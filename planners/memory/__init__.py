# SPDX-License-Identifier: Apache-2.0
"""The robots' memory: one store of typed records, consolidated in the background, that answers questions with its sources."""

from planners.memory.answers import Answer
from planners.memory.memory import Memory
from planners.memory.query import Circle, Query
from planners.memory.records import Kind, Provenance, Record, Spot, StoreError, Tier, Viewer, Visibility
from planners.memory.store import Store

__all__ = [
    "Answer",
    "Circle",
    "Kind",
    "Memory",
    "Provenance",
    "Query",
    "Record",
    "Spot",
    "Store",
    "StoreError",
    "Tier",
    "Viewer",
    "Visibility",
]
