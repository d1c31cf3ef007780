"""Answers with what it sees of each request and of itself, as JSON in the BYTES output REPORT.

An input DELAY_MS makes the whole execution take so long, once per request: queues form behind it. An execution that takes time prints
when it begins. With -n it takes until there is a file `go-n` beside the repository, and a moment longer: what waits may time out meanwhile.
"""

import json
import pathlib
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it

_TIMEOUT_S = 20
_MOMENT_S = 0.3


class TritonPythonModel:
    """Reports requests, batches and initialize's arguments."""

    def initialize(self, args: dict[str, str]) -> None:
        """Keeps the arguments for the reports."""
        self.args = args
        self.executions = 0
        config = json.loads(args["model_config"])
        self.batching = config["max_batch_size"] > 0
        self.outputs = [output["name"] for output in config["output"]]

    def execute(self, requests: list[Any]) -> list[Any]:
        """Sleeps as asked, then one report a request."""
        self.executions += 1
        for request in requests:
            delay = pb_utils.get_input_tensor_by_name(request, "DELAY_MS")
            if delay is not None and delay.as_numpy().any():
                print(f"busy in {self.args['model_name']}!", flush=True)  # noqa: T201 (scenarios look for it in the server's log)
                self._take(int(delay.as_numpy().ravel()[0]))
        return [
            self._answer(request, position, len(requests))
            for position, request in enumerate(requests)
        ]

    def _take(self, delay_ms: int) -> None:
        """Takes so long, or until the file appears."""
        go = pathlib.Path(self.args["model_repository"]).parents[1] / f"go{delay_ms}"
        until = time.monotonic() + _TIMEOUT_S
        while delay_ms < 0 and not go.exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(abs(delay_ms) / 1000 if delay_ms > 0 else _MOMENT_S)

    def _answer(self, request: Any, position: int, count: int) -> Any:
        inputs = {
            t.name(): [str(t.as_numpy().dtype), list(t.as_numpy().shape)] for t in request.inputs()
        }
        report = {
            "id": request.request_id(),
            "correlation": request.correlation_id(),
            "flags": request.flags(),
            "timeout": request.timeout(),
            "parameters": json.loads(request.parameters() or "{}"),
            "outputs": sorted(request.requested_output_names()),
            "inputs": inputs,
            "batch": count,
            "position": position,
            "execution": self.executions,
            "version": self.args["model_version"],
            "instance": self.args["model_instance_name"],
            "kind": self.args["model_instance_kind"],
        }
        rows = request.inputs()[0].as_numpy().shape[0] if self.batching and request.inputs() else 1
        values = np.full(
            (rows, 1) if self.batching else (1,), json.dumps(report).encode(), dtype=np.object_
        )
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, values) for name in self.outputs])
