"""Gives each input back under its output's name (IN → OUT); an input that is absent gives no output."""

from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it


class TritonPythonModel:
    """Identity of every datatype."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response a request, no matter what is in it."""
        return [
            pb_utils.InferenceResponse(
                [
                    pb_utils.Tensor(t.name().replace("IN", "OUT", 1), t.as_numpy())
                    for t in request.inputs()
                ]
            )
            for request in requests
        ]
