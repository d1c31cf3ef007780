"""Counts its executions: EXECUTION is the number of this one, SUM the sum of the numbers that it was given; MODE can make it fail."""

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it


class TritonPythonModel:
    """Counts."""

    def initialize(self, _args: dict[str, str]) -> None:
        """Nothing was executed yet."""
        self.executions = 0

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response for each request."""
        self.executions += 1
        return [self._respond(request) for request in requests]

    def _respond(self, request: Any) -> Any:
        inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        mode = inputs.get("MODE")
        text = b"" if mode is None else mode.ravel()[0]
        if text == b"error":
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("an error on purpose"))
        if text == b"raise":
            raise ValueError("it raises on purpose")
        rows = max((array.shape[0] for array in inputs.values()), default=1)
        total = sum(float(inputs[name].sum()) for name in ("A", "B") if name in inputs)
        size = 4000 if text == b"large" else 1
        outputs = [
            pb_utils.Tensor("EXECUTION", np.full((rows, 1), self.executions, np.int32)),
            pb_utils.Tensor("SUM", np.full((rows, size), total, np.float32)),
        ]
        wanted = set(request.requested_output_names())
        outputs = [each for each in outputs if each.name() in wanted]
        if text == b"parameters":
            return pb_utils.InferenceResponse(outputs, parameters={"note": "said"})
        return pb_utils.InferenceResponse(outputs)
