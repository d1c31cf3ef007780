"""Adds up VALUE in each sequence, and reports what it sees of each request as JSON in the BYTES output REPORT.

DELAY_MS as in `describe`. A VALUE of -99 raises. With iterative sequences VALUE is how often the model sees the request.
"""

import json
import pathlib
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it

_TIMEOUT_S = 20
_MOMENT_S = 0.3
_RAISE = -99
_CONTROLS = ("START", "END", "READY", "CORRID")


class TritonPythonModel:
    """Reports requests of sequences."""

    def initialize(self, args: dict[str, str]) -> None:
        """Keeps the arguments for the reports."""
        self.args = args
        self.executions = 0
        self.sums: dict[Any, int] = {}
        self.rounds: dict[Any, int] = {}
        config = json.loads(args["model_config"])
        self.batching = config["max_batch_size"] > 0
        self.iterative = config["sequence_batching"].get("iterative_sequence", False)
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(config)

    def execute(self, requests: list[Any]) -> list[Any] | None:
        """Reports each request."""
        self.executions += 1
        ready = [request for request in requests if _value(request, "READY", 1)]
        for request in ready:
            delay = _value(request, "DELAY_MS", 0)
            if delay:
                print(f"busy in {self.args['model_name']}!", flush=True)  # noqa: T201 (scenarios look for it in the server's log)
                self._take(int(delay))
            if _value(request, "VALUE", 0) == _RAISE:
                raise ValueError("no such value")
        responses = [self._answer(*each, requests) for each in enumerate(requests)]
        if not self.decoupled:
            return responses
        for request, response in zip(requests, responses, strict=True):
            sender = request.get_response_sender()
            for _ in range(2):
                sender.send(response)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None

    def _take(self, delay_ms: int) -> None:
        go = pathlib.Path(self.args["model_repository"]).parents[1] / f"go{delay_ms}"
        until = time.monotonic() + _TIMEOUT_S
        while delay_ms < 0 and not go.exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(delay_ms / 1000 if delay_ms > 0 else _MOMENT_S)

    def _answer(self, row: int, request: Any, requests: list[Any]) -> Any:
        key = str(request.correlation_id())
        is_ready = bool(_value(request, "READY", 1))
        if request.flags() & 1:
            self.sums[key] = 0
        if is_ready:
            self.sums[key] = self.sums.get(key, 0) + int(_value(request, "VALUE", 0))
        if self.iterative and is_ready:
            self.rounds[key] = self.rounds.get(key, 0) + 1
            if self.rounds[key] < int(_value(request, "VALUE", 0)):
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                return None
        report = {
            "sum": self.sums.get(key),
            "row": row,
            "rows": len(requests),
            "null rows": sum(not _value(each, "READY", 1) for each in requests),
            "flags": request.flags(),
            "correlation": key if not self.iterative else "",
            "execution": self.executions,
            "instance": self.args["model_instance_name"],
            "rounds": self.rounds.pop(key, 0),
            "controls": {name: _shown(request, name) for name in _CONTROLS},
        }
        shape = (1, 1) if self.batching else (1,)
        text = np.array([json.dumps(report).encode()], dtype=object).reshape(shape)
        return pb_utils.InferenceResponse([pb_utils.Tensor("REPORT", text)])


def _value(request: Any, name: str, default: float) -> Any:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy().ravel()[0]


def _shown(request: Any, name: str) -> Any:
    """A control as it came: datatype, shape and value."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        return None
    array = tensor.as_numpy()
    value = array.ravel()[0]
    text = value.decode() if isinstance(value, bytes) else str(value)
    return [str(array.dtype), list(array.shape), text]
