"""Masks rude words: asks the model `rude_words` for the score of each word of a text."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The class that the python backend looks for."""

    def initialize(self, args):
        """Read the limit from the config's parameters."""
        parameters = json.loads(args["model_config"])["parameters"]
        self.limit = float(parameters["limit"]["string_value"])

    def execute(self, requests):
        """Answer each request with its texts, masked."""
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
        try:
            clean = [self._masked(text.decode()) for text in texts.reshape(-1)]
        except pb_utils.TritonModelException as error:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
        values = np.array(clean, dtype=object).reshape(texts.shape)
        return pb_utils.InferenceResponse([pb_utils.Tensor("CLEAN", values)])

    def _masked(self, text):
        words = text.split()
        if not words:
            return ""
        scores = self._scores(words)
        return " ".join(
            "*" * len(word) if score > self.limit else word
            for word, score in zip(words, scores, strict=True)
        )

    def _scores(self, words):
        response = pb_utils.InferenceRequest(
            model_name="rude_words",
            requested_output_names=["SCORE"],
            inputs=[pb_utils.Tensor("WORD", np.array(words, dtype=object))],
        ).exec()
        if response.has_error():
            message = f"rude_words failed: {response.error().message()}"
            raise pb_utils.TritonModelException(message)
        return pb_utils.get_output_tensor_by_name(response, "SCORE").as_numpy()
