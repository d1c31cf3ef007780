"""Cuts out of each file the bytes that magika looks at."""

import numpy as np
import triton_python_backend_utils as pb_utils

_BLOCK, _WINDOW, _PADDING = 4096, 1024, 256


class TritonPythonModel:
    """The class that the python backend looks for."""

    def execute(self, requests):
        """Answer every request of a batch; each may hold several files."""
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        files = pb_utils.get_input_tensor_by_name(request, "FILE").as_numpy()[:, 0]
        numbers = np.full((len(files), 2 * _WINDOW), _PADDING, np.int32)
        for row, content in zip(numbers, files, strict=True):
            # Both ends, without white space around the file; what is missing stays 256.
            beginning = content[:_BLOCK].lstrip()[:_WINDOW]
            end = content[-_BLOCK:].rstrip()[-_WINDOW:]
            row[: len(beginning)] = np.frombuffer(beginning, np.uint8)
            row[len(row) - len(end) :] = np.frombuffer(end, np.uint8)
        return pb_utils.InferenceResponse([pb_utils.Tensor("bytes", numbers)])
