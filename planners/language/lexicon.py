# SPDX-License-Identifier: Apache-2.0
"""The words of direct commands in English and Chinese: groups of meaning, phrases, units, numbers; nothing of any one robot."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


_GROUPS = {
    "walk": "walk go run move march step advance travel drive crawl proceed trot stroll stride",
    "turn": "turn rotate spin pivot swivel revolve rotation",
    "stand": "stand rise",
    "sit": "sit",
    "lie": "lie lay",
    "nod": "nod",
    "shake": "shake",
    "wave": "wave swing wag waggle wiggle flap swish",
    "lean": "lean tilt",
    "look": "look gaze glance peer",
    "wink": "wink blink",
    "pull": "pull tug",
    "knock": "knock tap rap",
    "stretch": "stretch extend",
    "jump": "jump hop leap",
    "bow": "bow",
    "play": "play",
    "music": "music song bgm tune melody",
    "dance": "dance",
    "say": "say speak announce utter shout",
    "stop": "stop halt freeze cease abort",
    "wait": "wait pause sleep",
    "head": "head neck",
    "ear": "ear",
    "leg": "leg foot paw",
    "arm": "arm hand",
    "eye": "eye",
    "tail": "tail",
    "bottom": "bottom ass butt backside rump buttocks hips",
    "body": "body torso",
    "face": "face expression emotion emo mood",
    "happy": "happy glad joyful cheerful joy delighted pleased happily",
    "smile": "smile grin",
    "sad": "sad unhappy sorrowful gloomy sadness sorrow",
    "angry": "angry mad furious anger",
    "surprise": "surprise surprised astonished amazed shocked astonishment",
    "fear": "fear afraid scared frightened terrified fearful scary",
    "calm": "calm relaxed neutral peaceful calmly",
    "pity": "pitiable pitiful pitiable pleading",
    "curious": "curious inquisitive curiosity",
    "shy": "shy bashful",
    "sleepy": "sleepy tired drowsy",
    "dog": "dog puppy",
    "table": "table desk",
    "left": "left leftward leftwards counterclockwise anticlockwise",
    "right": "right rightward rightwards clockwise",
    "forward": "forward forwards ahead straight front",
    "backward": "backward backwards back reverse",
    "up": "up upward upwards",
    "down": "down downward downwards",
    "slow": "slow slowly gently",
    "fast": "fast quickly quick rapidly swiftly faster",
    "speed": "speed velocity pace",
    "volume": "volume loudness",
    "large": "big large wide",
    "small": "small tiny",
    "both": "both",
}
CONCEPT = {word: concept for concept, words in _GROUPS.items() for word in words.split()}

RELATED = {"smile": ("happy",), "happy": ("smile",)}
"""Concepts that may stand in where a robot lacks the first."""

FILLERS = word_set(
    "a an the your you yours my me its it please kindly just to of in at for with on some robot now "
    "let's us lets hey ok okay oh "
    "well also too by like as very first so that's style again"
)
LIGHT = word_set(
    "make do show give put get look be act feel perform display express have set face expression emotion gesture way pose"
)
"""Words that carry no meaning of their own beside a word that does."""

NEGATIONS = word_set(
    "not never no none nothing without except avoid dont doesnt cant wont shouldnt mustnt cannot nor neither refrain"
)
CONDITIONS = word_set("if unless when whenever until till before after or otherwise else because instead every provided")
ALWAYS_QUESTION = word_set("what who whom whose where why how which is are am was were does did has should shall may might")
POLITE = re.compile(
    r"^\s*(?:(?:ok|okay|hey|hi|well|so|please|now|and|robot|alright)[,\s]+)*"
    r"(?:(?:could|would|can|will) you(?: please)?(?: kindly)?|i want you to|i would like you to|i'd like you to|"
    r"you should|go ahead and|"
    r"try to|let's|let us|please)\s+",
    re.IGNORECASE,
)


def _table(text: str) -> dict[str, str]:
    return {k.strip(): v.strip() for k, _, v in (entry.partition(":") for entry in text.split(";"))}


_PHRASES = _table(
    """
    stand up: stand; get up: stand; get to your feet: stand; sit down: sit; lie down: lie; lay down: lie;
    push ups: pushup; push up: pushup; press ups: pushup; press up: pushup; pushups: pushup;
    go straight: walk forward; straight ahead: forward; straight on: forward; turn around: turn @half;
    turn round: turn @half; spin around: spin; spin round: spin; rotate around: spin; in a circle: @full;
    all the way around: @full; all the way round: @full; left and right: @sideways; from side to side: @sideways;
    side to side: @sideways; up and down: @updown; back and forth: @sideways; to and fro: @sideways;
    on the spot: the; on spot: the; in place: the; and at the same time as: while; at the same time as: while;
    and at the same time: meanwhile; at the same time: @together; and simultaneously: meanwhile;
    simultaneously: @together; all together: @together; together: @together; meanwhile: meanwhile; and then: then;
    after that: then; and after that: then; after this: then; afterwards: then; and afterwards: then; next: then;
    and next: then; finally: then; and finally: then; followed by: then; as long as: if; as soon as: if; in case: if;
    rather than: or; so that: if; once you: if; once i: if; once we: if; once the: if; once it: if; once there: if;
    whilst: while; but: then; plus: and; thank you: please; thanks: please; i say: the; background music: music
    """
)
PHRASES = {tuple(k.split()): tuple(v.split()) for k, v in _PHRASES.items()}
"""Phrases and the plain words they stand for; words with @ are marks for the parser."""

CHINESE = _table(
    """
    站起来: stand; 起立: stand; 站立: stand; 站好: stand; 起来: stand; 坐下来: sit; 坐下: sit; 坐好: sit;
    趴下: lie; 躺下: lie; 点点头: nod; 点头: nod; 点一下头: nod; 摇摇头: shake head; 摇头: shake head; 摇: shake;
    晃: shake; 耳朵: ear; 动耳朵: wave ear; 摇耳朵: shake ears; 双耳: ears; 尾巴: tail; 屁股: bottom; 扭: wave;
    停下来: stop; 停下: stop; 停止: stop; 停: stop; 别动: stop; 跳舞: dance; 跳个舞: dance; 跳支舞: dance;
    跳一支舞: dance; 说一声: say; 说一句: say; 说: say; 念: say; 喊: say; 左转: turn left; 右转: turn right;
    向左转: turn left; 向右转: turn right; 往左转: turn left; 往右转: turn right; 转身: turn @half; 转一圈: spin;
    转个圈: spin; 转圈: spin; 旋转: turn; 转动: turn; 转: turn; 向前走: walk forward; 往前走: walk forward;
    前进: walk forward; 向前: forward; 往前: forward; 朝前: forward; 向后走: walk backward; 往后走: walk backward;
    后退: walk backward; 向后: backward; 往后: backward; 走: walk; 跑: run; 向左: left; 往左: left; 左边: left;
    左: left; 向右: right; 往右: right; 右边: right; 右: right; 上: up; 下面: down; 看: look; 头: head; 腿: leg;
    身体: body; 倾斜: lean; 倾: lean; 歪: lean; 脸: face; 表情: face; 表现: show; 露出: show; 做出: make;
    做一个: make; 做: do; 来: do; 微笑: smile; 笑一笑: smile; 笑一个: smile; 笑: smile; 开心: happy; 高兴: happy;
    快乐: happy; 难过: sad; 伤心: sad; 悲伤: sad; 生气: angry; 愤怒: angry; 惊讶: surprise; 害怕: fear; 恐惧: fear;
    平静: calm; 眨眼: wink; 眨眨眼: wink; 挥手: wave; 招手: wave; 挥: wave; 俯卧撑: pushup; 播放音乐: play music;
    放音乐: play music; 放首歌: play music; 音乐: music; 播放: play; 敲: knock; 拉: pull; 等待: wait; 等: wait;
    然后: then; 接着: then; 之后: then; 随后: then; 再: then; 最后: then; 并且: and; 并: and; 和: and;
    同时: meanwhile; 一边: @side; 边: @side; 不要: not; 不: not; 别: not; 勿: not; 没: not; 如果: if; 要是: if;
    假如: if; 的话: if; 当: when; 时候: when; 直到: until; 为止: until; 或者: or; 或: or; 之前: before; 以前: before;
    吗: @ask; 呢: @ask; 什么: @ask; 怎么: @ask; 为什么: @ask; 哪里: @ask; 谁: @ask; 慢慢: slowly; 慢: slowly;
    快速: fast; 快: fast; 请: please; 一下: the; 一个: the; 个: the; 你: you; 的: the; 地: the; 了: the; 吧: the;
    把: the; 给我: the; 厘米: cm; 公分: cm; 毫米: mm; 米: m; 度: degrees; 秒钟: seconds; 秒: seconds; 分钟: minutes;
    次: times; 遍: times; 回: times; 下: times; 百分之: @percent; 半: half
    """
)
"""Chinese words and the English ones they stand for."""

CHINESE_PIECE = re.compile("|".join(sorted(map(re.escape, CHINESE), key=len, reverse=True)))
CHINESE_NUMBER = re.compile("[零一二两三四五六七八九十百千]+(?=厘米|公分|毫米|米|度|秒|分钟|次|遍|回|下(?!来))")
CHINESE_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"两": 2}

_ONES = (
    "zero one two three four five six seven eight nine ten "
    "eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBERS = {word: float(i) for i, word in enumerate(_ONES.split())} | {
    word: 10.0 * (i + 2) for i, word in enumerate(_TENS.split())
}
COUNTS = {"once": 1.0, "twice": 2.0, "thrice": 3.0}

UNITS: dict[str, tuple[str, float]] = {
    word: (dimension, factor)
    for dimension, factor, words in (
        ("length", 1.0, "m metre metres meter meters"),
        ("length", 0.01, "cm centimetre centimetres centimeter centimeters"),
        ("length", 0.001, "mm millimetre millimetres millimeter millimeters"),
        ("length", 1000.0, "km kilometre kilometres kilometer kilometers"),
        ("length", 0.0254, "inch inches"),
        ("length", 0.3048, "foot feet ft"),
        ("angle", 1.0, "degree degrees deg °"),
        ("angle", 57.29577951308232, "radian radians rad"),
        ("time", 1.0, "s sec secs second seconds"),
        ("time", 0.001, "ms millisecond milliseconds"),
        ("time", 60.0, "min mins minute minutes"),
        ("count", 1.0, "times time x"),
        ("percent", 1.0, "% percent"),
        ("angle", 360.0, "@turns"),
    )
    for word in words.split()
}
"""Unit word to its dimension and the factor to the base unit: metre, degree, second, count, percent."""


def with_pieces(form: str, pieces: Mapping[str, str]) -> str:
    """Return a pattern in which words in capitals stand for these pieces, whose order is that of replacing them."""
    for word, piece in pieces.items():
        form = form.replace(word, piece)
    return form


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return a word without its English ending, the same for all its forms: waving and wave, nods and nod."""
    for ending in ("ing", "ed"):
        body = word[: -len(ending)]
        if word.endswith(ending) and len(body) >= 2 and re.search("[aeiouy]", body):
            if len(body) > 2 and body[-1] == body[-2] and body[-1] not in "sl":
                body = body[:-1]
            return body.rstrip("e") if len(body) > 3 else body
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


_STEMS = {stem(word): concept for word, concept in CONCEPT.items()}


@lru_cache(maxsize=8192)
def concept(word: str) -> str:
    """Return the group of meaning a word belongs to, else its stem."""
    return CONCEPT.get(word) or _STEMS.get(stem(word)) or stem(word)
