"""The shared-memory paths of a server that has it switched off, which is the default (row 5.7). Pure.

Nothing can be registered, so that the list of regions is empty and no single one is known.
"""

import typing

from naiad.errors import not_found, unsupported


def status(kind: str, region: str) -> list[typing.Any]:
    """The registered regions: none.

    Args:
        kind: "system" or "cuda".
        region: the one asked for; "" means all.

    Raises:
        InferenceError: NOT_FOUND when one is asked for (row 5.13).
    """
    if region:
        raise not_found(
            f"Unable to find {kind} shared memory region: '{region}': client shared memory is disabled in this server, so that "
            "there is none; send tensors in the request"
        )
    return []


def change() -> typing.NoReturn:
    """Register or unregister.

    Raises:
        InferenceError: UNSUPPORTED, in Triton's words, though the option cannot be given here yet.
    """
    raise unsupported(
        "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable: this server has not got "
        "that yet, so send tensors as binary data in the request"
    )
