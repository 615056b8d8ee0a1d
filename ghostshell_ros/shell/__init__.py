# SPDX-License-Identifier: Apache-2.0
"""The Shell (GhostShell 3.4): tokens, parser, mapper, scheduler, executor. Imports no ROS.

Here stand the parser's names; the others are imported from their modules: `mapper.Mapper`, `scheduler.Scheduler`,
`dryrun.dry_run`, `routines.RoutineStore`.
"""

from ghostshell_ros.shell import compiled

compiled.use(__path__)

from ghostshell_ros.shell.parse_error import ParseError, ParserLimits, Repair  # noqa: E402
from ghostshell_ros.shell.parser import StreamingParser  # noqa: E402
from ghostshell_ros.shell.tokens import FunctionToken, TokenKind  # noqa: E402

__all__ = ["FunctionToken", "ParseError", "ParserLimits", "Repair", "StreamingParser", "TokenKind"]
