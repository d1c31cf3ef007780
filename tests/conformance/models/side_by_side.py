"""`async def execute`: waits as long as DELAY_MS says, then answers with the order in which it began."""

import asyncio
import json
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """Through senders when it is decoupled, as a list when it is not."""

    def initialize(self, args: dict[str, str]) -> None:
        """Notes which it is."""
        config = json.loads(args["model_config"])
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(config)

    async def execute(self, requests: list[Any]) -> Any:
        """Answers after the delays of all requests."""
        responses = [await _answer(request) for request in requests]
        if not self.decoupled:
            return responses
        for request, response in zip(requests, responses, strict=True):
            request.get_response_sender().send(response, FINAL)
        return None


async def _answer(request: Any) -> Any:
    delay = pb_utils.get_input_tensor_by_name(request, "DELAY_MS").as_numpy().ravel()[0]
    print(f"busy for {delay} ms!", flush=True)  # noqa: T201 (the scenario looks for it in the server's log)
    await asyncio.sleep(delay / 1000)
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([delay], np.int32))])
