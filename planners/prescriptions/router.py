# SPDX-License-Identifier: Apache-2.0
"""Send a sentence to the layer whose latency fits: a reflex (S0), a standing guideline (S3), or a task (S1 to S3).

The wording tells a wish for good, a reaction and a thing to do once apart. English, and the plainest forms of Chinese."""

from __future__ import annotations

import re

from planners.language.conditional import REQUEST, Clause, plain, sentences, split, steps
from planners.language.lexicon import with_pieces
from planners.language.stop_words import is_stop
from planners.prescriptions.grammar import Grammar, Rule
from planners.prescriptions.prescription import Kind, Route
from planners.prescriptions.reflex_compiler import nominal_of
from reflexes.rule import ReflexError
from skill_kernel.guard import GuardError, compile_guarded

SHORT_S = 15.0
"""Longest nominal time of a reflex's action: it keeps every task off the body meanwhile."""
SLOW = frozenset({"battery_percent", "charging", "room", "posture", "heard", "age_s", "stale", "value"})
"""Accessors that change too slowly for a hundredth of a second to matter."""
MAX_READ = 150
"""Longest sentence read word by word, in characters: a longer one would hold the node up, and needs a plan or a model."""

_EVERY = frozenset({"whenever", "every time", "each time", "any time", "anytime", "每当", "每次", "只要"})
_LASTING = frozenset({"while", "as long as", "in case", "as often as"})
_LAYER = {Kind.TASK: "S2", Kind.GUIDELINE: "S3", Kind.REFLEX: "S0"}
_PIECES = {
    "PEOPLE": "people|persons?|visitors?|guests?|child(?:ren)?|kids?|anyone|anybody|someone|somebody|every(?:one|body)|"
    "strangers?|nobody|no one|humans?|customers?|men|women|pets?|animals?|dogs?|cats?|anything|something|everything",
    "FOLK": "people|persons|visitors|guests|children|kids|strangers|humans|customers|pets|animals|dogs|cats|every(?:one|body)|"
    "any(?:one|body)",
    "YOU": "(?:you|the robot|it)",
}


def _any(alternatives: str, form: str = "ANY") -> re.Pattern[str]:
    """Return a pattern of alternatives, one or more a line, in a form; words in capitals stand for pieces."""
    lines = [line.strip() for line in alternatives.strip().splitlines()]
    return re.compile(with_pieces(form.replace("ANY", "|".join(lines)), _PIECES), re.IGNORECASE)


