"""The parser of a small command's options: argparse, with a suggestion for an option that does not exist."""

import argparse
import collections.abc
import difflib

from typing_extensions import override


class CommandParser(argparse.ArgumentParser):
    """An `ArgumentParser` that names the nearest option. It says so before it says what is missing, which may be a result of that."""

    @override
    def parse_args(  # type: ignore[override]  # without a namespace of the caller
        self, args: collections.abc.Sequence[str], namespace: None = None
    ) -> argparse.Namespace:
        """Parse the words of a command line, or print what is wrong with it and exit."""
        for word in args:
            if word == "--":
                break
            name = word.partition("=")[0]
            known = self._option_string_actions
            if name.startswith("--") and not any(option.startswith(name) for option in known):
                near = difflib.get_close_matches(name, known, n=1)
                self.error(
                    f"unrecognized option '{name}'; "
                    + (f"did you mean {near[0]}?" if near else f"{self.prog} --help lists all")
                )
        return super().parse_args(args)
