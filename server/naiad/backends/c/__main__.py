"""Prints the folder of `naiad_backend.h`, for Makefiles: `cc -I$(python -m naiad.backends.c)`."""

import pathlib

print(pathlib.Path(__file__).parent)  # noqa: T201 - this is what it is for
