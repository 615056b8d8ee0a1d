# SPDX-License-Identifier: Apache-2.0
"""`ghostshell demo`: starts the simulated robot, lets a stream of function tokens move it, keeps a picture and a film."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ghostshell_ros.runtime.data import keys_folder

if TYPE_CHECKING:
    from ghostshell.action import RunTask

    from bench.demo.film import FilmReel
    from ghostshell_ros.launcher import LaunchRun

INSTRUCTION = (
    "Stand up and shake your head. Say: let's go! Play music and rotate while counting from one to eight, then rotate back "
    "in the same way. Finish with a happy face."
)
RECORDED = "a demonstration stream, written by hand and replayed at the pace of a model; no language model runs"
SIMULATED = "simulated"
"""Name of the simulated model."""
SIMULATED_MODEL = (sys.executable, "-m", "ghostshell_ros.cli.main", "simulated-model")
"""Command that serves it."""
SAID = "a simulated one, a fixed policy with the delays of a real model (docs/simulated_model.md); no language model runs"
MODEL_UP_S = 30.0
"""Limit on the start of the simulated model."""
ROBOTS = ("coco", "kalos", "kitchen", "team", "tabletop")
FILM_EVERY_S = 0.3
"""A film of two minutes keeps no more of the simulator's frames than Kalos's simulator sends (2.5 Hz)."""


def demo(
    robot: Annotated[
        str,
        typer.Option(
            envvar="ROBOT",
            help="which to show: coco, kalos, the two in the kitchen, a team with people, or tabletop, an arm that learns",
        ),
    ] = "coco",
    instruction: Annotated[str, typer.Option(help="say something else; needs --model, unless it is a direct command")] = "",
    model: Annotated[str, typer.Option(help="model that answers; nothing: the recorded demonstration stream")] = "",
    out: Annotated[Path, typer.Option(help="folder for timeline.png, the film and the nodes' log")] = Path("out"),
    film: Annotated[bool, typer.Option("--film/--no-film", help="keep a film of the simulator")] = True,
    viewer: Annotated[
        bool, typer.Option("--viewer/--no-viewer", envvar="VIEWER", help="open MuJoCo's window; needs a display")
    ] = False,
) -> None:
    """Watch a simulated robot move while the answer is still being written. Needs no key, no GPU and no robot.

    CoCo follows one instruction, replayed. Kalos is given a task in plain words, planned by four loops while it walks; it is
    interrupted and goes on, is asked a question on the way, and meets a person. In the kitchen two manipulators roast an apple
    that somebody takes away. The team of these two, Kalos and two people sees to somebody who is ill. At the tabletop an arm is
    corrected once, and does it right from then on.

    Exit status: 0 the task succeeded, 1 it did not, 2 the robot could not be started.
    """
    if robot not in ROBOTS:
        _fail(f"there is no demonstration of '{robot}'; there is one of: {', '.join(ROBOTS)}")
    if viewer and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        _fail("the viewer needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set; leave VIEWER out")
    out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    spoken = instruction or INSTRUCTION
    story = robot != "coco" and not instruction
    spec = model or ("offline" if instruction else SIMULATED if story else _recorded(robot))
    # CoCo's recorded stream is one of function tokens; what plans in words is planned by all loops.
    planned = {"kitchen": "closed_loop", "team": "team", "tabletop": "console"}
    strategy = planned.get(robot) or ("layered" if story or model else "stream")
    arguments = {"model": spec, "strategy": strategy, "viewer": str(viewer).lower()}
    log = out / "demo.log"
    log.unlink(missing_ok=True)
    print(f"starting {robot} in the simulator (the nodes' log: {log}) …", flush=True)
    exited: list[str] = []
    with ExitStack() as ends:
        # What the story is asked for is what happened in it.
        empty = ends.enter_context(tempfile.TemporaryDirectory(prefix="ghostshell-demo-"))
        data = {"GHOSTSHELL_DATA": empty, "GHOSTSHELL_KEYS": str(keys_folder())} if story else {}
        if spec == SIMULATED:
            arguments["fast_model"] = f"{SIMULATED}-fast"
            ends.enter_context(_simulated_model())
        if robot == "tabletop":
            kept = {"GHOSTSHELL_DATA": empty, "GHOSTSHELL_KEYS": str(keys_folder())}
            launch = partial(_launched, robot, arguments, log, exited, kept)
            raise typer.Exit(_teach(launch, instruction, film, begun, SAID if spec == SIMULATED else spec, out, exited))
        with _launched("home" if robot == "team" else robot, arguments, log, exited, data) as run:
            run.start()
            if robot in ("kitchen", "team"):
                raise typer.Exit(
                    _work_together(robot, instruction, film, begun, SAID if spec == SIMULATED else spec, out, exited)
                )
            if story:
                raise typer.Exit(_tell(robot, film, begun, SAID if not model else spec, out, exited))
            what = RECORDED if not model and not instruction else spec
            from ghostshell_ros.cli.follow import exit_status

            end, filmed = _perform(robot, spoken, film, begun, what, out / "timeline.png", exited)
            if filmed is not None:
                _write_film(filmed, out / f"{robot}.gif")
    raise typer.Exit(exit_status(end))


def _work_together(robot: str, instruction: str, film: bool, begun: float, what: str, out: Path, exited: list[str]) -> int:
    """Several robots planned for together. The picture is kept however it ends."""
    from bench.demo import teams
    from ghostshell_ros.cli.follow import NotThereError, exit_status, run_task, told, wait_ready
    from ghostshell_ros.cli.robot_client import spun
    from ghostshell_ros.cli.run_view import RunScreen

    make: Callable[..., teams.TeamClient]
    if robot == "kitchen":
        make, task, title = partial(teams.KitchenClient, "kitchen"), teams.TASK, "two robots in a kitchen, strategy closed_loop"
    else:
        make, task, title = partial(teams.HomeClient, "home"), teams.HOME_TASK, "three robots and two people, strategy team"
    try:
        with spun(lambda: make(film=film, alone=bool(instruction))) as client:
            wait_ready(client, 60.0, partial(_look, exited))
            print(f"ready after {time.monotonic() - begun:.1f} s; model: {what}")
            print(f"instruction: {instruction or task}", flush=True)
            with RunScreen(client.view, client) as screen:
                end = run_task(client, instruction or task, screen, timeout_s=600.0)
            print(told(end))
            fault = client.fault if instruction else client.verdict()
            if fault:
                print(fault)
            client.draw(out / "timeline.png", title)
            print(f"timeline: {out / 'timeline.png'}")
            if client.reel is not None:
                _write_film(client.reel, out / f"{robot}.gif")
            return exit_status(end) or int(bool(fault))
    except NotThereError as error:
        _fail("; ".join([str(error), *exited]))


def _teach(
    launch: Callable[[], LaunchRun], instruction: str, film: bool, begun: float, what: str, out: Path, exited: list[str]
) -> int:
    """Correct a robot, start it anew, and see whether it has kept that."""
    from bench.demo.tabletop import AFTER, BEFORE, MOST, TableClient, draw, play
    from ghostshell_ros.cli.follow import NotThereError, exit_status, run_task, told, wait_ready
    from ghostshell_ros.cli.robot_client import spun
    from ghostshell_ros.cli.run_view import RunScreen

    needed, shots = list[int](), list[Any]()
    try:
        for number, wishes in enumerate([()] if instruction else [BEFORE, AFTER]):
            exited.clear()
            with launch() as run, ExitStack() as ends:
                run.start()
                client = ends.enter_context(spun(partial(TableClient, "tabletop", film=film, anew=number > 0)))
                wait_ready(client, 60.0, partial(_look, exited))
                print("started anew" if number else f"ready after {time.monotonic() - begun:.1f} s; model: {what}", flush=True)

                def say(text: str, client: TableClient = client) -> int:
                    print(f"instruction: {text}", flush=True)
                    with RunScreen(client.view, client) as screen:
                        end = run_task(client, text, screen, timeout_s=300.0)
                    print(told(end), flush=True)
                    return exit_status(end)

                if instruction:
                    return say(instruction)
                needed += play(client, wishes, say, partial(print, flush=True))
                shots += client.shots
            if film and client.reel is not None:
                _write_film(client.reel, out / f"tabletop{number + 1}.gif")
    except NotThereError as error:
        _fail("; ".join([str(error), *exited]))
    if shots:
        draw(shots, out / "tabletop.png")
        print(f"picture: {out / 'tabletop.png'}")
    return 0 if all(count <= MOST for count in needed) and not any(needed[1:]) else 1


def _look(exited: Sequence[str], _: str) -> None:
    """Notice a process that has ended while the robot comes up. Raises NotThereError."""
    from ghostshell_ros.cli.follow import NotThereError

    if exited:
        raise NotThereError("a process of the robot ended while it was starting; its log says why")


def _perform(
    robot: str, spoken: str, film: bool, begun: float, what: str, picture: Path, exited: list[str]
) -> tuple[RunTask.Result, FilmReel | None]:
    """Have the robot follow the instruction, and draw what became of it."""
    from bench.demo.film import FilmReel
    from bench.demo.timeline import StreamListener
    from ghostshell_ros.cli.follow import NotThereError, RobotClient, run_task, told, wait_ready
    from ghostshell_ros.cli.robot_client import spun
    from ghostshell_ros.cli.run_view import RunScreen

    try:
        with spun(lambda: RobotClient(robot)) as client:
            reel = FilmReel(client) if film else None
            stream = StreamListener(client)
            wait_ready(client, 60.0, partial(_look, exited))
            print(f"ready after {time.monotonic() - begun:.1f} s; model: {what}")
            print(f"instruction: {spoken}", flush=True)
            with RunScreen(client.view, client) as screen:
                end = run_task(client, spoken, screen, timeout_s=300.0)
            print(told(end))
            stream.draw(client.view.model, client.sent[-1].process_id, spoken, picture)
            print(f"timeline: {picture}")
            return end, reel
    except NotThereError as error:
        _fail(f"{'; '.join([str(error), *exited])}")


@contextmanager
def _simulated_model() -> Iterator[None]:
    """Run the simulated model in a process of its own, unless one runs already."""
    import socket
    import subprocess
    from urllib.parse import urlsplit

    from bench.first_line import first_line
    from planners.models.config import ConfigError, parse_spec

    try:
        port = urlsplit(parse_spec(SIMULATED).url).port
    except ConfigError as error:
        _fail(str(error))
    with socket.socket() as probe:
        probe.settimeout(2.0)
        taken = probe.connect_ex(("127.0.0.1", port)) == 0
    if taken:
        print(f"port {port} of this machine is taken; it is used as it is, in the hope that a simulated model runs there")
        yield
        return
    command = [*SIMULATED_MODEL, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        if not first_line(process, MODEL_UP_S):
            _fail(f"the simulated model ended with status {process.wait(5.0)} before it listened; what it said is above")
        yield
    except TimeoutError:
        _fail(f"the simulated model did not say where it listens within {MODEL_UP_S:g} s")
    finally:
        process.terminate()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5.0)


def _launched(robot: str, arguments: dict[str, str], log: Path, exited: list[str], data: dict[str, str]) -> LaunchRun:
    """Return the robot's processes, not started yet, with `data` in their environment besides; what they say goes to the log,
    which of them ended to `exited`."""
    from ghostshell_ros import launcher

    file = log.open("a", encoding="utf-8")

    def listen(event: launcher.Event) -> None:
        print(event, file=file, flush=True)
        if event.returncode is not None:
            exited.append(f"{event.name} ended with status {event.returncode}")

    try:
        return launcher.LaunchRun(launcher.describe(robot, arguments, {**os.environ, **data}), listener=listen)
    except launcher.LaunchError as error:
        _fail(str(error))


def _tell(robot: str, film: bool, begun: float, what: str, out: Path, exited: list[str]) -> int:
    """Several processes on one robot. The picture is kept also when the story goes another way than told."""
    from bench.demo.film import FilmReel
    from bench.demo.processes import draw_processes
    from bench.demo.story import Story, StoryClient, StoryError
    from ghostshell_ros.cli.robot_client import spun
    from skill_kernel.robot import RobotConfig
    from skill_kernel.skills.registry import SkillRegistry

    config, fault = RobotConfig.load(robot), ""
    speaks = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill).text_skill
    with spun(lambda: StoryClient(robot)) as client:
        reel = FilmReel(client, every_s=FILM_EVERY_S) if film else None
        story = Story(client, speaks.subsystems if speaks is not None else ("main",))
        deadline = time.monotonic() + 60.0
        while lacking := client.lacking:
            if exited or time.monotonic() > deadline:
                _fail("; ".join([f"not there: {lacking}; {out / 'demo.log'} says why", *exited]))
            time.sleep(0.05)
        print(f"ready after {time.monotonic() - begun:.1f} s; model: {what}", flush=True)
        try:
            story.play()
        except StoryError as error:
            fault = str(error)
    title = f"{robot}: several processes on one body"
    draw_processes(story.view, out / "timeline.png", title=title, note="measured in simulation")
    print(f"{f'NOT AS TOLD: {fault}' if fault else 'told to its end'}\ntimeline: {out / 'timeline.png'}")
    if reel is not None:
        _write_film(reel, out / f"{robot}.gif")
    return 1 if fault else 0


def _recorded(robot: str) -> str:
    from ghostshell_ros.runtime.data import config_folder

    return f"replay:{config_folder() / 'streams' / f'{robot}_demo.jsonl'}"


def _write_film(reel: FilmReel, path: Path) -> None:
    try:
        reel.write(path)
        print(f"film: {path} ({reel.frames} frames)")
    except ValueError as error:
        print(f"no film: {error}", file=sys.stderr)


def _fail(message: str) -> NoReturn:
    print(f"ghostshell demo: {message}", file=sys.stderr)
    raise typer.Exit(2)
