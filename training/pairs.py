# SPDX-License-Identifier: Apache-2.0
"""Generate training pairs: an instruction in English for a robot, and the stream of function tokens that carries it out.

The same arguments give the same pairs. Validation uses paraphrases, joints and texts that no training pair has; the robots
`unseen:N` have skills that none has. None of it is taken from the 34 tasks of the evaluation.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from planners.prompts.prompt import build_short_prompt, build_turn_prompt
from skill_kernel.skills.skill import MAIN
from training.phrases import Deed, deed, spoken_number, spoken_times
from training.robots import robot, words_of
from training.streams import read

TRIES = 200
CANNOT = "I cannot do that."
SLOW, FAST = "25", "90"
MAX_REPEATS = 4
OBSERVED = 0.4
"""Fraction of the prompts that show an observation."""


@dataclass(frozen=True)
class Pair:
    """Hold an instruction for a robot and the stream that does it. `also` tells by a call's tag what may stand in its place,
    and `kind` how the instruction is built."""

    robot: str
    kind: str
    instruction: str
    stream: str
    also: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    observation: Mapping[str, Any] | None = None

    @property
    def prompt(self) -> list[dict[str, str]]:
        """Return the messages that strategy `stream` sends with the short prompt."""
        user = build_turn_prompt(self.instruction, observation=self.observation)
        return [{"role": "system", "content": system_prompt(self.robot)}, {"role": "user", "content": user}]


@lru_cache(maxsize=4096)
def system_prompt(name: str) -> str:
    """Return the short prompt of a robot."""
    return build_short_prompt(robot(name).facts)


@lru_cache(maxsize=1)
def _talk() -> dict[str, Any]:
    return dict(words_of("talk"))


class Writer:
    """Draw the pairs of one robot."""

    def __init__(self, name: str, chance: random.Random, *, validation: bool = False) -> None:
        self._name, self._robot, self._chance, self._validation = name, robot(name), chance, validation
        self._also: dict[str, Sequence[Mapping[str, Any]]] = {}

    def pair(self) -> Pair:
        """Draw a pair. Raises ValueError where a robot's skills give none."""
        for _ in range(TRIES):
            kind, weight = self._chance.choice(KINDS)
            if self._chance.random() > weight:
                continue
            self._also = {}
            written = getattr(self, f"_{kind}")()
            if written is not None:
                instruction, stream = written
                said = _capital(instruction) if self._chance.random() < 0.8 else instruction
                seen = self._observation() if self._chance.random() < OBSERVED else None
                return Pair(self._name, kind, said, stream, dict(self._also), seen)
        raise ValueError(f"no pair could be drawn for {self._name}")

    def _pick(self, name: str) -> Any:
        return self._chance.choice(list(_talk()[name]["held_out" if self._validation else "train"]))

    def _deed(self, apart: frozenset[str] = frozenset()) -> Deed | None:
        drawn = deed(self._robot, self._chance, validation=self._validation, apart=apart)
        if drawn is not None and drawn.also:
            self._also[drawn.tag] = drawn.also
        return drawn

    def _polite(self, words: str) -> str:
        return str(self._pick("polite").format(name=self._robot.facts.name)) + self._ended(words)

    def _ended(self, words: str) -> str:
        return words + str(self._pick("ending").format(name=self._robot.facts.name))

    def _joined(self, joint: str, **parts: str) -> str:
        """Return parts as one instruction. One that does not begin with a deed is asked without polite words before it."""
        form = self._pick(joint)
        words = form.format(**parts)
        return self._polite(words) if form.startswith("{") else self._ended(words)

    def _counted(self, one: Deed) -> tuple[str, str] | None:
        """Return a deed done several times: by its own parameter, or call after call."""
        times = next((p for p in self._times(one) if p not in one.attributes), "")
        n = self._chance.randint(2, 9 if times else MAX_REPEATS)
        stream = self._with(one, times, str(n)) if times else one.tag * n
        return self._pick("count").format(a=one.words, times=spoken_times(n, self._chance)), stream

    def _times(self, one: Deed) -> list[str]:
        names = self._robot.renamed.get(one.name, {})
        skill = self._robot.skills.get(one.name)
        assert skill is not None
        return [p for p in skill.signature.parameters if p in (names.get("times", "times"), "times")]

    def _modified(self, one: Deed) -> tuple[str, str]:
        """Return a deed as it is, or with a count, a duration or a pace where its skill takes one."""
        skill = self._robot.skills.get(one.name)
        assert skill is not None
        free = [p for p in skill.signature.parameters if p not in one.attributes]
        draw = self._chance.random()
        if draw < 0.12 and (counted := self._counted(one)) is not None:
            return counted
        if draw < 0.24 and (name := next((p for p in free if p in ("duration", "duration_s", "seconds", "secs")), "")):
            n = self._chance.randint(2, 20)
            stream = self._with(one, name, str(n))
            return self._pick("lasting").format(a=one.words, seconds=spoken_number(n, self._chance)), stream
        if draw < 0.34 and "speed" in free:
            slow = self._chance.random() < 0.5
            stream = self._with(one, "speed", SLOW if slow else FAST)
            self._also[stream] = [{**one.attributes, "speed": "below 50" if slow else "above 65"}]
            return self._pick("slow" if slow else "fast").format(a=one.words), stream
        return one.words, one.tag

    def _with(self, one: Deed, name: str, value: str) -> str:
        """Return a deed with one more argument, in the order of the signature."""
        skill = self._robot.skills.get(one.name)
        assert skill is not None
        given = {**one.attributes, name: value}
        ordered = {p: given[p] for p in skill.signature.parameters if p in given}
        changed = Deed(one.name, ordered, one.words, one.channels, one.keeps)
        if one.also:
            self._also[changed.tag] = [{**way, name: value} for way in one.also if "call" not in way]
        return changed.tag

    def _single(self) -> tuple[str, str] | None:
        one = self._deed()
        if one is None:
            return None
        words, stream = self._modified(one)
        return self._polite(words), stream

    def _then(self) -> tuple[str, str] | None:
        return self._in_order("then", 2)

    def _then_three(self) -> tuple[str, str] | None:
        return self._in_order("then_three", 3)

    def _in_order(self, joint: str, count: int) -> tuple[str, str] | None:
        deeds = [self._deed() for _ in range(count)]
        if any(one is None for one in deeds):
            return None
        drawn = [one for one in deeds if one is not None]
        parts = [self._modified(one) for one in drawn]
        names = dict(zip("abc", (words for words, _ in parts), strict=False))
        stream = ""
        for n, (one, (_, written)) in enumerate(zip(drawn, parts, strict=True)):
            later = drawn[n + 1] if n + 1 < count else None
            orders = later is None or one.channels & later.channels or MAIN in one.channels | later.channels
            stream += written if orders else f"<wait>{written}</wait>"
        return self._joined(joint, **names), stream

    def _together(self) -> tuple[str, str] | None:
        one = self._deed(apart=frozenset({MAIN}))
        other = self._deed(apart=one.channels | {MAIN}) if one is not None else None
        if one is None or other is None:
            return None
        (a, first), (b, second) = self._modified(one), self._modified(other)
        return self._joined("together", a=a, b=b), first + second

    def _while(self) -> tuple[str, str] | None:
        one = self._deed(apart=frozenset({MAIN}))
        other = self._deed(apart=one.channels | {MAIN}) if one is not None else None
        if one is None or other is None:
            return None
        b, second = self._modified(other)
        stream = one.around(second) if one.keeps else one.tag + second
        return self._joined("while", a=one.words, b=b), stream

    def _words(self) -> tuple[str, str]:
        """Return something to say, as it is asked for and as it is said."""
        text = self._pick("words").format(name=self._robot.facts.name)
        bare = text.rstrip(".!?").lower() if self._chance.random() < 0.4 else ""
        quote = self._chance.choice(('"{}"', "'{}'", "“{}”", ": {}"))
        return self._pick("say").format(words=bare or quote.format(text)), text

    def _say(self) -> tuple[str, str] | None:
        asked, text = self._words()
        return self._polite(asked), text

    def _say_then(self) -> tuple[str, str] | None:
        one = self._deed()
        if one is None:
            return None
        (asked, text), (words, stream) = self._words(), self._modified(one)
        return self._joined("then", a=asked, b=words), text + stream

    def _then_say(self) -> tuple[str, str] | None:
        one = self._deed()
        if one is None:
            return None
        (asked, text), (words, stream) = self._words(), self._modified(one)
        return self._joined("then", a=words, b=asked), f"<wait>{stream}</wait>{text}"

    def _while_saying(self) -> tuple[str, str] | None:
        one = self._deed(apart=frozenset({MAIN}))
        if one is None:
            return None
        asked, text = self._words()
        stream = one.around(text) if one.keeps else one.tag + text
        return self._joined("while", a=one.words, b=asked), stream

    def _together_saying(self) -> tuple[str, str] | None:
        one = self._deed(apart=frozenset({MAIN}))
        if one is None:
            return None
        (asked, text), (words, stream) = self._words(), self._modified(one)
        return self._joined("together", a=words, b=asked), stream + text

    def _pause(self) -> tuple[str, str] | None:
        one, n = self._deed(), self._chance.randint(1, 20)
        rest = self._pick("rest").format(seconds=spoken_number(n, self._chance))
        sleep = f'<{self._robot.facts.options.tag("sleep")} seconds="{n}"/>'
        if one is None:
            return self._polite(rest), sleep
        words, stream = self._modified(one)
        if self._chance.random() < 0.5:
            return self._joined("then", a=rest, b=words), sleep + stream
        return self._joined("then", a=words, b=rest), f"<wait>{stream}</wait>{sleep}"

    def _ask(self) -> tuple[str, str] | None:
        if "ask" not in self._robot.skills:
            return None
        question = self._pick("question")
        quoted = f'"{question}"' if self._chance.random() < 0.5 else question
        return self._pick("ask").format(question=quoted), f"<ask>{question}</ask>"

    def _recall(self) -> tuple[str, str] | None:
        if "query_memory" not in self._robot.skills:
            return None
        question = self._pick("recall")
        return question, f'<query_memory question="{question}"/>'

    def _chat(self) -> tuple[str, str] | None:
        said = self._pick("talk")
        part = _talk()["talk"]["held_out" if self._validation else "train"]
        return said, part[said].format(name=self._robot.facts.name)

    def _cannot(self) -> tuple[str, str] | None:
        if self._chance.random() < 0.6:
            return self._polite(self._pick("beyond")), CANNOT
        other = robot(f"{'unseen' if self._validation else 'invented'}:{self._chance.randrange(300)}")
        strange = deed(other, self._chance, validation=self._validation)
        if strange is None or self._can(other.entries[strange.name], strange):
            return None
        return self._polite(strange.words), CANNOT

    def _can(self, entry: str, strange: Deed) -> bool:
        """Return whether this robot has a skill for it, or one on a channel of the same name."""
        channels = {channel for skill in self._robot.skills for channel in skill.subsystems}
        return entry in self._robot.entries.values() or bool(strange.channels & channels)

    def _observation(self) -> dict[str, Any]:
        """Return what an observer may tell; nothing of it changes what is to be done."""
        free = {s: "free" for skill in list(self._robot.skills)[:4] for s in skill.subsystems if "{" not in s}
        seen: dict[str, Any] = {
            "battery": self._chance.randint(10, 100),
            "posture": self._chance.choice(("standing", "sitting", "lying")),
            "room": self._chance.choice(("kitchen", "office", "hall")),
            "moving": self._chance.random() < 0.2,
            "subsystems": free,
            "last_heard": self._chance.choice(("", "hello", "well done")),
        }
        kept = self._chance.sample(sorted(seen), self._chance.randint(1, len(seen)))
        return {name: seen[name] for name in seen if name in kept}


