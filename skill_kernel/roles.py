# SPDX-License-Identifier: Apache-2.0
"""Decide who may do what: the table of roles, whose halt it is, and the keys that prove a role."""

import hmac
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from skill_kernel.config.yaml_text import private

VALID_S = 30.0
"""Largest age of a valid proof."""
AHEAD_S = 2.0
"""Time by which the clock of another machine may be ahead."""
KEPT = 4096
"""Number of used proofs that are remembered: some 130 a second for VALID_S."""
LONGEST_PROOF = 300
"""Characters."""


class Act(str, Enum):
    """Name each thing that a caller may do. The values are the words of messages and of docs/safety.md."""

    LOOK = "see states and shared memories, and test a reflex"
    HALT = "halt"
    INSTRUCT = "instruct, pause and end tasks, answer questions, keep tasks and guidelines, teach, propose reflexes"
    PRIVATE = "see private memories"
    CLEAR = "clear a halt"
    SWITCH_OFF = "disable or remove a reflex"
    APPROVE = "approve or enable a reflex"
    CLEAR_SAFETY = "clear a halt by safety"


class Role(str, Enum):
    """Name the roles. Each with a key may do what its work needs, so a viewer's key instructs nobody; who shows none is
    anonymous."""

    ANONYMOUS = "anonymous"
    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    SAFETY = "safety"


_KEYED = frozenset({Act.LOOK, Act.HALT, Act.PRIVATE})
MAY = {
    Role.ANONYMOUS: frozenset({Act.LOOK, Act.HALT, Act.INSTRUCT}),
    Role.VIEWER: _KEYED,
    Role.OPERATOR: _KEYED | {Act.INSTRUCT, Act.CLEAR, Act.SWITCH_OFF},
    Role.APPROVER: _KEYED | {Act.SWITCH_OFF, Act.APPROVE},
    Role.SAFETY: _KEYED | {Act.CLEAR, Act.CLEAR_SAFETY},
}
"""The table of roles."""

ACT_OF = {
    "LIST": Act.LOOK,
    "TEST": Act.LOOK,
    "ADD": Act.INSTRUCT,
    "REMOVE": Act.SWITCH_OFF,
    "DISABLE": Act.SWITCH_OFF,
    "ENABLE": Act.APPROVE,
    "APPROVE": Act.APPROVE,
}
"""Act that each command of the service `compile_reflex` is."""


def key_role(act: Act) -> Role:
    """Return the first role with a key that may do `act`."""
    return next(role for role in Role if role is not Role.ANONYMOUS and act in MAY[role])


@dataclass(frozen=True)
class Caller:
    """Tell who asks: anonymous unless a role's key proves more, whatever a message claims. `why` tells why it is anonymous."""

    role: Role = Role.ANONYMOUS
    why: str = "the request bears no proof"

    def refusal(self, act: Act) -> str:
        """Return why the caller may not and who may, "" if the caller may."""
        if act in MAY[self.role]:
            return ""
        able = " or ".join(role.value for role in Role if act in MAY[role])
        why = f" ({self.why})" if self.role is Role.ANONYMOUS else ""
        return f"{self.role.value} may not {act.value}, {able} may{why}: see 'Who may' in docs/safety.md"

    @property
    def who(self) -> str:
        """Return who asks, as far as that is proven."""
        return "somebody who proves no role" if self.role is Role.ANONYMOUS else self.role.value

    def named(self, name: str) -> str:
        """Return the name that the caller gives, marked where nothing proves it."""
        return f"{name} (unverified)" if name and self.role is Role.ANONYMOUS else name


ANYBODY = Caller()
"""Caller without a proof."""


