# SPDX-License-Identifier: Apache-2.0
"""Fuzz what reads the text and the files of others, guided by coverage; run before a release by `make fuzz MINUTES=10`.

A target takes bytes and raises when a law of its reader is broken: an error that the reader does not document, a stream that
another cut makes another. Seeds are in test/fuzz/corpus, and test_fuzz_seeds.py gives them to the targets at each commit: what
a fuzzer found joins them once it is mended. Finds are left in out/fuzz.

The first byte of an input chooses: the mode of the parser, the loader.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).parent / "corpus"
FOUND = ROOT / "out" / "fuzz"
MAX_BYTES = 4096
SLOW_S = 5
"""An input that takes longer is a find."""
MEMORY_MB = 3000
PACKAGES = ("function_tokens", "skill_kernel", "planners", "reflexes", "bench", "ghostshell_ros.launcher")


def text_of(data: bytes) -> str:
    """Return text with whatever code points, surrogates included."""
    return data.decode("utf-8", "surrogatepass") if _decodes(data) else data.decode("latin-1")


def _decodes(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def parser(data: bytes) -> None:
    """Read a stream whole and in pieces: the same tokens, and in strict mode the same error."""
    from function_tokens.parsing.parser import StreamingParser
    from function_tokens.parsing.tokens import ParseError, TokenKind

    choice, text = (data[:1] or b"\0")[0], text_of(data[1:])
    mode = "strict" if choice % 2 else "lenient"

    def read(size: int) -> tuple[list[tuple[Any, ...]], object]:
        reader, said = StreamingParser(mode), []
        try:
            for at in range(0, len(text), size):
                said += reader.feed(text[at : at + size])
            said += reader.close()
        except ParseError as error:
            return _joined(said, TokenKind), (error.code, error.offset)
        return _joined(said, TokenKind), None

    whole, pieces = read(len(text) + 1), read(1 + choice // 2 % 7)
    if mode == "strict" and whole[1]:  # what came before the error may have been said by then, or not
        assert pieces[1] == whole[1], (whole, pieces)
    else:
        assert whole == pieces, (whole, pieces)


def _joined(tokens: list[Any], kinds: Any) -> list[tuple[Any, ...]]:
    """Return what tokens say, with neighbouring texts as one."""
    joined: list[tuple[Any, ...]] = []
    for token in tokens:
        if token.kind is kinds.CHAR and joined and joined[-1][0] is kinds.CHAR:
            joined[-1] = (kinds.CHAR, "", {}, joined[-1][3] + token.text)
        else:
            joined.append((token.kind, token.name, dict(token.attrs), token.text))
    return joined


@cache
def _robot(name: str) -> tuple[Any, Any]:
    from skill_kernel.robot import RobotConfig
    from skill_kernel.skills.registry import SkillRegistry

    config = RobotConfig.load(name)
    return config, SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)


@cache
def _vocabulary() -> Any:
    from skill_kernel.guard.code import Vocabulary
    from skill_kernel.observation.accessors import accessors_of

    config, skills = _robot("kalos")
    return Vocabulary(accessors_of(config), skills, config.limits, config.base.subsystems)


def guard(data: bytes) -> None:
    """Compile code of a reflex, and an expression."""
    from skill_kernel.guard.compiler import compile_expression, compile_guarded
    from skill_kernel.guard.reading import GuardError

    text = text_of(data)
    with suppress(GuardError):
        compile_guarded(text, _vocabulary())
    with suppress(GuardError):
        compile_expression(text, _vocabulary().accessors)


def offline(data: bytes) -> None:
    """Read an instruction, also as a question, a stop and a word on what runs; what comes of it is a stream without a fault."""
    from function_tokens.parsing.parser import StreamingParser
    from planners.language.controls import read_control
    from planners.language.parser import CommandParser
    from planners.language.questions import is_question
    from planners.language.stop_words import is_stop
    from planners.prompts.prompt import GrammarOptions

    config, skills = _robot("kalos" if data[:1] < b"\x60" else "coco")
    text = text_of(data[1:])
    for read in (is_stop, read_control):
        read(text, "kalos")
    is_question(text)
    reading = CommandParser(skills, [], GrammarOptions(config.builtin_names, config.limits), "Kalos").read(text)
    strict = StreamingParser("strict")
    strict.feed(reading.source)
    strict.close()


def loaders(data: bytes) -> None:
    """Load a file by one of the loaders; each raises its documented error alone."""
    names = sorted(LOADERS)
    with tempfile.TemporaryDirectory(dir=_shm()) as folder:
        file = Path(folder) / "file.xml"
        file.write_bytes(data[1:])
        LOADERS[names[(data[:1] or b"0")[0] % len(names)]](file)


def _launch(file: Path) -> None:
    from ghostshell_ros.launcher import LaunchError, describe

    with suppress(LaunchError):
        describe(file, {}, {"AMENT_PREFIX_PATH": ""})


def _models(file: Path) -> None:
    from planners.models.config import ConfigError, load_models

    with suppress(ConfigError):
        load_models(file)


def _prescriptions(file: Path) -> None:
    from planners.prescriptions.prescription import load
    from skill_kernel.config.yaml_text import RecordError

    with suppress(RecordError):
        load(file, _vocabulary().accessors)


def _reflexes(file: Path) -> None:
    from reflexes.rule import ReflexError, RuleStore

    file.rename(file.with_suffix(".yaml"))
    RuleStore(file.parent, seal=str).load()
    with suppress(ReflexError):
        RuleStore(file.parent / "none", file.with_suffix(".yaml"), seal=str).load()


def _robots(file: Path) -> None:
    from skill_kernel.robot import RobotConfig, RobotConfigError

    with suppress(RobotConfigError):
        RobotConfig.load(file)
    if str(file.parent) in sys.path:
        sys.path.remove(str(file.parent))


def _routines(file: Path) -> None:
    from function_tokens.routines import RoutineError, RoutineStore

    with suppress(RoutineError):
        RoutineStore(file, clock=lambda: 0.0).list()


def _table(file: Path) -> None:
    from bench.simulated_model.table import TableError, load_table

    with suppress(TableError):
        load_table(file)


LOADERS: Mapping[str, Callable[[Path], None]] = {
    "launch": _launch,
    "models": _models,
    "prescriptions": _prescriptions,
    "reflexes": _reflexes,
    "robots": _robots,
    "routines": _routines,
    "table": _table,
}


def recordings(data: bytes) -> None:
    """Read a file as a run and as a recording of answers."""
    from bench.replay.recorded import RecordingError, RunFileError, read_recording, read_run, read_run_answers

    with tempfile.TemporaryDirectory(dir=_shm()) as folder:
        file = Path(folder) / "run.mcap"
        file.write_bytes(data)
        with suppress(RunFileError):
            read_run(file, lambda _: True)
        with suppress(RecordingError):
            read_run_answers(file)
        with suppress(RecordingError):
            read_recording(file)


def _shm() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "guard": guard,
    "loaders": loaders,
    "offline": offline,
    "parser": parser,
    "recordings": recordings,
}


def fuzz(name: str, minutes: float) -> None:
    """Fuzz one target until the time is over or a law is broken; does not return."""
    import atheris

    with atheris.instrument_imports(include=list(PACKAGES)):
        for seed in sorted((CORPUS / name).iterdir()):
            TARGETS[name](seed.read_bytes())  # imports what the target needs
    kept = FOUND / name
    kept.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_len={MAX_BYTES}", f"-timeout={SLOW_S}", f"-rss_limit_mb={MEMORY_MB}", f"-artifact_prefix={FOUND}/{name}-"]
    time_s = [f"-max_total_time={round(60 * minutes)}", "-print_final_stats=1", "-verbosity=1", "-only_ascii=0"]
    atheris.Setup([sys.argv[0], *limits, *time_s, str(kept), str(CORPUS / name)], TARGETS[name])
    atheris.Fuzz()


def main() -> int:
    """Fuzz the targets that are named, or all, one after the other."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("targets", nargs="*", default=sorted(TARGETS), help=f"of {', '.join(sorted(TARGETS))}")
    arguments.add_argument("--minutes", type=float, default=10.0, help="time for each [min]")
    arguments.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.alone:
        fuzz(given.targets[0], given.minutes)
    failed = []
    for name in given.targets:
        print(f"== {name}", flush=True)
        if subprocess.call([sys.executable, __file__, name, "--minutes", str(given.minutes), "--alone"], cwd=ROOT):
            failed.append(name)
    print(f"found something: {', '.join(failed)}; see {FOUND}" if failed else "found nothing")
    return bool(failed)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
