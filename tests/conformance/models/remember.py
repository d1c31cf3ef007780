"""Remembers what each execution was given, and tells it with the next one; an input MODE can make it fail."""

import json
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it


class TritonPythonModel:
    """Responds with everything before."""

    def initialize(self, _args: dict[str, str]) -> None:
        """Nothing was executed yet."""
        self.before: list[Any] = []

    def execute(self, requests: list[Any]) -> list[Any]:
        """One report for each request."""
        report = np.array([json.dumps(self.before).encode()], dtype=np.object_)
        self.before.append([_told(request) for request in requests])
        return [_respond(request, report) for request in requests]


def _told(request: Any) -> Any:
    told = {}
    for tensor in request.inputs():
        array = tensor.as_numpy()
        kind = "BYTES" if array.dtype == np.object_ else str(array.dtype)
        told[tensor.name()] = [kind, list(array.shape), [str(each) for each in array.ravel()[:4]]]
    return told


def _respond(request: Any, report: Any) -> Any:
    mode = pb_utils.get_input_tensor_by_name(request, "MODE")
    if mode is not None and mode.as_numpy().ravel()[0] == b"error":
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("an error on purpose"))
    if mode is not None and mode.as_numpy().ravel()[0] == b"raise":
        raise ValueError("it raises on purpose")
    return pb_utils.InferenceResponse([pb_utils.Tensor("REPORT", report)])
