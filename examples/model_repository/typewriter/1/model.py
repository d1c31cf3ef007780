"""Answers a text word by word, with a pause between two words."""

import asyncio
import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The class that the python backend looks for."""

    async def execute(self, requests):
        """Type all texts side by side; while they run, more requests may come."""
        await asyncio.gather(*(self._type(request) for request in requests))

    async def _type(self, request):
        sender = request.get_response_sender()
        try:
            text = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()[0].decode()
            pause = float(json.loads(request.parameters() or "{}").get("pause_ms", 100)) / 1000
            for word in text.split():
                if sender.is_cancelled():
                    break  # the client has gone
                output = pb_utils.Tensor("WORD", np.array([word.encode()], dtype=object))
                sender.send(pb_utils.InferenceResponse([output]))
                await asyncio.sleep(pause)
        finally:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
