# SPDX-License-Identifier: Apache-2.0
"""Words by which a sentence tells whether it is a wish for good, a reaction, or a thing to do once. English, and the
plainest forms of Chinese."""

from __future__ import annotations

import re
from dataclasses import dataclass

_I = re.IGNORECASE
_QUOTED = re.compile(r'"[^"]*"|“[^”]*”|«[^»]*»|(?<!\w)\'[^\']*\'(?!\w)')
_END = re.compile(r"(?<!\d)[.!?;。！？；]+(?:\s+|$)|(?<=[。！？；])")

EVERY = frozenset({"whenever", "every time", "each time", "any time", "anytime", "每当", "每次", "只要"})
_WHEN = (
    r"when(?:ever)?|if|as soon as|once(?! (?:per|an?|every|or|more|again|in)\b)|every time|each time|any ?time|while|"
    r"as long as|in case|as often as"
)
_BARE = re.compile(rf"(?P<word>{_WHEN})\s+(?P<condition>.+)(?P<action>)", _I)
_SHOULD = re.compile(r"(?P<word>should)\s+(?P<condition>(?!you\b|i\b|we\b).+?)\s*,\s*(?P<action>.+)", _I)
_WHEN_CN = r"每当|每次|只要|一旦|当|如果|要是|若"
_FIRST = re.compile(
    rf"(?P<word>{_WHEN})\s+(?P<condition>.+?)(?:\s*,(?!\d)\s*(?:then\s+)?|\s+then\s+|\s*:\s*)(?P<action>.+)", _I
)
_MODAL_BEHIND = re.compile(rf"(?P<word>{_WHEN})\s+(?P<condition>.+?)\s+(?P<action>(?:you|please)\s.+)", _I)
_LAST = re.compile(rf"(?P<action>.+?)\s*,?\s+(?P<word>{_WHEN})\s+(?P<condition>.+)", _I)
_CN = re.compile(rf"(?P<word>{_WHEN_CN})(?P<condition>.+?)(?:的时候|时)?\s*[,，、]?\s*(?:就|请|则|都要|那么)(?P<action>.+)")
_CN_COMMA = re.compile(rf"(?P<word>{_WHEN_CN})(?P<condition>.+?)(?:的时候|时)?\s*[,，]\s*(?P<action>.+)")
_STEP = re.compile(r"\s*,\s*(?:and\s+)?(?:then\s+)?|\s+and\s+(?:then\s+)?|\s+then\s+", _I)

LASTING = frozenset({"while", "as long as", "in case", "as often as"})
REQUEST = re.compile(
    r"(?:(?:could|can|would|will) you(?: please| kindly)?|would you mind|i(?:'d| would) like you to|i want you to|please|"
    r"i need you to|go ahead and|let's|请你?|麻烦你?)[\s,]+",
    _I,
)
QUESTION = re.compile(
    r".*\?\s*$|(?:who|what|where|why|which|whose|how (?:many|much|far|long|old|are|is|do|did))\b"
    r"|(?:did|do|does|have|has|are|is|was|were) (?:you|there|the|it|any)\b.*",
    _I | re.DOTALL,
)

