"""How the rows of an input come to the device: those in the host's memory are gathered and copied in as few pieces as possible, those on a device from where they are. Pure."""

import collections.abc

import msgspec


class FromHost(msgspec.Struct, frozen=True):
    """Requests, one behind the other, whose rows are gathered on the host and copied at once.

    Attributes:
        first: the first request.
        end: the one behind the last.
        row: where their rows begin in the batch.
        rows: how many they are.
    """

    first: int
    end: int
    row: int
    rows: int


class FromDevice(msgspec.Struct, frozen=True):
    """A request whose rows are on a device already.

    Attributes:
        request: its position.
        row: where its rows begin in the batch.
    """

    request: int
    row: int


def copies_of(
    rows: collections.abc.Sequence[int], on_device: collections.abc.Sequence[bool]
) -> list[FromHost | FromDevice]:
    """The copies that bring an input of a batch to the device.

    Args:
        rows: of each request.
        on_device: whether the values of each request are on a device.
    """
    copies: list[FromHost | FromDevice] = []
    row = 0
    for request, (count, there) in enumerate(zip(rows, on_device, strict=True)):
        last = copies[-1] if copies else None
        if there:
            copies.append(FromDevice(request, row))
        elif isinstance(last, FromHost):
            copies[-1] = FromHost(last.first, request + 1, last.row, last.rows + count)
        else:
            copies.append(FromHost(request, request + 1, row, count))
        row += count
    return copies
