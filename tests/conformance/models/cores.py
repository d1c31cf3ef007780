"""Answers with the processors that its instance may run on, and those of a thread that it starts."""

import os
import threading
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it


class TritonPythonModel:
    """Looks at its own processors."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response per request."""
        return [self._answer() for _ in requests]

    def _answer(self) -> Any:
        found = [*sorted(os.sched_getaffinity(0)), -1]
        thread = threading.Thread(target=lambda: found.extend(sorted(os.sched_getaffinity(0))))
        thread.start()
        thread.join()
        return pb_utils.InferenceResponse([pb_utils.Tensor("CORES", np.array(found, np.int32))])