_QUESTION = _any(r"""
    (?s:.*)\?\s*$|(?:who|what|where|why|which|whose|how (?:many|much|far|long|old|are|is|do|did))\b
    (?:did|do|does|have|has|are|is|was|were) (?:you|there|the|it|any)\b
""")
_STANDING = _any(r"""
    ^(?:and )?(?:YOU )?(?:should |must |shall |may |can |will )?(?:always|never|from now on|in general|generally)\b
    ^(?:and )?(?:YOU )?(?:should |must |shall |may |can |will )?(?:by default|at all times|as a rule|normally|usually)\b
    ^(?:and )?(?:YOU )?(?:should |must |shall |may |can |will )?(?:under no circumstances|in the future)\b
    \b(?:from now on|at all times|under no circumstances|in your (?:free|spare) time|as a rule|in future)\b
    ^YOU (?:must|should|may|can|shall|are) not\b|^YOU (?:mustn't|shouldn't|can't|cannot|aren't allowed)\b
    ^YOU (?:are|'re) (?:always |never )?(?:allowed|permitted|free|welcome) to\b|^feel free to\b
    ^(?:after|before|during|at) (?:each|every|any)\b|^(?:react|respond) to\b|^(?:beware|watch out|mind) of?\b
    ^you are (?:an?|our|my|the)\b|^(?:only|just) \w+ (?:when|if)\b
    \bwhenever\b|\bany ?time\b|\b(?:at night|during the (?:day|night)|on weekends|when idle|when bored)\b
    永远|总是|一直都|从不|从现在起|以后都|随时
""")
_FORBIDS = _any(r"""
    (?:do not|don't|avoid|refrain from|keep away from|stay away from|stay out of|keep out of|keep your distance|no )\b.*
    (?:不要|不许|不准|别|禁止|勿).+
""")
_TOWARDS = _any(
    r"""
    greet|welcome|help|assist|dodge|let|give way|make (?:way|room)|respect|obey|entertain|ignore|trust|thank|protect
    (?:keep|stay|remain) .{0,60}?\b(?:away|distance|clear)|smile at|make friends with|be .{1,60}? (?:to|with|towards?)
    """,
    r"(?:ANY)\b.{0,60}?(?<!the )(?<!these )(?<!those )\b(?:FOLK)\b",
)
"""How to be with people in general."""
_UNLESS = _any(r"unless [^,]{2,80},\s*")
_PLACE = _any(r"(?:in|at|near|inside|around|on|with) [^,]{2,40},\s*")
_STAYS = _any(r"(?:be|stay|speak|talk|walk|move|drive)\b")
_MANNER = _any(
    r"""
    polite(?:ly)?|friendly|careful(?:ly)?|gentl[ey]|nice|brief(?:ly)?|kind|patient|cautious(?:ly)?|respectful|helpful|playful
    short walks|quiet(?:ly)? (?:in|at|near|around|during)|silent (?:in|at|near|around|during|here)
    slow(?:ly)? (?:in|near|around|at)|softly (?:in|near|around|at)
    """,
    r"(?:be|stay|remain|act|behave|prefer|try to be|speak|talk|walk|move|drive)\b(?: always| more| very)? (?:ANY).*|prefer .+",
)
_ABOUT_NOW = _any(r"""
    \b(?:right now|just now|for now|this time|at once|immediately|now|today|yet|never mind|nevermind|any ?more|again)[\s.!?]*$
    ^(?:never ?mind|don't (?:worry|bother|stop|be (?:afraid|scared)|do (?:that|it|this)|forget))\b
""")
_SCHEDULE = _any(
    r"""
    second|minute|hour|day|morning|evening|night|week|monday|tuesday|wednesday|thursday|friday|saturday|sunday
    """,
    r"\b(?:every|each) (?:\d+ |few |half |other |single )?(?:ANY)s?\b|\bat (?:\d{1,2}(?::\d\d)?(?: ?[ap]\.?m)?|noon|midnight)\b"
    r"|\b(?:hourly|daily|weekly|once (?:per|an?|in a|every) \w+)\b|每(?:天|小时|分钟|隔)",
)
_MODAL = _any(r"""
    YOU (?:may|should|must|can|could|might|ought to|shall|have to|need to|are (?:allowed|free|supposed|welcome) to)\b
    (?:try|prefer|aim|remember|make sure) to\b|feel free to\b|(?:你|您)?(?:可以|应该|必须|允许)
""")
_MAY = _any(r"(?:YOU )?(?:may|might|can|could|are (?:allowed|free|welcome) to|feel free to|try to|(?:你|您)?可以)\b")
_MUST = _any(
    "must |should |shall |have to |need to |ought to |always |immediately |at once |simply |just ",
    "^(?:please )?(?:YOU )?(?:ANY)+(?:always )?",
)
_ANYBODY = _any(r"\b(?:PEOPLE)\b|有人|人们|客人|孩子|大家")
_SOCIAL = _any(
    r"""
    engage|greet(?:ing)?|welcome|play|entertain|cheer|comfort|help|assist|offer|ask|invite|introduce|chat|talk (?:to|with)
    socialise|socialize|interact|accompany|guide|show (?:him|her|them|people|visitors)|make friends|thank|apologi[sz]e|explain
    find out|investigate|check|decide|consider|suggest|remind|bring|fetch|follow|look for|search|take care|be \w+
    get out of (?:his|her|their) way
    """,
    r"\b(?:ANY)\b|打招呼|欢迎|帮助|帮|陪|问",
)
"""Actions that take judgement: how, and whether now."""
_URGENT = _any(
    r"""
    closer than|nearer than|within (?:\d|half|a|an|one|two|arm)|less than \S+ (?:m|cm|met|cent)\w*|too (?:close|near|fast)
    very close|bump\w*|touch\w*|collid\w*|hits?|about to|falls?|falling|trip\w*|grab\w*|push\w*|kick\w*|jumps?
    runs? (?:at|into|towards?)|in (?:your|its|the) way|blocks?|obstacles?|cliff|in front of you|moves?|stairs?|edge|drop-off
    shouts?|screams?|loud|suddenly
    """,
    r"\b(?:ANY)\b|靠近|太近|障碍|撞|碰到|米以内|厘米",
)
_AT_ONCE = _any(
    r"""
    stop|freeze|halt|step|back (?:off|up|away)|retreat|turn|duck|sit|stand|lie|bark|jump|dodge|move (?:away|back|aside)|get back
    beep|pull back|let go|look|swerve|brake|slow down|walk (?:back|away)|nod|say
    """,
    r"(?:(?:you|please|immediately|at once|quickly|must|should|have to) )*(?:ANY)\b"
    r"|(?:立刻|马上|立即)?(?:停|后退|退|躲|转|坐|趴)",
)
_OWN_COURSE = _any(r"""
    you(?:'re| are|'ve| have)? (?:done|finished|ready|there|back|got there|get there|reach(?:ed)?|arrived?|come back)\b
    you(?:'re| are|'ve| have)? (?:came back|found|find|completed?|returned?|walk|are walking|go|turn|move)\b
    that is done|that's done|it is done|done|finished|the task is|i (?:say|tell you) (?:so|stop|to stop|otherwise)
    necessary|possible|needed|(?:you can|you like)\b
""")
_REPORT = _any(r"""
    (?:please )?(?:tell|warn|call|wake|alert|notify|inform|remind|show) (?:me|us)\b|let (?:me|us) know\b
    report (?:back )?(?:to me)?
""")
_EVENT = _any(
    r"""
    comes?|enters?|arrives?|approach\w*|appears?|leaves?|asks?|calls?|says?|shouts?|waves?|knocks?|opens?|closes|starts?|begins?
    drops?|falls?|gets?|becomes?|turns?|rises?|looks? (?:sad|lost|happy|tired)|battery|charge|see|sees|hear|hears|notice|spot
    detect|bored|idle|talks?|speaks?|smiles?|cries|needs?|wants?|stands?|asked|spoken|told|called|touched|addressed|i say|dark
    rains?
    """,
    r"\b(?:PEOPLE|ANY)\b|有人|看到|听到",
)
_GREET = _any(r"^(?:greet|welcome)\b(?: (?:them|him|her|it|people|everybody|everyone|the person|a person))?$")


