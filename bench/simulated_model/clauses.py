# SPDX-License-Identifier: Apache-2.0
"""Reads one clause of an instruction; what is no pattern here is tried as a direct command."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import replace

from bench.simulated_model.goals import TEXT, Act, Approach, Do, Face, Find, Goal, GoTo, Look, Picture, Report, Return, Unknown
from bench.simulated_model.vocabulary import ALL_PLACES, Vocabulary

_FIND = re.compile(
    r"^(?:(?:look|search|hunt|check|scan|walk|go)\s+"
    r"(?:(?:around|about|everywhere|(?:(?:in|through|around|inside) )?(?:the|this) [\w ]+?"
    r"|(?:in|through|around|inside) [\w ]+?)\s+)?"
    r"(?:and (?:look|search)\s+)?for"
    r"|find|locate|seek|spot|discover|see if (?:there is|you can (?:see|find))|check (?:whether|if) there is)\s+(?P<what>.+)$"
)
_HERE = re.compile(r"\b(?:this (?:room|place|spot|area)|the room|right here|here|where you (?:are|stand))\b")
_AREA = re.compile(r"^(?:search|check|look (?:in|through))\s+(?:the\s+)?(?P<where>[\w ]+?)\s+for\s+(?P<what>.+)$")
_FACE = re.compile(r"^(?:(?:turn|rotate)\s+(?:to|toward|towards)|face|look at|turn to face)\s+(?P<what>.+)$")
_APPROACH = re.compile(
    r"^(?:(?:walk|go|come|move|run|get|step)\s+(?:right\s+)?(?:up to|over to|close to|closer to|near|to|towards?)"
    r"|approach|visit|meet)\s+(?P<what>.+)$"
)
_COME = re.compile(r"^(?:come|walk|go)\s+(?:over\s+)?(?:here|over)$")
_GOTO = re.compile(
    r"^(?:(?:go|walk|move|drive|navigate|head|run|return|come|get|travel|proceed|make your way)(?:\s+back)?"
    r"(?:\s+(?:over|straight|on))?\s+(?:to|into|in|towards?|inside)|visit|enter|go)\s+(?P<what>.+)$"
)
_HOME = re.compile(
    r"^(?:(?:return|go back|come back|walk back|go|get back|head back|come home|go home)\s*(?:to\s+)?)"
    r"(?:(?:the |your |its )?(?:start\w*|begin\w*|origin|base|home|initial)(?:\s+(?:point|place|position|location|pose))?"
    r"|(?:the )?(?:place|spot|point|where)\s+(?:where\s+)?(?:you|it|we)\s+(?:started|began|were|came from|are now)"
    r"(?:\s+from)?|here)?"
    r"(?:\s+at x (?P<x>-?[\d.]+),? y (?P<y>-?[\d.]+))?$"
)
_SIDE = re.compile(
    r"^(?:(?:check|look|see|inspect|watch|report|tell me|describe|say)\b.*?)"
    r"\b(?P<side>left|right|behind|back|in front|ahead|around)\b(?:\s+(?:of\s+)?(?:you|side|hand side|yourself))?$"
)
_PICTURE = re.compile(
    r"^(?:take|make|shoot|snap|get|capture)\s+(?:an?|the|another|one)?\s*(?:picture|photo|photograph|image|snapshot)s?"
    r"(?:\s+of\s+(?P<what>.+))?$"
)
_PHOTOGRAPH = re.compile(r"^photograph\s+(?P<what>.+)$")
_REPORT = re.compile(
    r"^(?:report|tell (?:me|us|him|her|them|the \w+)|say|announce|let me know)(?:\s+(?:back|to (?:me|the \w+)))?"
    r"(?:\s+(?P<what>(?:where|what|whether|if|the result|it|that you)\b.*))?$"
)
_PRONOUN = re.compile(r"^(?:it|them|him|her|one|that|this|the thing)\b")
_MORE = re.compile(r"\b(?:without|unless|before|after|while|instead)\b")
_SAME = [
    (re.compile(r"^turn back$"), "turn around"),
    (re.compile(r"^face (left|right)$"), r"turn \1"),
    (re.compile(r"^explore (?:the )?(?:whole |entire )?"), "patrol the "),
    (re.compile(r"^(?:go|walk) (?:around|round|through) the (building|rooms|hallway)\b"), r"patrol the \1"),
    (re.compile(r"^(?:keep (?:on )?|go on )(look|search)ing\b"), r"\1"),
    (re.compile(r"\s+until you (?:find|see|have found) (?:it|one|them)$"), ""),
    (re.compile(r"^greet\b.*$"), 'say "hello"'),
    (re.compile(r"^show me\b"), "check"),
    (re.compile(r"^(wait|stay)\s+(?:there|here)\b"), "wait"),
]
_AT = re.compile(r"^(?P<do>bark|nod)\s+(?P<times>.*?)\s*\b(?:at|to)\s+(?P<what>.+)$")
_MANY = re.compile(r"^take (?P<count>two|three|four|five|\d) (?:pictures|photos|images)(?:\s+of\s+(?P<what>.+))?$")
_HOW_MANY = re.compile(
    r"^(?:report|tell me|say|count)\s+(?:how many\s+|the\s+)?(?P<what>\w+)"
    r"(?:\s+(?:you (?:can )?see|are (?:there|in sight)))?$"
)
_COUNTS = {"two": 2, "three": 3, "four": 4, "five": 5}
_THEM = re.compile(r"\b(?:it|them|him|her)\b", re.IGNORECASE)
_QUOTES = re.compile(r"[\"“”]")
_PIECE = re.compile(r"<(?P<name>[\w.:\-]+)(?P<attributes>[^<>]*?)/>|(?P<wait></?wait>)|(?P<text>[^<]+)")
_ATTRIBUTE = re.compile(r'([\w.:\-]+)="([^"]*)"')


def _plainer(low: str) -> str:
    """The clause in words that are known here."""
    for pattern, words in _SAME:
        low = pattern.sub(words, low)
    return low


class Clauses:
    """Reads clauses one by one; `label` is what "it" means next."""

    def __init__(self, words: Vocabulary, label: str, before: Sequence[Goal]) -> None:
        self._words = words
        self.label = label
        self._before = before
        self.replaces_last = False
        """The clause only added to the goal before it ("or the office")."""

    def read(self, said: str) -> list[Goal]:
        """The goals of a clause; an Unknown among them when it means nothing here."""
        low = _plainer(said.lower())
        said = low if low != said.lower() else said
        if re.search(r"\bbut\b", low) and not _QUOTES.search(low):
            return [Unknown(said)]
        if _MORE.search(low):
            return self._direct(said)
        for rule in (self._again, self._home, self._find, self._picture, self._side, self._report, self._near):
            goals = rule(low)
            if goals:
                return goals
        return self._direct(said)

    def _thing(self, what: str) -> str:
        if _PRONOUN.match(what):
            return self.label
        found = self._words.label_in(what)
        self.label = found or self.label
        return found

    def _again(self, low: str) -> list[Goal]:
        """A bare noun carries on what came before: "the kitchen and the office"."""
        bare = re.match(r"^(?:(?:or|and|to|in|into)\s+)*(?:the|a|an)?\s*(?P<what>[\w ]+)$", low)
        last = self._before[-1] if self._before else None
        if bare is None or last is None:
            return []
        name, points = self._words.group(bare["what"])
        if not points or set(bare["what"].split()) - {"hall", "the", *re.findall(r"[a-z]+", " ".join(points))}:
            return []
        if isinstance(last, GoTo):
            return [GoTo(points, name)]
        if isinstance(last, Find) and last.waypoints:
            self.replaces_last = True
            return [replace(last, waypoints=(*last.waypoints, *points), name=f"{last.name} or the {name}")]
        return []

    def _home(self, low: str) -> list[Goal]:
        found = _HOME.match(low)
        if found is None or low in ("go", "return to", "go to"):
            return []
        return [Return((float(found["x"]), float(found["y"])) if found["x"] else None)]

    def _find(self, low: str) -> list[Goal]:
        found = _AREA.match(low) or _FIND.match(low)
        if found is None or "search" not in self._words.skills:
            return []
        what = found["what"]
        label = self._thing(what)
        if not label:
            noun = re.sub(r"^(?:an?|the|some|any)\s+", "", what).split(" in ")[0].strip(" .,")
            return [Unknown(low, f"I cannot recognise {noun!r}; I know {', '.join(self._words.labels)}")]
        where = found.groupdict().get("where") or what.partition(" in ")[2] or what.partition(" at ")[2]
        where = where or re.sub(r"^.*?\b(?:inside|through|around|near)\b", "", low.partition(" for ")[0])
        if ALL_PLACES.search(low):
            return [Find(label)]
        if _HERE.search(low):
            return [Find(label, here=True)]
        name, points = self._words.groups(where)
        if not points and re.search(r"\bthere\b", what):
            last = next((g for g in reversed(self._before) if isinstance(g, GoTo)), None)
            name, points = (last.name, last.waypoints) if last is not None else ("", ())
        return [Find(label, points, name)]

    def _picture(self, low: str) -> list[Goal]:
        if (many := _MANY.match(low)) and "take_pic" in self._words.skills:
            label = self._thing(many["what"]) if many["what"] else ""
            times = _COUNTS.get(many["count"]) or int(many["count"])
            return [*([Face(label)] if label else []), Do((Act("take_pic", {}),) * times, low)]
        found = _PICTURE.match(low) or _PHOTOGRAPH.match(low)
        if found is None or "take_pic" not in self._words.skills:
            return []
        return [Picture(self._thing(found["what"]) if found["what"] else "")]

    def _side(self, low: str) -> list[Goal]:
        found = _SIDE.match(low)
        if found is None or "rotate" not in self._words.skills or self._words.label_in(low):
            return []
        side = {"back": "behind", "in front": "front", "ahead": "front"}.get(found["side"], found["side"])
        return [Look(side)]

    def _report(self, low: str) -> list[Goal]:
        many = _HOW_MANY.match(low)
        if many and ("how many" in low or low.startswith("count")) and (label := self._words.label_in(many["what"])):
            return [Report(label, count=True)]
        found = _REPORT.match(low)
        if found is None or (low.startswith("say") and not found["what"]):
            return []
        asked = self._words.label_in(found["what"] or "")
        see = re.search(r"\bwhat\b.*\bsee\b|\bin sight\b", found["what"] or "")
        return [Report(asked or ("" if see else self.label))]

    def _near(self, low: str) -> list[Goal]:
        """Facing, coming, going: to a thing or to a place."""
        if (found := _AT.match(low)) and (label := self._thing(found["what"])) and "search" in self._words.skills:
            return [Face(label), *self._direct(f"{found['do']} {found['times']}".strip())]
        if (found := _FACE.match(low)) and "search" in self._words.skills and (label := self._thing(found["what"])):
            return [Face(label)]
        if _COME.match(low) and "person" in self._words.labels:
            self.label = "person"
            return [Approach("person")]
        found = _APPROACH.match(low) if "approach" in self._words.skills else None
        if found and not self._words.group(found["what"])[1] and (label := self._thing(found["what"])):
            return [Approach(label)]
        if "goto_waypoint" in self._words.skills and (found := _GOTO.match(low)):
            name, points = self._words.group(found["what"])
            if points:
                return [GoTo(points, name)]
        return []

    def _direct(self, said: str) -> list[Goal]:
        named = _THEM.sub(f"the {self.label}", said) if self.label and not _QUOTES.search(said) else said
        reading = self._words.parser.read(named)
        if reading.trouble is not None or not reading.source:
            return [Unknown(said, (reading.trouble or "").strip())]
        acts: list[Act] = []
        for piece in _PIECE.finditer(reading.source):
            if piece["name"]:
                values = {k: html.unescape(v) for k, v in _ATTRIBUTE.findall(piece["attributes"])}
                acts.append(Act(piece["name"], values))
            elif piece["text"] and piece["text"].strip():
                acts.append(Act(TEXT, {}, html.unescape(piece["text"].strip())))
        return [Do(tuple(acts), named)]