KINDS = (
    ("single", 1.0),
    ("single", 1.0),
    ("then", 1.0),
    ("then_three", 0.5),
    ("together", 0.8),
    ("while", 0.8),
    ("say", 0.3),
    ("say_then", 0.6),
    ("then_say", 0.6),
    ("while_saying", 0.7),
    ("together_saying", 0.5),
    ("pause", 0.4),
    ("ask", 0.15),
    ("recall", 0.25),
    ("chat", 0.25),
    ("cannot", 0.7),
)
"""How instructions are built, and how often one that was drawn is kept."""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if re.search(r"[.!?”'\"]$", text) else ".")


def training_robots(chance: random.Random) -> str:
    """Draw the robot of a training pair: a shipped one, or one that was invented."""
    return (
        chance.choice(("coco", "coco", "coco", "kalos", "kalos", "hebe", "atlas", *[""] * 7))
        or f"invented:{chance.randrange(3000)}"
    )


def generate(seed: int, robots: Callable[[random.Random], str], *, validation: bool = False) -> Iterator[Pair]:
    """Draw pairs without end, each instruction once a robot."""
    chance = random.Random(seed)
    known: set[tuple[str, str]] = set()
    while True:
        name = robots(chance)
        pair = Writer(name, chance, validation=validation).pair()
        if (name, pair.instruction) not in known:
            known.add((name, pair.instruction))
            yield pair