_PEOPLE = (
    r"people|persons?|visitors?|guests?|child(?:ren)?|kids?|anyone|anybody|someone|somebody|every(?:one|body)|strangers?|"
    r"nobody|no one|humans?|customers?|men|women|pets?|animals?|dogs?|cats?|anything|something|everything"
)
_YOU = r"(?:you|the robot|it)"
STANDING = re.compile(
    rf"^(?:and )?(?:{_YOU} )?(?:should |must |shall |may |can |will )?(?:always|never|from now on|in general|generally|"
    r"by default|at all times|as a rule|normally|usually|under no circumstances|in the future)\b"
    r"|\b(?:from now on|at all times|under no circumstances|in your (?:free|spare) time|as a rule|in future)\b"
    rf"|^{_YOU} (?:must|should|may|can|shall|are) not\b|^{_YOU} (?:mustn't|shouldn't|can't|cannot|aren't allowed)\b"
    rf"|^{_YOU} (?:are|'re) (?:always |never )?(?:allowed|permitted|free|welcome) to\b|^feel free to\b"
    r"|^(?:after|before|during|at) (?:each|every|any)\b|^(?:react|respond) to\b|^(?:beware|watch out|mind) of?\b"
    r"|^you are (?:an?|our|my|the)\b|^(?:only|just) \w+ (?:when|if)\b"
    r"|\bwhenever\b|\bany ?time\b|\b(?:at night|during the (?:day|night)|on weekends|when idle|when bored)\b"
    r"|永远|总是|一直都|从不|从现在起|以后都|随时",
    _I,
)
FORBIDS = re.compile(
    r"(?:do not|don't|avoid|refrain from|keep away from|stay away from|stay out of|keep out of|keep your distance|no )\b.*"
    r"|(?:不要|不许|不准|别|禁止|勿).+",
    _I,
)
TOWARDS = re.compile(
    r"(?:greet|welcome|help|assist|dodge|let|give way|make (?:way|room)|respect|obey|entertain|ignore|trust|thank|protect|"
    r"(?:keep|stay|remain) .{0,60}?\b(?:away|distance|clear)|smile at|make friends with|"
    r"be .{1,60}? (?:to|with|towards?))\b.{0,60}?"
    r"(?<!the )(?<!these )(?<!those )\b(?:people|persons|visitors|guests|children|kids|strangers|humans|customers|pets|"
    r"animals|dogs|"
    r"cats|every(?:one|body)|any(?:one|body))\b",
    _I,
)
"""How to be with people in general."""
UNLESS = re.compile(r"unless [^,]{2,80},\s*", _I)
PLACE = re.compile(r"(?:in|at|near|inside|around|on|with) [^,]{2,40},\s*", _I)
MANNER = re.compile(
    r"(?:be|stay|remain|act|behave|prefer|try to be|speak|talk|walk|move|drive)\b(?: always| more| very)? "
    r"(?:polite(?:ly)?|friendly|careful(?:ly)?|gentl[ey]|nice|brief(?:ly)?|kind|patient|cautious(?:ly)?|respectful|helpful|"
    r"playful|short walks|quiet(?:ly)? (?:in|at|near|around|during)|silent (?:in|at|near|around|during|here)|"
    r"slow(?:ly)? (?:in|near|around|at)|softly (?:in|near|around|at)).*|prefer .+",
    _I,
)
ABOUT_NOW = re.compile(
    r"\b(?:right now|just now|for now|this time|at once|immediately|now|today|yet|never mind|nevermind|any ?more|again)"
    r"[\s.!?]*$|^(?:never ?mind|don't (?:worry|bother|stop|be (?:afraid|scared)|do (?:that|it|this)|forget))\b",
    _I,
)
SCHEDULE = re.compile(
    r"\b(?:every|each) (?:\d+ |few |half |other |single )?(?:second|minute|hour|day|morning|evening|night|week|monday|"
    r"tuesday|wednesday|thursday|friday|saturday|sunday)s?\b|\bat (?:\d{1,2}(?::\d\d)?(?: ?[ap]\.?m)?|noon|midnight)\b"
    r"|\b(?:hourly|daily|weekly|once (?:per|an?|in a|every) \w+)\b|每(?:天|小时|分钟|隔)",
    _I,
)
MODAL = re.compile(
    rf"{_YOU} (?:may|should|must|can|could|might|ought to|shall|have to|need to|are (?:allowed|free|supposed|welcome) to)\b"
    r"|(?:try|prefer|aim|remember|make sure) to\b|feel free to\b|(?:你|您)?(?:可以|应该|必须|允许)",
    _I,
)
MAY = re.compile(
    rf"(?:{_YOU} )?(?:may|might|can|could|are (?:allowed|free|welcome) to|feel free to|try to|(?:你|您)?可以)\b", _I
)
MUST = re.compile(
    rf"^(?:please )?(?:{_YOU} )?(?:must |should |shall |have to |need to |ought to |always |immediately |at once |simply |"
    r"just )+(?:always )?",
    _I,
)
ANYBODY = re.compile(rf"\b(?:{_PEOPLE})\b|有人|人们|客人|孩子|大家", _I)

