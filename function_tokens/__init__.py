# SPDX-License-Identifier: Apache-2.0
"""Turn a stream of function tokens into scheduled calls (the Shell, GhostShell 3.4). Imports no ROS.

The parser's names are exported here; import the others from their modules: `mapper.Mapper`, `scheduling.scheduler.Scheduler`,
`routines.RoutineStore`.
"""

from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError, ParserLimits, Repair, TokenKind

__all__ = ["FunctionToken", "ParseError", "ParserLimits", "Repair", "StreamingParser", "TokenKind"]
