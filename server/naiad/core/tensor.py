"""A named tensor on its way through the server.

The array is numpy on the host's memory. It may be a read-only view of the bytes a client sent: whoever
needs to write makes a copy (the batch is that copy).
"""

from typing import Any

import numpy as np

from naiad.core.datatypes import DataType
from naiad.core.record import Record


class Tensor(Record, frozen=True):
    """A tensor of a request or of a response.

    Attributes:
        name: the tensor's name in the model config.
        datatype: what its elements are; for a request, what the client said they are.
        shape: its shape on the wire, the batch dimension included.
        array: values in that shape, C order; object array of `bytes` for BYTES. When `fault` is set it is
            empty and must not be read.
        fault: why the bytes that came do not fill this shape (rows 4.8, 4.9). A decoder cannot refuse on the
            spot: name, datatype and shape are judged first, by the engine's validation, which then raises
            this as INVALID_ARG.
    """

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    array: "np.ndarray[Any, Any]"
    fault: str | None = None
