"""Reports a variable of its process."""

import json
import os
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it


class TritonPythonModel:
    """Answers with the value of the variable that it is asked for."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """One report a request."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        name = pb_utils.get_input_tensor_by_name(request, "VARIABLE").as_numpy()[0].decode()
        report = json.dumps({name: os.environ.get(name)})
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("REPORT", np.array([report.encode()], dtype=np.object_))]
        )
