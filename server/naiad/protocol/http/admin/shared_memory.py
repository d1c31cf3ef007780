"""The shared-memory paths of a server that has it switched off, which is the default (row 5.7). Pure.

Nothing can be registered, so that the list of regions is empty and no single one is known.
"""

import typing

from naiad.protocol import not_supported


def status(kind: str, region: str) -> list[typing.Any]:
    """The registered regions: none.

    Args:
        kind: "system" or "cuda".
        region: the one asked for; "" means all.

    Raises:
        InferenceError: NOT_FOUND when one is asked for (row 5.13).
    """
    if region:
        raise not_supported.shared_memory_status(kind, region)
    return []


def change() -> typing.NoReturn:
    """Register or unregister.

    Raises:
        InferenceError: UNSUPPORTED.
    """
    raise not_supported.shared_memory_change()
