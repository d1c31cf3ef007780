"""Arrays of many megabytes whose memory is given back in a thread: freeing 500 MB takes 100 ms, with the interpreter lock held. Limits: numpy, Python 3.8."""

import _thread
import contextlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from naiad.tensors.mapping import give_back_pages

if TYPE_CHECKING:
    _Array = np.ndarray[Any, Any]
else:
    _Array = np.ndarray

FROM = 1 << 25
"""Bytes of the smallest such array: smaller ones are in memory that the C library keeps (`core/processes/malloc.py`)."""

_PAGE = 4096
_ONLY_THIS = 3
"""References to an array that only a view refers to, where `__del__` counts them."""


class _View(_Array):
    """A view of an array that nothing may need once the view is gone."""

    def __del__(self) -> None:
        """Give the pages back, if nothing else refers to the array and the memory is its own."""
        owner: Any = self.base
        # Between the two there may be views without this type.
        while type(owner) is np.ndarray and sys.getrefcount(owner) == _ONLY_THIS:
            if owner.flags.owndata:
                with contextlib.suppress(RuntimeError):  # no thread can be started
                    _thread.start_new_thread(_free, (owner,))
                return
            owner = owner.base


def freed_aside(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """An array of numbers, or a view of it if it is large: when that is gone, and nothing else refers to the array, its memory is given back in a thread."""
    return array.view(_View) if array.nbytes >= FROM else array


def _free(owner: "np.ndarray[Any, Any]") -> None:
    """Take the pages of an array away, but the first and the last one, which are not its own; the array itself is freed after that, at once."""
    address = owner.__array_interface__["data"][0]
    begin = (address + _PAGE - 1) & -_PAGE
    give_back_pages(begin, (address + owner.nbytes & -_PAGE) - begin)
