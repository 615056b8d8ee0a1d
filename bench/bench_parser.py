# SPDX-License-Identifier: Apache-2.0
"""Parser throughput in 4-character chunks, beside lxml's feed parser on the same chunks in the same run."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from lxml import etree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import Table, Target, arguments, report
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import ParserLimits

STREAM = """<response>
Hello! I am CoCo, nice to meet you. <head_nod times="2" speed="50"/>Let me show you around.
<wait><spider_walk distance="20" direction="forward"/><ear_swing side="left">Look, my ears move too!</ear_swing></wait>
<play_music name="waltz" volume="40">
  <spider_rotate angle="90"/>One, two, three &amp; turn. <spider_rotate angle="-90"/>
  你好，我是可可。<show_face expression="happy" hold_s="1.5"/>
</play_music>
That was fun, wasn't it? <lean side='left'/> Ask me anything you like, and I will do my best.
</response>
"""
SIZE = 4
REFERENCES = ("lxml pull", "lxml feed, target", "lxml feed")
"""The last one, the bare feed, is the aim's reference. It tells nobody of what it read; the first two deliver their events,
as a scheduler needs them, and are shown beside."""

Feed = Callable[[str], Any]


class _Taker:
    """An lxml target that takes what StreamingParser gives: tags with attributes, and text."""

    def __init__(self) -> None:
        self.last: Any = None

    def start(self, tag: str, attrs: dict[str, str]) -> None:
        self.last = (tag, dict(attrs))

    def end(self, tag: str) -> None:
        self.last = tag

    def data(self, data: str) -> None:
        self.last = data

    def close(self) -> Any:
        return self.last


def ghostshell(mode: Literal["strict", "lenient"]) -> Feed:
    """Return a fresh StreamingParser whose tokens are taken as they come."""
    parser = StreamingParser(mode, ParserLimits(total_length=2**40))
    return parser.feed


def lxml_feed(target: bool) -> Feed:
    """Return the feed method of a fresh lxml parser inside an open root element."""
    parser = etree.XMLParser(target=_Taker(), huge_tree=True) if target else etree.XMLParser(huge_tree=True)
    parser.feed("<root>")
    return parser.feed


def lxml_pull() -> Feed:
    """Feed an XMLPullParser and read its events after each chunk, as one must to act on them at once."""
    parser = etree.XMLPullParser(events=("start", "end"), huge_tree=True)
    parser.feed("<root>")

    def feed(text: str) -> None:
        parser.feed(text)
        for _ in parser.read_events():
            pass

    return feed


CONTESTANTS: dict[str, Callable[[], Feed]] = {
    "ghostshell, lenient": lambda: ghostshell("lenient"),
    "ghostshell, strict": lambda: ghostshell("strict"),
    "lxml feed": lambda: lxml_feed(False),
    "lxml feed, target": lambda: lxml_feed(True),
    "lxml pull": lxml_pull,
}


def measure(count: int, repeats: int) -> dict[str, Any]:
    """Rate of each contestant in CPU time, and its last tenth's rate over its first one's; medians of the repeats.

    The contestants take turns, a tenth of the chunks at a time, so that what else the machine does meets all alike.
    """
    text = STREAM * (count * SIZE // len(STREAM) + 1)
    chunks = [text[i : i + SIZE] for i in range(0, count * SIZE, SIZE)]
    tenth = count // 10
    runs: dict[str, list[list[float]]] = {name: [] for name in CONTESTANTS}
    for _ in range(repeats):
        feeds = {name: make() for name, make in CONTESTANTS.items()}
        for name in feeds:
            runs[name].append([])
        for part in range(10):
            some = chunks[part * tenth : (part + 1) * tenth]
            for name, feed in feeds.items():
                gc.collect()
                began = time.process_time()
                for chunk in some:
                    feed(chunk)
                runs[name][-1].append(time.process_time() - began)
    results: dict[str, Any] = {
        name: {
            "chunks_per_s": round(statistics.median(10 * tenth / sum(run) for run in of_one)),
            "last_tenth_over_first": round(statistics.median(run[0] / run[-1] for run in of_one), 3),
        }
        for name, of_one in runs.items()
    }
    for name, result in results.items():
        for reference in REFERENCES:
            ratios = (sum(lxml) / sum(own) for lxml, own in zip(runs[reference], runs[name], strict=True))
            result[f"ratio_to_{reference}"] = round(statistics.median(ratios), 3)
    return {
        "chunk_chars": SIZE,
        "chunks": count,
        "repeats": repeats,
        "lxml": ".".join(map(str, etree.LXML_VERSION)),
        "results": results,
    }


def main() -> None:
    """Measure, print, write out/bench/parser.json."""
    parser = arguments(__doc__)
    parser.add_argument("--chunks", type=int, default=1_000_000, help="chunks a run")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each parser")
    options = parser.parse_args()
    measured = measure(options.chunks, options.repeats)
    results = measured["results"]
    rows = [
        [name, r["chunks_per_s"], *(r[f"ratio_to_{other}"] for other in REFERENCES), r["last_tenth_over_first"]]
        for name, r in results.items()
    ]
    columns = ("parser", "chunks/s", *(f"of {other}" for other in REFERENCES), "last/first tenth")
    title = f"{options.chunks:,} chunks of {SIZE} characters, processor time"
    targets = []
    for mode in ("lenient", "strict"):
        own = results[f"ghostshell, {mode}"]
        targets.append(Target(f"{mode}: share of lxml feed's rate", own["ratio_to_lxml feed"], 0.125, least=True))
        targets.append(Target(f"{mode}: last tenth's rate of the first's", own["last_tenth_over_first"], 0.9, least=True))
    report("parser", measured, [Table(title, columns, rows)], targets, as_json=options.json)


if __name__ == "__main__":
    main()
