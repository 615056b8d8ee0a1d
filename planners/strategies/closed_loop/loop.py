# SPDX-License-Identifier: Apache-2.0
"""Plan one process in a closed loop (CLEA IV): begin each action that is due and fit, take in how it ends, and plan again when
nothing is left or something is not as it was supposed."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from planners.models.model_call import CallEnd
from planners.prompts.blocks import Layer
from planners.strategies.asking import Ask
from planners.strategies.closed_loop.actions import Action
from planners.strategies.closed_loop.answers import PlanAnswer, Status, read_plan, read_text
from planners.strategies.closed_loop.critic import Critic, Policy, Step, Verdict
from planners.strategies.closed_loop.memory import Entry, Memory, Question
from planners.strategies.closed_loop.pictures import NO_PICTURES, Pictures
from planners.strategies.closed_loop.prompts import MAX_CALLS, Prompts
from planners.strategies.closed_loop.world import Belief, World
from planners.strategies.layered.step_planner import UNVERIFIED
from planners.strategy import Interrupted, Observed, Paused, PlannerEvent, PlannerIO, Restarted, Resumed, RobotView, Task
from skill_kernel.codes import ModelCode, Outcome, TaskCode
from skill_kernel.config.sections import shown
from skill_kernel.events import CallEvent, ModelEvent, ModelKind, Notice

OPEN_PLANS, MAX_ACTIONS = 2, 40
"""Plans of the open loop, and actions of each."""
LOOK_S, FIRST_S = 1.0, 2.0
"""Times within which observations and pictures are awaited that are newer than an action's end, and the first of a task."""
SHOWN_WHY, SHOWN_FEEDBACK = 400, 5
"""Characters of a reason that the planner is told, and how many of them, the newest."""


