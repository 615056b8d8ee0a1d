# SPDX-License-Identifier: Apache-2.0
"""Define the seam between planning strategies and the robot: how an instruction becomes actions (docs/strategies.md).

A strategy is a class found by an entry point of the group `ghostshell.strategies`. It is started once for each process, gets
what happens as events and acts through one object, `PlannerIO`. All of it runs on one thread and on an injected clock, so a
strategy imports no ROS, never blocks and never sleeps.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from function_tokens.parsing.tokens import FunctionToken
from function_tokens.routines import RoutineStore
from planners.learned import LearnedStore
from planners.models.base import Image, ModelRequest
from planners.models.model_call import AnswerEnd, Handle
from planners.people import People, Said
from planners.plan import Plan
from planners.prompts.prompt import CallReport, RobotFacts
from planners.scene import Present
from skill_kernel.clock import Clock
from skill_kernel.config.plugins import PluginError, plugins
from skill_kernel.events import CallEvent, ModelEvent, Notice, ProcessEvent, StreamEvent
from skill_kernel.observation.model import Observation

T = TypeVar("T")
GROUP = "ghostshell.strategies"
"""Group of the entry points that name strategies."""

# -- what a strategy declares -----------------------------------------------------------------------------------------


class Feed(Enum):
    """Name what other nodes do for the processes of a strategy that asks for it."""

    PLANS = "plans"
    """System 2 splits each task into subtasks; every revision arrives as a `Plan`."""
    ADVICE = "advice"
    """System 3 reads what a new instruction means for the processes that run already."""
    OBSERVATION = "observation"
    """Each new observation arrives as `Observed`."""


@dataclass(frozen=True)
class ModelRole:
    """Describe who answers one kind of question. Its name stands in events, in usage and in budgets.

    `model`: the node's parameter that names the model. `deadline_s`: an upper bound for each answer [s], beside the one of
    the request itself.
    """

    name: str
    model: Literal["model", "fast_model"] = "model"
    deadline_s: float = float("inf")


@dataclass(frozen=True)
class Parameter:
    """Describe a parameter of a strategy, which the planner node declares. Its value stands in `PlannerIO.settings`.

    Name it after the strategy (`console.max_examples`) unless it is shared. Two strategies may share a parameter when both
    describe it in the same way. `choices`: the texts that it may be. `live`: it may change while the node runs.
    """

    name: str
    default: bool | int | float | str
    description: str
    minimum: float | None = None
    maximum: float | None = None
    live: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """Hold the task of one process. `done`: calls of it that ended before it was planned here. `earlier`: the tasks before it,
    as prompts show them (`earlier_tasks`)."""

    process_id: str
    instruction: str
    sender: str = ""
    done: Sequence[CallReport] = ()
    earlier: Sequence[Mapping[str, str]] = ()


# -- what happens -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Observed:
    """Tell that there is a new observation (`Feed.OBSERVATION`)."""


@dataclass(frozen=True)
class Paused:
    """Tell that the process is paused: its calls wait, and it should ask nothing."""


@dataclass(frozen=True)
class Resumed:
    """Tell that the process goes on as it was."""


@dataclass(frozen=True)
class Interrupted:
    """Tell that everything written so far is void. Either `Restarted` follows or the process ends."""

    cause: str


@dataclass(frozen=True)
class Restarted:
    """Tell that the process goes on with nothing running and nothing queued. `done`: its calls that have ended."""

    done: Sequence[CallReport]


@dataclass(frozen=True)
class Heard:
    """Tell that somebody said something in the team's chat."""

    said: Said


PlannerEvent: TypeAlias = CallEvent | StreamEvent | Plan | Observed | Paused | Resumed | Interrupted | Restarted | Heard
"""Name what a strategy hears.

CallEvent STARTED and ENDED, once for each call; StreamEvent STOP_GENERATION (the channel scheduler takes no more of a stream),
TURN_ENDED (all its calls have ended; `end`: end, observe, plan_done, failure or interrupt) and REPAIR (the parser mended its
text); each revision of System 2's plan (`Feed.PLANS`); and what happens to the process.
"""

Report: TypeAlias = ProcessEvent | ModelEvent | Notice
"""Name what a strategy may tell.

ProcessEvent SUBTASK_DONE, PLAN_EVENT (an event of the plan has come true) and CLAIMED (it holds the task for done, and System 2
is to look again), ModelEvent SKIPPED (a role asks nothing) and
DEGRADED (it goes on without its model), Notice (something that a person should read).
"""

# -- the doors --------------------------------------------------------------------------------------------------------


class Judge(Protocol):
    """Say whether a sentence holds now: `answer` hears True, False, or None when nobody can tell."""

    def __call__(self, sentence: str, answer: Callable[[bool | None], None]) -> None: ...