SOCIAL = re.compile(
    r"\b(?:engage|greet(?:ing)?|welcome|play|entertain|cheer|comfort|help|assist|offer|ask|invite|introduce|chat|talk (?:to|"
    r"with)|"
    r"socialise|socialize|interact|accompany|guide|show (?:him|her|them|people|visitors)|make friends|thank|apologi[sz]e|"
    r"explain|"
    r"find out|investigate|check|decide|consider|suggest|remind|bring|fetch|follow|look for|search|take care|be \w+|"
    r"get out of (?:his|her|their) way)\b|打招呼|欢迎|帮助|帮|陪|问",
    _I,
)
"""Actions that take judgement: how, and whether now."""
URGENT = re.compile(
    r"\b(?:closer than|nearer than|within (?:\d|half|a|an|one|two|arm)|less than \S+ (?:m|cm|met|cent)\w*|too (?:close|near|"
    r"fast)|"
    r"very close|bump\w*|touch\w*|collid\w*|hits?|about to|falls?|falling|trip\w*|grab\w*|push\w*|kick\w*|jumps?|"
    r"runs? (?:at|into|"
    r"towards?)|in (?:your|its|the) way|blocks?|obstacles?|cliff|in front of you|moves?|stairs?|edge|drop-off|shouts?|"
    r"screams?|loud|suddenly)\b"
    r"|靠近|太近|障碍|撞|碰到|米以内|厘米",
    _I,
)
AT_ONCE = re.compile(
    r"(?:(?:you|please|immediately|at once|quickly|must|should|have to) )*(?:stop|freeze|halt|step|back (?:off|up|away)|"
    r"retreat|"
    r"turn|duck|sit|stand|lie|bark|jump|dodge|move (?:away|back|aside)|get back|beep|pull back|let go|look|swerve|brake|"
    r"slow down|"
    r"walk (?:back|away)|nod|say)\b|(?:立刻|马上|立即)?(?:停|后退|退|躲|转|坐|趴)",
    _I,
)
OWN_COURSE = re.compile(
    r"(?:you(?:'re| are|'ve| have)? (?:done|finished|ready|there|back|got there|get there|reach(?:ed)?|arrived?|come back|"
    r"came back|found|find|completed?|returned?|walk|are walking|go|turn|move)\b|that is done|that's done|it is done|"
    r"done|finished|the task is|i (?:say|tell you) (?:so|stop|to stop|otherwise)\b|necessary|possible|needed|you can\b|"
    r"you like\b)",
    _I,
)
REPORT = re.compile(
    r"(?:please )?(?:tell|warn|call|wake|alert|notify|inform|remind|show) (?:me|us)\b|let (?:me|us) know\b|"
    r"report (?:back )?(?:to me)?",
    _I,
)
EVENT = re.compile(
    rf"\b(?:{_PEOPLE})\b|\b(?:comes?|enters?|arrives?|approach\w*|appears?|leaves?|asks?|calls?|says?|shouts?|waves?|knocks?|"
    r"opens?|closes|starts?|begins?|drops?|falls?|gets?|becomes?|turns?|rises?|looks? (?:sad|lost|happy|tired)|battery|charge|"
    r"see|sees|hear|hears|notice|spot|detect|bored|idle|talks?|speaks?|smiles?|cries|needs?|wants?|stands?|asked|spoken|"
    r"told|called|touched|addressed|i say|dark|rains?)\b|有人|看到|听到",
    _I,
)


@dataclass(frozen=True)
class Clause:
    """A sentence with a condition. `first`: the condition stands in front."""

    word: str
    condition: str
    action: str
    first: bool


def plain(sentence: str, robot: str = "") -> str:
    """Without what is quoted (it is said, not meant), without a form of address, in one line."""
    text = " ".join(_QUOTED.sub("…", sentence).replace("’", "'").split())
    names = "|".join(re.escape(name) for name in (robot, "robot") if name)
    return re.sub(rf"^(?:(?:hey|hi|ok|okay|hello)[\s,]+)?(?:(?:{names})\b[\s,:!]+)?", "", text, flags=_I)


def sentences(text: str) -> list[str]:
    """Its sentences, without their full stops."""
    return [part.strip() for part in _END.split(text) if part and part.strip()]


def split(text: str) -> Clause | None:
    """Condition and action; None when nothing is a condition. `until` ends an action and is none."""
    text = REQUEST.sub("", text, count=1) if REQUEST.match(text) else text
    text = re.sub(r"^(?:and|but|so|also)\s+", "", text, flags=_I)
    for pattern in (_FIRST, _SHOULD, _CN, _CN_COMMA, _MODAL_BEHIND, _BARE, _LAST):
        if found := pattern.fullmatch(text):
            word = " ".join(found["word"].lower().split())
            action = REQUEST.sub("", found["action"], count=1).strip()
            return Clause(word, found["condition"].strip(" ,"), action, first=pattern is not _LAST)
    return None


def steps(action: str) -> int:
    """How many things it asks for."""
    return len([part for part in _STEP.split(action) if part.strip()])
