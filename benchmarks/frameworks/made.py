"""What a measurement of a framework needs of a model."""

import collections.abc
import typing

import numpy as np

Array = np.ndarray[typing.Any, typing.Any]
Call = collections.abc.Callable[[], typing.Any]


class Made(typing.NamedTuple):
    """A model in a folder.

    Attributes:
        config: its config.pbtxt.
        rows: what goes in, the rows of 8 requests.
        bare: computes them with the framework alone.
    """

    config: str
    rows: Array
    bare: Call
