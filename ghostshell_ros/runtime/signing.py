# SPDX-License-Identifier: Apache-2.0
"""Sign requests by the key of a role, and tell by the signature who asks."""

import copy
import json
import time
from typing import Any

from rclpy.node import Node

from ghostshell_ros.runtime.data import keys_folder
from ghostshell_ros.wire.codec import plain
from skill_kernel.roles import ANYBODY, Caller, Keys, ProofReader, Role, RoleError


def signed(node: Node, name: str, request: Any, role: Role) -> Any:
    """Return the request to the service or action `name` with a proof by the role's key; without one where there is no key."""
    request = copy.copy(request)
    request.proof = ""
    if role is not Role.ANONYMOUS:
        try:
            request.proof = Keys(keys_folder()).proof(role, _target(node, name), _content(request), now_s=time.time())
        except RoleError as error:
            node.get_logger().warning(f"{name} is asked without a proof: {error}")
    return request


class Doorkeeper:
    """Tell who asks a service or action, by the field `proof` of its requests."""

    def __init__(self, node: Node, name: str) -> None:
        self._proofs = ProofReader(Keys(keys_folder()), _target(node, name), wall=time.time, steady=time.monotonic)

    def caller(self, request: Any) -> Caller:
        """Return who asks. A request counts once."""
        return self._proofs.caller(request.proof, _content(request)) if request.proof else ANYBODY


def _content(request: Any) -> bytes:
    """Return all fields but the proof, alike at both ends: serialised by the middleware, gaps between them would be random."""
    return json.dumps({**plain(request), "proof": ""}).encode()


def _target(node: Node, name: str) -> str:
    return f"{node.context.get_domain_id()} {node.resolve_service_name(name)}"