def take(count: int, seed: int, robots: Callable[[random.Random], str], *, validation: bool = False) -> list[Pair]:
    """Return so many pairs whose stream is valid on its robot."""
    taken: list[Pair] = []
    for pair in generate(seed, robots, validation=validation):
        if not read(pair.stream, robot(pair.robot)).valid:
            raise ValueError(f"{pair.robot}: a generated stream is refused: {pair.stream}")
        taken.append(pair)
        if len(taken) == count:
            break
    return taken


def held_out_paraphrases(count: int = 200) -> list[Pair]:
    """Return the validation on the shipped robots' skills, in words that were not trained on."""
    return take(count, 34, lambda chance: chance.choice(("coco", "coco", "coco", "kalos", "kalos", "hebe")), validation=True)


def held_out_skills(count: int = 100) -> list[Pair]:
    """Return the validation on skills that were not trained on."""
    return take(count, 35, lambda chance: f"unseen:{chance.randrange(200)}", validation=True)


VALIDATION = {"paraphrases": held_out_paraphrases, "skills": held_out_skills}


def main() -> None:
    """Write pairs to a file, a JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--validation", choices=sorted(VALIDATION), help="write these pairs instead of some to train on")
    options = parser.parse_args()
    pairs = VALIDATION[options.validation]() if options.validation else take(options.pairs, options.seed, training_robots)
    with options.out.open("w", encoding="utf-8") as file:
        for pair in pairs:
            file.write(json.dumps({**asdict(pair), "prompt": pair.prompt}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
