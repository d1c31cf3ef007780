"""Leaves a trace of its life in the log, and raises when finalized: that must affect no other model."""

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it


class TritonPythonModel:
    """Logs initialize and finalize."""

    def initialize(self, args: dict[str, str]) -> None:
        """Says so."""
        pb_utils.Logger.log_info("finalizing: initialize was called")

    def execute(self, requests: list[Any]) -> list[Any]:
        """A constant."""
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones(1, np.float32))])
            for _ in requests
        ]

    def finalize(self) -> None:
        """Says so, then fails."""
        print("finalizing: finalize was called", flush=True)  # noqa: T201 (at shutdown the logger may be gone)
        raise RuntimeError("finalize went wrong on purpose")
