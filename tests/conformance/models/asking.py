"""Asks other models: `first` with the trace of its own request, `second` without, and `first` once more for many responses."""

from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it


class TritonPythonModel:
    """OUT is IN by way of the three."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response a request."""
        return [_answer(request) for request in requests]


def _answer(request: Any) -> Any:
    given = pb_utils.get_input_tensor_by_name(request, "IN")
    for model, more in (
        ("first", {"trace": request.trace(), "request_id": "inner"}),
        ("second", {}),
        ("first", {"trace": request.trace()}),
    ):
        call = pb_utils.InferenceRequest(
            model_name=model, requested_output_names=["OUT"], inputs=[given], **more
        )
        responses = list(call.exec(decoupled=True)) if "request_id" in more else [call.exec()]
        out = pb_utils.get_output_tensor_by_name(responses[0], "OUT")
        given = pb_utils.Tensor("IN", out.as_numpy())
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", given.as_numpy())])
