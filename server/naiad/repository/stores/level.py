"""Notices a repository that is given one level off, a frequent mistake: the folder of one model, or a folder around the repository. Pure."""

import collections.abc

CONFIG = "config.pbtxt"
CONFIGS = "configs"
"""The folder of a model's alternative configs."""

Names = collections.abc.Iterable[str]


def is_version(name: str, files: Names) -> bool:
    """Whether a folder of this name, with these files, is a version of a model."""
    return name.isdecimal() and any(file.startswith("model.") for file in files)


def repository_in(paths: Names) -> str | None:
    """The repository in a folder that should be a model and is one or more levels too high.

    Args:
        paths: of the files in the folder, relative to it.

    Returns:
        Its path in the folder; "" if it is the folder itself; None if the folder is a model, or if there is no model in it.
    """
    found: str | None = None
    for path in paths:
        *folders, file = path.split("/")
        if folders[:1] == [CONFIGS] or (not folders and file == CONFIG):
            return None
        if folders and folders[0].isdecimal():
            return None
        depth = len(folders)
        if depth > 1 and is_version(folders[-1], (file,)):
            depth -= 1
        elif file != CONFIG:
            continue
        around = "/".join(folders[: depth - 1])
        if found is None or len(around) < len(found):
            found = around
    return found


def too_low(parent: str) -> str:
    """What is wrong with the folder of one model; `parent`: the folder around it, "" if there is none."""
    instead = f"give the folder around it, {parent}" if parent else "put it into a folder"
    return f"this is the folder of one model; {instead}"


def too_high(repository: str) -> str:
    """What is wrong with a folder that holds a repository; `repository`: where that is, "" if no address names it."""
    instead = f"give {repository} as the repository" if repository else "put these at the top"
    return f"this is not a model, because it holds models itself; {instead}"