class StreamHandle(Protocol):
    """One stream on its way to the channel scheduler."""

    @property
    def stream_id(self) -> str:
        """Return the id that events of this stream carry."""

    @property
    def ended(self) -> bool:
        """Return whether nothing more can be written to it."""

    def text(self, text: str) -> None:
        """Write the next piece of text; the parser makes tokens of it."""

    def end(self, code: int = 0, why: str = "") -> None:
        """End it. A code other than 0 says that it was broken off. Does nothing the second time."""


class CallHandle(Protocol):
    """One call made by `PlannerIO.call`."""

    @property
    def ended(self) -> CallEvent | None:
        """Return how it ended; None while it waits or runs."""

    def then(self, callback: Callable[[CallEvent], None]) -> None:
        """Call back once with its outcome, at once if it has ended already."""


class RobotView(Protocol):
    """Knowledge of a robot that a strategy gets."""

    about: RobotFacts
    """Its name, skills, places and the fields of its observation."""
    routines: RoutineStore
    """The routines it was taught."""

    def observation(self) -> Observation | None:
        """Return the newest observation, however old; None before the first. Its stamps are on `steady_now`."""

    def observed(self) -> Mapping[str, Any] | None:
        """Return the observation as prompts show it; None while no observer says anything."""

    def present(self) -> Present:
        """Return what is known now, for plain questions that are answered without a language model."""

    def images(self) -> Sequence[Image]:
        """Return the camera's last image where the node sends images (parameter `send_images`)."""

    def steady_now(self) -> float:
        """Return the time of the clock that observations are stamped with [s]."""

    def now_s(self) -> float:
        """Return ROS time [s], by which calls are stamped."""

    def check(self, name: str, attributes: Mapping[str, str]) -> str:
        """Return what is wrong with a call as a stream would write it; empty when it can be performed."""

    def system_prompt(self, make: Callable[[RobotFacts], str]) -> str:
        """Return what `make` makes of the robot; made once for each set of skills."""


