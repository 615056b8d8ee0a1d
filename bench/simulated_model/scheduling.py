# SPDX-License-Identifier: Apache-2.0
"""System 3: how a new instruction stands to what runs, which guideline fires, and which ones contradict each other."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from bench.simulated_model.judging import judged
from bench.simulated_model.language import understand
from bench.simulated_model.question import Question
from planners.memory.questions import is_question

_SHORT = re.compile(r"\b(?:for a (?:second|moment|minute)|quickly|briefly|shortly|and (?:then )?go on)\b")
_STAYS = re.compile(
    r"^(?:please )?(?:say|tell|speak|answer|bark|take (?:a|another) (?:picture|photo))\b(?!.*\b(?:then|go|walk|turn)\b)"
)
_ALSO = re.compile(r"^(?:also|meanwhile)\b|\bas well\b|\bat the same time\b")
_WHEN = re.compile(
    r"^(?:(?:when(?:ever)?|if|as soon as|every time)\s+(?P<front>[^,]+),\s*(?P<then>.+)"
    r"|(?P<do>.+?)\s+(?:when(?:ever)?|if|as soon as)\s+(?P<back>.+))$",
    re.IGNORECASE,
)
_MAY = re.compile(
    r"^(?:you (?:may|can|should|must|are allowed to)|please)\s+(?:pause [\w\- ]+? (?:task )?to\s+)?", re.IGNORECASE
)
_GREETS = re.compile(r"^(?:engage|greet|meet|welcome)\b\s*(?:a |an |the |them|him|her)?[\w ]*")
_FORBIDS = re.compile(r"\b(?:never|do not|don't|must not|avoid|not allowed)\b", re.IGNORECASE)


def advise(question: Question) -> str:
    """The elements of System 3's answer."""
    lines = [*_relations(question), *_reactions(question), *_conflicts(question)]
    return "\n".join(lines) or "<nothing/>"


def _relations(question: Question) -> list[str]:
    new = question.blocks.get("INSTRUCTION", [])
    if not new:
        return []
    item = new[0] if isinstance(new[0], dict) else {"instruction": new[0]}
    said = str(item.get("instruction", ""))
    text = said.lower().strip()
    if understand(said, question.words).resumes or _SHORT.search(text):
        kind = "return"
    elif _ALSO.search(text) or _STAYS.search(text) or is_question(said):
        kind = "join"
    else:
        kind = "replace"
    lines = []
    for process in question.items("PROCESSES"):
        name = str(process.get("process") or process.get("id") or "")
        if name and name != item.get("process") and str(process.get("source", "user")) != "idle":
            lines.append(f'<relation process={quoteattr(name)} is="{kind}"/>')
    return lines


def _reactions(question: Question) -> list[str]:
    if question.blocks.get("INSTRUCTION") or question.blocks.get("ADDED"):
        return []
    for guideline in question.items("GUIDELINES"):
        sentence = str(guideline.get("sentence") or guideline.get("guideline") or "").strip().rstrip(".")
        if _FORBIDS.search(sentence):
            continue
        condition, task = _parts(sentence)
        holds, _ = judged(condition, question.facts, question.words)
        if holds and task:
            name = quoteattr(str(guideline.get("name", "")))
            return [f"<react guideline={name}>{escape(task)}</react>"]
    return []


def _parts(sentence: str) -> tuple[str, str]:
    """When a guideline applies, and what is to be done then."""
    found = _WHEN.match(sentence)
    if found is not None:
        condition, task = found["front"] or found["back"] or "", found["then"] or found["do"] or ""
    else:
        condition = task = sentence
    task = _MAY.sub("", task).strip()
    task = _GREETS.sub("go to the person and say hello", task)
    task = re.sub(r"\b(?:them|him|her)\b", "the person", task)
    return condition, task[:1].upper() + task[1:]


def _conflicts(question: Question) -> list[str]:
    added = question.items("ADDED")
    if not added:
        return []
    new = str(added[0].get("sentence", ""))
    lines = []
    for other in question.items("GUIDELINES"):
        old = str(other.get("sentence", ""))
        if bool(_FORBIDS.search(new)) == bool(_FORBIDS.search(old)):
            continue
        forbidden = _content(new if _FORBIDS.search(new) else old)
        if 2 * len(forbidden & _content(old) & _content(new)) >= max(2, len(forbidden)):
            name = quoteattr(str(other.get("name", "")))
            lines.append(f"<conflict guideline={name}>one asks for what the other forbids</conflict>")
    return lines


def _content(sentence: str) -> set[str]:
    common = {"the", "and", "you", "when", "whenever", "never", "not", "any", "with", "are", "see", "may", "always", "should"}
    return {w.rstrip("s") for w in re.findall(r"[a-z]{3,}", sentence.lower())} - common
