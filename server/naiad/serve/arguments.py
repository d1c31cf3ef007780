"""Reads the command line before any large import, so that `--help` and a wrong option are answered at once."""

import collections.abc
import shutil
import sys

from naiad.options.options import Options
from naiad.options.parsing import parse
from naiad.options.usage import HelpAsked, UsageError, usage


def read(arguments: collections.abc.Sequence[str], *, command: str) -> Options | int:
    """The options to serve with, or an exit status.

    Args:
        arguments: the command line after the command.
        command: the command as the user typed it, for messages.

    Returns:
        The options; 0 after `--help`, 1 after a usage error; the help or the error was printed (rows 17.1, 17.2).
    """
    try:
        return parse(arguments)
    except HelpAsked as request:
        columns = shutil.get_terminal_size().columns
        sys.stdout.write(usage(command, columns=columns, everything=request.everything))
        return 0
    except UsageError as error:
        sys.stderr.write(
            f"{command}: {error}\nUsage: {command} --model-repository DIR [options]; {command} --help lists the options\n"
        )
        return 1
