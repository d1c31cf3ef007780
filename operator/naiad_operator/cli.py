"""The commands of `naiad-operator`. What each needs is imported when it is asked for: `check` needs no kopf."""

import argparse
import asyncio
import collections.abc
import os
import sys

from naiad_operator import options


def main(argv: collections.abc.Sequence[str] | None = None) -> int:
    """Runs a command; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="naiad-operator", description="Turns InferenceServices into running model servers."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="reconcile the services of a cluster until SIGTERM")
    options.add_to(run, os.environ)
    given = parser.parse_args(argv)
    return _run(options.read(run, given))


def _run(chosen: options.Options) -> int:
    from naiad_operator import logs  # noqa: PLC0415 - only this command logs
    from naiad_operator.cluster.credentials import CredentialsError  # noqa: PLC0415 - as below
    from naiad_operator.handlers.operate import operate  # noqa: PLC0415 - brings kopf and aiohttp

    logs.configure(level=chosen.log_level, text=chosen.log_text)
    try:
        return asyncio.run(operate(chosen))
    except CredentialsError as error:
        print(f"naiad-operator: {error}", file=sys.stderr)  # noqa: T201 - said to whoever started it
        return 1
    except KeyboardInterrupt:
        return 130
