"""`make bench-control`: what loads and reloads of models cost."""

import argparse
import pathlib

from benchmarks import many_models, reloads
from benchmarks.report import put_into

_DOCUMENT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "performance.md"


def main() -> None:
    """Measure and print; nothing is written without --write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model_control", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each phase (default 10)")
    parser.add_argument(
        "--quick", action="store_true", help="one round, phases of 3 s, and 50 models"
    )
    parser.add_argument(
        "--write", action="store_true", help="put the results into docs/performance.md"
    )
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 3.0
    count = 50 if options.quick else many_models.MODELS
    texts = {
        "reloads": reloads.table(reloads.measure(seconds=options.seconds, rounds=options.rounds)),
        "many-models": many_models.table(many_models.measure(starts=options.rounds, count=count)),
    }
    print("\n\n".join(texts.values()))
    if options.write:
        for marker, text in texts.items():
            put_into(_DOCUMENT, marker=marker, text=text)


if __name__ == "__main__":
    main()