class Router:
    """Routes by rules alone. What a person stated is taken, with what the sentence reads as told beside it."""

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
        if _QUESTION.match(text) and not REQUEST.match(text):
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
        if _OWN_COURSE.match(clause.condition):
            return self._task(sentence, "its condition is a point in the task itself, not something to watch for afterwards")
        if (reflex := self._reflex(sentence, clause)) is not None:
            return reflex
        if not clause.first and steps(clause.action) > 1 and not _STANDING.search(text):
            why = "a goal of several steps, with something to watch for while it lasts: an event of this task alone"
            return Route(Kind.TASK, "S2", why)
        if not clause.first and _REPORT.match(clause.action) and clause.word not in _EVERY:
            return self._task(sentence, "it asks for one report, when that has happened")
        if clause.word == "if" and not (_EVENT.search(clause.condition) or _MODAL.match(clause.action)):
            return self._task(sentence, "an 'if' about what is now: it is decided once")
        return self._guideline(sentence, f"a standing wish: it applies each time that {clause.condition}")

    def _reflex(self, sentence: str, clause: Clause) -> Route | None:
        """Return the route of a reflex if the condition may be urgent and the action is fixed and short, that of a guideline
        if it only might be, else None."""
        action = _MUST.sub("", clause.action)
        if _MAY.match(clause.action) or _SOCIAL.search(action) or clause.word in _LASTING:
            return None
        read = self._as_reflex(sentence) or self._as_reflex(f"when {clause.condition}, {action}")
        if read is None:
            urgent, at_once = _URGENT.search(clause.condition), _AT_ONCE.match(clause.action)
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
        text = _UNLESS.sub("", text)
        if _ABOUT_NOW.search(text):
            return self._task(sentence, "it is about what happens now")
        if found := _SCHEDULE.search(text):
            why = f"“{found.group()}” is a time, nothing the robot observes, so no guideline could fire: a task that lasts"
            return Route(Kind.TASK, "S2", why)
        if found := _STANDING.search(text):
            return self._guideline(sentence, f"“{found.group().strip()}” makes it a standing wish")
        place = _PLACE.match(text)
        about = text[place.end() :] if place else text
        if place and _STAYS.match(about):
            return self._guideline(sentence, f"a manner for “{place.group().strip(' ,')}”, and no goal")
        if found := next((m for p in (_FORBIDS, _MANNER, _TOWARDS) if (m := p.match(about))), None):
            return self._guideline(sentence, f"“{found.group().strip()}” is a wish for all that follows, and no goal")
        if (found := _MODAL.match(text)) and (other := _ANYBODY.search(text[found.end() :])):
            why = f"“{found.group().strip()}” leaves a choice about “{other.group()}”, which takes judgement each time"
            return self._guideline(sentence, why)
        return self._task(sentence, "a goal, and done when it is reached")

    def _guideline(self, sentence: str, reason: str) -> Route:
        rule = self._rule(sentence)
        return Route(Kind.GUIDELINE, "S3", reason, rule.condition if rule else "", rule.task if rule else "")

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

    def _rule(self, sentence: str) -> Rule | None:
        """Return condition and task of a sentence where both are understood."""
        if len(sentence) > MAX_READ:
            return None
        try:
            rule = self._grammar.rule(REQUEST.sub("", sentence, count=1))
        except ReflexError:
            return None
        task = REQUEST.sub("", _MODAL.sub("", _MUST.sub("", rule.task)).strip(), count=1).strip()
        task = _GREET.sub("say hello", task)
        return Rule(rule.condition, task) if self._is_command(task) else None

    def _is_command(self, sentence: str) -> bool:
        """Return whether the robot carries the sentence out without a model."""
        if len(sentence) > MAX_READ:
            return False
        reading = self._grammar.commands.read(sentence)
        return reading.trouble is None and bool(reading.source)
