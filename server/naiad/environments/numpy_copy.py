"""Copies the server's numpy into an environment that lacks it: the one package that every worker needs.

A copy, not a link, so that the environment does not change or break when the server's numpy does. Nothing else of the server is copied.
"""

import importlib.metadata
import pathlib
import shutil


class NoNumpyError(Exception):
    """The server's numpy cannot be copied; the message says why."""


def copy_numpy(packages: pathlib.Path) -> str:
    """Copy the numpy of this process.

    Args:
        packages: the environment's site-packages, of the same Python version.

    Returns:
        Its version.

    Raises:
        NoNumpyError: it is unknown which files it consists of.
        OSError: they cannot be copied.
    """
    try:
        distribution = importlib.metadata.distribution("numpy")
    except importlib.metadata.PackageNotFoundError as error:
        raise NoNumpyError("the server's numpy was not installed as a package") from error
    files = [file for file in distribution.files or () if ".." not in file.parts]
    if not files:
        raise NoNumpyError("the server's numpy does not list its files")
    for file in files:
        source = pathlib.Path(str(file.locate()))
        if source.is_file():
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return distribution.version
