# SPDX-License-Identifier: Apache-2.0
"""The grammar reads the usual forms of a reflex without a model, and says what it did not understand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from reflex_kit import kalos, vocabulary

from planners.prescriptions.grammar import EXAMPLES, Grammar, GrammarError
from reflexes.rule import RuleStore
from skill_kernel.guard.code import Vocabulary
from skill_kernel.guard.compiler import compile_guarded
from skill_kernel.guard.reading import GuardError
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

GRAMMAR = Grammar(vocabulary(), kalos()[0])

READ: dict[str, tuple[str, ...]] = {
    "when anything is closer than 0.2 m in front, step back 0.5 m": ("front_distance_m() < 0.2", "move_back(distance_m=0.5)"),
    "When anything is closer than 20 cm in front of you, step back half a metre!": (
        "front_distance_m() < 0.2",
        "move_back(distance_m=0.5)",
    ),
    "whenever something comes within 30cm behind you: walk forward 20 cm": (
        "back_distance_m() < 0.3",
        "move_forward(distance_m=0.2)",
    ),
    "if an obstacle is nearer than 40 centimetres on the left then step right 20 cm": (
        "left_distance_m() < 0.4",
        'strafe(direction="right", distance_m=0.2)',
    ),
    "when the way ahead is not free for 1 m, turn left 90 degrees": ("front_distance_m() < 1", "rotate(angle_deg=90.0)"),
    "if a person comes within 1 m, stop and say hello": ("distance_to('person') < 1", "stop()", 'speak(text="hello")'),
    "if somebody is closer than 1,5 metres in front, back off": (
        "distance_to('person') < 1.5 and abs(bearing_to('person')) <= 30",
        "move_back()",
    ),
    "back away and bark twice when a person is nearer than two and a half metres": (
        "distance_to('person') < 2.5",
        "move_back()",
        "bark(times=2)",
    ),
    "bark if a ball appears on the left": ("visible('ball') and bearing_to('ball') > 15", "bark()"),
    "when you see a ball or a chair is visible, nod": ("visible('ball') or visible('chair')", "nod()"),
    "when you do not see a person, sit down": ("not visible('person')", "sit()"),
    "if nobody is there and you are not moving, sit": ("not visible('person') and not moving()", "sit()"),
    "when there are more than 2 people, say “hello everybody”": ("count('person') > 2", 'speak(text="hello everybody")'),
    "when at least three bottles are visible, take a picture": ("count('bottle') >= 3", "take_pic()"),
    "when the battery drops below 20 % unless it is charging, go to the lobby": (
        "(battery_percent() < 20) and not (charging())",
        'goto_waypoint(waypoint="lobby")',
    ),
    "if the battery is above 90 percent, say 'I am full, thanks' and stand up": (
        "battery_percent() > 90",
        'speak(text="I am full, thanks")',
        "stand()",
    ),
    'if you hear "Kalos", turn around and say "yes?"': (
        "heard_words('kalos') and heard_age_s() < 2",
        "rotate(angle_deg=180.0)",
        'speak(text="yes?")',
    ),
    "when somebody says good boy, nod": ("heard_words('good boy') and heard_age_s() < 2", "nod()"),
    "when you enter the kitchen, say hi": ("room() == 'kitchen'", 'speak(text="hi")'),
    'when you hear "I\'m here", nod': ('heard_words("i\'m here") and heard_age_s() < 2', "nod()"),
    "if anybody is closer than 1 m, sit": ("distance_to('person') < 1", "sit()"),
    "if anybody is close, sit": ("distance_to('person') < 1", "sit()"),
    "if anything comes close, sit": ("nearest_distance_m() < 0.5", "sit()"),
    "if something appears behind, sit": ("back_distance_m() < 0.5", "sit()"),
    'when you see a person, say "stop if you can but do not hurry"': (
        "visible('person')",
        'speak(text="stop if you can but do not hurry")',
    ),
    "if you are sitting and a person comes within 2 m, stand up": (
        "posture() == 'sit' and distance_to('person') < 2",
        "stand()",
    ),
    "if you are faster than 0.4 m/s and a chair is nearer than 1 m, stop, wait 2 seconds and greet them": (
        "speed_mps() > 0.4 and distance_to('chair') < 1",
        "stop()",
        "wait(2)",
        'speak(text="hello")',
    ),
}


@pytest.mark.parametrize("sentence", READ)
def test_the_usual_forms_are_read(sentence: str) -> None:
    condition, *action = READ[sentence]
    source = GRAMMAR.read(sentence).source
    head, tail = source.split("\n\n\ndef action():\n")
    assert head == f"def condition():\n    return {condition}"
    assert [line.strip() for line in tail.strip().splitlines()] == action
    compile_guarded(source, vocabulary())


@pytest.mark.parametrize("sentence", EXAMPLES.splitlines())
def test_each_form_that_is_offered_is_read(sentence: str) -> None:
    compile_guarded(GRAMMAR.read(sentence).source, vocabulary())


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("step back", "says no condition"),
        ("when it is night, sing", "the condition “it is night” was not understood"),
        ("when anything is near, fly away", "the step “fly away” was not understood"),
        ("if a unicorn appears, stop", "nothing the robot can recognise; it knows"),
        ("when you enter the garage, bark", "there is no room “garage”; the robot knows hallway"),
        ("if a person appears say hi", "put a comma"),
        ("when a person is closer than 1 m behind you, bark", "recognises nothing behind"),
        ("stop unless a person is visible", "begin with 'when' or 'if'"),
        ("when anything is closer than 1,500 mm in front, sit", "was not understood"),
        ("", "says no condition"),
        ("if anything moves behind, walk forward", "was not understood"),
        ("if anything was in front, sit", "was not understood"),
        ("if something runs within 1 m, sit", "nothing the robot can recognise"),
        ("if anything is, sit", "nothing the robot can recognise"),
        ("when you see a person, stop barking", "the step “stop barking” was not understood"),
        ("when you see a person, stop talking", "was not understood"),
        ("when you see a person, stop following", "was not understood"),
        ("when you see a person, say hello if it is not charging", "takes no 'if'"),
        ("when you see a person, say hello but do not move", "takes no 'but'"),
        ('when you see a person, say "hello" while walking', "takes no 'while'"),
        ("when you see a person, turn left until it is gone", "takes no 'until'"),
    ],
)
def test_what_was_not_understood_is_named_with_what_can_be_said(sentence: str, says: str) -> None:
    with pytest.raises(GrammarError) as caught:
        GRAMMAR.read(sentence)
    assert says in str(caught.value)


def test_what_is_not_understood_comes_with_the_forms_there_are() -> None:
    with pytest.raises(GrammarError, match="step back 0.5 m"):
        GRAMMAR.read("when it is night, sing")


def test_only_to_stop_is_to_stand_still_as_long_as_the_cause_lasts() -> None:
    reading = GRAMMAR.read("stop when you see a person")
    guarded = compile_guarded(reading.source, vocabulary())
    assert guarded.skills == ("stop", "wait")
    assert "stands still as long as that is so" in reading.notes[0]


def test_what_was_supposed_is_noted() -> None:
    assert GRAMMAR.read("when anything is close in front, step back").notes == ("“close” was read as less than 0.5 m",)
    assert GRAMMAR.read("if the battery is low, sit").notes == ("“low” was read as less than 20 %",)


def test_a_robot_without_the_sensor_says_so() -> None:
    config = RobotConfig.load("coco")
    skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    grammar = Grammar(Vocabulary(accessors_of(config), skills, config.limits), config)
    with pytest.raises(GrammarError, match="no accessor front_distance_m"):
        grammar.read("when anything is closer than 0.2 m in front, nod")
    source = grammar.read('if you hear "coco", nod').source
    compile_guarded(source, Vocabulary(accessors_of(config), skills, config.limits))


def test_no_sentence_makes_it_raise_anything_else() -> None:
    draw = random.Random(4)
    words = [word for sentence in [*READ, *EXAMPLES.splitlines()] for word in sentence.split()]
    pieces = [*words, '"', "'", "\\", "«7»", "%", "\x00", "{}"]
    for _ in range(1500):
        sentence = " ".join(draw.choice(pieces) for _ in range(draw.randint(1, 18)))
        try:
            compile_guarded(GRAMMAR.read(sentence).source, vocabulary())
        except (GrammarError, GuardError):
            continue


def test_the_reflexes_that_kalos_ships_are_what_the_grammar_makes_of_their_sentences() -> None:
    shipped = Path(__file__).parents[2] / "config" / "reflexes" / "kalos.yaml"
    rules, problems = RuleStore(Path("/nowhere"), shipped, seal=str).load()
    assert rules and not problems
    for rule in rules:
        assert rule.shipped and rule.source == GRAMMAR.read(rule.sentence).source
