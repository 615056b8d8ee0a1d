# SPDX-License-Identifier: Apache-2.0
"""Send a sentence to the layer whose latency fits: a reflex (S0), a standing guideline (S3), or a task (S1 to S3).

The wording tells a wish for good, a reaction and a thing to do once apart. English, and the plainest forms of Chinese."""

import re

from planners.language.conditional import REQUEST, Clause, plain, sentences, split, steps
from planners.language.lexicon import with_pieces
from planners.language.stop_words import is_stop
from planners.prescriptions.grammar import Grammar
from planners.prescriptions.prescription import Kind, Route
from planners.prescriptions.reflex_compiler import nominal_of
from planners.prompts.blocks import text_beside
from reflexes.rule import ReflexError
from skill_kernel.config.yaml_text import read_yaml
from skill_kernel.guard.compiler import compile_guarded
from skill_kernel.guard.reading import GuardError

SHORT_S = 15.0
"""Longest nominal time of a reflex's action: it keeps every task off the body meanwhile."""
SLOW = frozenset({"battery_percent", "charging", "room", "posture", "heard", "age_s", "stale"})
"""Accessors that change too slowly for a hundredth of a second to matter."""
MAX_READ = 150
"""Longest sentence read word by word, in characters: a longer one would hold the node up, and needs a plan or a model."""

_EVERY = frozenset({"whenever", "every time", "each time", "any time", "anytime", "每当", "每次", "只要"})
_LASTING = frozenset({"while", "as long as", "in case", "as often as"})
_LAYER = {Kind.TASK: "S2", Kind.GUIDELINE: "S3", Kind.REFLEX: "S0"}
_TEXTS: dict[str, dict[str, str]] = read_yaml(text_beside(__file__, "wording.yaml"), strict=True)


def _pattern(name: str, alternatives: str) -> re.Pattern[str]:
    """Return the pattern of one of these a line, in their form; words in capitals stand for pieces."""
    either = "|".join(line.strip() for line in alternatives.splitlines())
    form = _TEXTS["forms"].get(name, "ANY").replace("ANY", either)
    return re.compile(with_pieces(form, _TEXTS["pieces"]), re.IGNORECASE)


_SAID = {name: _pattern(name, alternatives) for name, alternatives in _TEXTS["wording"].items()}


