"""Stands for a network: how near the mean colour of an image is to each of three, and the name of the nearest."""

import numpy as np
import triton_python_backend_utils as pb_utils

NAMES = np.array([b"red", b"green", b"blue"], object)
COLOURS = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255]], np.float32)


class TritonPythonModel:
    """Scores and a label for each image."""

    def execute(self, requests):
        """Respond to each request."""
        responses = []
        for request in requests:
            images = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()
            means = images.mean((1, 2), np.float32)
            scores = -np.linalg.norm(means[:, None] - COLOURS, axis=2).astype(np.float32)
            labels = NAMES[scores.argmax(1)][:, None]
            outputs = [pb_utils.Tensor("SCORES", scores), pb_utils.Tensor("LABEL", labels)]
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
