"""`make bench`: Naiad beside Triton; `make bench MODEL=DIR`: a model of yours on Naiad, and beside Triton if you like."""

import argparse
import pathlib
import sys

from benchmarks.load import LoadError, require_tools
from benchmarks.server import own_model
from benchmarks.server.contest import Plan
from tests.reference.process import ServerFailedError


def main() -> int:
    """Measure and print; nothing is written without --write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server.run", description=__doc__)
    parser.add_argument(
        "model",
        nargs="?",
        type=pathlib.Path,
        metavar="DIR",
        help="the folder of one model; without it the project's own models are measured beside Triton",
    )
    parser.add_argument(
        "--request",
        type=pathlib.Path,
        metavar="FILE",
        help="with DIR: the JSON body of the infer request to repeat (default: made up from the model's metadata)",
    )
    parser.add_argument(
        "--beside-triton",
        action="store_true",
        help="with DIR: the same model on a tritonserver, which is installed once and has the Python backend alone",
    )
    parser.add_argument(
        "--connections",
        type=int,
        nargs="+",
        default=None,
        metavar="COUNT",
        help="with DIR: default 1 16 64",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="of each measurement (default 4)"
    )
    parser.add_argument("--quick", action="store_true", help="one round of 1 s")
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="PART",
        help="without DIR: these tables of docs/performance.md alone, such as `small`, the cells beside Triton that have an aim, or `cache`; "
        "an unknown name prints all",
    )
    parser.add_argument("--write", action="store_true",
                        help="without DIR: put the results into benchmarks/results and docs/performance.md")  # fmt: skip
    arguments = parser.parse_args()
    plan = Plan(rounds=arguments.rounds, seconds=arguments.seconds)
    if arguments.quick:
        plan = Plan(rounds=1, seconds=1.0)
    try:
        require_tools()
        if arguments.model is not None:
            return own_model.run(
                arguments.model,
                plan,
                request=arguments.request,
                beside=arguments.beside_triton,
                connections=arguments.connections,
            )
        from benchmarks.server import suite  # noqa: PLC0415 - needs packages that only `make bench` installs

        unknown = sorted(set(arguments.only) - set(suite.PARTS))
        if unknown:
            parser.error(f"--only {' '.join(unknown)}: there are {', '.join(suite.PARTS)}")
        suite.run(plan, quick=arguments.quick, write=arguments.write, only=arguments.only)
    except (LoadError, ServerFailedError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(
            f"bench: the package {error.name} is missing: `make bench` installs it", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
