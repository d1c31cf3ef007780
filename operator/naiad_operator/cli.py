"""The command line: `naiad-operator run` and `naiad-operator check -f FILE`."""

import argparse
import asyncio
import collections.abc
import os
import sys
import typing

from naiad_operator import __version__, check, options


def parser() -> argparse.ArgumentParser:
    """The argument parser with every command and option."""
    top = argparse.ArgumentParser(
        prog="naiad-operator", description="Turns InferenceService resources into serving pods."
    )
    top.add_argument("--version", action="version", version=f"naiad-operator {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    running = commands.add_parser(
        "run",
        help="reconcile the InferenceServices of a cluster until SIGTERM",
        description="Reconciles the InferenceServices of a cluster until SIGTERM. Each option is also read from the environment.",
    )
    options.add_to(running, os.environ)
    running.set_defaults(run=lambda arguments: _run(options.read(running, arguments)))
    checking = commands.add_parser(
        "check",
        help="validate files and print the objects that the operator would create",
        description="Validates InferenceServices without a cluster and prints the objects that the operator would create.",
    )
    check.add_options(checking)
    checking.set_defaults(run=check.run)
    return top


def main(arguments: collections.abc.Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns:
        The exit status.
    """
    parsed = parser().parse_args(arguments)
    run: typing.Callable[[argparse.Namespace], int] = parsed.run
    return run(parsed)


def _run(configured: options.Options) -> int:
    # Imported here: `check` needs neither kopf nor aiohttp, and is quick without them.
    from naiad_operator import logs  # noqa: PLC0415 - see above
    from naiad_operator.cluster.credentials import CredentialsError  # noqa: PLC0415 - see above
    from naiad_operator.handlers.run import run_operator  # noqa: PLC0415 - see above

    logs.configure(level=configured.log_level, text=configured.log_text)
    try:
        return asyncio.run(run_operator(configured))
    except CredentialsError as error:
        print(f"naiad-operator: {error}", file=sys.stderr)  # noqa: T201 - an error message for the terminal
        return 1
    except KeyboardInterrupt:
        return 130
