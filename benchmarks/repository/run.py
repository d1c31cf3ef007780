"""`make bench-repository`: what downloads, starts, polls and reloads of models cost."""

import argparse
import collections.abc
import pathlib

from benchmarks.report import put_into
from benchmarks.repository import many_models, polling, reloads, s3_load, warm_start

_DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "performance.md"
_QUICK_MODELS = 50
_QUICK_BYTES = 64 << 20
_QUICK_WIDTH = 4096


def main() -> None:
    """Measure and print; nothing is written without --write."""
    parts = _parts(quick=False)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repository.run", description=__doc__)  # fmt: skip
    parser.add_argument(
        "--only", nargs="+", choices=parts, default=list(parts), help="the tables to measure"
    )
    parser.add_argument(
        "--quick", action="store_true", help="few rounds of short phases, with few and small models"
    )
    parser.add_argument(
        "--write", action="store_true", help="put the results into docs/performance.md"
    )
    options = parser.parse_args()
    for marker, measured in _parts(quick=options.quick).items():
        if marker in options.only:
            text = measured()
            print(f"{marker}\n\n{text}\n", flush=True)
            if options.write:
                put_into(_DOCUMENT, marker=marker, text=text)


def _parts(*, quick: bool) -> dict[str, collections.abc.Callable[[], str]]:
    """What measures each table, by the table's marker in the document."""
    rounds = 1 if quick else 3
    seconds = 3.0 if quick else 6.0
    polls_seconds = 6.0 if quick else 12.0
    count = _QUICK_MODELS if quick else many_models.MODELS
    size = _QUICK_BYTES if quick else s3_load.SIZE
    width = _QUICK_WIDTH if quick else warm_start.WIDTH
    return {
        "s3-load": lambda: s3_load.table(s3_load.measure(rounds=rounds, size=size)),
        "warm-start": lambda: warm_start.table(warm_start.measure(rounds=rounds, width=width)),
        "polling": lambda: polling.table(polling.measure(seconds=polls_seconds, count=count)),
        "reloads": lambda: reloads.table(reloads.measure(seconds=seconds, rounds=rounds)),
        "many-models": lambda: many_models.table(many_models.measure(starts=rounds, count=count)),
    }


if __name__ == "__main__":
    main()
