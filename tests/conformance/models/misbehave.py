"""Does what the BYTES input MODE says: raises, answers wrongly, or answers with errors and parameters."""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it

_GOOD = np.array([1.0], dtype=np.float32)


class TritonPythonModel:
    """One behaviour a mode; the mode of the first request decides for things that concern the whole batch."""

    def execute(self, requests: list[Any]) -> Any:
        """Answers, or does not."""
        mode = _mode(requests[0])
        if mode == "raise":
            raise ValueError("execute went wrong on purpose")
        if mode == "not-a-list":
            return "no list"
        if mode == "none":
            return None
        if mode == "too-many":
            return [_good(), _good()]
        if mode == "too-few":
            return []
        if mode == "not-a-response":
            return ["a string"]
        return [_respond(_mode(request)) for request in requests]


def _mode(request: Any) -> str:
    return str(pb_utils.get_input_tensor_by_name(request, "MODE").as_numpy().ravel()[0].decode())


def _good() -> Any:
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", _GOOD)])


def _values(name: str, values: Any, **more: Any) -> Any:
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, values)], **more)


def _log(detail: str) -> Any:
    for level in ("info", "warn", "error", "verbose"):
        getattr(pb_utils.Logger, f"log_{level}")(f"a line of level {level}, {detail}")
    pb_utils.Logger.log(f"a line of no level, {detail}")
    pb_utils.Logger.log(f"a line of level by argument, {detail}", pb_utils.Logger.WARNING)
    return _good()


_SPECIAL = [np.nan, np.inf, -np.inf, 0.1, 1e30, -0.0, 16777216.0, 1e-7]
_SPECIAL_64 = [np.nan, 0.1, 1e300, -0.0, 1 / 3, 123456789012345680.0, 1.0]
_PARAMETERS = {"flag": True, "off": False, "count": 7, "low": -3, "text": "héllo"}

_RESPONSES: dict[str, Callable[[str], Any]] = {
    "good": lambda _detail: _good(),
    "error": lambda detail: pb_utils.InferenceResponse(
        [], error=pb_utils.TritonError(f"told to fail with {detail}")
    ),
    "code": lambda detail: _values(
        "OUT",
        _GOOD,
        error=pb_utils.TritonError(
            f"told to fail with {detail}", getattr(pb_utils.TritonError, detail)
        ),
    ),
    "unknown-output": lambda _detail: _values("NOT_DECLARED", _GOOD),
    "wrong-type": lambda _detail: _values("OUT", _GOOD.astype(np.int32)),
    "wrong-shape": lambda _detail: _values("OUT", np.zeros((2, 3), np.float32)),
    "no-outputs": lambda _detail: pb_utils.InferenceResponse([]),
    "parameters": lambda _detail: _values("OUT", _GOOD, parameters=_PARAMETERS),
    "bad-parameters": lambda _detail: _values("OUT", _GOOD, parameters={"list": [1]}),
    "special": lambda _detail: _values("OUT", np.array(_SPECIAL, np.float32)),
    "special64": lambda _detail: _values("OUT64", np.array(_SPECIAL_64)),
    "log": _log,
}


def _respond(mode: str) -> Any:
    kind, _, detail = mode.partition(":")
    return _RESPONSES[kind](detail)
