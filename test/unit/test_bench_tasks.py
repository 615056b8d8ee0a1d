# SPDX-License-Identifier: Apache-2.0
"""The paper's 34 tasks as data: reference streams score 1.0, whatever is not the same scores less."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from bench.bench_coco_tasks import TASKS
from bench.bench_table3 import Pattern, _as_text, _completed, patterns
from bench.mutations import equivalent, mutants, tree
from bench.performing import Robot, ask, perform
from bench.rubric import JudgeError, by_model, by_person, statements
from bench.scoring import Task, TaskFile, score
from planners.models.base import CancelToken, Finished, ModelEvent, ModelRequest, TextDelta

OBJECTIVE = [
    "Greet and Smile",
    "Sync Smile & Greeting",
    "Compliment Response",
    "Wave & Happy Face",
    "10-Second Push-Up Challenge",
    "Demo 3 Actions Live",
    "Triangle Walk",
    "Numbered Steps",
    "Counting Square Walk A",
    "Motion Sequence",
    "Wave & Leg Lift Combo",
    "Triple Action Counter",
    "Shrug Dance Finale",
    "Perform Routine A",
    "Perform Routine B",
    "Perform Saved",
    "Shrug+Wave Coincidence",
    "Perform Changed",
    "Long Instr. Dance (EN)",
    "Long Instr. Dance (CN)",
]
SUBJECTIVE = [
    "Cute Gesture Reaction",
    "Express Sadness",
    "Channel Baymax",
    "Spider-Man Pose & Quote",
    "Fan Reaction Challenge",
    "Ocean Dive Act-Out",
    "Scene Chat - First Meet (EN)",
    "Scene Chat – First Meet (CN)",
    "Scene Chat – Family Child (EN)",
    "Scene Chat – Family Child (CN)",
    "Scene Chat – Family Hostess (EN)",
    "Scene Chat – Family Hostess (CN)",
    "Scene Chat – Family Host (EN)",
    "Scene Chat – Family Host (CN)",
]

FILE = TaskFile.load(TASKS)
BY_NAME = {task.name: task for task in FILE.tasks}
ROBOT = Robot.coco()


def bcm(task: Task, stream: str) -> float:
    done = perform(task, stream, ROBOT)
    return score(task, done.calls, FILE.classes, done.error).bcm(task)


def test_the_tasks_are_those_of_table_1() -> None:
    assert [t.name for t in FILE.tasks if t.kind == "objective"] == OBJECTIVE
    assert [t.name for t in FILE.tasks if t.kind == "subjective"] == SUBJECTIVE
    assert {t.pattern for t in FILE.tasks} == {"sequential", "parallel", "condition", "event"}
    assert {t.language for t in FILE.tasks} == {"en", "cn"}
    assert all(task.size > 0 for task in FILE.tasks)


@pytest.mark.parametrize("name", OBJECTIVE + SUBJECTIVE)
def test_a_reference_stream_scores_full(name: str) -> None:
    done = perform(BY_NAME[name], BY_NAME[name].reference, ROBOT)
    rated = dict.fromkeys(statements(BY_NAME[name]), True) if name in SUBJECTIVE else None
    scored = score(BY_NAME[name], done.calls, FILE.classes, done.error, rated=rated)
    assert (scored.missing, scored.faults, scored.correctness) == ((), (), 1.0)


@pytest.mark.parametrize(
    "name", [*OBJECTIVE[::3], *(pytest.param(n, marks=pytest.mark.slow) for i, n in enumerate(OBJECTIVE) if i % 3)]
)
def test_every_mutant_that_is_not_equivalent_scores_less(name: str) -> None:
    task = BY_NAME[name]
    original = perform(task, task.reference, ROBOT)
    kinds = set()
    for what, stream in mutants(task.reference, ROBOT):
        mutant = perform(task, stream, ROBOT)
        scored = score(task, mutant.calls, FILE.classes, mutant.error)
        if equivalent(original, mutant, FILE.classes):
            assert scored.correctness == 1.0, f"{what} changes nothing, and yet: {scored.missing} {scored.faults}"
        else:
            assert scored.correctness < 1.0, f"{what}: {stream}"
            kinds.add(what.split(" ")[0] if " instead of " not in what else "instead")
    assert {"drop", "instead"} <= kinds


@pytest.mark.slow
def test_few_mutants_are_equivalent_and_all_kinds_of_mutation_occur() -> None:
    kinds = ("drop ", "swap ", "unwrap ", "un-nest ", " instead of ", " without ", " with ", "other words")
    counts = dict.fromkeys(kinds, 0)
    same = everything = 0
    for name in OBJECTIVE:
        task = BY_NAME[name]
        original = perform(task, task.reference, ROBOT)
        for what, stream in mutants(task.reference, ROBOT):
            everything += 1
            if equivalent(original, perform(task, stream, ROBOT), FILE.classes):
                same += 1
                continue
            for kind in counts:
                counts[kind] += kind in what
    assert all(counts.values()), counts
    assert same < 0.1 * everything


@pytest.mark.parametrize("name", OBJECTIVE + SUBJECTIVE)
def test_the_tree_of_a_reference_is_the_same_stream(name: str) -> None:
    task = BY_NAME[name]
    again = "".join(child.source() for child in tree(task.reference).children)
    assert equivalent(perform(task, task.reference, ROBOT), perform(task, again, ROBOT), FILE.classes)


def test_a_subjective_task_is_scored_by_who_sees_it_and_never_by_its_calls() -> None:
    task = BY_NAME["Express Sadness"]
    done = perform(task, '<display_face face="sad">banana</display_face><spider_stand/>', ROBOT)
    with pytest.raises(ValueError, match="judged by a person or a model"):
        score(task, done.calls, FILE.classes)
    model = _Scripted("1: yes\n2: no\n3: no\n4: yes", "1: yes\n2: yes", "\n".join(f"{n}: yes" for n in range(1, 5)))
    judge = by_model(model)
    assert score(task, done.calls, FILE.classes, rated=judge(task, done.calls)).bcm(task) == 0.5
    asked = model.requests[0].messages[0].text
    assert '"banana"' in asked and 'display face (face "sad"' in asked and all(line in asked for line in task.rubric)
    with pytest.raises(JudgeError, match="statement 3"):
        judge(task, done.calls)
    assert score(task, done.calls, FILE.classes, "it broke off", rated=judge(task, done.calls)).bcm(task) == 0.5


def test_a_person_judges_one_statement_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    task = BY_NAME["Spider-Man Pose & Quote"]
    done = perform(task, task.reference, ROBOT)
    answers = iter(["y", "", "no", "Yes", "y", "y"])
    assert list(by_person(lambda statement: next(answers))(task, done.calls).values()) == [True, False, True, True, True]
    assert "great responsibility" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "stream"),
    [
        ("Greet and Smile", 'Hi there!<display_face face="smile"/>'),
        ("Demo 3 Actions Live", '<display_face face="happy"/>{reference}'),
        ("Numbered Steps", "{reference}".replace("One", "1")),
        ("Wave & Happy Face", '<display_face face="happy">' + '<spider_wave_move times="2"/>' * 2 + "</display_face>"),
        (
            "Triangle Walk",
            '<spider_run_distance distance="15"/><spider_run_distance distance="15"/><spider_rotate angle="120"/>' * 3,
        ),
        ("Long Instr. Dance (EN)", "{reference}".replace("360", "300")),
    ],
)
def test_another_way_to_do_what_was_said_scores_full(name: str, stream: str) -> None:
    task = BY_NAME[name]
    assert bcm(task, stream.format(reference=task.reference)) == 1.0


def test_amounts_add_up_only_where_nothing_lies_between() -> None:
    task = BY_NAME["Wave & Happy Face"]
    wave, frame = '<spider_wave_move times="2"/>', '<display_face face="happy">{}</display_face>'
    assert bcm(task, frame.format(wave * 3)) < 1.0
    assert bcm(task, frame.format(f"{wave}<spider_rotate angle='20'/>{wave}")) < 1.0


def test_a_class_of_interchangeable_calls_counts_as_one() -> None:
    task = BY_NAME["Greet and Smile"]
    assert bcm(task, 'Hello!<emotion emo="happy"/>') == 1.0
    assert bcm(task, 'Hello!<emotion emo="sad"/>') < 1.0


def test_motion_nobody_asked_for_is_a_fault_and_a_nod_is_none() -> None:
    task = BY_NAME["Greet and Smile"]
    assert bcm(task, task.reference + "<head_act/>") == 1.0
    assert bcm(task, task.reference + "<spider_push_up/>") == 0.5
    exact = BY_NAME["Demo 3 Actions Live"]
    assert bcm(exact, exact.reference + "<head_act/>") == 0.5


def test_equations_13_and_14_weigh_by_the_number_of_actions() -> None:
    weights = (("Greet and Smile", "Basic", 2), ("Motion Sequence", "Medium", 5), ("Triangle Walk", "Complex", 10))
    for name, level, weight in weights:
        task = BY_NAME[name]
        done = perform(task, task.reference, ROBOT)
        full = score(task, done.calls, FILE.classes)
        assert (task.level, full.raw(task), full.bcm(task)) == (level, weight, 1.0)
        half = score(task, done.calls, FILE.classes, "the stream broke")
        assert (half.raw(task), half.bcm(task)) == (weight * 0.5, 0.5)


def test_long_instructions_score_in_tenths() -> None:
    task = BY_NAME["Long Instr. Dance (EN)"]
    assert bcm(task, '<wait><spider_stand/><head_act action="shake"/></wait>Let\'s go!') == 0.3
    assert bcm(task, "") == 0.0


def test_a_lower_half_scores_nothing_and_an_upper_half_one_half() -> None:
    task = BY_NAME["Triangle Walk"]
    side, turn = '<spider_run_distance distance="30"/>', '<spider_rotate angle="120"/>'
    assert bcm(task, side * 2) == 0.0
    assert bcm(task, side + turn + side + turn) == 0.5


def test_a_task_with_an_unknown_name_in_its_order_is_refused() -> None:
    with pytest.raises(ValidationError, match="which is not expected"):
        Task(
            name="t",
            kind="objective",
            pattern="parallel",
            instruction="",
            reference="",
            expect={"a": {"call": "head_act"}},
            order=(("before", "a", "b"),),
        )


def test_a_task_with_an_unknown_class_is_refused() -> None:
    task = BY_NAME["Greet and Smile"].model_dump(by_alias=True)
    task["expect"]["smile"]["is"] = "grim_face"
    with pytest.raises(ValidationError, match="there is no class 'grim_face'"):
        TaskFile.model_validate({"classes": {}, "tasks": [task]})


class _Scripted:
    """Writes given answers and keeps what it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.requests: list[ModelRequest] = []

    name = "scripted"

    def prepare(self) -> None: ...

    def close(self) -> None: ...

    def stream(self, request: ModelRequest, *, cancel: CancelToken) -> Iterator[ModelEvent]:
        self.requests.append(request)
        yield TextDelta(self.answers.pop(0))
        yield Finished()


