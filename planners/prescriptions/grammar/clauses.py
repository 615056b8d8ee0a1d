# SPDX-License-Identifier: Apache-2.0
"""The forms of a condition's clauses, as patterns; words in capitals stand for the pieces below."""

from __future__ import annotations

import re

from planners.prescriptions.grammar.quantities import LENGTH, NUMBER

_IS = r"(?:is|are|comes?|gets?|appears?|walks?|stands?|moves?|goes|steps?|runs?|shows? up|turns? up|becomes?|lies?|sits?)"
_COMES = r"(?:is|are|comes?|gets?|appears?)"
_SUBJECT = r"(?:it|you|the robot)"
_ANY = r"(?:there COMES )?(?:anything|something|whatever|an?y? obstacles?|obstacles?|(?:an?|some) (?:object|thing))"
_NEAR = r"(?:(?:closer|nearer|less|not farther|not further)(?: to SUBJECT)? than|within|at less than|under|below|inside)"
_FAR = r"(?:(?:farther|further|more)(?: away)? than|beyond|over|outside)"
_TAIL = r"(?: (?:away|off|of SUBJECT|from SUBJECT|to SUBJECT|near SUBJECT))?"
_PLACE = (
    r"(?:in front(?: of SUBJECT)?|ahead(?: of SUBJECT)?|before SUBJECT|at the front|behind(?: SUBJECT)?|(?:at|in) the back|"
    r"(?:on|to|at) (?:the|your|its) (?:left|right)(?: side)?|left|right|around(?: SUBJECT)?|anywhere|nearby)"
)
_SEE = r"(?:sees?|spots?|notices?|detects?|recogni[sz]es?|catch(?:es)? sight of|finds?)"
_SEEN = r"(?:is|are|becomes?|comes?) (?:visible|seen|in sight|in view|into view|into sight|there)"
_HOW_MANY = r"(?P<how>more than|at least|fewer than|less than|exactly) (?P<count>NUMBER)"
_MPS = r"(?:m/s|met(?:re|er)s? (?:a|per) second)"

_FORMS = r"""
near: ANY(?: COMES)?SIDE NEAR LENGTHTAILOTHER
close: ANY(?: COMES)? (?:too |very )?(?:close|near)SIDE
close: ANY(?: COMES)?PLACED(?: (?:too |very )?(?:close|near))?
free: the waySIDE is (?P<no>not )?(?:free|clear|open)(?: for LENGTH)?
free: the waySIDE is (?P<no>blocked)(?: within LENGTH)?
clear: (?:there is )?no obstacle NEAR LENGTHTAILSIDE
thing near: (?P<thing>.+?)(?: IS)? NEAR LENGTHTAILSIDE
thing far: (?P<thing>.+?)(?: IS)? FAR LENGTHTAIL
thing close: (?P<thing>.+?) IS (?:too |very )?(?:close|near)(?: to SUBJECT)?
counted: (?:there (?:is|are)|SUBJECT SEE) HOWMANY (?P<thing>\w+)(?: SEEN)?
counted: HOWMANY (?P<thing>\w+) SEEN
battery: (?:(?:the|your|its) )?(?:battery|charge)(?: level)? (?:is|falls|drops|gets|goes|sinks|rises) HOWFULL ?(?:%|per ?cent)?
low: (?:(?:the|your|its) )?(?:battery|charge) (?:is|gets|runs) (?P<no>not )?(?:low|nearly empty|almost empty)
charging: (?:SUBJECT|the battery) (?:is|are) (?P<no>not )?(?:being )?(?:charging|charged)
hears: SUBJECT hears? (?:(?:somebody|someone) say |the word )?(?P<text>.+)
hears: SUBJECT (?:is|are) called (?P<text>.+)
hears: (?:somebody|someone|anybody|anyone|a person|the user|i) (?:says?|calls?|shouts?) (?:the word )?(?P<text>.+)
moving: SUBJECT (?:is|are) (?P<no>not )?(?:moving|walking|driving|on the move|turning)
still: SUBJECT (?:stands?|is standing|are standing) still
speed: SUBJECT (?:is|are|moves?|walks?) (?P<how>faster|slower) than (?P<count>NUMBER) ?MPS
room: SUBJECT (?:(?:is|are) (?P<no>not )?(?:in|inside)|enters?|gets? (?:in)?to|comes? (?:in)?to) (?:the )?(?P<room>\w+)
posture: SUBJECT (?:is|are) (?P<no>not )?(?P<posture>sitting|standing|lying(?: down)?)
seen: SUBJECT (?P<no>do(?:es)? not|don't|doesn't|cannot|can't|no longer|can no longer) SEE (?P<thing>.+)
seen: SUBJECT (?:can )?SEE (?P<thing>.+?)SIDE
seen: (?:there (?:is|are|appears) )?(?P<no>no) (?P<thing>\w+)(?: SEEN)?
seen: (?P<thing>.+?) (?:is|are) (?P<no>not|no longer) (?:visible|seen|in sight|in view|there)
seen: (?P<thing>.+?) SEEN
seen: there (?:is|are|appears) (?P<thing>.+?)SIDE
seen: (?P<thing>.+?) (?:appears?|shows? up|turns? up|comes? along|comes?|is)SIDE
"""

_PIECES = {
    "HOWMANY": _HOW_MANY,
    "HOWFULL": r"(?P<how>below|under|less than|lower than|above|over|more than) (?P<count>NUMBER)",
    "OTHER": rf"(?: (?P<other>{_PLACE}))?",
    "PLACED": rf" (?P<side>{_PLACE})",
    "SIDE": rf"(?: (?P<side>{_PLACE}))?",
    "ANY": _ANY,
    "TAIL": _TAIL,
    "NEAR": _NEAR,
    "FAR": _FAR,
    "SEEN": _SEEN,
    "SEE": _SEE,
    "MPS": _MPS,
    "LENGTH": LENGTH,
    "NUMBER": NUMBER,
    "SUBJECT": _SUBJECT,
    "COMES": _COMES,
    "IS": _IS,
}


def _compiled(form: str) -> re.Pattern[str]:
    for word, piece in _PIECES.items():
        form = form.replace(word, piece)
    return re.compile(form, re.IGNORECASE)


CLAUSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, _compiled(form)) for kind, _, form in (line.partition(": ") for line in _FORMS.strip().splitlines())
)
"""Kind and pattern of each form; the first whose pattern and words fit is taken."""
