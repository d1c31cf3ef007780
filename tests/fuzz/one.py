"""Fuzzes one target in this process: `python -m tests.fuzz.one TARGET [libFuzzer's options and folders]`."""

import os
import sys

import atheris

with atheris.instrument_imports(include=["naiad"]):
    from tests.fuzz import targets

    target = targets.load(sys.argv[1])


def main() -> None:
    """Run until libFuzzer ends the process."""
    # A merge starts the program again and again by its name.
    atheris.Setup([os.environ.get("FUZZ_PROGRAM", sys.argv[0]), *sys.argv[2:]], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
