"""Stands for a model that has a device to itself while it runs: it takes as long as a request says."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Counts its batches."""

    def initialize(self, _args):
        """Begin to count."""
        self.batches = 0

    def execute(self, requests):
        """Take the time, and answer with the number of batches so far."""
        responses = []
        for request in requests:
            milliseconds = pb_utils.get_input_tensor_by_name(request, "MILLISECONDS").as_numpy()
            time.sleep(int(milliseconds[0]) / 1000)
            self.batches += 1
            counted = pb_utils.Tensor("BATCHES", np.array([self.batches], dtype=np.int64))
            responses.append(pb_utils.InferenceResponse([counted]))
        return responses
