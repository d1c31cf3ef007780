"""Checks what needs a GPU, on a machine with one and without a network: `make gpu-check`. docs/gpu-checks.md has the list, and when it was last run.

Runs in the interpreter that it is started with: what is not installed there is skipped, and named.
"""

import argparse
import collections.abc
import pathlib
import sys
import tempfile
import time

from tests.gpu import machine, report
from tests.gpu.checks import CHECKS, Bench, Check
from tests.gpu.machine import Gpu
from tests.gpu.report import Outcome


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
        chosen = [each for each in CHECKS if _is_chosen(each.name, options.only)]
        with tempfile.TemporaryDirectory() as made:
            for outcome in run(chosen, gpu, options.keep or pathlib.Path(made), options.seconds):
                outcomes.append(outcome)
                print(report.table([outcome]).splitlines()[0], flush=True)
        print()
        print(report.table(outcomes))
    else:
        print(f"There is no GPU on this machine, so that nothing was checked: {gpu}.")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    name = gpu.name if isinstance(gpu, Gpu) else ""
    options.json.write_text(report.document(name, machine.versions(), outcomes))
    print(f"written to {options.json}")
    return report.status(outcomes) if name else report.NO_GPU


def run(
    checks: collections.abc.Iterable[Check], gpu: Gpu, folder: pathlib.Path, seconds: float
) -> collections.abc.Iterator[Outcome]:
    """Run checks one after the other; an exception of one is its failure."""
    until = time.monotonic() + seconds
    for number, check in enumerate(checks):
        missing = [each for each in check.needs if not machine.has(each)]
        began = time.monotonic()
        if missing:
            yield Outcome(check.name, "skipped", f"not installed: {', '.join(missing)}", 0.0)
        elif began > until:
            yield Outcome(check.name, "skipped", f"the {seconds:g} s of --seconds were over", 0.0)
        else:
            own = folder / str(number)
            (own / "models").mkdir(parents=True, exist_ok=True)
            try:
                detail, failed = check.run(Bench(own, gpu)), False
            except Exception as error:  # noqa: BLE001 - whatever it is, the next check runs
                detail, failed = f"{type(error).__name__}: {error}", True
            yield Outcome(
                check.name, "failed" if failed else "passed", detail, time.monotonic() - began
            )


def _is_chosen(name: str, only: str) -> bool:
    words = [word.strip().lower() for word in only.split(",") if word.strip()]
    return not words or any(word in name.lower() for word in words)


if __name__ == "__main__":
    sys.exit(main())
