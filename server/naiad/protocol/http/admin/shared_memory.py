"""The shared-memory paths while shared memory is switched off, which is the default (row 5.7). Pure.

Nothing can be registered, so that the list of regions is empty.
"""

import typing

from naiad.protocol import not_supported


def status(kind: str, region: str) -> list[typing.Any]:
    """The registered regions: none.

    Args:
        kind: "system" or "cuda".
        region: its name; "" means all.

    Raises:
        InferenceError: NOT_FOUND for a name (row 5.13).
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
