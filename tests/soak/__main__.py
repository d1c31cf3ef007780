"""`make soak`: the whole of it, with a table at the end. Exits with 1 when something was not as it should be."""

import argparse
import pathlib
import sys
import tempfile

from tests.soak import repository
from tests.soak.plan import Plan, Result
from tests.soak.run import run

MOST_LAG_MS = 100.0
"""How late the server's event loop may be, less the time that it waited for a processor. Not in the test: on a machine that has too much to do
another thread of the server may wait for a processor while it holds the interpreter lock."""


def main() -> int:
    """Runs it and gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--models", nargs="+", choices=repository.ALL, default=repository.ALL)
    arguments = parser.parse_args()
    plan = Plan(
        requests=arguments.requests,
        clients=arguments.clients,
        seed=arguments.seed,
        tenants=arguments.tenants,
        models=tuple(arguments.models),
    )
    with tempfile.TemporaryDirectory() as folder:
        result = run(pathlib.Path(folder), plan, progress=_show)
        log = (pathlib.Path(folder) / "log").read_text(errors="replace")
    if result.lag_ms > MOST_LAG_MS:
        result.faults.append(f"the event loop was {result.lag_ms:.0f} ms late by itself")
        result.faults += [line for own_ms, line in result.stalls if own_ms > MOST_LAG_MS]
    print_result(result)
    if result.faults:
        print(log[-4000:])
    for fault in result.faults[:20]:
        print(f"FAULT {fault}")
    return 1 if result.faults else 0


def print_result(result: Result) -> None:
    """A table of what became of the requests, and of what the server holds."""
    total = sum(result.outcomes.values())
    print(
        f"{total} requests in {result.seconds:.0f} s, {result.kills} kills, {result.reloads} reloads"
    )
    print(f"  the event loop was at most {result.lag_ms:.0f} ms late by itself")
    for outcome, count in sorted(result.outcomes.items()):
        print(f"  {outcome:28} {count:8}")
    for name, found in (("before", result.before), ("after", result.after)):
        print(f"  {name:7} {found}")


def _show(progress: str) -> None:
    print(progress, flush=True)


if __name__ == "__main__":
    sys.exit(main())
