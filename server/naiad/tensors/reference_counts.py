"""Whether a list is the only thing that refers to one of its items, so that the item's memory can be used again.

Limits: standard library and numpy, Python 3.8.
"""

import sys

import numpy as np


def only_listed() -> int:
    """What `sys.getrefcount(items[at])` says, of an item of a list in a local variable, if nothing else refers to the item: another number in other interpreters."""
    items, count = [np.empty(0, np.uint8)], sys.getrefcount
    found = 0
    for at in range(len(items)):
        found = count(items[at])
    return found


ONLY_LISTED = only_listed()
"""The number in this interpreter. Callers ask as `only_listed` does: by another expression the interpreter may count one reference more."""
