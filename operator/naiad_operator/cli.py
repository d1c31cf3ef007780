"""The command line: `naiad-operator run`, `check -f FILE`, `convert -f FILE`, `plan` and `report`."""

import argparse
import asyncio
import collections.abc
import os
import sys
import typing

from naiad_operator import __version__, check, convert, options
from naiad_operator.report import options as report_options


def parser() -> argparse.ArgumentParser:
    """The argument parser with every command and option."""
    top = argparse.ArgumentParser(
        prog="naiad-operator",
        description="Reconciles InferenceService resources into serving pods.",
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
    converting = commands.add_parser(
        "convert",
        help="turn InferenceServices of KServe and Deployments of Triton into Naiad's InferenceServices",
        description="Prints Naiad's InferenceServices for those of KServe, and for Deployments, StatefulSets and Pods that run Triton, with what the "
        "Services, autoscalers, Ingresses and monitors in the same files say; and on standard error each field that did not fit.",
    )
    convert.add_options(converting)
    converting.set_defaults(run=lambda given: convert.run(given, check.problems))
    planning = commands.add_parser(
        "plan",
        help="print what this release would change in a cluster, and which pods it would restart",
        description="Prints what this release of the operator would change in a cluster, before it is installed; it only reads. Give it "
        "the options that the operator will have. Exit status: 0 when no pod would restart, 3 when some would, 1 after an error.",
    )
    options.add_to(planning, os.environ)
    planning.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="text for people, json for programs (default: %(default)s)",
    )
    planning.set_defaults(
        run=lambda arguments: _plan(options.read(planning, arguments), arguments.output)
    )
    reporting = commands.add_parser(
        "report",
        help="collect what a bug report needs into one archive, without secrets",
        description="Collects services, their objects, Events, logs and versions into one archive for a bug report; it only reads. Secrets "
        "and ConfigMaps are not read, and credentials elsewhere are masked.",
    )
    report_options.add_to(reporting)
    reporting.set_defaults(run=_report)
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


def _plan(configured: options.Options, output: str) -> int:
    from naiad_operator import preview  # noqa: PLC0415 - see `_run`
    from naiad_operator.cluster.credentials import CredentialsError  # noqa: PLC0415 - see `_run`

    try:
        return asyncio.run(preview.run(configured, as_json=output == "json"))
    except CredentialsError as error:
        print(f"naiad-operator: {error}", file=sys.stderr)  # noqa: T201 - an error message for the terminal
        return 1


def _report(arguments: argparse.Namespace) -> int:
    from naiad_operator.report import command  # noqa: PLC0415 - see `_run`

    return command.run(arguments)
