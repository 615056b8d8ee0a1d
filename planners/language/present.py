# SPDX-License-Identifier: Apache-2.0
"""Answer plain questions about now in one sentence: from the newest observation, the skills and the processes; no model."""

import math
import re
import time
from collections.abc import Callable

from planners.language.parser import CommandParser
from planners.language.questions import WORDS, Question, is_question, readable, same_thing, with_article
from planners.language.words import concepts
from planners.prompts.prompt import RobotFacts
from planners.scene import IN_SIGHT_S, Present
from skill_kernel.config.observation import Serialise
from skill_kernel.config.sections import shown
from skill_kernel.observation import render
from skill_kernel.observation.accessors import View
from skill_kernel.observation.model import Pose, SeenObject, StaleFieldError, Value
from skill_kernel.processes.process import Process, ProcessStatus

SEEN = "object_detections"
AHEAD_RAD = math.radians(20.0)
"""A thing at a smaller bearing is ahead."""
MAX_TASKS, MAX_PHRASES, MAX_REASON = 3, 6, 60
"""Tasks and commands that an answer names at most, and characters that it keeps of why a task failed."""
_SENTENCE = re.compile(r"[.!?](?=\s|$)|[。！？]")


class PresentAnswerer:
    """Answers one question. `parser` tells what is a command; nothing is done."""

    def __init__(self, asked: Question, present: Present, about: RobotFacts, parser: CommandParser) -> None:
        self._asked, self._present, self._about, self._parser = asked, present, about, parser
        self._view = View(present.observation, about.accessors, present.steady_s)
        age = about.accessors.get("age_s")
        self._fields = age.parameters[0].choices if age is not None else ()

    def answer(self) -> str | None:
        """Return the answer, or None where only a memory may know one. The part of a form's name behind `_` that is no tense
        names the method: `where_now` and `_where`."""
        first, _, last = self._asked.form.partition("_")
        way: Callable[[], str | None] | None = getattr(self, f"_{first if last == 'now' else last}", None)
        return way() if way is not None else None

    def nobody_knows(self) -> str:
        """Return what is said where there is no memory, and what would help."""
        form = self._asked.form
        return self._asked.say(form if form in WORDS["answers"] else "other" if form.endswith("_now") else "unknown")

    def _time(self) -> str:
        return self._asked.say("time", time=time.strftime("%H:%M", time.localtime(self._present.time_s)))

    def _where(self) -> str:
        room, pose = self._fresh("room"), self._fresh("pose")
        at = {"x": round(pose.x, 1) + 0.0, "y": round(pose.y, 1) + 0.0} if isinstance(pose, Pose) else {}
        if not room and not at:
            return self._unknown("room")
        return self._asked.say(("in_room_at" if at else "in_room") if room else "at", room=self._asked.name(str(room)), **at)

    def _seen(self) -> str | None:
        asked, things = self._asked, self._fresh(SEEN)
        if not isinstance(things, tuple):
            return self._unknown(SEEN) if asked.form == "seen_now" else None
        here = [t for t in things if isinstance(t, SeenObject) and t.seen_s <= IN_SIGHT_S]
        here = [t for t in here if not asked.subject or same_thing(asked.subject, t.label)]
        nearby = not asked.room or same_thing(asked.room, str(self._fresh("room")))
        if here and nearby and not asked.since_s and not asked.first:
            return self._asked.say("see", things=self._asked.listed(map(self._described, here)))
        visible = self._about.accessors.get("visible")
        labels = visible.parameters[0].choices if visible is not None else ()
        known = not labels or not asked.subject or any(same_thing(asked.subject, label) for label in labels)
        key = "see_no" if known and asked.subject else "see_nothing" if known else "cannot_tell"
        said = self._asked.say(
            key, thing=self._asked.name(asked.subject), labels=self._asked.listed(map(self._asked.name, labels))
        )
        return said if asked.form == "seen_now" else None

    def _described(self, thing: SeenObject) -> str:
        side = "ahead" if abs(thing.bearing) < AHEAD_RAD else "left" if thing.bearing > 0 else "right"
        far = "" if math.isnan(thing.distance) else self._asked.say("far", metres=thing.distance)
        label = self._asked.name(thing.label)
        return self._asked.say(
            "thing", thing=with_article(label) if self._asked.language == "en" else label, far=far, side=self._asked.say(side)
        )

    def _able(self) -> str:
        phrase = self._asked.subject
        key = "can" if not phrase else "able" if self._parser.read(phrase).source else "not_able"
        phrases = self._parser.phrasebook.nearest("", chinese=self._asked.language == "zh", count=MAX_PHRASES)
        return self._asked.say(key, phrase=phrase, phrases="; ".join(phrases))

    def _tasks(self, *, ended: bool) -> list[Process]:
        """Return the tasks that have ended, or that have not, newest first; a question is no task."""
        found = [p for p in self._present.processes if p.status.ended is ended and not is_question(p.instruction)]
        return sorted(found, key=lambda p: p.ended_s or p.created_s, reverse=True)

    def _doing(self) -> str:
        tasks = self._tasks(ended=False)
        return self._asked.say("doing", tasks=self._asked.listed(map(self._now, tasks))) if tasks else self._asked.say("idle")

    def _now(self, task: Process) -> str:
        calls = dict.fromkeys(readable(c.function) for c in self._present.running if c.process_id == task.process_id)
        key = "paused" if task.status is ProcessStatus.PAUSED else "running" if calls else "task"
        return self._asked.say(key, task=task.instruction, calls=self._asked.listed(calls))

    def _ended(self, task: Process, *, brief: bool = False) -> str:
        """Return what became of a task; why it failed by the first sentence of it, and not where that is to be `brief`."""
        age_s = max(0.0, self._present.time_s - task.ended_s)
        why = shown(_SENTENCE.split(task.message or "?")[0].strip(), MAX_REASON)
        key = "failed_briefly" if brief and task.status is ProcessStatus.FAILED else task.status.name.lower()
        return self._asked.say(key, task=task.instruction, age=age_s, why=why)

    def _naming(self, *, ended: bool) -> list[Process]:
        """Return the tasks whose instructions name what is asked for, newest first."""
        subject = concepts(self._asked.subject)
        return [task for task in self._tasks(ended=ended) if subject <= concepts(task.instruction)]

    def _been(self) -> str | None:
        """Return what became of the newest task that names the place: who asks "did you reach it?" means that task, and no
        earlier visit that a memory may hold."""
        if self._asked.form != "whether_been" or self._asked.since_s:
            return None
        if running := self._naming(ended=False):
            return self._asked.say("doing", tasks=self._now(running[0]))
        ended = self._naming(ended=True)
        return self._asked.say("did", tasks=self._ended(ended[0])) if ended else None

    def _done(self) -> str | None:
        asked, tasks = self._asked, self._naming(ended=True)
        if asked.form == "why_done":
            bad = [task for task in self._tasks(ended=True) if task.status is not ProcessStatus.SUCCESS]
            return self._asked.say("did", tasks=self._ended(bad[0])) if bad else self.nobody_knows()
        if asked.form == "whether_done" and (running := self._naming(ended=False)):
            return self._asked.say("doing", tasks=self._now(running[0]))
        tasks = [t for t in tasks if (asked.since_s or 0.0) <= t.ended_s <= (asked.until_s or math.inf)][:MAX_TASKS]
        told = [self._ended(task, brief=len(tasks) > 1) for task in tasks]
        return self._asked.say("did", tasks=self._asked.listed(told)) if told else None

    def _well(self) -> str:
        observation, percent, last = self._present.observation, self._fresh("battery"), self._tasks(ended=True)[:1]
        if observation is not None and observation.stale(self._present.steady_s):
            return self._unknown("observation")
        battery = self._asked.say("and_battery", percent=percent) if isinstance(percent, float) else ""
        failed = bool(last) and last[0].status is ProcessStatus.FAILED
        return self._asked.say("unwell" if failed else "well", tasks="".join(map(self._ended, last)), battery=battery)

    def _who(self) -> str:
        name, first = self._about.name, self._about.description.split(". ")[0].strip(" .\n")
        told = first.replace(" is ", ", ", 1) if first.casefold().startswith(name.casefold()) else f"{name}: {first}"
        return self._asked.say("who", name=name, told=told)

    def _field(self) -> str | None:
        """Return a field of the observation by its name."""
        name = next((field for field in (*self._fields, *WORDS["fields"]) if same_thing(self._asked.subject, field)), "")
        value = self._fresh(name)
        if value is None:
            return self._unknown(name) if name else None
        key = next(key for key in (f"{name}_{value}", name, "field") if key in WORDS["answers"])
        told = render.shown(value, Serialise())
        return self._asked.say(key, what=readable(name), value=self._asked.name(told) if isinstance(told, str) else told)

    def _fresh(self, field: str) -> Value | None:
        """Return a field's value; None where it is missing or too old to be what is now."""
        try:
            return self._view.fresh(field)
        except StaleFieldError:
            return None

    def _unknown(self, field: str) -> str:
        """Return that a field is not known, why, and what would help."""
        what = WORDS["fields"].get(field, {}).get(self._asked.language, readable(field))
        observation, age_s = self._present.observation, self._view.age(field)
        if observation is not None and math.isinf(age_s):
            age_s = self._present.steady_s - observation.stamp
        key = "missing" if field not in (*self._fields, "observation") else "silent" if math.isinf(age_s) else "stale"
        return self._asked.say(key, what=what, field=field, age=age_s)
