"""`naiad serve …`, `naiad check …`, `naiad fetch …`, and `tritonserver …`, which is `naiad serve` under Triton's name.

Imports only what the command needs: `naiad check` starts no server, `naiad serve --help` and a wrong option import only what reads options,
`naiad --help` nothing at all.
"""

import collections.abc
import contextlib
import shutil
import sys
import typing

from naiad import __version__

if typing.TYPE_CHECKING:
    from naiad.options.options import Options

_USAGE = """\
Usage: naiad COMMAND [options]

  naiad serve --model-repository DIR   serve the models in DIR (naiad serve --help lists the options)
  naiad check DIR                      say what the server would refuse in DIR
  naiad fetch URI --to FOLDER          bring a model repository into a folder, whole or not at all
  naiad --version                      print the version
"""


def main() -> int:
    """The command `naiad`."""
    command, *arguments = sys.argv[1:] or ["--help"]
    match command:
        case "serve":
            return _serve(arguments, command="naiad serve")
        case "check":
            with _installed():
                from naiad.check import main as check  # noqa: PLC0415 - see the module docstring
            return check(arguments)
        case "fetch":
            with _installed():
                from naiad.fetch import main as fetch  # noqa: PLC0415 - see the module docstring
            return fetch(arguments)
        case "--version" | "-V" | "version":
            sys.stdout.write(f"naiad {__version__}\n")
            return 0
        case "--help" | "-h" | "help":
            sys.stdout.write(_USAGE)
            return 0
        case _:
            sys.stderr.write(f"naiad: there is no command '{command}'{_hint(command)}\n\n{_USAGE}")
            return 1


def _hint(command: str) -> str:
    import difflib  # noqa: PLC0415 - only after an error

    if command.startswith("-"):
        return f": options come behind the command, naiad serve {command}"
    near = difflib.get_close_matches(command, ("serve", "check", "fetch", "version", "help"), n=1)
    return f"; did you mean naiad {near[0]}?" if near else ""


def tritonserver() -> int:
    """The command `tritonserver`: scripts and images that start Triton start this."""
    return _serve(sys.argv[1:], command="tritonserver")


def _serve(arguments: list[str], *, command: str) -> int:
    from naiad.serve.signals import EARLY  # noqa: PLC0415 - see the module docstring

    EARLY.watch()
    with _installed():
        options = _read_options(arguments, command)
    if isinstance(options, int):
        return options
    with _installed():
        from naiad.serve import interpreter  # noqa: PLC0415 - see the module docstring

        # What a model in a thread of the server reads (argparse, unittest.main) is not meant for it; in Triton it finds none either.
        del sys.argv[1:]
        interpreter.begin()
        from naiad.serve.command import serve  # noqa: PLC0415 - after `begin`, which makes this cheaper
    return serve(options, command=command)


def _read_options(arguments: list[str], command: str) -> "Options | int":
    """The options to serve with; 0 after `--help`, 1 after a usage error: the help or the error was printed (rows 17.1, 17.2)."""
    from naiad.options.parsing import parse  # noqa: PLC0415 - see the module docstring
    from naiad.options.usage import HelpAsked, UsageError, usage  # noqa: PLC0415 - the same

    try:
        return parse(arguments)
    except HelpAsked as request:
        columns = shutil.get_terminal_size().columns
        sys.stdout.write(usage(command, columns=columns, everything=request.everything))
        return 0
    except UsageError as error:
        sys.stderr.write(
            f"{command}: error: {error}\nUsage: {command} --model-repository DIR [options]; {command} --help lists the options\n"
        )
        return 1


@contextlib.contextmanager
def _installed() -> collections.abc.Iterator[None]:
    """Names the extra to install when the server's packages are missing: `pip install naiad` alone installs none of them."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "naiad":
            raise
        from naiad import extras  # noqa: PLC0415 - see the module docstring

        sys.exit(f"naiad: the package {package} is missing: {extras.install('server')} brings it")


if __name__ == "__main__":
    sys.exit(main())
