"""Checks what needs a GPU, on a machine with one and without a network: `make gpu-check`. docs/gpu-checks.md has the list, and when it was last run.

Runs in the interpreter that it is started with: what is not installed there is skipped, and named.
"""

import argparse
import collections.abc
import os
import pathlib
import signal
import sys
import tempfile

from tests.gpu import machine, report
from tests.gpu.listing import CHECKS
from tests.gpu.machine import Gpu
from tests.gpu.report import Outcome
from tests.gpu.running import run


def main(arguments: collections.abc.Sequence[str] | None = None) -> int:
    """Run the checks, print the table, write the JSON; gives the exit status."""
    parser = argparse.ArgumentParser(prog="make gpu-check", description=__doc__)
    parser.add_argument(
        "--only",
        default="",
        help="checks whose names contain one of these words, separated by commas",
    )
    parser.add_argument(
        "--seconds", type=float, default=600, help="after so many no further check begins"
    )
    parser.add_argument("--skip", default="", help="checks to leave out, in the same way")
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(6, max(1, (os.cpu_count() or 1) // 2)),
        help="checks that run side by side; those that want the GPU for themselves never do",
    )
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("build/gpu-check.json"))
    parser.add_argument(
        "--keep", type=pathlib.Path, help="a folder for models and logs, which stay there"
    )
    options = parser.parse_args(arguments)
    gpu = machine.find_gpu()
    outcomes: list[Outcome] = []
    if isinstance(gpu, Gpu):
        print(
            f"{gpu.name}, compute capability {'.'.join(map(str, gpu.capability))}, driver {gpu.driver}"
        )
        chosen = [
            each
            for each in CHECKS
            if _is_named(each.name, options.only or each.name)
            and not _is_named(each.name, options.skip)
        ]
        with tempfile.TemporaryDirectory() as made:
            folder = options.keep or pathlib.Path(made)
            for outcome in run(
                chosen, gpu, folder, seconds=options.seconds, side_by_side=options.jobs
            ):
                outcomes.append(outcome)
                print(report.table([outcome]).splitlines()[0], flush=True)
                # Whatever ends this run, what it has seen is kept.
                _write(options.json, gpu.name, outcomes)
        print()
        print(report.table(outcomes))
    else:
        print(f"There is no GPU on this machine, so that nothing was checked: {gpu}.")
    name = gpu.name if isinstance(gpu, Gpu) else ""
    _write(options.json, name, outcomes)
    print(f"written to {options.json}")
    return report.status(outcomes) if name else report.NO_GPU


def _write(path: pathlib.Path, name: str, outcomes: list[Outcome]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report.document(name, machine.versions(), outcomes))


def _is_named(name: str, words: str) -> bool:
    given = [word.strip().lower() for word in words.split(",") if word.strip()]
    return any(word in name.lower() for word in given)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and the checks with it
    sys.exit(main())
