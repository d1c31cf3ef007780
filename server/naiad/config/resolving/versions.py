"""Which folders are versions and which versions are served (rows 7.39, 7.40). Pure."""

import collections.abc
from typing import Any

RESERVED = frozenset({"configs", "warmup", "initial_state"})
"""Folders of a model that are not versions."""

_INT64_MAX = (1 << 63) - 1


def present(
    folders: collections.abc.Iterable[str],
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The versions among the names of a model's folders.

    Returns:
        The versions, ascending, and a warning for each folder that looks like a version but is not one.
    """
    versions: list[int] = []
    warnings: list[str] = []
    for folder in sorted(folders):
        if folder in RESERVED or not folder[:1].isdecimal():
            continue
        if not (folder.isascii() and folder.isdecimal()) or int(folder) > _INT64_MAX:
            warnings.append(f"ignore folder '{folder}': a version folder's name is a plain number")
        elif len(folder) > 1 and folder.startswith("0"):
            warnings.append(
                f"ignore version directory '{folder}' which contains leading zeros in its "
                f"directory name: rename it to '{int(folder)}'"
            )
        else:
            versions.append(int(folder))
    return tuple(sorted(versions)), tuple(warnings)


def served(
    policy: Any, versions: collections.abc.Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The versions that a policy serves, of those present (ascending).

    Returns:
        Those to serve, ascending, and those that the policy names but do not exist.
    """
    match policy.WhichOneof("policy_choice"):
        case "specific":
            wanted = set(policy.specific.versions)
            return (
                tuple(version for version in versions if version in wanted),
                tuple(sorted(wanted.difference(versions))),
            )
        case "latest":
            count = policy.latest.num_versions
            return tuple(versions[max(len(versions) - count, 0) :]), ()
        case _:
            return tuple(versions), ()
