# SPDX-License-Identifier: Apache-2.0
"""Read untrusted text as a syntax tree that holds nothing but allowed nodes, within bounds, or refuse it. Nothing of it is ever
run."""

import ast
import io
import token
import tokenize
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import cast

from skill_kernel.config.sections import shown


@dataclass(frozen=True)
class Limits:
    """Bound one rule. Steps are the evaluated parts of expressions and statements, with loops counted at their longest:
    accepted code cannot take more of them, whatever the sensors say."""

    characters: int = 4000
    tokens: int = 1000
    line_tokens: int = 200
    name_characters: int = 48
    text_characters: int = 300
    brackets: int = 12
    nodes: int = 800
    depth: int = 30
    items: int = 32
    rounds: int = 100
    condition_steps: int = 500
    action_steps: int = 5000
    skill_calls: int = 40


LIMITS = Limits()
LARGEST_LITERAL = 1_000_000_000


class GuardCode(str, Enum):
    """Name the reasons for which code is refused."""

    TOO_LONG = "TOO_LONG"
    TOO_DEEP = "TOO_DEEP"
    TOO_MANY_STEPS = "TOO_MANY_STEPS"
    CHARACTER = "CHARACTER"
    SYNTAX = "SYNTAX"
    FORM = "FORM"
    CONSTRUCT = "CONSTRUCT"
    NAME = "NAME"
    CALL = "CALL"
    TYPE = "TYPE"
    ARITY = "ARITY"
    ARGUMENT = "ARGUMENT"
    NUMBER = "NUMBER"


class GuardError(ValueError):
    """Report that code is refused; nothing of it was run. `line` and `column` count from 1, and are 0 for all of the code."""

    def __init__(self, code: GuardCode, message: str, *, line: int = 0, column: int = 0) -> None:
        where = f"line {line}, column {column}: " if line else ""
        super().__init__(f"{where}{message}")
        self.code = code
        self.message = message
        self.line = line
        self.column = column


class RuleFault(ArithmeticError):
    """Report that accepted code failed while it was evaluated, on numbers it cannot go on with or otherwise."""


def at(node: ast.AST, code: GuardCode, message: str) -> GuardError:
    """Return the error for a node, with its place."""
    line = int(getattr(node, "lineno", 0))
    return GuardError(code, message, line=line, column=int(getattr(node, "col_offset", -1)) + 1 if line else 0)


_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_STATEMENTS = {ast.Return, ast.Expr, ast.Assign, ast.AugAssign, ast.If, ast.For, ast.Break, ast.Continue, ast.Pass}
_VALUES = {ast.Name, ast.Load, ast.Store, ast.Constant, ast.Call, ast.keyword, ast.List, ast.Tuple}
_LOOPS = {ast.ListComp, ast.GeneratorExp, ast.comprehension}
_LOGIC = {ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.IfExp}
_ARITHMETIC = {ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod}
_COMPARISONS = {ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn}

ALLOWED: frozenset[type[ast.AST]] = frozenset(
    {ast.Module, ast.Expression, ast.FunctionDef, ast.arguments}.union(
        _STATEMENTS, _VALUES, _LOOPS, _LOGIC, _ARITHMETIC, _COMPARISONS
    )
)
"""Types of node that are allowed. A node that a later Python brings is refused until somebody adds it here."""

_WORDS = {
    "Attribute": "a dot (attribute access)",
    "Subscript": "a subscript in square brackets",
    "JoinedStr": "an f-string",
    "TemplateStr": "a t-string",
    "NamedExpr": "an assignment inside an expression (:=)",
    "Pow": "a power (**)",
    "Starred": "a star",
    "LShift": "a shift (<<)",
    "RShift": "a shift (>>)",
    "BitOr": "|",
    "BitAnd": "&",
    "BitXor": "^",
    "Invert": "~",
    "MatMult": "@",
    "IsNot": "is not",
    "ClassDef": "class",
    "Delete": "del",
    "Dict": "a dictionary",
    "AnnAssign": "a type annotation",
    "arg": "a parameter",
}
"""Names of nodes in messages; the others go by Python's own name."""


def read(source: str) -> ast.Module:
    """Parse code. Raises GuardError, whatever the text is, and within small bounds of time and memory: length, brackets and
    lines are counted before Python's parser sees anything."""
    return cast(ast.Module, _tree(_checked_text(source), "exec"))