class ClosedLoopPlanning:
    """Plan one process for one robot or several."""

    def __init__(self, task: Task, robots: Mapping[str, RobotView], io: PlannerIO) -> None:
        self._task, self._robots, self._io = task, robots, io
        self._open = io.settings["closed_loop.mode"] == "open"
        policy = Policy.NEVER if self._open else Policy(io.settings["closed_loop.critic"])
        self._prompts = Prompts(task, robots, open_loop=self._open)
        self._ask = Ask(io, task.instruction, self._prompts.system)
        self._world = World(robots, io.clock.now, io.settings["closed_loop.max_tries"])
        self._critic = Critic(robots, self._world, self._prompts, self._ask, policy, self._go_on)
        self._memory = Memory(self._observe, self._summarize, self._go_on)
        self._waiting: list[Step] = []
        """Steps of the plan that have not begun, in order."""
        self._running: list[Step] = []
        self._unseen: list[tuple[Action | None, str]] = []
        """Actions that have ended, with their feedback, and nobody has looked since; None for the begin of the task."""
        self._ended_s: dict[str, float] = {}
        self._look_by_s = 0.0
        self._question: Question | None = None
        """The planner's, or the last look at a claim."""
        self._claim: PlanAnswer | None = None
        self._supposed: Belief | None = None
        """Belief on which a plan rests that was asked for ahead of time; None for no such plan."""
        self._foretold = False
        """True once a step was rejected for what will be when something has ended that still runs."""
        self._feedback: list[str] = []
        """Why plans were stopped, since the last one that was accepted."""
        self._acted = any(call.outcome == Outcome.DONE for call in task.done)
        self._fault = ""
        """What went wrong last, while nothing that was done after it has made it good."""
        self._plans = self._rejections = self._failures = 0
        self._begun = self._paused = self._void = self._over = self._going = False
        io.recollect(self._recollected)

    # -- what happens -------------------------------------------------------------------------------------------------

    def on(self, event: PlannerEvent) -> None:
        if isinstance(event, Observed):
            if self._unseen:
                self._go_on()
        elif isinstance(event, Paused):
            self._paused = True
            self._stop_asking()
        elif isinstance(event, Interrupted):
            self._void = True
            self._stop_asking()
            self._feedback.append(f"the process was interrupted: {shown(event.cause, SHOWN_WHY)}")
            self._waiting, self._claim, self._supposed = [], None, None
        elif isinstance(event, Restarted):
            self._void, self._rejections, self._failures = False, 0, 0
            self._world.allow_again()
            self._resume()
        elif isinstance(event, Resumed) and self._paused:
            self._paused = False
            self._resume()

    def close(self, why: str) -> None:
        self._over = True
        self._stop_asking()

    def _recollected(self, lines: Sequence[str]) -> None:
        self._prompts.memory = lines
        self._begun = True
        if not self._open:
            self._memory.adopt(self._task.done)
        self._wait_for_look(None, "")
        self._go_on()

    def _stop_asking(self) -> None:
        self._memory.stop()
        for step in self._waiting:
            step.drop()
        if self._question is not None:
            self._question.cancel()
            self._question = None

    def _resume(self) -> None:
        self._world.belief.points.clear()  # somebody may have driven a robot elsewhere
        self._memory.resume()
        self._go_on()

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Do what is due. A call that ends at once comes back here, and waits until the round is over."""
        if self._going:
            self._again = True
            return
        self._going, self._again = True, True
        while self._again and self._begun and not (self._paused or self._void or self._over):
            self._again = False
            self._round()
        self._going = False

    def _round(self) -> None:
        if self._unseen and not self._looked():
            return
        self._world.look()
        self._prompts.belief, self._prompts.recent = self._memory.belief, self._memory.recent
        if self._supposed is not None and not self._running:
            self._compare(self._supposed)
        for step in tuple(self._waiting):
            if step in self._waiting:
                self._consider(step)
        if self._over or self._waiting or self._question is not None:
            return
        if self._claim is not None:
            self._verify(self._claim)
        elif self._foretold and self._running:
            if self._supposed is None and self._foreseen():
                self._plan(ahead=True)
        elif self._feedback or not self._running:
            self._plan()
        elif self._supposed is None and self._foreseen():
            self._plan(ahead=True)

    def _foreseen(self) -> bool:
        """Return whether it is known how the world will be when all that runs has ended well."""
        return not self._open and all(
            self._world.foresees(action) and action.skill not in self._robots[action.robot].about.deciding
            for action in (step.action for step in self._running)
        )

    def _compare(self, supposed: Belief) -> None:
        """Let a plan count that was asked for ahead of time, unless the world is not as it supposed."""
        self._supposed = None
        if why := self._world.otherwise(supposed):
            self._plans -= bool(self._waiting or self._claim)
            self._drop_plan()
            self._io.report(Notice(layer=Layer.PLANNER.value, text=f"plans again, because {why}"))

    def _looked(self) -> bool:
        """Hand what has ended to the memory, as soon as observations and pictures are newer; return whether they are."""
        if self._io.clock.now() < self._look_by_s and not all(map(self._fresh, self._robots)):
            return False
        pictures = Pictures.take(self._robots)
        for action, feedback in self._unseen if not self._open else ():
            self._memory.record(action, feedback, pictures)
        self._unseen.clear()
        return True

    def _wait_for_look(self, action: Action | None, feedback: str) -> None:
        """Have the round look at what has ended, or for the first time, within a bounded time."""
        self._unseen.append((action, feedback))
        wait_s = FIRST_S if action is None else LOOK_S
        self._look_by_s = self._io.clock.now() + wait_s
        self._io.clock.call_later(wait_s, self._go_on)

    def _fresh(self, name: str) -> bool:
        """Return whether a robot tells and shows what came after the last action, at the begin whether it does so at all."""
        robot, ended_s = self._robots[name], self._ended_s.get(name)
        observation = robot.observation()
        if ended_s is None:
            return observation is not None and bool(robot.images())
        stamps = [image.taken_s for image in robot.images()] + [observation.stamp if observation is not None else None]
        return all(stamp is None or stamp >= ended_s for stamp in stamps)

    def _consider(self, step: Step) -> None:
        """Begin a step that is due and fit, stop a plan of which it is not, or ask early about the next one."""
        before = self._waiting[: self._waiting.index(step)]
        if any(step.action.meets(other.action) for other in before):
            return
        ahead = self._supposed is not None
        met = [other for other in self._running if ahead or other.action.meets(step.action)]
        if met:
            why = self._critic.foresee(step, met, self._running)
            if why and not self._foretold and self._foreseen():
                self._foretold = True
                self._reject(f"{step.action} was rejected (world): once what runs has ended, {why}")
            return
        verdict = self._critic.weigh(step, self._running)
        if verdict.suits:
            self._begin(step)
        elif verdict.suits is False:
            self._reject(f"{step.action} was rejected ({verdict.by}): {verdict.why or 'no reason was given'}")

    def _begin(self, step: Step) -> None:
        self._waiting.remove(step)
        self._running.append(step)
        action = step.action
        self._io.call(action.skill, action.robot, **action.arguments).then(partial(self._ended, step))

    def _ended(self, step: Step, call: CallEvent) -> None:
        if step not in self._running:
            return
        self._running.remove(step)
        self._foretold = False
        self._world.ended(step.action, call)
        feedback = f"{call.outcome_name}: {shown(call.told, SHOWN_WHY)}" if call.told else call.outcome_name
        if not self._open:
            self._ended_s = {name: robot.steady_now() for name, robot in self._robots.items()}
            self._wait_for_look(step.action, feedback)
        if call.outcome is Outcome.DONE:
            self._rejections = self._failures = 0
            self._acted, self._fault = True, ""
            if step.action.skill in self._robots[step.action.robot].about.deciding:
                self._stop_plan(f"{step.action} {feedback}: plan anew, knowing this")
        else:
            self._fault = f"{step.action} {feedback}"
            self._failures += call.outcome in (Outcome.FAILED, Outcome.REFUSED)
            self._stop_plan(self._fault)
            if self._failures >= self._io.settings["closed_loop.max_failures"]:
                self._end(int(TaskCode.CALL_FAILED), self._fault)
        self._go_on()

    def _reject(self, why: str) -> None:
        """Have it planned again, unless that has led to nothing too often."""
        self._rejections += 1
        self._stop_plan(why)
        self._io.report(Notice(layer=Layer.CRITIC.value, text=why))
        if self._rejections >= self._io.settings["closed_loop.max_rejections"]:
            self._end(int(TaskCode.TURN_LIMIT), f"{self._rejections} plans in a row were rejected; at last {why}")
        self._go_on()

    def _stop_plan(self, why: str) -> None:
        """Void what has not begun, and what is being planned without knowing this."""
        self._drop_plan()
        self._feedback.append(why)

    def _drop_plan(self) -> None:
        for step in self._waiting:
            step.drop()
        if self._question is not None:
            self._question.cancel()
        self._waiting, self._question, self._claim, self._supposed = [], None, None, None

    # -- planning -----------------------------------------------------------------------------------------------------

    def _plan(self, *, ahead: bool = False) -> None:
        """Ask the planner; `ahead`: for when what runs has ended well, which may wait until then."""
        most = self._io.settings["closed_loop.max_plans"]
        if ahead and (self._plans >= most or not self._ask.may_ask(Layer.PLANNER)):
            return
        if not ahead and not self._ask.may_ask(Layer.PLANNER, self._go_on, self._end):
            return
        if self._memory.observing:
            return
        if self._open and self._plans and not self._feedback:
            self._unverified("the plan was carried out without another look")
            return
        if self._plans >= (OPEN_PLANS if self._open else most):
            why = self._feedback[-1] if self._feedback else "give a smaller task"
            self._end(int(TaskCode.TURN_LIMIT), f"not done after {self._plans} plans; {why}")
            return
        pictures = Pictures.take(self._robots) if self._open else NO_PICTURES
        text = self._prompts.planner(
            self._memory.seen,
            pictures,
            [step.action for step in self._running],
            [shown(why, SHOWN_WHY) for why in self._feedback[-SHOWN_FEEDBACK:]],
        )
        self._supposed = self._world.supposed(step.action for step in self._running) if ahead else None
        read = partial(read_plan, robots=self._robots, most=MAX_ACTIONS if self._open else MAX_CALLS, checked=not self._open)
        self._question = self._ask(Layer.PLANNER, text, list(pictures.images.values()), read, self._planned)

    def _planned(self, end: CallEnd[PlanAnswer]) -> None:
        self._question = None
        answer = end.value
        if self._supposed is not None and (answer is None or answer.status is Status.IMPOSSIBLE):
            return  # It is asked again when what runs has ended.
        if answer is None:
            self._no_plan(end.code, end.why)
            return
        self._ask.answered()
        self._plans += 1
        self._feedback.clear()
        self._prompts.subgoal = answer.subgoal
        if answer.status is Status.IMPOSSIBLE:
            self._end(int(TaskCode.GIVEN_UP), f"the planner gives up: {shown(answer.subgoal, SHOWN_WHY)}")
        elif answer.status is Status.DONE:
            self._claim = answer
        else:
            self._waiting = [Step(action) for action in answer.actions]
            self._io.report(Notice(layer=Layer.PLANNER.value, text=f"subgoal: {shown(answer.subgoal, SHOWN_WHY)}"))
        self._go_on()

    def _no_plan(self, code: int, why: str) -> None:
        """Ask again after an answer that could not be used, or none."""
        if code == ModelCode.MODEL_NOT_UNDERSTOOD:
            self._reject(f"no plan could be read: {why}")
        elif self._ask.lost(Layer.PLANNER, code, why):
            self._end(code, why)
        else:
            self._go_on()

    # -- the end ------------------------------------------------------------------------------------------------------

    def _verify(self, claim: PlanAnswer) -> None:
        """Have somebody look once more, when nothing runs any more."""
        if self._running:
            return
        self._question = self._critic.confirm(claim.subgoal, self._confirmed)
        if self._question is None:
            self._unverified("no critic looked at it" if self._open else "no critic, or no picture for it to look at")

    def _confirmed(self, verdict: Verdict) -> None:
        claim, self._question = self._claim, None
        assert claim is not None  # the question would have been taken back with it
        if verdict.suits:
            self._end(0, shown(claim.subgoal, SHOWN_WHY))
        elif verdict.suits is None:
            self._unverified(f"the critic gave no verdict ({verdict.why})")
        else:
            self._reject(f"the task is not done, though “{shown(claim.subgoal)}” was claimed: {verdict.why}")

    def _unverified(self, why: str) -> None:
        """End a task whose plan is over and at which nobody could look."""
        if self._fault:
            self._end(int(TaskCode.CALL_FAILED), self._fault)
        elif not self._acted:
            self._end(int(TaskCode.ONLY_WORDS), f"nothing was done, and nobody could tell that nothing had to be: {why}")
        else:
            self._end(0, f"{UNVERIFIED}: {why}")

    def _end(self, code: int, why: str) -> None:
        if not self._over:
            self.close(why)
            self._io.finish(code, why)

    # -- observer and summarizer --------------------------------------------------------------------------------------

    def _observe(self, pictures: Pictures, heard: Callable[[str], None]) -> Question:
        if not pictures.images:
            return self._io.clock.call_later(0.0, partial(heard, "there was no picture to describe"))
        text = self._prompts.observer(pictures)
        answered = partial(self._described, Layer.OBSERVER, heard)
        return self._ask(Layer.OBSERVER, text, list(pictures.images.values()), read_text, answered)

    def _summarize(self, entries: Sequence[Entry], heard: Callable[[str], None]) -> Question:
        answered = partial(self._described, Layer.SUMMARIZER, heard)
        return self._ask(Layer.SUMMARIZER, self._prompts.summarizer(entries), (), read_text, answered)

    def _described(self, layer: Layer, heard: Callable[[str], None], end: CallEnd[str]) -> None:
        if end.value is None:
            how = "goes on by outcomes and observations alone"
            self._io.report(ModelEvent(kind=ModelKind.DEGRADED, layer=layer.value, fallback=how, error_msg=end.why))
        heard(end.value or "")