class HaltLatch:
    """Track a robot's halt: one by the role `safety` is cleared by that role alone, any other by whoever may clear."""

    def __init__(self) -> None:
        self.number = 0
        """Rises with every halt, even of a robot that is halted already."""
        self.holder = Role.ANONYMOUS
        """Role by which it is held; anonymous also for the gate's own halts."""
        self.stands = False
        """True from a halt until it is cleared."""

    def halt(self, role: Role = Role.ANONYMOUS) -> None:
        """Note a halt."""
        self.number += 1
        self.stands = True
        self.holder = role if self.holder is not Role.SAFETY else Role.SAFETY

    def refusal(self, caller: Caller, number: int = 0) -> str:
        """Return why the caller may not clear halt `number` (0: the present one), "" if the caller may."""
        if number not in (0, self.number):
            return "a newer halt has come since; look at the robot, then clear that one"
        return caller.refusal(Act.CLEAR_SAFETY if self.holder is Role.SAFETY else Act.CLEAR)

    def cleared(self) -> None:
        """Note that nobody holds it halted any more."""
        self.stands = False
        self.holder = Role.ANONYMOUS


class RoleError(RuntimeError):
    """Report that a key cannot be used; the message says why and what to do."""


class Keys:
    """Keep one secret key for each role in `folder`, which only its owner may read; a missing one is made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def seal(self, role: Role, content: bytes) -> str:
        """Return the HMAC-SHA256 of the content by the role's key, as 64 hexadecimal digits. Raises RoleError."""
        return hmac.new(self._key(role), content, "sha256").hexdigest()

    def proof(self, role: Role, target: str, content: bytes, *, now_s: float) -> str:
        """Return a proof that a holder of the role's key sent `content` to `target` at Unix time `now_s`. Raises RoleError."""
        head = f"{role.value} {now_s:.3f} {secrets.token_hex(16)}"
        return f"{head} {self.seal(role, _sealed(head, target, content))}"

    def _key(self, role: Role) -> bytes:
        path = self._folder / f"{role.value}.key"
        try:
            if not path.exists():
                self._make(path)
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise RoleError(f"{path} may be read by others, so it proves nothing: chmod 600 it")
                key = file.read(100)
        except OSError as error:
            raise RoleError(f"the key {path} cannot be used ({error}); $GHOSTSHELL_KEYS names another folder") from error
        if len(key) != 64:
            raise RoleError(f"{path} holds no key; remove it, and a new one is made")
        return key

    def _make(self, path: Path) -> None:
        """Make a key at once as a whole; one that another process makes meanwhile stays."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
        with open(new, "x", encoding="ascii", opener=private) as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(new, path)
        except FileExistsError:
            pass
        finally:
            new.unlink()


class ProofReader:
    """Read proofs addressed to `target`. Each counts once and for `VALID_S`; one older than this reader may have been used
    before, and does not count.

    `wall` is the time of day in seconds since 1970, `steady` a clock that never jumps.
    """

    def __init__(self, keys: Keys, target: str, *, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._keys, self._target, self._wall, self._steady = keys, target, wall, steady
        self._began_s = steady()
        self._used: dict[str, None] = {}

    def caller(self, proof: str, content: bytes) -> Caller:
        """Return who asks with this proof for this content; anonymous, with the reason, where the proof does not count."""
        try:
            name, stamp, nonce, seal = proof[:LONGEST_PROOF].split(" ")
            role, age_s = Role(name), self._wall() - float(stamp)
            fits = hmac.compare_digest(seal, self._keys.seal(role, _sealed(f"{name} {stamp} {nonce}", self._target, content)))
        except (ValueError, TypeError):
            return Caller(why="its proof cannot be read")
        except RoleError as error:
            return Caller(why=str(error))
        if not fits:
            return Caller(why="its proof fits neither the request nor the keys of who started the robot; copy those")
        if not -AHEAD_S <= age_s <= min(VALID_S, self._steady() - self._began_s + AHEAD_S):
            return Caller(why=f"its proof is {age_s:.0f} s old; ask again")
        if nonce in self._used:
            return Caller(why="its proof was used before; ask again")
        self._used[nonce] = None
        if len(self._used) > KEPT:
            del self._used[next(iter(self._used))]
        return Caller(role, "")


def _sealed(head: str, target: str, content: bytes) -> bytes:
    return f"{head} {target}\n".encode() + content
