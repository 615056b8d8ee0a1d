# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell doctor`: say what this machine, a robot's files and its model lack before the robot is launched."""

import itertools
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from ghostshell_ros.cli.output import fail
from ghostshell_ros.halt_door import robots_here, ros_domain
from ghostshell_ros.launcher.checks import Start, check_model, fault_of_domain
from ghostshell_ros.runtime.data import data_folder, keys_folder, model_config
from ghostshell_ros.runtime.priority import HINT
from planners.models.config import OFFICIAL_KEY, is_local, key_variable
from skill_kernel.review import review

OK, WARNING, PROBLEM = "ok", "warning", "problem"
Finding = tuple[str, str]
"""A level, one of these three, and a sentence; where the level is not OK, it says what to do."""
CORES, MEMORY_GB, DISK_GB = 2, 1.0, 1.0
"""Cores that a simulated robot wants, and memory and disk that it wants to have free."""
RENDER_S = 20.0
"""Time in which MuJoCo must be ready to draw."""
FIND_S = 5.0
"""Time in which two participants of one machine find each other; half a second is usual."""


def doctor(
    robot: Annotated[str, typer.Option(help="robot to check, a name or a YAML file")] = "coco",
    model: Annotated[str, typer.Option(help="model to check, a name in the file of models or provider:model")] = "offline",
    models: Annotated[str, typer.Option(help="file of models; empty: the shipped one")] = "",
    robot_name: Annotated[str, typer.Option(hidden=True)] = "",
    fast_model: Annotated[str, typer.Option(hidden=True)] = "",
    strategy: Annotated[str, typer.Option(hidden=True)] = "",
    prompt: Annotated[str, typer.Option(hidden=True)] = "full",
    dialect: Annotated[str, typer.Option(hidden=True)] = "xml",
    team: Annotated[str, typer.Option(hidden=True)] = "",
    before_launch: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Check machine, installation, robot, model, key and network, in one line each. Starts and changes nothing.

    Exit status: 0 no problem, 1 a problem.
    """
    if before_launch:  # of `ros2 launch`, which shows what stands on standard error
        found = Start(robot, robot_name, model, fast_model, models, strategy, prompt, dialect, team=team).check(os.environ)
        sys.stderr.writelines(f"{remark}\n" for remark in found.remarks)
        if found.faults:
            fail(found.faults[0], command="launch", status=1)
        return
    parts = (_machine(), _installation(), _robot(robot), _model(model, models), _rendering(), _rights(), _audio(), _network())
    problem = False
    for level, text in itertools.chain.from_iterable(parts):
        print(f"{level:8} {text}", flush=True)
        problem = problem or level == PROBLEM
    raise typer.Exit(int(problem))


def _machine() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0))
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    memory_gb, disk_gb = int(memory["MemAvailable"].split()[0]) / 1e6, shutil.disk_usage(Path.home()).free / 1e9
    text = f"Python {platform.python_version()}, {cores} cores, {memory_gb:.1f} GB of memory and {disk_gb:.0f} GB of disk free"
    scarce = cores < CORES or memory_gb < MEMORY_GB or disk_gb < DISK_GB
    wants = f"; a simulated robot wants {CORES} cores, {MEMORY_GB:g} GB and {DISK_GB:g} GB"
    yield (WARNING, text + wants) if scarce else (OK, text)


def _installation() -> Iterator[Finding]:
    try:
        import ghostshell.msg  # noqa: F401
        import rclpy
    except ImportError as error:
        yield PROBLEM, f"ROS or the build is missing ({error}); run make setup, or source ROS 2 Jazzy and scripts/env.sh"
        return
    apt = "/opt/ros/" in rclpy.__file__
    yield OK, f"ROS 2 {'from apt' if apt else 'from wheels, which bring no `ros2` command: use those of `ghostshell`'}"
    setup = Path(__file__).resolve().parents[2] / "scripts" / "setup.sh"
    if setup.is_file():
        current = subprocess.run([setup, "--check"], check=False).returncode == 0
        yield (OK, "the build is up to date") if current else (PROBLEM, "the build is older than the sources; run make setup")


def _robot(name: str) -> Iterator[Finding]:
    found = review(name)
    yield from ((PROBLEM, fault) for fault in found.faults)
    yield from ((WARNING, remark) for remark in found.remarks)
    if not found.faults:
        yield OK, f"robot '{name}': its file, skills and body fit together"


def _model(name: str, models: str) -> Iterator[Finding]:
    fault, remark = check_model(name, models, os.environ)
    if fault:
        yield PROBLEM, fault
        return
    config = model_config(name, models)
    if config.provider not in OFFICIAL_KEY:
        yield OK, f"model {config.name} needs no key and no server"
    elif is_local(config.url, this_machine=True):
        context = f"its server takes connections at {config.url}; give it a context of 16,384 tokens (see models.yaml)"
        yield (PROBLEM, remark) if remark else (OK, f"model {config.name}: {context}")
    else:
        key = f"the key in {variable} is set" if (variable := key_variable(config)) else "no key is needed"
        yield OK, f"model {config.name}: {key}; {config.url} is not on this machine and was not asked"


def _rendering() -> Iterator[Finding]:
    trial = [sys.executable, "-c", "import mujoco; mujoco.GLContext(8, 8).make_current()"]
    try:
        done = subprocess.run(trial, capture_output=True, text=True, timeout=RENDER_S, check=False)
        why = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    except subprocess.TimeoutExpired:
        why = f"it takes more than {RENDER_S:g} s"
    missing = f"MuJoCo cannot draw camera images ({why}); install libegl1 and libgl1-mesa-dri, then open a new shell"
    yield (WARNING, missing) if why else (OK, f"MuJoCo draws camera images by {os.environ.get('MUJOCO_GL', 'its own choice')}")


def _rights() -> Iterator[Finding]:
    allowed = os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_RTPRIO)[0] != 0
    denied = f"no real-time priority for gate and reflexes; {HINT}"
    yield (OK, "real-time priority is allowed") if allowed else (WARNING, denied)
    folder, keys = data_folder(), keys_folder()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK):
        yield PROBLEM, f"the data folder {folder} cannot be written; correct its owner, or name another one in GHOSTSHELL_DATA"
    elif keys.exists() and keys.stat().st_mode & 0o077:
        yield PROBLEM, f"others can read the keys of this robot's operators; chmod 700 '{keys}'"
    else:
        yield OK, f"the data folder {folder} can be written, and no one else can read its keys"


def _audio() -> Iterator[Finding]:
    lacking = [name for name in ("espeak-ng", "aplay") if shutil.which(name) is None]
    silent = f"{' and '.join(lacking)} missing: speech and sounds take their time in silence; apt install espeak-ng alsa-utils"
    yield (WARNING, silent) if lacking else (OK, "speech and sounds can be played")


def _network() -> Iterator[Finding]:
    if fault := fault_of_domain(os.environ):
        yield PROBLEM, fault
        return
    domain, reach = ros_domain(), os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
    try:
        found_s, gates = _meet()
    except ImportError:  # `_installation` has told it
        return
    two = "DDS: two programs of this machine"
    if found_s is None:
        yield PROBLEM, f"{two} do not find each other within {FIND_S:g} s; allow UDP on the interface lo"
    else:
        yield OK, f"{two} found each other in {found_s:.1f} s; ROS domain {domain}, discovery {reach}"
    running = sorted({*robots_here(domain), *gates})
    yield OK, f"robots that run: {', '.join(running) or 'none'}"


def _meet() -> tuple[float | None, list[str]]:
    """Let two ROS participants look for each other; return the time it took [s], and the robots whose gates were seen."""
    import rclpy

    from ghostshell_ros.runtime.node_runtime import prefer_profiles

    prefer_profiles()
    with ExitStack() as ends:
        nodes = []
        for name in ("doctor_seeks", "doctor_hides"):
            context = rclpy.Context()
            rclpy.init(context=context, signal_handler_options=rclpy.SignalHandlerOptions.NO)
            ends.callback(rclpy.try_shutdown, context=context)
            nodes.append(rclpy.create_node(name, context=context, use_global_arguments=False))
            ends.callback(nodes[-1].destroy_node)
        began_s = time.monotonic()
        while "doctor_hides" not in nodes[0].get_node_names():
            if time.monotonic() - began_s > FIND_S:
                return None, []
            time.sleep(0.02)
        found_s = time.monotonic() - began_s
        seen = nodes[0].get_node_names_and_namespaces()
        return found_s, [namespace.strip("/") for name, namespace in seen if name == "safety_gate"]
