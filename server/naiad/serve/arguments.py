"""Reads the words of the command line before anything large is imported, so that `--help` and a wrong option answer at once."""

import collections.abc
import shutil
import sys

from naiad.options.options import Options
from naiad.options.parsing import parse
from naiad.options.usage import HelpAsked, UsageError, usage


def read(arguments: collections.abc.Sequence[str], *, command: str) -> Options | int:
    """The options to serve with, or the exit status where there is nothing to serve.

    Args:
        arguments: the words behind the command.
        command: how the user called it, for messages.

    Returns:
        The options; 0 after `--help`, 1 after a usage error, each with its text printed (rows 17.1, 17.2).
    """
    try:
        return parse(arguments)
    except HelpAsked as asked:
        columns = shutil.get_terminal_size().columns
        sys.stdout.write(usage(command, columns=columns, everything=asked.everything))
        return 0
    except UsageError as error:
        sys.stderr.write(
            f"{command}: {error}\nUsage: {command} --model-repository DIR [options]; {command} --help lists the options\n"
        )
        return 1
