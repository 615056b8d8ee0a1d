# SPDX-License-Identifier: Apache-2.0
"""Error codes of the cores. Each equals the constant of that name in msg/, srv/ or action/; a test holds them equal."""

from enum import Enum, IntEnum


class Outcome(str, Enum):
    """Name how a call ends (law C10)."""

    DONE = "DONE"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"
    REFUSED = "REFUSED"
    DROPPED = "DROPPED"


class Achievement(IntEnum):
    """Tell what was achieved of a task that has ended (constants of ProcessState.msg)."""

    OPEN = 0
    DONE = 1
    PARTLY_DONE = 2
    ANSWERED = 3
    NOT_DONE = 4


class CallCode(IntEnum):
    """Tell why a call did not end as DONE (constants of ExecuteSkill.action)."""

    NONE = 0
    UNKNOWN_FUNCTION = 100
    INVALID_ARGUMENT = 101
    MISSING_ARGUMENT = 102
    UNKNOWN_ARGUMENT = 103
    OUT_OF_RANGE = 104
    CHANNEL_HELD_BY_ANCESTOR = 105
    PARENT_REFUSED = 106
    PARENT_NOT_STARTED = 107
    RESERVED_NAME = 108
    ROUTINE_UNKNOWN = 109
    ROUTINE_CYCLE = 110
    ROUTINE_INVALID = 111
    QUEUE_FULL = 112
    TURN_ENDED = 113
    CONDITION_UNKNOWN = 114
    STALE_EPOCH = 120
    SUBSYSTEM_HELD = 121
    HALTED = 122
    PROCESS_PAUSED = 123
    VETOED = 124
    SKILL_FAILED = 130
    SKILL_RAISED = 131
    DRIVER_UNAVAILABLE = 132
    DRIVER_LOST = 133
    DEADLINE = 134
    STOP_UNCERTAIN = 135
    DRIVER_INACTIVE = 136
    INTERRUPTED_BY = 140
    KERNEL_UNAVAILABLE = 141


class ParseCode(IntEnum):
    """Name a defect of a stream (constants of FunctionToken.msg)."""

    NONE = 0
    SYNTAX = 200
    MISMATCHED_TAG = 201
    FORBIDDEN_MARKUP = 202
    LIMIT_EXCEEDED = 203
    INVALID_CHARACTER = 204
    DUPLICATE_ATTRIBUTE = 205
    UNKNOWN_REFERENCE = 206
    UNCLOSED = 207
    SEQUENCE_GAP = 208
    SILENCE = 209


class ModelCode(IntEnum):
    """Tell why a model gave no (further) answer (constants of LlmChunk.msg)."""

    NONE = 0
    MODEL_AUTH = 300
    MODEL_RATE_LIMITED = 301
    MODEL_CONNECTION = 302
    MODEL_TIMEOUT = 303
    MODEL_REFUSED = 304
    MODEL_SERVER = 305
    MODEL_NOT_UNDERSTOOD = 306
    MODEL_CANCELLED = 307


class LeaseCode(IntEnum):
    """Tell why a process did not get what it asked of the body (constants of ProcessLease.srv)."""

    NONE = 0
    NOT_RESUMED = 530
    OUTRANKED = 531
    INVALID_REQUEST = 532


class TaskCode(IntEnum):
    """Tell why a process did not end as SUCCESS, when no model and no parser was the reason (constants of RunTask.action)."""

    NONE = 0
    EMPTY_INSTRUCTION = 520
    ROBOT_HALTED = 521
    REPLACED = 522
    CANCELLED = 523
    TURN_LIMIT = 524
    CALL_FAILED = 525
    NODE_UNAVAILABLE = 526
    TOO_MANY_PROCESSES = 527
    GIVEN_UP = 528
    BUDGET_SPENT = 529
    UNKNOWN_STRATEGY = 519
    ONLY_WORDS = 518
    NOT_PERMITTED = 504


class AskCode(IntEnum):
    """Tell why a question to the people around got no answer (constants of AskHuman.action)."""

    NONE = 0
    CANCELLED = 523
    NO_ANSWER = 540
    PROCESS_ENDED = 541
    TOO_MANY_QUESTIONS = 542
    BAD_QUESTION = 543
    PERSON_BUSY = 547
    ROBOT_HALTED = 521


class AnswerCode(IntEnum):
    """Tell why an answer was not taken (constants of AnswerQuestion.srv)."""

    NONE = 0
    NOT_PERMITTED = 504
    NO_SUCH_QUESTION = 544
    WHICH_QUESTION = 545
    BAD_ANSWER = 546


class MemoryCode(IntEnum):
    """Tell why the memory gave no full answer (constants of QueryMemory.srv)."""

    NONE = 0
    STORE_FULL = 560
    STORE_CORRUPT = 561
    STORE_UNAVAILABLE = 562
    QUERY_INVALID = 563
    QUERY_TIMEOUT = 564
    MEMORY_UNAVAILABLE = 565


class LearnCode(IntEnum):
    """Tell why a lesson was not proposed, confirmed or taken back (constants of Learn.srv)."""

    NONE = 0
    NOT_PERMITTED = 504
    NOT_LEARNED = 566


class ReflexCode(IntEnum):
    """Tell why something asked of the reflexes was not done (constants of CompileReflex.srv)."""

    NONE = 0
    NOT_COMPILED = 600
    NO_MODEL_ANSWER = 601
    REFLEX_REFUSED = 602
    INVALID_COMMAND = 603
    NOT_PERMITTED = 504
