"""Prints when an instance begins and ends, so that scenarios see which were made again; answers with how often it ran.

An input DELAY_MS makes an execution take so long. While there is a file `refuse-MODEL` beside the repository, no instance begins.
"""

import json
import pathlib
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it


class TritonPythonModel:
    """An instance that says when it begins and ends."""

    def initialize(self, args: dict[str, str]) -> None:
        """Refuses, or begins."""
        self.args = args
        self.executions = 0
        name = args["model_name"]
        if (pathlib.Path(args["model_repository"]).parents[1] / f"refuse-{name}").exists():
            raise RuntimeError(f"{name} refuses on purpose")
        print(f"begun: {name}!", flush=True)  # noqa: T201 (scenarios look for it in the server's log)

    def execute(self, requests: list[Any]) -> list[Any]:
        """Takes as long as asked, then one report a request."""
        self.executions += 1
        delay = pb_utils.get_input_tensor_by_name(requests[0], "DELAY_MS").as_numpy()
        if delay.any():
            print(f"busy in {self.args['model_name']}!", flush=True)  # noqa: T201 (as above)
            time.sleep(int(delay.ravel()[0]) / 1000)
        report = {"execution": self.executions, "version": self.args["model_version"]}
        values = np.full((1,), json.dumps(report).encode(), dtype=np.object_)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("REPORT", values)]) for _ in requests]

    def finalize(self) -> None:
        """Says that it ends."""
        print(f"ended: {self.args['model_name']}!", flush=True)  # noqa: T201 (as above)