def test_a_model_is_asked_with_the_tasks_history_and_again_after_an_observation() -> None:
    task = BY_NAME["Perform Routine B"]
    model = _Scripted('<RUN id="routine B"/><observe/>', '<spider_body_lean direction="forward"/>')
    done = ask(task, model, ROBOT)
    assert score(task, done.calls, FILE.classes, done.error).correctness == 1.0
    first, second = model.requests
    assert task.setup.turns[0].user in first.messages[0].text
    assert "routine B" in first.system and task.instruction in first.messages[-1].text
    assert "spider_wave_move" in second.messages[-1].text


def test_what_a_model_gets_wrong_is_scored_as_such() -> None:
    task = BY_NAME["Greet and Smile"]
    model = _Scripted("Hello!<smile/>", "Hello!")
    done = ask(task, model, ROBOT)
    scored = score(task, done.calls, FILE.classes, done.error)
    assert scored.correctness < 1.0 and any("smile" in fault for fault in scored.faults)
    assert len(model.requests) == 2


def test_a_model_whose_motion_is_refused_is_asked_again() -> None:
    task = BY_NAME["Demo 3 Actions Live"]
    done = ask(task, _Scripted('<spider_sit style="throne"/>', task.reference), ROBOT)
    assert score(task, done.calls, FILE.classes, done.error).correctness == 0.5


@pytest.mark.parametrize("pattern", [p for p in patterns() if p.interrupt_s is None], ids=lambda p: p.key)
def test_flat_native_calls_do_all_but_condition_based_termination(pattern: Pattern) -> None:
    assert _completed(pattern, True, None, ROBOT)
    assert _completed(pattern, False, None, ROBOT) == (pattern.key != "condition")
    assert all(_as_text(call) for call in pattern.calls)
