# SPDX-License-Identifier: Apache-2.0
"""Decide who may open the page: tokens of roles, the names by which it is reached, and the session that ends all old tokens."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from skill_kernel.config.yaml_text import private, replace_file
from skill_kernel.roles import Act, Caller, Keys, Role, RoleError, key_role

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine, by which the page is always reached."""
LONGEST_TOKEN = 100
"""Characters."""
MAX_RECORD = 1_000_000
"""Bytes of the record of acts; one more file of that size holds what was before."""
USER = "user"
"""Name in the token of who has the keys: each act is signed by the weakest role that may do it, but never by safety."""
_HOST = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Visitor:
    """Tell who uses the page: the role of a token, or the user himself (None)."""

    role: Role | None

    @property
    def name(self) -> str:
        """Return the role, or `user`."""
        return USER if self.role is None else self.role.value

    @property
    def acts(self) -> list[str]:
        """Return the names of what he may do."""
        return [act.name for act in Act if not self.refusal(act)]

    def refusal(self, act: Act) -> str:
        """Return why he may not do so and who may, "" where he may."""
        if self.role is not None:
            return Caller(self.role, "").refusal(act)
        return "" if key_role(act) is not Role.SAFETY else "only safety may do that: ghostshell page --as safety"

    def signs(self, act: Act) -> Role:
        """Return the role by whose key an act of his is signed."""
        return self.role if self.role is not None else key_role(act)


class Access:
    """Make tokens and tell by one who it is. `folder` holds the session, which every program of the user can read."""

    def __init__(self, keys: Keys, folder: Path, names: Collection[str] = ()) -> None:
        self._keys, self._folder = keys, folder
        self._names = {*LOOPBACK, *(name.lower() for name in names)}

    def token(self, role: Role | None = None) -> str:
        """Return the token of a role, or of the user. Raises RoleError and OSError."""
        return f"{Visitor(role).name}.{self._seal(role, self._session())}"

    def renew(self) -> None:
        """End all tokens that were made so far. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self._path, secrets.token_hex(32))

    def visitor(self, token: str) -> Visitor | None:
        """Return whose token it is; None for one that is wrong or was ended."""
        name, _, seal = token[:LONGEST_TOKEN].partition(".")
        try:
            role = None if name == USER else Role(name)
            if role is Role.ANONYMOUS or not seal.isascii():
                return None
            return Visitor(role) if hmac.compare_digest(seal, self._seal(role, self._path.read_bytes())) else None
        except (ValueError, RoleError, OSError):
            return None

    def reached_by(self, host: str) -> bool:
        """Return whether the header Host names this page: what another name leads here, as in DNS rebinding, does not."""
        found = _HOST.fullmatch(host)
        return found is not None and (found["six"] or found["name"]).lower() in self._names

    def same_origin(self, origin: str, host: str) -> bool:
        """Return whether the header Origin is that of this page."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower() and not (parts.path or parts.query)

    def _seal(self, role: Role | None, session: bytes) -> str:
        content = b"page " + session
        if role is not None:
            return self._keys.seal(role, content)
        # Who has one key only must not become who has all.
        return self._keys.seal(Role.APPROVER, content + self._keys.seal(Role.OPERATOR, content).encode())

    @property
    def _path(self) -> Path:
        return self._folder / "session"

    def _session(self) -> bytes:
        if not self._path.exists():
            self.renew()
        return self._path.read_bytes()


def unreachable(host: str, names: Collection[str]) -> str:
    """Return why the page is not served at an address, "" where it is: others than this machine need a name for it."""
    if host in LOOPBACK or names:
        return ""
    return (
        f"host {host} is reached by others: say by which names in the parameter names of dashboard, or leave host at 127.0.0.1"
    )


class Record:
    """Keep who did what from where: a line of JSON an act, in a file of its owner alone."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "acts.jsonl"
        self._lock = threading.Lock()

    def write(self, visitor: Visitor, address: str, **about: Any) -> None:
        """Add an act. Raises OSError."""
        line = json.dumps(
            {"time": round(time.time(), 3), "role": visitor.name, "address": address, **about}, ensure_ascii=False
        )
        with self._lock:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._path.exists() and self._path.stat().st_size > MAX_RECORD:
                self._path.replace(self._path.with_suffix(".old.jsonl"))
            with open(self._path, "a", encoding="utf-8", errors="backslashreplace", opener=private) as file:
                file.write(line + "\n")
