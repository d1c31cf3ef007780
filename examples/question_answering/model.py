"""Answers questions: tokens before the network, the words of the answer behind it."""

import asyncio
import pathlib

import numpy as np
import triton_python_backend_utils as pb_utils
from passages import Passage, stacked
from wordpiece import WordPiece


class TritonPythonModel:
    """The class that the python backend looks for."""

    def initialize(self, args):
        """Read the vocabulary, which is beside this file."""
        self.tokenizer = WordPiece.read(pathlib.Path(__file__).with_name("vocab.txt"))

    async def execute(self, requests):
        """Answer all requests at the same time, so that the network can batch them."""
        return await asyncio.gather(*map(self._answer, requests))

    async def _answer(self, request):
        contexts, questions = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()
            for name in ("context", "question")
        )
        passages = []
        for row, (context, question) in enumerate(zip(contexts, questions, strict=True)):
            try:
                passages.append(Passage(self.tokenizer, context.decode(), question.decode()))
            except ValueError as error:  # not UTF-8, or too long
                return pb_utils.InferenceResponse(
                    error=pb_utils.TritonError(
                        f"row {row}: {error}", pb_utils.TritonError.INVALID_ARG
                    )
                )
        response = await pb_utils.InferenceRequest(
            model_name="bert",
            inputs=[pb_utils.Tensor(name, rows) for name, rows in stacked(passages).items()],
            requested_output_names=["start_logits", "end_logits"],
        ).async_exec()
        if response.has_error():
            return pb_utils.InferenceResponse(error=response.error())
        starts, ends = (
            pb_utils.get_output_tensor_by_name(response, name).as_numpy()
            for name in ("start_logits", "end_logits")
        )
        answers = [
            passage.answer(start, end)
            for passage, start, end in zip(passages, starts, ends, strict=True)
        ]
        texts = np.array([[text.encode()] for text, _ in answers], dtype=object)
        probabilities = np.array([[probability] for _, probability in answers], np.float32)
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("predictions", texts), pb_utils.Tensor("prob", probabilities)]
        )
