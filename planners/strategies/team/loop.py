# SPDX-License-Identifier: Apache-2.0
"""Plan one process of a team (InteractGen III): understand, perceive, plan, assign, validate, act, reflect, and again."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from planners.language.choices import chosen
from planners.language.stop_words import is_stop
from planners.models.base import Image
from planners.models.model_call import AnswerError, CallEnd, ModelCall
from planners.people import ASK, Kind, Reply
from planners.prompts.blocks import Layer
from planners.scene import snapshot
from planners.strategies.asking import Ask
from planners.strategies.closed_loop.actions import Action, read_action
from planners.strategies.closed_loop.pictures import NO_PICTURES, Pictures
from planners.strategies.team.answers import (
    Answer,
    Assignment,
    Assignments,
    Clarity,
    Perception,
    Proposal,
    Review,
    ToaPlan,
    Validity,
    read_answer,
)
from planners.strategies.team.errand import AGAIN_S, Errand, Request
from planners.strategies.team.prompts import Prompts
from planners.strategies.team.toa import State, Step
from planners.strategy import Heard, Interrupted, Observed, Paused, PlannerEvent, PlannerIO, Restarted, Resumed, RobotView, Task
from skill_kernel.codes import CallCode, ModelCode, Outcome, TaskCode
from skill_kernel.config.sections import nearest, shown
from skill_kernel.events import CallEvent, Notice, NoticeKind
from skill_kernel.processes.questions import MAX_CHOICE, MAX_CHOICES, MAX_QUESTION, PRIVATE, bad_question

A = TypeVar("A", bound=Answer)

MAX_QUESTIONS = 2
"""Questions about one instruction."""
BUSY_S = 120.0
"""A robot that does something else is tried again for so long."""
SHOWN_WHY = 300


class TeamPlanning:
    """Plan one process for robots and people. One agent is asked at a time, while robots and people go on with their steps."""

    def __init__(self, task: Task, robots: Mapping[str, RobotView], io: PlannerIO) -> None:
        self._task, self._robots, self._io = task, robots, io
        self._off = [layer for layer in _MAY_BE_OFF if not io.settings[f"team.{layer}"]]
        self._prompts = Prompts(task, robots, io, self._off)
        self._graph = self._prompts.graph
        self._asking = Ask(io, task.instruction, self._prompts.system)
        self._question: ModelCall[Any] | None = None
        self._next: Callable[[], None] = self._understand
        """Asks the agent whose turn it is; `_act` where nobody's is."""
        self._steps: list[dict[str, Any]] = []
        """Steps of the planner that nobody has been given."""
        self._errands: dict[int, Errand] = {}
        self._named: list[tuple[Step, str]] = []
        """Requests whose person named somebody else, with that one's name; the validator has not seen these."""
        self._standing = False
        self._proposal: Proposal | None = None
        self._news = self._looking = False
        self._pictures: Pictures | None = None
        """Pictures for the perceiver, once they are encoded."""
        self._scenes: dict[str, object] = {}
        self._asked = self._plans = self._rejections = self._answered = 0
        """Counts; `_answered` is how many of the reasons for a plan its planner was told."""
        self._leave = False
        """True once the proposal's person has agreed to it."""
        self._request: Request | None = None
        """What a person is asked about the task."""
        self._begun = self._paused = self._void = self._over = self._going = False
        io.recollect(self._recollected)

    # -- what happens -------------------------------------------------------------------------------------------------

    def on(self, event: PlannerEvent) -> None:
        if isinstance(event, Heard):
            self._news = self._news or not event.said.private or event.said.person == self._task.sender
        elif isinstance(event, Observed):
            if not self._standing or not self._changed():
                return
            self._news = True
        elif isinstance(event, Paused):
            self._paused = True
            self._take_back()
        elif isinstance(event, Interrupted):
            self._void = True
            self._take_back()
            why = f"the process was interrupted: {shown(event.cause, SHOWN_WHY)}"
            self._give_up_steps(why)
            self._need_plan(why)
            if self._next != self._understand:
                self._next = self._act
        elif isinstance(event, Restarted):
            self._void = False
        elif isinstance(event, Resumed):
            self._paused = False
        self._go_on()

    def close(self, why: str) -> None:
        self._over = True
        self._take_back()
        self._drop_requests()

    def _recollected(self, lines: Sequence[str]) -> None:
        self._prompts.memory = lines
        self._begun = True
        self._go_on()

    def _take_back(self) -> None:
        if self._question is not None:
            self._question.cancel()
            self._question = None

    def _drop_requests(self) -> None:
        for request in (*self._errands.values(), self._request):
            if request is not None:
                request.drop()
        self._errands.clear()
        self._named.clear()
        self._request = None

    def _give_up_steps(self, why: str) -> None:
        self._drop_requests()
        for step in self._graph.of(State.RUNNING, State.WAITING):
            step.state, step.told = State.FAILED, why

    def _changed(self) -> bool:
        """Return whether a robot came elsewhere, or sees other things."""
        scenes: dict[str, object] = {n: snapshot(r.observation(), r.steady_now()).place for n, r in self._robots.items()}
        before, self._scenes = self._scenes, scenes
        return bool(before) and scenes != before

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Do what is due. A call that ends at once comes back here, and waits until the round is over."""
        self._again = True
        if self._going:
            return
        self._going = True
        while self._again and self._begun and not (self._paused or self._void or self._over):
            self._again = False
            for step in self._graph.due():
                self._begin(step)
            if self._question is None and self._request is None and not self._over:
                self._next()
        self._going = False

    def _act(self) -> None:
        """Look what the steps have come to: whoever's turn it is then is asked."""
        alive = self._graph.of(State.WAITING, State.RUNNING)
        if self._named:
            self._turn(self._validate_named)
        elif self._prompts.feedback:
            self._turn(self._reflect if Layer.MANAGER not in self._off else self._perceive)
        elif self._news and (alive or self._standing):
            self._turn(self._perceive)
        elif not alive and not (self._standing and self._proposal is None):
            self._turn(self._reflect if Layer.MANAGER not in self._off else self._done)

    def _turn(self, next_: Callable[[], None]) -> None:
        self._next = next_
        self._again = True

    def _need_plan(self, why: str) -> None:
        """Have what is missing planned, once whoever is being asked now has answered."""
        self._prompts.feedback.append(shown(why, SHOWN_WHY))

    # -- asking the agents --------------------------------------------------------------------------------------------

    def _ask(
        self,
        layer: Layer,
        text: str,
        schema: type[A],
        heard: Callable[[A], None],
        check: Callable[[A], object] = lambda answer: None,
        images: Sequence[Image] = (),
    ) -> None:
        """Ask an agent. `check` raises AnswerError for what cannot be; the agent is shown why, and asked once more."""
        if not self._asking.may_ask(layer, self._go_on, self._end):
            return

        def read(answer: str) -> A:
            found = read_answer(schema, answer)
            check(found)
            return found

        answered = partial(self._heard, layer, heard)
        self._question = self._asking(layer, text, images, read, answered, schema.model_json_schema())

    def _heard(self, layer: Layer, heard: Callable[[A], None], end: CallEnd[A]) -> None:
        self._question = None
        if end.value is not None:
            self._asking.answered()
            self._tell(layer, end.value.told)
            heard(end.value)
        elif end.code == ModelCode.MODEL_NOT_UNDERSTOOD:
            self._reject(f"the {layer} wrote nothing that can be used: {end.why}")
        elif self._asking.lost(layer, end.code, end.why):
            self._end(end.code, f"the {layer} gave no answer: {end.why}")
        self._go_on()

    def _tell(self, layer: Layer, text: str) -> None:
        """Add to the message pool: events that are recorded and never changed. What is somebody's secret is left out."""
        self._io.report(Notice(layer=layer.value, text=shown(self._open(text), 1000)))

    def _open(self, text: str) -> str:
        return PRIVATE if self._io.people.leaked(text, "") else text

    def _reject(self, why: str) -> None:
        """Have it planned again, unless that has led to nothing too often."""
        if self._next == self._validate_named:
            self._refuse_named(why)
            return
        self._rejections += 1
        if self._rejections >= self._io.settings["team.max_rejections"]:
            self._leads_to_nothing(f"{self._rejections} plans in a row came to nothing; at last {why}")
        elif self._next not in (self._understand, self._reflect, self._perceive):
            self._need_plan(why)
            self._turn(self._plan_next())

    def _leads_to_nothing(self, why: str) -> None:
        """End the task, or what was proposed."""
        if self._standing and self._proposal is not None:
            self._drop_proposal(why)
        else:
            self._end(int(TaskCode.TURN_LIMIT), self._open(why))

    # -- the manager --------------------------------------------------------------------------------------------------

    def _understand(self) -> None:
        if Layer.MANAGER in self._off or self._asked >= MAX_QUESTIONS:
            self._turn(self._perceive)
        else:
            self._ask(Layer.MANAGER, self._prompts.clarify(), Clarity, self._understood, self._askable)

    def _askable(self, answer: Clarity) -> None:
        """Raise AnswerError for a question that nobody may be asked."""
        choices = _choices(answer)
        if answer.clear:
            return
        if fault := bad_question(shown(answer.question, MAX_QUESTION), "", choices, chosen):
            raise AnswerError(fault)
        if halts := next(filter(is_stop, choices), None):
            raise AnswerError(f"'{shown(halts)}' as an answer would halt all robots; word that choice in another way")
        self._keep_private("everybody", " ".join([answer.question, *choices]))

    def _understood(self, answer: Clarity) -> None:
        self._rejections, self._standing = 0, answer.standing
        if answer.clear:
            self._news = answer.standing
            self._turn(self._act if answer.standing else self._perceive)
            return
        self._asked += 1
        self._ask_person(
            self._task.sender if self._task.sender in self._io.people.known else "",
            answer.question,
            _choices(answer),
            f"you asked: {self._task.instruction}",
            partial(self._clarified, answer.question),
        )

    def _clarified(self, question: str, reply: Reply | str) -> None:
        if isinstance(reply, Reply):
            self._prompts.clarified.append({"question": question, "answer": reply.text})
        else:
            self._end(int(TaskCode.GIVEN_UP), f"it is unclear what is meant, and nobody answered: {self._open(question)}")

    def _reflect(self) -> None:
        self._ask(Layer.MANAGER, self._prompts.review(), Review, self._reflected)

    def _reflected(self, answer: Review) -> None:
        self._prompts.reflection = answer
        unfinished = self._prompts.feedback or self._graph.of(State.WAITING, State.RUNNING)
        if answer.flag == "Y" and not unfinished:
            self._done()
        else:
            if answer.flag == "N" and not unfinished:
                self._need_plan(answer.thought)
            self._turn(self._perceive)

    def _done(self) -> None:
        """End the task, or go on watching after what was proposed. Where the last steps failed, they stay undone."""
        steps = self._graph.steps.values()
        failed = [step for step in steps if step.state is State.FAILED]
        before = any(call.outcome == Outcome.DONE and call.function != ASK for call in self._task.done)
        done = before or any(step.state is State.DONE for step in steps)
        if self._standing:
            self._drop_proposal()
        elif Layer.MANAGER in self._off and failed and not done:
            self._end(int(TaskCode.CALL_FAILED), self._open(f"{failed[-1].skill}: {failed[-1].told}"))
        else:
            thought = self._prompts.reflection.thought if self._prompts.reflection is not None else "all steps are done"
            self._end(0 if done else int(TaskCode.ONLY_WORDS), self._open(shown(thought, SHOWN_WHY)))

    # -- the perceiver ------------------------------------------------------------------------------------------------

    def _perceive(self) -> None:
        self._news = False
        if Layer.PERCEIVER in self._off:
            self._turn(self._plan_next())
            return
        pictures = self._pictures
        if pictures is None and self._io.settings["team.pictures"]:
            if not self._looking:
                self._looking = True
                self._io.work(self._prompts.look(), self._looked)
            return
        self._pictures, pictures = None, pictures or NO_PICTURES
        text = self._prompts.perceive(pictures, propose=self._standing and self._proposal is None)
        self._ask(Layer.PERCEIVER, text, Perception, self._perceived, self._tellable, list(pictures.images.values()))

    def _looked(self, pictures: Pictures) -> None:
        """Take pictures that were encoded beside the plan, where the perceiver still waits for them."""
        self._looking = False
        if self._next == self._perceive and not self._held():
            self._pictures = pictures
        self._go_on()

    def _tellable(self, answer: Perception) -> None:
        """Raise AnswerError for a proposal that would tell what somebody said in private."""
        if answer.proposal is not None:
            self._keep_private(answer.proposal.person, f"{answer.proposal.task} {answer.proposal.why}")

    def _perceived(self, answer: Perception) -> None:
        people = self._io.people
        self._prompts.perception = answer.perception
        for fact in answer.world:
            if not people.leaked(" ".join(fact), ""):
                self._io.report(Notice(kind=NoticeKind.FACT, layer=Layer.PERCEIVER.value, text="|".join(map(self._node, fact))))
        for number in answer.unfit:
            step = self._graph.steps.get(number)
            if step is not None and step.state is State.WAITING:
                self._graph.fail(step, "what is newly known has made it wrong")
                self._need_plan(f"step {number} no longer fits: {'; '.join(answer.perception)}")
        if self._standing and self._proposal is None:
            self._propose(answer.proposal)
        elif self._prompts.feedback or not self._graph.steps:
            self._turn(self._plan_next())
        else:
            self._turn(self._act)

    def _node(self, name: str) -> str:
        """Return a name with its kind, where that is known, as the memory's graph has it."""
        if name in self._io.people.known:
            return f"person:{name}"
        return f"robot:{name}" if name in self._robots else name.replace("|", " ")

    def _propose(self, proposal: Proposal | None) -> None:
        """Take up a task that nobody ordered, for somebody who may be asked about it."""
        if proposal is not None and proposal.person in self._io.people.known:
            self._proposal, self._plans, self._leave = proposal, 0, False
            self._need_plan(f"do this now, for {proposal.person}: {proposal.task}")
            self._turn(self._plan_next())
        else:
            self._turn(self._act)

    def _drop_proposal(self, why: str = "") -> None:
        """Want it no more: whatever of it is under way is stopped, and who is asked for it is asked no longer."""
        if self._proposal is not None:
            self._prompts.settled += [f"{self._proposal.task}, for {self._proposal.person}{why and f': {why}'}"]
        if self._graph.of(State.RUNNING, State.WAITING):
            self._give_up_steps("the proposal was dropped")
            self._io.stop("the proposal was dropped", lambda: None)
        self._proposal, self._rejections = None, 0
        self._prompts.reflection = None
        self._prompts.feedback.clear()
        self._turn(self._act)

    # -- planner, assigner and validator ------------------------------------------------------------------------------

    def _plan_next(self) -> Callable[[], None]:
        if self._plans >= self._io.settings["team.max_plans"]:
            return self._too_many_plans
        return self._assign if Layer.PLANNER in self._off else self._plan

    def _too_many_plans(self) -> None:
        why = self._prompts.feedback[-1] if self._prompts.feedback else "give a smaller task"
        self._leads_to_nothing(f"not done after {self._plans} plans; {why}")

    def _plan(self) -> None:
        def check(answer: ToaPlan) -> None:
            self._graph.check([(step.step, step.dep) for step in answer.steps])

        self._answered = len(self._prompts.feedback)
        self._ask(Layer.PLANNER, self._prompts.plan(), ToaPlan, self._planned, check)

    def _planned(self, answer: ToaPlan) -> None:
        self._plans += 1
        if answer.steps:
            self._steps = [step.model_dump() for step in answer.steps]
            self._turn(self._assign)
        else:
            self._nothing_more(answer.give_up, answer.thought)

    def _nothing_more(self, give_up: bool, why: str) -> None:
        """Take it that no step is missing, or that none would help."""
        if not give_up:
            del self._prompts.feedback[: self._answered]
            self._turn(self._act if self._graph.steps else self._done)
        elif self._standing:
            self._drop_proposal(why)
        elif self._graph.of(State.RUNNING):
            del self._prompts.feedback[: self._answered]
            self._turn(self._act)
        else:
            who = Layer.ASSIGNER if Layer.PLANNER in self._off else Layer.PLANNER
            self._end(int(TaskCode.GIVEN_UP), self._open(f"the {who.value} gives up: {shown(why, SHOWN_WHY)}"))

    def _assign(self) -> None:
        if Layer.PLANNER in self._off:
            self._steps, self._answered = [], len(self._prompts.feedback)
        self._ask(Layer.ASSIGNER, self._prompts.assign(self._steps), Assignments, self._assigned, self._made)

    def _made(self, answer: Assignments) -> list[Step]:
        """Return the steps with who does them. Raises AnswerError for what cannot be done so."""
        planned = {step["step"]: step for step in self._steps}
        given = [one.step for one in answer.assignments]
        if self._steps and sorted(given) != sorted(planned):
            raise AnswerError(f"assign each of the steps {', '.join(map(str, planned))} once, and no other")
        steps = []
        for one in answer.assignments:
            skill, after = (planned[one.step]["skill"], planned[one.step]["dep"]) if self._steps else (one.call, one.dep)
            step = Step(one.step, skill, tuple(after), one.agent)
            if one.agent in self._robots:
                step.action = self._action(one)
            elif one.agent in self._io.people.known:
                step.words, step.why = shown(one.call, MAX_QUESTION), one.why or f"{self._task.instruction}"
                self._keep_private(one.agent, f"{step.words} {step.why}")
            else:
                agents = (*self._robots, *self._io.people.known)
                raise AnswerError(f"'{shown(one.agent)}' is no robot or person{nearest(one.agent, agents, else_known=True)}")
            steps.append(step)
        self._graph.check([(step.number, step.after) for step in steps])
        return steps

    def _action(self, one: Assignment) -> Action:
        action = read_action(one.call, {one.agent: self._robots[one.agent]})
        if fault := action.fault(self._robots):
            raise AnswerError(f"{action}: {fault}")
        if why := self._io.unavailable(one.agent):
            raise AnswerError(f"{one.agent} is {why}; give the step to somebody else")
        words = " ".join(map(str, action.arguments.values()))
        if action.skill in self._robots[one.agent].about.speaking:
            self._keep_private("everybody", words)
        for person in action.arguments.values():
            if person in self._io.people.known:
                self._keep_private(str(person), words)
        return action

    def _keep_private(self, person: str, text: str) -> None:
        """Raise AnswerError for what somebody said in private, also of the one who would hear it: all can read requests."""
        if whose := self._io.people.leaked(text, ""):
            raise AnswerError(f"what {person} would hear holds what {whose} said in private; leave that out")

    def _assigned(self, answer: Assignments) -> None:
        if not answer.assignments:
            self._nothing_more(answer.give_up, answer.thought or "nothing can be done about it")
            return
        if Layer.PLANNER in self._off:
            self._plans += 1
        steps = self._made(answer)
        if Layer.VALIDATOR in self._off:
            self._accept(steps)
            return
        self._next = partial(self._validate, steps)
        self._again = True

    def _validate(self, steps: list[Step]) -> None:
        self._ask(Layer.VALIDATOR, self._prompts.validate(steps), Validity, partial(self._validated, steps))

    def _validated(self, steps: list[Step], answer: Validity) -> None:
        if answer.verdict == "fail":
            self._reject(f"the validator rejected the plan: {answer.thought}")
        else:
            self._accept(steps)

    def _validate_named(self) -> None:
        """Ask whether somebody whom a person named may be asked in that person's place."""
        if not self._named:
            self._turn(self._act)
            return
        step, person = self._named[0]
        why = f"{step.why}; {step.agent} named {person}"
        self._ask(
            Layer.VALIDATOR,
            self._prompts.validate([Step(step.number, step.skill, step.after, person, words=step.words, why=why)]),
            Validity,
            self._validated_named,
        )

    def _validated_named(self, answer: Validity) -> None:
        if answer.verdict == "fail":
            self._refuse_named(f"the validator rejected that: {answer.thought}")
        else:
            self._accept_named()

    def _accept_named(self) -> None:
        step, person = self._named.pop(0)
        step.agent = person
        self._errands[step.number].ask_instead(person)
        self._turn(self._act)

    def _refuse_named(self, why: str) -> None:
        step, person = self._named.pop(0)
        self._errands[step.number].drop()
        self._turn(self._act)
        self._ended(step, False, f"{step.agent} named {person}; {why}")

    def _accept(self, steps: list[Step]) -> None:
        """Let steps begin, where what they do for somebody who has not ordered it is allowed."""
        if self._proposal is not None and not self._leave:
            allows = self._io.people.known[self._proposal.person].allows
            if any(step.action is None or step.action.skill not in allows for step in steps):
                self._ask_leave(self._proposal, steps)
                return
        self._dispatch(steps)

    def _ask_leave(self, proposal: Proposal, steps: list[Step]) -> None:
        text = f"Shall we do this for you: {proposal.task}?"
        self._ask_person(proposal.person, text, ("yes", "no"), proposal.why, partial(self._answered_leave, steps))

    def _answered_leave(self, steps: list[Step], reply: Reply | str) -> None:
        if isinstance(reply, Reply) and reply.kind is Kind.ACCEPT:
            self._leave = True
            self._dispatch(steps)
        else:
            self._drop_proposal(reply.text if isinstance(reply, Reply) else reply)

    def _dispatch(self, steps: list[Step]) -> None:
        try:
            self._graph.add(steps)
        except AnswerError as error:  # what it stood on has failed meanwhile
            self._reject(str(error))
            return
        self._rejections = 0
        del self._prompts.feedback[: self._answered]
        self._turn(self._act)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _begin(self, step: Step) -> None:
        step.state = State.RUNNING
        if step.action is None:
            ended, named = partial(self._ended, step), partial(self._instead, step)
            self._errands[step.number] = Errand(step, self._io, self._held, ended, named)
        else:
            self._have_done(step, step.action, self._io.clock.now() + BUSY_S)

    def _have_done(self, step: Step, action: Action, by_s: float) -> None:
        """Have a robot do a step. One that does something for somebody else is waited for until `by_s`."""
        if step.state is not State.RUNNING or self._over:
            return
        if self._held():
            self._io.clock.call_later(AGAIN_S, partial(self._have_done, step, action, by_s))
        elif why := self._io.unavailable(step.agent):
            self._ended(step, False, f"{step.agent} is {why}")
        else:
            called = partial(self._called, step, action, by_s)
            self._io.call(action.skill, step.agent, **action.arguments).then(called)

    def _instead(self, step: Step, person: str) -> None:
        """Take it that whom a step was asked of named somebody else."""
        self._named.append((step, person))
        if Layer.VALIDATOR in self._off:
            self._accept_named()
        self._go_on()

    def _held(self) -> bool:
        return self._paused or self._void

    def _called(self, step: Step, action: Action, by_s: float, call: CallEvent) -> None:
        busy = call.outcome is Outcome.REFUSED and call.error_code == CallCode.SUBSYSTEM_HELD
        if busy and self._io.clock.now() + AGAIN_S <= by_s:
            self._io.clock.call_later(AGAIN_S, partial(self._have_done, step, action, by_s))
            return
        told = f"{call.outcome_name}: {shown(call.told, SHOWN_WHY)}" if call.told else call.outcome_name
        self._ended(step, call.outcome is Outcome.DONE, told)

    def _ended(self, step: Step, done: bool, told: str) -> None:
        self._errands.pop(step.number, None)
        if step.state is not State.RUNNING or self._over:
            return
        if done:
            step.state, step.told = State.DONE, told
        else:
            self._graph.fail(step, told)
            self._need_plan(f"step {step.number}, {step.skill} by {step.agent}, failed: {told}")
        self._go_on()

    def _ask_person(
        self, person: str, text: str, choices: Sequence[str], why: str, then: Callable[[Reply | str], None]
    ) -> None:
        """Ask a person about the task; nothing else is asked until `then` has heard the reply, or why there is none."""

        def answered(reply: Reply | str) -> None:
            self._request = None
            then(reply)
            self._go_on()

        asked: dict[str, Any] = {"person": person, "text": text, "choices": choices, "why": why}
        self._request = Request(self._io, self._held, answered, within_s=self._io.settings["team.answer_s"], **asked)

    def _end(self, code: int, why: str) -> None:
        if not self._over:
            self.close(why)
            self._io.finish(code, why)


def _choices(answer: Clarity) -> list[str]:
    """Return the choices of a question; none where one is too long."""
    return answer.choices[:MAX_CHOICES] if all(len(one) <= MAX_CHOICE for one in answer.choices) else []


_MAY_BE_OFF = (Layer.MANAGER, Layer.PERCEIVER, Layer.PLANNER, Layer.VALIDATOR)