class PlannerIO(Protocol):
    """The only door of a strategy to models and robot, one for each process. Nothing here blocks."""

    clock: Clock
    """Steady time, and timers on the thread of the strategy."""
    settings: Mapping[str, Any]
    """Parameters by name: those of the strategy, `deadline_s` and `max_output_tokens` of an answer."""
    folder: Path
    """Where the strategy may keep files that outlive its process. It may not exist yet."""
    judge: Judge | None
    """Asks a model whether a sentence holds now; None without a language model."""
    people: People
    """The people who may be asked, and what they said; nobody outside of a team."""
    learned: LearnedStore | None
    """What the robot has learned from corrections, in the robots' memory; None where nothing is kept of it."""

    def thinks(self, role: str) -> bool:
        """Return whether a language model answers the role, and not the parser of direct commands."""

    def allowance(self, role: str) -> tuple[bool, float, str]:
        """Return whether the budget lets the role ask, in how many seconds at the earliest, and why not."""

    def ask(
        self,
        role: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream: StreamHandle | None = None,
    ) -> Handle:
        """Ask a model. `on_text` hears each piece and `on_end` the end, once, never from within this call. `stream`: the
        stream that the answer is written to, named in events. Raises KeyError for a role that the strategy does not
        declare."""

    def recollect(self, then: Callable[[Sequence[str]], None]) -> None:
        """Ask the robots' memory what bears on the task. `then` hears the lines of the block MEMORY once: none, and at once,
        without a memory or a language model, else within the deadline of the node."""

    def work(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do what takes long, or blocks, on the thread that all strategies of the node share for that, one after the other;
        `then` hears what it returned. It is done also where the process ends before, and `then` hears nothing."""

    def open(self, turn: int) -> StreamHandle:
        """Begin a stream to be written piece by piece. Of streams of one turn all end with the first failure; a stream of a
        later turn was written in the knowledge of it."""

    def perform(self, tokens: Iterable[FunctionToken]) -> StreamHandle:
        """Perform these tokens as one stream, in a turn of its own."""

    def call(self, skill: str, robot: str = "", /, **arguments: Any) -> CallHandle:
        """Call a skill with typed arguments, as a stream of one call: the same scheduler, kernel and laws as for a model's
        streams. Its end holds the typed value. It ends exactly once: REFUSED with code and reason for a skill, an
        argument or a robot that does not exist, INTERRUPTED or FAILED when the process is interrupted or the stream is lost.
        `robot`: the one of a team that is to do it; "" is the only one.

        A team asks a person by `call("ask", "", person=…, text=…, choices=…, within=…, why=…)`; "" is whoever answers first.
        Its value is the `Reply` as a mapping: answer (a `Kind`), text, person, instead. Silence ends it FAILED with NO_ANSWER
        after `within` [s], and one who may not be asked now REFUSED with PERSON_BUSY."""

    def unavailable(self, robot: str) -> str:
        """Return why a robot takes no calls now, as "out of reach" or "halted"; "" where it takes them."""

    def stop(self, why: str, then: Callable[[], None]) -> None:
        """Stop all that runs of the process; `then` is called when it was told to, at a deadline at the latest."""

    def report(self, report: Report) -> None:
        """Tell everybody who follows the process. Which process it is, is filled in."""

    def finish(self, code: int = 0, why: str = "") -> None:
        """End the plan: no further stream follows. 0 when the task was carried out, else a `TaskCode` and the reason. The
        process ends when what runs has ended. Does nothing the second time."""


class Planning(Protocol):
    """Plan one process. Each method is called on the same thread as all callbacks of `PlannerIO`."""

    def on(self, event: PlannerEvent) -> None:
        """Take note of what happened. Ignore what is of no interest."""

    def close(self, why: str) -> None:
        """Ask and write no more: the process has ended, or can be planned no further. Called once, also after
        `PlannerIO.finish`; nothing is called after this."""


class Strategy(ABC):
    """Turn instructions into actions. One object serves all processes of a robot; it is made without arguments.

    An exception that leaves a strategy ends its process as failed and says so; other processes go on.
    """

    name: str
    """The name of its entry point."""
    roles: Sequence[ModelRole] = ()
    needs: str = ""
    """Role without whose language model each task is refused; "" for none."""
    wants: frozenset[Feed] = frozenset()
    parameters: Sequence[Parameter] = ()

    def refusal(self, thinks: Callable[[str], bool]) -> str:
        """Return why each task is refused, "" where none is. `thinks`: whether a language model plays a role."""
        missing = self.needs and not thinks(self.needs)
        return f"the strategy {self.name} needs a language model; name one in the parameter `model`" if missing else ""

    def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Import what is slow to import. Called once, on a thread of its own, after the node has started."""

    @abstractmethod
    def start(self, task: Task, robot: RobotView, io: PlannerIO) -> Planning:
        """Begin to plan a process. Asking and performing may begin at once."""


class TeamStrategy(Strategy):
    """Plan for one robot or several. Of several it runs in a node without a body: there it acts by `PlannerIO.call` alone,
    since a stream belongs to one robot, and `PlannerIO.stop` stops its calls on all of them."""

    @abstractmethod
    def start_team(self, task: Task, robots: Mapping[str, RobotView], io: PlannerIO) -> Planning:
        """Begin to plan a process for these robots by name, as `start` does for one."""

    def start(self, task: Task, robot: RobotView, io: PlannerIO) -> Planning:
        return self.start_team(task, {robot.about.name: robot}, io)


# -- installed strategies ----------------------------------------------------------------------------------------------


def strategy_names() -> tuple[str, ...]:
    """Return the names of all installed strategies. Raises PluginError when two packages claim one name."""
    return tuple(plugins(GROUP))


def load_strategies() -> tuple[dict[str, Strategy], dict[str, str]]:
    """Return the installed strategies by name, and the names of those that cannot be used with the reason.

    Raises PluginError when two packages claim one name.
    """
    strategies: dict[str, Strategy] = {}
    broken: dict[str, str] = {}
    for name, point in plugins(GROUP).items():
        try:
            made = point.load()
            strategy = made() if callable(made) else made
            if not isinstance(strategy, Strategy) or strategy.name != name:
                raise PluginError(f"it is no Strategy of the name '{name}'")
            _check_shared(strategy, strategies.values())
        except Exception as error:  # noqa: BLE001 - a broken package must not take the robot with it
            broken[name] = f"strategy '{name}' ({point.value}) cannot be used: {type(error).__name__}: {error}"
        else:
            strategies[name] = strategy
    return strategies, broken


def strategies_that_want(feed: Feed) -> frozenset[str]:
    """Return the names of the installed strategies that ask for a feed. Raises PluginError as `load_strategies` does."""
    return frozenset(name for name, strategy in load_strategies()[0].items() if feed in strategy.wants)


def _check_shared(new: Strategy, known: Iterable[Strategy]) -> None:
    """Refuse a strategy that describes a role or a parameter of another one differently."""
    parameters, roles = {p.name: p for p in new.parameters}, {r.name: r for r in new.roles}
    for other in known:
        for p in other.parameters:
            if parameters.get(p.name, p) != p:
                raise PluginError(f"strategies '{other.name}' and '{new.name}' describe the parameter '{p.name}' differently")
        for role in other.roles:
            if roles.get(role.name, role) != role:
                raise PluginError(f"strategies '{other.name}' and '{new.name}' describe the role '{role.name}' differently")


def parameters_of(strategies: Iterable[Strategy]) -> list[Parameter]:
    """Return each parameter of the strategies once."""
    return list({p.name: p for s in strategies for p in s.parameters}.values())
