"""Both ends of a link, and messages with a tensor."""

from typing import Any

import numpy as np

from naiad.hosts.link.kinds import BATCH, OUTCOME
from naiad.hosts.link.link import Link
from naiad.hosts.link.payload import Payload

Pair = tuple[Link, Link]


def payload(*parts: Any) -> tuple[Payload, list[tuple[int, int]]]:
    made = Payload()
    return made, [made.add(part) for part in parts]


LARGE = 5_000
"""So many numbers of eight bytes do not fit behind a message."""


def exchange(pair: Pair, number: int) -> Any:
    """A message there and one back; gives back what the first one holds."""
    ours, theirs = pair
    ours.send(BATCH, b"", payload(np.full(LARGE, number))[0], number)
    theirs.receive()
    found = theirs.base[: LARGE * 8].view(np.int64)
    theirs.send(OUTCOME, b"")
    ours.receive()
    return found