class Router:
    """Route by rules alone. What a person stated is taken, with what the sentence reads as told beside it."""

    def __init__(self, grammar: Grammar, robot: str = "") -> None:
        self._grammar, self._robot = grammar, robot

    def route(self, sentence: str, stated: Kind | None = None) -> Route:
        """Return where a sentence goes, and why there."""
        found = self._route(" ".join(sentence.split()))
        if stated is None or stated is found.kind:
            return found
        reason = f"as stated, a {stated.value}; by itself it reads as a {found.kind.value}: {found.reason}"
        return self._guideline(sentence, reason) if stated is Kind.GUIDELINE else Route(stated, _LAYER[stated], reason)

    def _route(self, sentence: str) -> Route:
        if is_stop(sentence, self._robot):
            return Route(Kind.TASK, "S0", "nothing but a stop word: it halts the robot at once and is never kept")
        text = plain(sentence, self._robot)
        if _SAID["question"].match(text) and not REQUEST.match(text):
            return self._task(sentence, "a question, answered once")
        parts = sentences(REQUEST.sub("", text))
        if len(parts) < 2:
            return self._one(sentence, parts[0] if parts else text)
        kinds = [self._one(part, part).kind for part in parts]
        if Kind.TASK not in kinds:
            return Route(Kind.GUIDELINE, "S3", "several standing wishes in one; System 3 weighs them together")
        if set(kinds) == {Kind.TASK}:
            return self._task(sentence, "a goal in several sentences")
        why = "a goal, with something to watch for while it lasts: System 2 keeps that as an event of this task alone"
        return Route(Kind.TASK, "S2", why)

    def _one(self, sentence: str, text: str) -> Route:
        clause = split(text)
        if clause is None:
            return self._unconditional(sentence, text)
        if _SAID["own_course"].match(clause.condition):
            return self._task(sentence, "its condition is a point in the task itself, not something to watch for afterwards")
        if (reflex := self._reflex(sentence, clause)) is not None:
            return reflex
        if not clause.first and steps(clause.action) > 1 and not _SAID["standing"].search(text):
            why = "a goal of several steps, with something to watch for while it lasts: an event of this task alone"
            return Route(Kind.TASK, "S2", why)
        if not clause.first and _SAID["report"].match(clause.action) and clause.word not in _EVERY:
            return self._task(sentence, "it asks for one report, when that has happened")
        if clause.word == "if" and not (_SAID["event"].search(clause.condition) or _SAID["modal"].match(clause.action)):
            return self._task(sentence, "an 'if' about what is now: it is decided once")
        return self._guideline(sentence, f"a standing wish: it applies each time that {clause.condition}")

    def _reflex(self, sentence: str, clause: Clause) -> Route | None:
        """Return the route of a reflex if the condition may be urgent and the action is fixed and short, that of a guideline
        if it only might be, else None."""
        action = _SAID["must"].sub("", clause.action)
        if _SAID["may"].match(clause.action) or _SAID["social"].search(action) or clause.word in _LASTING:
            return None
        read = self._as_reflex(sentence) or self._as_reflex(f"when {clause.condition}, {action}")
        if read is None:
            urgent, at_once = _SAID["urgent"].search(clause.condition), _SAID["at_once"].match(clause.action)
            if not urgent or not at_once:
                return None
            reason = f"“{urgent.group()}” calls for an answer within a fraction of a second, and “{at_once.group()}” is one"
            return Route(Kind.REFLEX, "S0", f"{reason}; it is in no usual form, so a model has to write its code")
        accessors, seconds = read
        names = ", ".join(accessors)
        if set(accessors) <= SLOW:
            return self._guideline(sentence, f"its condition ({names}) changes slowly, so a second is soon enough")
        if seconds > SHORT_S:
            if not clause.first and steps(clause.action) > 1:
                return None
            why = f"its action takes about {seconds:.0f} s; a reflex would keep every task off the body for so long"
            return self._guideline(sentence, why)
        reason = f"a condition on what is sensed at once ({names}) and a fixed action of about {seconds:.0f} s"
        return Route(Kind.REFLEX, "S0", reason)

    def _unconditional(self, sentence: str, text: str) -> Route:
        text = _SAID["unless"].sub("", text)
        if _SAID["about_now"].search(text):
            return self._task(sentence, "it is about what happens now")
        if found := _SAID["schedule"].search(text):
            why = f"“{found.group()}” is a time, nothing the robot observes, so no guideline could fire: a task that lasts"
            return Route(Kind.TASK, "S2", why)
        if found := _SAID["standing"].search(text):
            return self._guideline(sentence, f"“{found.group().strip()}” makes it a standing wish")
        place = _SAID["place"].match(text)
        about = text[place.end() :] if place else text
        if place and _SAID["stays"].match(about):
            return self._guideline(sentence, f"a manner for “{place.group().strip(' ,')}”, and no goal")
        if found := next((m for p in (_SAID["forbids"], _SAID["manner"], _SAID["towards"]) if (m := p.match(about))), None):
            return self._guideline(sentence, f"“{found.group().strip()}” is a wish for all that follows, and no goal")
        if (found := _SAID["modal"].match(text)) and (other := _SAID["anybody"].search(text[found.end() :])):
            why = f"“{found.group().strip()}” leaves a choice about “{other.group()}”, which takes judgement each time"
            return self._guideline(sentence, why)
        return self._task(sentence, "a goal, and done when it is reached")

    def _guideline(self, sentence: str, reason: str) -> Route:
        return Route(Kind.GUIDELINE, "S3", reason, *self._rule(sentence))

    def _task(self, sentence: str, reason: str) -> Route:
        if self._is_command(sentence):
            return Route(Kind.TASK, "S1", f"{reason}; one direct command, which needs no plan")
        return Route(Kind.TASK, "S2", f"{reason}; it is decomposed into subtasks")

    def _as_reflex(self, sentence: str) -> tuple[tuple[str, ...], float] | None:
        """Return the accessors and the nominal time, in seconds, of a sentence that the robot can do as a reflex."""
        if len(sentence) > MAX_READ:
            return None
        vocabulary = self._grammar.vocabulary
        try:
            source = self._grammar.read(sentence).source
            return compile_guarded(source, vocabulary).accessors, nominal_of(source, vocabulary)
        except (GuardError, ReflexError):
            return None

    def _rule(self, sentence: str) -> tuple[str, str]:
        """Return condition and task of a sentence where both are understood, else two empty texts."""
        if len(sentence) > MAX_READ:
            return "", ""
        try:
            condition, task = self._grammar.rule(REQUEST.sub("", sentence, count=1))
        except ReflexError:
            return "", ""
        task = REQUEST.sub("", _SAID["modal"].sub("", _SAID["must"].sub("", task)).strip(), count=1).strip()
        task = _SAID["greet"].sub("say hello", task)
        return (condition, task) if self._is_command(task) else ("", "")

    def _is_command(self, sentence: str) -> bool:
        """Return whether the robot carries the sentence out without a model."""
        if len(sentence) > MAX_READ:
            return False
        return bool(self._grammar.commands.read(sentence).source)
