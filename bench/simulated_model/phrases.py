# SPDX-License-Identifier: Apache-2.0
"""Reads an instruction as goals in order, and says a goal again; what is no goal is left to the parser of direct commands."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from bench.simulated_model.chinese import in_english
from bench.simulated_model.prompt import Call, calls_in, said, with_article
from bench.simulated_model.robot import Robot, Spot
from planners.language.lexicon import is_chinese
from planners.language.questions import is_question


@dataclass(frozen=True)
class Goal:
    """Something to bring about; `kind` names its policy. `name` says the place, the side, or the words as they were said;
    `found` is the outcome of a search on which the goals of an `if` depend."""

    kind: str
    thing: str = ""
    places: tuple[str, ...] = ()
    name: str = ""
    at: Spot | None = None
    found: bool = True
    goals: tuple[Goal, ...] = ()
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Meaning:
    """An instruction understood. `watches` are what is to be done whenever a thing is seen, without goals: end the task;
    `resumes`: what was interrupted goes on afterwards."""

    goals: tuple[Goal, ...]
    watches: tuple[Goal, ...] = ()
    resumes: bool = False

    @property
    def understood(self) -> bool:
        """Return whether any part of it means something here."""
        return bool(self.watches) or any(goal.kind != "unknown" for goal in self.goals)


HERE = "here"
_POLITE = re.compile(
    r"^(?:please|now|then|first|finally|afterwards|after that|next|ok(?:ay)?|hey|well|and"
    r"|(?:could|can|would|will) you|i want you to|you should)[,\s]+",
    re.IGNORECASE,
)
_STOP = re.compile(
    r"^(?:stop|wait|hold on|pause|halt)\b(?: for a moment| that| there)?\s*(?:[,.;!:]|\band\b)\s*", re.IGNORECASE
)
_RESUME = re.compile(r"[,;.]?\s*(?:and\s+)?(?:then\s+)?(?:resume|continue|carry on|go on)\b[^.]*[.!]?$", re.IGNORECASE)
_SENTENCE = re.compile(
    r"(?<=[.!?;])\s+|(?:\s*,\s*(?:and\s+|but\s+)?|\s+(?:and|but)\s+)(?=(?:if|otherwise|when|whenever|every time)\b)",
    re.IGNORECASE,
)
_PART = re.compile(r"\s*[,;](?! y -?\d)\s*(?:and\s+)?(?:then\s+)?|\s+(?:and\s+)?then\s+|\s+and\s+")
_QUOTED = re.compile(r"[\"“][^\"”]*[\"”]")
_OTHERWISE = re.compile(r"^(?:otherwise|or else)\b,?\s*")
_IF = re.compile(
    r"^(?:if|when(?:ever)?|once|as soon as|after|every time)\b(?P<condition>[^,]+?)"
    r"(?:,|\bthen\b|(?<=\bis one\b))\s*(?P<rest>.+)$"
)
_WHENEVER = re.compile(
    r"^(?P<rest>.+?)\s+(?P<word>when(?:ever)?|every time|until)\s+you\s+(?:see|find|spot)\s+(?P<condition>.+)$"
)
_NOT = re.compile(r"\b(?:no|not|none|nothing|cannot|\w+n't)\b")
_THERE = re.compile(r"\b(?:there|here|in the|at the)\b")
_FIND = re.compile(
    r"^(?:(?:keep )?(?:look|search|hunt|check|scan|walk)(?:ing)?\b(?P<area>.*?)\bfor|find|locate|seek|spot"
    r"|see if there is|check (?:whether|if) there is|is there) (?P<what>.+?)(?: until you (?:find|see) (?:it|one))?$"
)
_ALL = re.compile(
    r"\b(?:everywhere|anywhere|(?:whole|entire|the) (?:building|area|house)|(?:every|each|all)(?: the)? (?:room|place)s?)\b"
)
_THIS = re.compile(r"\b(?:this (?:room|place|area)|the (?:whole )?room|here)\b")
_HOME = re.compile(
    r"^(?:return|(?:go|come|walk|head|get) (?:back|home))"
    r"(?: to (?:the |your )?(?:start|begin|origin|base|where you (?:start|beg))\w*(?: point| place| position)?)?"
    r"(?: here)?(?: at x (?P<x>-?[\d.]+),? y (?P<y>-?[\d.]+))?$"
)
_LOOK = re.compile(
    r"^(?:check|look|see|inspect|report|tell me|describe|what is)\b.*?"
    r"\b(?P<side>left|right|behind|back|in front|ahead|around)\b(?: of)?(?: you)?$"
)
_SIDES = {"back": "behind", "in front": "front", "ahead": "front"}
_PICTURE = re.compile(
    r"^(?:take|make) (?P<count>an?|the|one|two|three|four|five|\d) (?:picture|photo|image)s?(?: of (?P<what>.+))?$"
    r"|^photograph (?P<whom>.+)$"
)
_COUNT = {"two": 2, "three": 3, "four": 4, "five": 5, **{str(n): n for n in range(2, 10)}}
_REPORT = re.compile(
    r"^(?:report|tell me|announce|let me know|say(?= ))(?P<what>$| (?:where|what|whether|if|how many|that you)\b.*)$"
)
_AT = re.compile(r"^(?P<command>(?:bark|nod)\b.*?) (?:at|to) (?P<what>.+)$")
_FACE = re.compile(r"^(?:face|look at|turn (?:to|towards?)(?: face)?) (?P<what>.+)$")
_TO = re.compile(
    r"^(?:(?:go|walk|come|move|run|drive|return|head)(?: back)?(?: up| over| close)? (?:to|towards?|into|in)"
    r"|approach|visit|enter|meet|go) (?P<what>.+)$"
)
_WHERE = re.compile(
    r"^(?:go|walk|come|drive|return|head)(?: back)?(?: (?:to|into))?(?: the (?:place|room|spot))? where you (?:last )?"
    r"(?:saw|found) (?P<what>.+?)(?P<when> (?:yesterday|today))?$"
)
_ASKS = re.compile(
    r"^(?:(?:who|whom|where|when|what|which(?: \w+)?) "
    r"(?:did|do|does|has|have|had|is|are|was|were|can|places|rooms|people|things)|"
    r"who (?:asked|told|said|wanted|spoke|talked)|what happened|how (?:many|often)|have you|did you|"
    r"do you (?:know|remember)|were you)\b"
)
_PLAINER = {"turn back": "turn around", "come here": "walk up to me"}
_MORE = re.compile(r"\b(?:but|without|unless|before|after|while|instead)\b")
"""Words that change the meaning of a clause in a way that only direct commands may know."""
_THEM = re.compile(r"\b(?:it|them|him|her)\b", re.IGNORECASE)


def asks_memory(text: str) -> bool:
    """Return whether a sentence asks for something that a memory may hold."""
    return bool(_ASKS.match(" ".join(text.lower().split())))


@functools.lru_cache(maxsize=1024)
def understand(instruction: str, robot: Robot) -> Meaning:
    """Return what the instruction asks for. Words that mean nothing here are a goal of their own that says so."""
    text = " ".join(in_english(instruction).replace("’", "'").split())
    if is_chinese(instruction) and is_question(instruction) and "query_memory" in robot.skills:
        return Meaning((Goal("ask", name=instruction, calls=(Call("query_memory", {"question": instruction}),)),))
    resumes = bool(_RESUME.search(text))
    text = _STOP.sub("", _RESUME.sub("", text) or text) or text
    plain = _POLITE.sub("", text)
    of_here = _FIND.match(plain.lower()) or _side(plain.rstrip("?"))
    if asks_memory(plain) and "query_memory" in robot.skills and not of_here:
        ask = Call("query_memory", {"question": plain[:1].upper() + plain[1:]})
        return Meaning((Goal("ask", name=plain, calls=(ask,)),), resumes=resumes)
    reader = _Reader(robot)
    for sentence in _SENTENCE.split(text):
        reader.sentence(_politely(sentence))
    return Meaning(tuple(reader.goals), tuple(reader.watches), resumes)


TEXTS = {
    "go": ("go to the {name}", "it is in the {name}"),
    "find": ("look for {a_thing} {where}", "{a_thing} was found, or there is nowhere left to look"),
    "recall": ("go where you saw the {thing} {name}", "it is where the {thing} was seen"),
    "face": ("face the {thing}", "the {thing} is in front of it"),
    "approach": ("walk up to the {thing}", "the {thing} is in front of it"),
    "picture": ("take a picture{of_it}", "a picture was kept"),
    "home": ("return to the start{spot}", "it is where it started"),
    "look": ("check what is {side}", "it was said aloud"),
    "report": ("report {asked}", "it was said aloud"),
    "count": ("report how many {thing}s you see", "it was said aloud"),
    "if": ("if {outcome} was found, {inner}", "it was done, or it was not to be done"),
    "do": ("{name}", "it was done"),
    "ask": ("{name}", "an answer was given"),
    "unknown": ("{name}", "an answer was given"),
}
"""The words of each kind of goal, and when it is reached."""


def words(goal: Goal) -> str:
    """Return the words that mean this goal."""
    thing, a_thing = goal.thing, with_article(goal.thing)
    text = TEXTS[goal.kind][0].format(
        name=goal.name,
        thing=thing,
        a_thing=a_thing,
        where="here in this room" if goal.name == HERE else f"in the {goal.name}" if goal.name else "in every place",
        of_it=f" of the {thing}" if thing else "",
        spot=f" at x {goal.at[0]:g}, y {goal.at[1]:g}" if goal.at else "",
        side={"around": "around you", "behind": "behind you", "front": "in front of you"}.get(
            goal.name, f"on your {goal.name}"
        ),
        asked=f"where the {thing} is" if thing else "what you see",
        outcome=a_thing if goal.found else f"no {thing}",
        inner=" and ".join(map(words, goal.goals)),
    )
    return text.rstrip()


def _politely(text: str) -> str:
    while (shorter := _POLITE.sub("", text.strip(" ,.!?;"))) != text:
        text = shorter
    return text


def _side(text: str) -> str:
    found = _LOOK.match(text.lower())
    return _SIDES.get(found["side"], found["side"]) if found else ""


class _Reader:
    """Reads sentence after sentence; `thing` is what "it" means."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self.goals: list[Goal] = []
        self.watches: list[Goal] = []
        self.thing = ""

    def sentence(self, text: str) -> None:
        """Add what one sentence says."""
        low = text.lower()
        if found := _OTHERWISE.match(low):
            self._condition("not", text[found.end() :])
        elif found := _IF.match(low):
            self._condition(found["condition"], text[found.start("rest") :])
        elif (found := _WHENEVER.match(low)) and (thing := self._robot.thing_in(found["condition"])):
            goals = self._parts(text[: found.end("rest")])
            ends = found["word"] == "until"
            self.goals += goals if ends else goals[:-1]
            self.watches.append(Goal("if", thing, goals=() if ends else tuple(goals[-1:])))
        elif text:
            self.goals += self._parts(text)

    def _condition(self, condition: str, rest: str) -> None:
        """Add a choice where the thing was looked for, or is to be looked for in a place; else an event."""
        before, denied = self.thing, bool(_NOT.search(condition))
        self.thing = thing = self._robot.thing_in(condition) or self.thing
        looked_for = any(goal.kind == "find" and goal.thing == thing for goal in self.goals)
        if denied and self.watches and self.watches[-1].thing == thing:
            self.goals += [Goal("find", thing, name=HERE), self.watches.pop()]
        elif not denied and not looked_for and _THERE.search(condition):
            name, places = self._robot.places_in(condition)
            self.goals.append(Goal("find", thing, places, name or HERE))
            looked_for = True
        goal = Goal("if", thing, found=not denied, goals=tuple(self._parts(rest)))
        event = not denied and not looked_for and not before and " was found" not in condition
        if not thing:
            self.goals.append(_unknown(f"if{condition}, {rest}"))
        else:
            (self.watches if event else self.goals).append(goal)

    def _parts(self, text: str) -> list[Goal]:
        """Return the goals of clauses joined by then, and, or commas."""
        quotes = [quote.span() for quote in _QUOTED.finditer(text)]
        cuts = [cut.span() for cut in _PART.finditer(text) if not any(a < cut.start() < b for a, b in quotes)]
        goals: list[Goal] = []
        for start, end in zip((0, *(b for _, b in cuts)), (*(a for a, _ in cuts), len(text)), strict=True):
            if clause := _politely(text[start:end]):
                goals += self._clause(clause, goals)
        return goals

    def _clause(self, text: str, before: list[Goal]) -> list[Goal]:
        """Return the goals of one clause; `before` are those of its sentence so far."""
        low = re.sub(r"^explore (?:the )?(?:whole )?", "patrol the ", _PLAINER.get(text.lower(), text.lower()))
        robot, skills = self._robot, self._robot.skills
        if _MORE.search(low) and not _QUOTED.search(low):
            return [_unknown(text)] if re.search(r"\bbut\b", low) else self._command(text)
        name, places = robot.places_in(low)
        if places and before and before[-1].kind == "go" and re.fullmatch(r"(?:(?:to|in|the) )*\w+", low):
            return [Goal("go", places=places, name=name)]
        if found := _HOME.match(low):
            return [Goal("home", at=(float(found["x"]), float(found["y"])) if found["x"] else None)]
        if (found := _FIND.match(low)) and "search" in skills:
            place = next((goal for goal in reversed((*self.goals, *before)) if goal.kind == "go"), Goal(""))
            return list(self._search(low, found["what"], found["area"] or "", place))
        if (found := _PICTURE.match(low)) and "take_pic" in skills:
            thing = self._named(found["what"] or found["whom"] or "")
            count = _COUNT.get(found["count"] or "", 1)
            if count == 1:
                return [Goal("picture", thing)]
            return [*([Goal("face", thing)] if thing else []), Goal("do", name=low, calls=(Call("take_pic"),) * count)]
        if (side := _side(low)) and "rotate" in skills and not robot.thing_in(low):
            return [Goal("look", name=side)]
        if found := _REPORT.match(low):
            thing = robot.thing_in(found["what"]) or ("" if "what you see" in low else self.thing)
            return [Goal("count" if "how many" in low else "report", thing)]
        if "search" in skills and (found := _AT.match(low) or _FACE.match(low)) and (thing := self._named(found["what"])):
            return [Goal("face", thing), *(self._command(found["command"]) if "command" in found.groupdict() else ())]
        if (found := _WHERE.match(low)) and (thing := self._named(found["what"])):
            return [Goal("recall", thing, name=(found["when"] or "").strip())]
        if found := _TO.match(low):
            name, places = robot.places_in(found["what"])
            if places and "goto_waypoint" in skills:
                return [Goal("go", places=places, name=name)]
            if "approach" in skills and (thing := self._named(found["what"])):
                return [Goal("approach", thing)]
        return self._command(low if low != text.lower() else text)

    def _search(self, low: str, what: str, area: str, last: Goal) -> Iterator[Goal]:
        thing = self._named(what)
        name, places = self._robot.places_in(f"{area} and {what}")
        if not thing:
            noun = re.sub(r"^(?:an?|the|some|any) ", "", what).split(" in ")[0]
            why = f"I cannot recognise {noun!r}; I know {', '.join(self._robot.things)}."
            yield Goal("unknown", name=low, calls=(said(why),))
        elif _ALL.search(low):
            yield Goal("find", thing)
        elif _THIS.search(low):
            yield Goal("find", thing, name=HERE)
        elif not places and re.search(r"\bthere$", what):
            yield Goal("find", thing, last.places, last.name)
        else:
            yield Goal("find", thing, places, name)
        if low.startswith("is there"):
            yield Goal("report", thing)

    def _named(self, what: str) -> str:
        """Return the thing that is named, or that a pronoun stands for."""
        if re.match(r"(?:it|them|him|her|one|that|this)\b", what):
            return self.thing
        thing = self._robot.thing_in(what)
        self.thing = thing or self.thing
        return thing

    def _command(self, text: str) -> list[Goal]:
        """Return a direct command as the parser of the offline client reads it."""
        clear = _THEM.sub(f"the {self.thing}", text) if self.thing and not _QUOTED.search(text) else text
        reading = self._robot.parser.read(clear)
        if not reading.source:
            return [_unknown(text, (reading.trouble or "").strip(" ."))]
        return [Goal("do", name=clear, calls=calls_in(reading.source))]


def _unknown(text: str, why: str = "") -> Goal:
    told = why if why and not why.startswith("I did") else f"I do not know how to do this: {text}"
    return Goal("unknown", name=text, calls=(said(told if told.endswith("。") else f"{told}."),))
