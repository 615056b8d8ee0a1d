# SPDX-License-Identifier: Apache-2.0
"""Define what the five agents answer (InteractGen III.A), as JSON that is checked before anybody acts on it."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from planners.models.model_call import AnswerError
from skill_kernel.config.sections import shown

MAX_STEPS = 40
"""Steps of one plan at most."""
MAX_NUMBER = 1_000_000
"""Highest number of a step."""
_Text = Annotated[str, Field(max_length=2000)]
_Short = Annotated[str, Field(min_length=1, max_length=300)]
_Number = Annotated[int, Field(ge=1, le=MAX_NUMBER)]


def _several(value: Any) -> Any:
    """Read one number, as the paper writes dependencies, as a list of one; 0 and null name no step."""
    value = [value] if isinstance(value, int) else ([] if value is None else value)
    return [number for number in value if number != 0] if isinstance(value, list) else value


_Steps = Annotated[list[_Number], BeforeValidator(_several)]


_READ = ConfigDict(extra="ignore", strict=True, frozen=True)


class Answer(BaseModel):
    """Hold an agent's answer. Keys that nobody asked for are passed over."""

    model_config = _READ

    @property
    def told(self) -> str:
        """Return it as a person reads it."""
        raise NotImplementedError


class Clarity(Answer):
    """Hold whether the manager understands the instruction, or what must be asked first. `standing`: it is an order for
    whatever may happen, and nothing is to be done yet."""

    clear: bool
    question: _Text = ""
    choices: list[_Short] = []
    standing: bool = False

    @model_validator(mode="after")
    def _asks(self) -> "Clarity":
        if self.clear == bool(self.question.strip()):
            raise ValueError("question must be there exactly where clear is false")
        return self

    @property
    def told(self) -> str:
        return self.question or ("watches from now on" if self.standing else "it is clear")


class Review(Answer):
    """Hold the manager's reflection: whether what was done had the desired outcome, why, and a summary (RF_t)."""

    flag: Literal["Y", "N"]
    thought: _Text
    summary: _Text

    @property
    def told(self) -> str:
        return f"{'done' if self.flag == 'Y' else 'not done'}: {self.thought}"


class Proposal(BaseModel):
    """Hold a task that the perceiver proposes for a person, with the reason that the person is told."""

    model_config = _READ

    task: _Short
    person: _Short
    why: _Short


class Perception(Answer):
    """Hold what the perceiver makes of what is known: what bears on the task (PC_t), the world's changes (W_t) as subject,
    relation and object, steps that no longer fit, and a proposal."""

    perception: list[_Text]
    world: list[tuple[_Short, _Short, _Short]] = []
    unfit: _Steps = []
    proposal: Proposal | None = None

    @property
    def told(self) -> str:
        proposal = [f"proposes for {self.proposal.person}: {self.proposal.task}"] if self.proposal is not None else []
        return "; ".join([*self.perception, *proposal])


class ToaStep(BaseModel):
    """Hold a step of a Thought-of-Action plan: `Skill(parameters)` with its number and the steps that it depends on."""

    model_config = _READ

    step: _Number
    skill: _Short
    dep: _Steps = []


class ToaPlan(Answer):
    """Hold the planner's steps; none where nothing is left to be done, or where it gives up."""

    thought: _Text
    steps: Annotated[list[ToaStep], Field(max_length=MAX_STEPS)]
    give_up: bool = False

    @property
    def told(self) -> str:
        after = {one.step: f" after {' and '.join(map(str, one.dep))}" if one.dep else "" for one in self.steps}
        return "; ".join([f"{one.step} {one.skill}{after[one.step]}" for one in self.steps]) or self.thought


class Assignment(BaseModel):
    """Hold who does a step: a robot by a call of its function, or a person by words and a reason. `dep` counts without a
    planner alone."""

    model_config = _READ

    step: _Number
    agent: _Short
    call: _Short
    why: _Text = ""
    dep: _Steps = []


class Assignments(Answer):
    """Hold the assigner's answer; `give_up`, and its reason as `thought`, count without a planner alone."""

    assignments: Annotated[list[Assignment], Field(max_length=MAX_STEPS)]
    give_up: bool = False
    thought: _Text = ""

    @property
    def told(self) -> str:
        return "; ".join(f"{one.step} {one.agent}: {one.call}" for one in self.assignments) or self.thought


class Validity(Answer):
    """Hold the validator's verdict, with its reason (V_t)."""

    verdict: Literal["pass", "fail"]
    thought: _Text

    @property
    def told(self) -> str:
        return f"{self.verdict}: {self.thought}"


A = TypeVar("A", bound=Answer)


def read_answer(schema: type[A], text: str) -> A:
    """Return the JSON object in an answer, whatever stands around it. Raises AnswerError, in one sentence."""
    begin, end = text.find("{"), text.rfind("}")
    if not 0 <= begin < end:
        raise AnswerError(f"the answer holds no JSON object; write one with {', '.join(schema.model_fields)}")
    try:
        return schema.model_validate_json(text[begin : end + 1])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise AnswerError(f"{where or 'the answer'}: {shown(first['msg'], 200)}") from error