def read_expression(source: str) -> ast.expr:
    """Parse a single expression, as `read` does code."""
    return cast(ast.Expression, _tree(_checked_text(source).strip(), "eval")).body


def _tree(text: str, mode: str) -> ast.AST:
    try:
        with unwarned():
            _check_tokens(text)
            tree: ast.AST = ast.parse(text, mode=mode)
    except GuardError:
        raise
    except SyntaxError as error:
        line, column = error.lineno or 1, max(error.offset or 1, 1)
        raise GuardError(GuardCode.SYNTAX, f"this is no Python: {error.msg}", line=line, column=column) from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise GuardError(GuardCode.TOO_DEEP, f"this cannot be read ({type(error).__name__}); write it simpler") from None
    _check_nodes(tree)
    return tree


@contextmanager
def unwarned() -> Iterator[None]:
    """Keep Python's parser from warning on standard error of odd code, such as `1or 2`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _checked_text(source: str) -> str:
    if len(source) > LIMITS.characters:
        why = f"the code has {len(source)} characters; {LIMITS.characters} are allowed"
        raise GuardError(GuardCode.TOO_LONG, why)
    text = source.replace("\r\n", "\n")
    for line, words in enumerate(text.split("\n"), 1):
        for column, character in enumerate(words, 1):
            if character == "\\":
                why = "a backslash is not allowed; write the character itself"
            elif unicodedata.category(character) in _REFUSED_CATEGORIES:
                why = f"the character U+{ord(character):04X} is not allowed; indent with spaces and write visible characters"
            else:
                continue
            raise GuardError(GuardCode.CHARACTER, why, line=line, column=column)
    return text


def _check_tokens(text: str) -> None:
    count = on_line = depth = 0
    try:
        for kind, word, (line, column), _, _ in tokenize.generate_tokens(io.StringIO(text).readline):
            count, on_line = count + 1, 0 if kind in (token.NEWLINE, token.INDENT, token.DEDENT) else on_line + 1
            depth += word in ("(", "[", "{") if kind == token.OP else 0
            depth -= word in (")", "]", "}") if kind == token.OP else 0
            problem = None
            if kind == token.NAME and (why := _name_problem(word)):
                problem = GuardCode.NAME, why
            elif kind == token.STRING and word[0] not in "'\"":
                problem = GuardCode.CONSTRUCT, "a text with a prefix is not allowed; write plain quotes"
            elif count > LIMITS.tokens or on_line > LIMITS.line_tokens:
                problem = GuardCode.TOO_LONG, f"too long: at most {LIMITS.tokens} words and signs, {LIMITS.line_tokens} a line"
            elif depth > LIMITS.brackets:
                problem = GuardCode.TOO_DEEP, f"brackets are nested more than {LIMITS.brackets} deep; use a variable"
            if problem is not None:
                raise GuardError(*problem, line=line, column=column + 1)
    except tokenize.TokenError as error:
        raise GuardError(GuardCode.SYNTAX, f"this is no Python: {error.args[0]}; is a bracket or quote open?") from None
    except SyntaxError as error:
        raise GuardError(GuardCode.SYNTAX, f"this is no Python: {error.msg}", line=error.lineno or 0, column=1) from None


def _name_problem(name: str) -> str:
    if not name.isascii():
        return f"the name '{shown(name)}' is not written in plain ASCII letters"
    if len(name) > LIMITS.name_characters:
        return f"the name '{shown(name)}' is longer than {LIMITS.name_characters} characters"
    if name.startswith("_") and name != "_":
        return f"the name '{shown(name)}' begins with an underscore, which is not allowed"
    return ""


def _check_nodes(tree: ast.AST) -> None:
    waiting: list[tuple[ast.AST, int, ast.AST]] = [(tree, 1, tree)]
    count = 0
    while waiting:
        node, depth, placed = waiting.pop()
        count += 1
        placed = node if hasattr(node, "lineno") else placed
        if type(node) not in ALLOWED:
            name = type(node).__name__
            raise at(placed, GuardCode.CONSTRUCT, f"{_WORDS.get(name, name.lower())} is not allowed here")
        if depth > LIMITS.depth:
            raise at(placed, GuardCode.TOO_DEEP, f"this is nested more than {LIMITS.depth} deep; use a variable")
        if count > LIMITS.nodes:
            raise at(placed, GuardCode.TOO_LONG, f"the code has more than {LIMITS.nodes} parts; write it shorter")
        waiting.extend((child, depth + 1, placed) for child in ast.iter_child_nodes(node))
