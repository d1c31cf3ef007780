"""Runs a target once on a file that the fuzzer found: `python -m tests.fuzz.again FILE` (its folder names the target), or `TARGET FILE`."""

import pathlib
import sys

from tests.fuzz import targets


def main() -> None:
    """Raise what the fuzzer saw, and print the line for `tests/fuzz/corpus`."""
    *named, file = sys.argv[1:]
    path = pathlib.Path(file).resolve()
    data = path.read_bytes()
    name = named[0] if named else path.parents[1].name
    print(f"{name}: {data!r}")
    targets.load(name).check(data)
    print("nothing fails")


if __name__ == "__main__":
    main()
