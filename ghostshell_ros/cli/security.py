# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell security`: keys and permissions for those who may take part in a robot's ROS graph."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ghostshell_ros.cli.output import fail
from ghostshell_ros.runtime.data import data_folder

TRIAL_S = 30.0
security = typer.Typer(help="Keys and permissions of SROS 2: who may take part in a robot's ROS graph.", no_args_is_help=True)
Of = Annotated[str, typer.Argument(metavar="ROBOT", help="shipped robot or team, or a policy's file called like its robot")]
Name = Annotated[str, typer.Option(help="namespace of the robot, if it is another one")]


@security.command()
def init(robot: Of, name: Name = "") -> None:
    """Make a keystore ($ROS_SECURITY_KEYSTORE, or below the data folder), and new keys for each process and role of a robot."""
    library, *place = _opened(robot, name)
    folder, policy, domain = place
    try:
        library.make(*place)
    except library.UNREADABLE as error:
        fail(f"no keys can be made in '{folder}': {error}", command="security init", status=1)
    print(f"{len(policy.enclaves)} enclaves for ROS domain {domain} are in '{folder}'. Start the robot with security:=enforce.")
    print("Only the next init needs the folder private/ in it: keep that off the robot. For a person's terminal:")
    print(f"  export ROS_SECURITY_ENABLE=true ROS_SECURITY_STRATEGY=Enforce ROS_SECURITY_KEYSTORE='{folder}'")
    print(f"  export ROS_SECURITY_ENCLAVE_OVERRIDE={policy.namespace}/operator")


@security.command()
def check(robot: Of, name: Name = "") -> None:
    """Say what is missing, expires, is open to others or not as the policy says, and whether this ROS can enforce it at all.

    Exit status: 0 all is well, 1 it is not.
    """
    library, *place = _opened(robot, name)
    folder, policy, _ = place
    found = list(library.faults(*place))
    tried = next((e for e in policy.enclaves if e.endswith("/safety_gate")), policy.enclaves[0])
    if found:
        found.append(f"`ghostshell security init {robot}` makes new keys and permissions")
    elif why := refusal({**os.environ, "ROS_SECURITY_KEYSTORE": str(folder)}, tried):
        found = [why]
    print("\n".join(found) or f"the keystore '{folder}' is as the policy says, and ROS starts a node with it")
    raise typer.Exit(1 if found else 0)


def _opened(robot: str, name: str) -> tuple[Any, Path, Any, int]:
    """Return the library, the keystore's folder, the policy and the ROS domain; end the command where one is not to be had."""
    try:
        from ghostshell_ros import security as library
    except ImportError as error:
        fail(f"{error}: pip install -r requirements/security.txt", command="security", status=1)
    try:
        folder = Path(os.environ.get("ROS_SECURITY_KEYSTORE") or data_folder() / "keystore").expanduser().absolute()
        return library, folder, library.Policy(robot, name), int(os.environ.get("ROS_DOMAIN_ID") or 0)
    except library.PolicyError as error:
        fail(error, command="security")


def refusal(environment: Mapping[str, str], enclave: str) -> str:
    """Return why ROS starts no node in an enclave, or "". Starts one for a moment, in a process of its own."""
    namespace, _, node = enclave.rpartition("/")
    program = f"import os, rclpy; rclpy.init(); rclpy.create_node('{node}', namespace='{namespace}'); os._exit(0)"
    secured = {"ROS_SECURITY_ENABLE": "true", "ROS_SECURITY_STRATEGY": "Enforce", "ROS_SECURITY_ENCLAVE_OVERRIDE": enclave}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env={**environment, **secured}, capture_output=True, text=True, timeout=TRIAL_S, check=False)
    if done.returncode == 0:
        return ""
    if "doesn't have the security libraries" in done.stderr:
        return "the Fast DDS of this ROS was built without security, as that of the wheels is: use ROS 2 from apt"
    return f"ROS starts no node in the enclave {enclave}: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
