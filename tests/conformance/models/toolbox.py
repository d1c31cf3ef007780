"""Tries the helpers of `triton_python_backend_utils` inside the server and answers with what they gave, as JSON.

The BYTES input PROBE names one of the probes below. A probe that raises answers with the exception's class.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it

_FLOATS = np.arange(6, dtype=np.float32).reshape(2, 3)


class TritonPythonModel:
    """Answers one probe a request."""

    def initialize(self, args: dict[str, str]) -> None:
        """Keeps the arguments for the probes."""
        self.args = args
        self.config = json.loads(args["model_config"])

    def execute(self, requests: list[Any]) -> list[Any]:
        """Runs the probe that each request names."""
        responses = []
        for request in requests:
            probe = (
                pb_utils.get_input_tensor_by_name(request, "PROBE").as_numpy().ravel()[0].decode()
            )
            try:
                found = _PROBES[probe](self, request)
            except Exception as error:  # noqa: BLE001 (the answer is which one)
                found = {"raised": type(error).__name__}
            text = np.array(
                [json.dumps(found, sort_keys=True, default=str).encode()], dtype=np.object_
            )
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("REPORT", text)]))
        return responses


def _tensor(_model: TritonPythonModel, _request: Any) -> Any:
    tensor = pb_utils.Tensor("T", _FLOATS)
    return {
        "name": tensor.name(),
        "shape": list(tensor.shape()),
        "cpu": tensor.is_cpu(),
        "values": tensor.as_numpy().tolist(),
        "numpy": str(tensor.as_numpy().dtype),
        "device": list(tensor.__dlpack_device__()),
    }


def _tensor_dtypes(_model: TritonPythonModel, _request: Any) -> Any:
    kinds = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64".split()  # noqa: SIM905 (a row of words)
    return {kind: str(pb_utils.Tensor("T", np.zeros(1, kind)).as_numpy().dtype) for kind in kinds}


def _bytes_tensor(_model: TritonPythonModel, _request: Any) -> Any:
    values = pb_utils.Tensor("T", np.array([[b"a\0b", "é".encode()]], dtype=np.object_)).as_numpy()
    return {
        "values": [v.hex() for v in values.ravel()],
        "shape": list(values.shape),
        "dtype": str(values.dtype),
    }


def _dlpack(_model: TritonPythonModel, _request: Any) -> Any:
    again = pb_utils.Tensor.from_dlpack("U", pb_utils.Tensor("T", _FLOATS).to_dlpack())
    return [again.name(), again.as_numpy().tolist(), list(again.shape())]


def _helpers(model: TritonPythonModel, request: Any) -> Any:
    response = pb_utils.InferenceResponse([pb_utils.Tensor("A", _FLOATS)])
    config = model.config
    return {
        "absent": pb_utils.get_input_tensor_by_name(request, "NOT_THERE"),
        "output": pb_utils.get_output_tensor_by_name(response, "A").name(),
        "no output": pb_utils.get_output_tensor_by_name(response, "B"),
        "input config": pb_utils.get_input_config_by_name(config, "PROBE")["data_type"],
        "no input config": pb_utils.get_input_config_by_name(config, "NOT_THERE"),
        "output config": pb_utils.get_output_config_by_name(config, "REPORT")["dims"],
        "no output config": pb_utils.get_output_config_by_name(config, "NOT_THERE"),
        "decoupled": pb_utils.using_decoupled_model_transaction_policy(config),
    }


def _types(_model: TritonPythonModel, _request: Any) -> Any:
    return {
        "from string": pb_utils.triton_string_to_numpy("TYPE_FP16").__name__,
        "bool": pb_utils.triton_string_to_numpy("TYPE_BOOL").__name__,
        "string": pb_utils.triton_string_to_numpy("TYPE_STRING").__name__,
        "to numpy": pb_utils.triton_to_numpy_type(11).__name__,
        "from numpy": int(pb_utils.numpy_to_triton_type(np.int64)),
        "from object": int(pb_utils.numpy_to_triton_type(np.object_)),
    }


def _serialize(_model: TritonPythonModel, _request: Any) -> Any:
    packed = pb_utils.serialize_byte_tensor(np.array([b"ab", b"", b"\0"], dtype=np.object_))
    raw = packed.item() if hasattr(packed, "item") else packed
    return [raw.hex(), [v.hex() for v in pb_utils.deserialize_bytes_tensor(raw)]]


def _response(_model: TritonPythonModel, _request: Any) -> Any:
    good = pb_utils.InferenceResponse([pb_utils.Tensor("A", _FLOATS)], parameters={"k": 1})
    bad = pb_utils.InferenceResponse(
        error=pb_utils.TritonError("no", pb_utils.TritonError.NOT_FOUND)
    )
    return {
        "outputs": [t.name() for t in good.output_tensors()],
        "good": good.has_error(),
        "bad": bad.has_error(),
        "message": bad.error().message(),
        "code": int(bad.error().code()) == int(pb_utils.TritonError.NOT_FOUND),
        "default": int(pb_utils.TritonError("x").code()) == int(pb_utils.TritonError.INTERNAL),
        "parameters": json.loads(good.parameters()),
    }


def _request_api(_model: TritonPythonModel, request: Any) -> Any:
    return {
        "id": request.request_id(),
        "correlation": request.correlation_id(),
        "flags": request.flags(),
        "timeout": request.timeout(),
        "parameters": request.parameters(),
        "outputs": list(request.requested_output_names()),
        "inputs": [t.name() for t in request.inputs()],
        "cancelled": request.is_cancelled(),
    }


def _arguments(model: TritonPythonModel, _request: Any) -> Any:
    found = {k: v for k, v in model.args.items() if k not in {"model_config", "model_repository"}}
    found["strings"] = str(all(isinstance(v, str) for v in model.args.values()))
    found["repository"] = model.args["model_repository"].rsplit("/", 1)[-1]
    return {**found, "model dir": pb_utils.get_model_dir().rsplit("/", 2)[-2:]}


def _config(model: TritonPythonModel, _request: Any) -> Any:
    return model.config


def _sibling(_model: TritonPythonModel, _request: Any) -> Any:
    import beside_the_model  # type: ignore[import-not-found]  # noqa: PLC0415  # lies in the model's folder

    return beside_the_model.ANSWER


_PROBES: dict[str, Callable[[TritonPythonModel, Any], Any]] = {
    "tensor": _tensor,
    "tensor-dtypes": _tensor_dtypes,
    "bytes-tensor": _bytes_tensor,
    "dlpack": _dlpack,
    "helpers": _helpers,
    "types": _types,
    "serialize": _serialize,
    "response": _response,
    "request": _request_api,
    "arguments": _arguments,
    "config": _config,
    "sibling": _sibling,
    "triton-dtype": lambda _m, _r: int(pb_utils.Tensor("T", _FLOATS).triton_dtype()),
    "empty-name": lambda _m, _r: pb_utils.Tensor("", _FLOATS).name(),
    "string-dlpack": lambda _m, _r: str(
        pb_utils.Tensor("T", np.array([b"x"], np.object_)).to_dlpack()
    ),
    "non-contiguous": lambda _m, _r: pb_utils.Tensor("T", _FLOATS.T).as_numpy().tolist(),
    "non-contiguous-dlpack": lambda _m, _r: pb_utils.Tensor.from_dlpack("T", _FLOATS.T).name(),
    "error-not-triton": lambda _m, _r: pb_utils.InferenceResponse([], error="text").has_error(),
}
