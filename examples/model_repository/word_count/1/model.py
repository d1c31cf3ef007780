"""Counts the words of each text of a batch."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The class that the python backend looks for."""

    def execute(self, requests):
        """Answer every request of a batch, each with its own number of texts."""
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
        words = [[len(text.decode().split())] for text in texts.reshape(-1)]
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("WORDS", np.array(words, dtype=np.int32))]
        )
