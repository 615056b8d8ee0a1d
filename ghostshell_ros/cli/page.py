# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell page`, which prints the address of the operator's page."""

import fcntl
import json
from typing import Annotated

import typer

from ghostshell_ros.cli.output import fail
from ghostshell_ros.halt_door import ros_domain
from ghostshell_ros.nodes.dashboard.access import Access
from ghostshell_ros.runtime.data import data_folder, keys_folder
from skill_kernel.roles import Keys, Role, RoleError


def page(
    as_: Annotated[
        Role | None, typer.Option("--as", help="role in which its visitors act; without it, the weakest that may do each act")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="end every address that was printed so far")] = False,
) -> None:
    """Print the address of the operator's page, which shows all robots of this ROS domain. Whoever has it can do what its role
    may."""
    if as_ is Role.ANONYMOUS:
        fail("an address has a role: viewer, operator, approver or safety", command="page")
    folder = data_folder() / "page"
    access = Access(Keys(keys_folder()), folder)
    try:
        if new:
            access.renew()
        with open(folder / f"domain_{ros_domain()}.json", encoding="utf-8") as file:
            address = json.loads(file.read() or "{}").get("address", "")
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                address = ""  # its node has ended
            except OSError:
                pass
        token = access.token(as_)
    except FileNotFoundError:
        address = ""
    except (OSError, ValueError, RoleError) as error:
        fail(error, command="page")
    if not address:
        fail(f"no page is served on ROS domain {ros_domain()}; start a robot, such as: ghostshell launch coco", command="page")
    print(f"page: {address}/?token={token}")
