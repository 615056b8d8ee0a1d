# SPDX-License-Identifier: Apache-2.0
"""Reads from the plain words of an instruction, without a model, that it stops motion first or asks for a return
("stop, check what is on your left, then resume")."""

import re
from dataclasses import dataclass

_MARK = "[,\uff0c\u3001\u3002;\uff1b!\uff01\\s]"
_STOP_EN = re.compile(
    r"\s*(?:please[, ]+)?(?:"
    r"(?:stop|halt|freeze|pause|hold on)(?:\s*[,;:.!\u2026-]+\s*(?:(?:and|then)\s+)*|\s+(?:and\s+then|and|then)\s+)"
    r"|(?:wait|hold)\s*[,;!]+\s*(?:(?:and|then)\s+)*)(?P<rest>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_STOP_CN = re.compile(
    r"\s*(?:请|先)?(?:停下来|停一下|停下|停止|暂停|停|站住|等一下|等等)"
    rf"(?:{_MARK}+(?:先|然后|再)?|然后|先)(?P<rest>\S.*)",
    re.DOTALL,
)
_THING = (
    r"(?:with\s+)?(?:it|that|what you were doing|what you did before|where you (?:left off|stopped)|as before"
    r"|(?:(?:the|your)\s+)?(?:(?:previous|earlier|old|last)\s+)?(?:task|work|job|patrol|tour|walk|search|round)|\w+ing)"
)
_RETURN_EN = re.compile(
    r"[\s,;.]*\b(?:and\s+)?(?:then|afterwards|after that)[\s,]+(?:please\s+)?"
    rf"(?:(?:resume|continue|carry on|go on|keep going|proceed)(?:\s+{_THING})?"
    r"|go back to (?:it|what you were doing|(?:your|the) (?:(?:previous|earlier|old|last) )?(?:task|work|job|patrol)))[\s.!]*$",
    re.IGNORECASE,
)
_RETURN_CN = re.compile(
    rf"{_MARK}*(?:然后|之后|以后|接着|随后|完了|完后|完|再)+(?:再|回来|回去)*(?:继续|恢复|接着做|接着走)"
    r"(?:做|走|执行|完成)?(?:原来的?|之前的?|刚才的?|先前的?|你的)?(?:任务|工作|事情|事儿|事|巡逻|动作)?"
    rf"(?:了|吧|{_MARK})*$"
)


_NOT_CN = re.compile(r"(?:别|不|不要|不用|不再|勿|没|甭)$")
"""Words that turn a "go on" behind them into "do not go on"."""


@dataclass(frozen=True)
class Wording:
    """Hold the task to plan, without the words that only say how it stands to the others.

    `stops`: everything that moves now stops at once. `returns`: what it displaces goes on after it.
    """

    task: str
    stops: bool = False
    returns: bool = False


def read_wording(text: str) -> Wording:
    """Return what an instruction says of other tasks. Anything that is not clearly one of the phrases is a plain task."""
    task, stops, returns = text.strip(), False, False
    if found := _STOP_EN.fullmatch(task) or _STOP_CN.fullmatch(task):
        task, stops = found["rest"].strip(), True
    for pattern in (_RETURN_EN, _RETURN_CN):
        found = pattern.search(task)
        if found and re.sub(_MARK, "", task[: found.start()]) and not _NOT_CN.search(task[: found.start()]):
            task, returns = task[: found.start()].strip().removeprefix("先"), True
            break
    return Wording(task, stops, returns)
