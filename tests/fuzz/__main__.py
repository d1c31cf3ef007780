"""`make fuzz`: runs atheris (libFuzzer for Python) on each target in turn and says what it found.

The inputs that a run collects stay in `.cache/fuzz/` between runs. `--keep` puts the smallest set of them that reaches the same code
into `tests/fuzz/corpus/`, which the suite replays.
"""

import argparse
import collections.abc
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from tests.fuzz import corpus, targets

_CACHE = pathlib.Path(".cache") / "fuzz"
_MOST_KEPT = 150
"""Inputs of one target in the repository, the shortest ones: replaying all targets takes seconds."""

_LONGEST_KEPT = 400
_SUMMARY = re.compile(r"stat::number_of_executed_units: (\d+)")
_COVERAGE = re.compile(r"cov: (\d+)")


def main() -> int:
    """Fuzz; 1 when something was found."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"of {', '.join(targets.NAMES)}; default: all"
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=int(os.environ.get("FUZZ_SECONDS", "300")),
        help="together (default: $FUZZ_SECONDS or 300)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="write what reaches new code into tests/fuzz/corpus"
    )
    arguments = parser.parse_args()
    names = arguments.targets or list(targets.NAMES)
    unknown = set(names) - set(targets.NAMES)
    if unknown:
        parser.error(
            f"not a target: {', '.join(sorted(unknown))}; choose from {', '.join(targets.NAMES)}"
        )
    found = {name: _fuzz(name, seconds=max(1, arguments.seconds // len(names))) for name in names}
    if arguments.keep:
        for name in names:
            _keep(name)
    failures = [path for paths in found.values() for path in paths]
    for path in failures:
        print(f"found: {path}\n  again: {sys.executable} -m tests.fuzz.again {path}")
    return 1 if failures else 0


def _fuzz(name: str, *, seconds: int) -> list[pathlib.Path]:
    """Run one target; gives back inputs that fail."""
    folder = _CACHE / name
    inputs, artifacts = folder / "inputs", folder / "found"
    for each in (inputs, artifacts):
        each.mkdir(parents=True, exist_ok=True)
    before = set(artifacts.iterdir())
    words = folder / "words"
    words.write_text(dictionary(targets.load(name).WORDS))
    with tempfile.TemporaryDirectory() as kept:
        _write([*corpus.read(name), *targets.load(name).seeds()], pathlib.Path(kept))
        output = _libfuzzer(
            name, f"-max_total_time={seconds}", f"-max_len={targets.LONGEST}", f"-dict={words}", f"-artifact_prefix={artifacts}/",
            "-timeout=60", "-report_slow_units=60", "-rss_limit_mb=3000", "-print_final_stats=1", str(inputs), kept,
        )  # fmt: skip
    (folder / "log").write_text(output)
    runs, coverage = _SUMMARY.search(output), _COVERAGE.findall(output)
    print(
        f"{name}: {runs[1] if runs else '?'} inputs, {coverage[-1] if coverage else '?'} edges",
        flush=True,
    )
    new = sorted(set(artifacts.iterdir()) - before)
    if not new and runs is None:
        print(f"{name}: libFuzzer did not run:\n{output[-2000:]}")
    return new


def _keep(name: str) -> None:
    """Put the smallest set of inputs that reaches as much code into the repository."""
    file = corpus.file_of(name)
    with tempfile.TemporaryDirectory() as small:
        _write([*corpus.read(name), *targets.load(name).seeds()], _CACHE / name / "inputs")
        _libfuzzer(name, "-merge=1", small, str(_CACHE / name / "inputs"))
        found = [path.read_bytes() for path in pathlib.Path(small).iterdir()]
    short = sorted((each for each in found if len(each) <= _LONGEST_KEPT), key=len)[:_MOST_KEPT]
    file.write_text(corpus.with_found(file.read_text("utf-8"), short), "utf-8")
    print(f"{name}: {len(short)} of {len(found)} inputs kept in {file}")


def _libfuzzer(name: str, *options: str) -> str:
    command = [sys.executable, "-m", "tests.fuzz.one", name]
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        program.chmod(0o755)
        return _output([*command, *options], {**os.environ, "FUZZ_PROGRAM": str(program)})


def _output(command: "list[str]", environ: "dict[str, str]") -> str:
    finished = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ, check=False
    )
    return finished.stdout.decode(errors="replace")


def _write(inputs: "collections.abc.Iterable[bytes]", folder: pathlib.Path) -> None:
    for number, each in enumerate(inputs):
        (folder / f"kept_{number}").write_bytes(each)


def dictionary(words: "collections.abc.Iterable[str]") -> str:
    """Words as libFuzzer reads them; their own escapes stay."""
    return "".join('"{}"\n'.format(re.sub(r'(?<!\\)"', r"\"", word)) for word in words)


if __name__ == "__main__":
    sys.exit(main())
