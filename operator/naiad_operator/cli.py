"""The command line: `naiad-operator check -f FILE`."""

import argparse
import collections.abc
import typing

from naiad_operator import check


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    top = argparse.ArgumentParser(
        prog="naiad-operator", description="Turns InferenceService resources into serving pods."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    checking = commands.add_parser(
        "check",
        help="is a file right, and what would the operator make of it?",
        description="Validates InferenceServices without a cluster and prints the objects that the operator would make.",
    )
    check.add_options(checking)
    checking.set_defaults(run=check.run)
    return top


def main(arguments: collections.abc.Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        The exit status.
    """
    options = parser().parse_args(arguments)
    run: typing.Callable[[argparse.Namespace], int] = options.run
    return run(options)
