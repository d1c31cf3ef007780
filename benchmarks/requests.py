"""The requests that the benchmark repeats: one row, in JSON, in binary and as a protobuf message."""

import dataclasses
import json
import typing

import numpy as np

from benchmarks.load import HttpRequest
from naiad.core.messages import service_pb2
from naiad.core.tensor import pack

GRPC_INFER = "/inference.GRPCInferenceService/ModelInfer"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One input for one model.

    Attributes:
        model: its name.
        tensor: the input's name.
        datatype: the input's wire datatype.
        values: [1, …]; the row; objects of type `bytes` for BYTES.
        output: the output's name.
    """

    model: str
    tensor: str
    datatype: str
    values: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"
    output: str

    def json(self, address: str) -> HttpRequest:
        """JSON in, JSON out."""
        body = {
            "inputs": [
                {
                    "name": self.tensor,
                    "datatype": self.datatype,
                    "shape": list(self.values.shape),
                    "data": [_printable(value) for value in self.values.reshape(-1).tolist()],
                }
            ]
        }
        return HttpRequest(
            url=self._url(address),
            body=json.dumps(body).encode(),
            headers=(("Content-Type", "application/json"),),
        )

    def binary(self, address: str) -> HttpRequest:
        """Binary in, binary out."""
        raw = self._raw()
        head = json.dumps(
            {
                "inputs": [
                    {
                        "name": self.tensor,
                        "datatype": self.datatype,
                        "shape": list(self.values.shape),
                        "parameters": {"binary_data_size": len(raw)},
                    }
                ],
                "outputs": [{"name": self.output, "parameters": {"binary_data": True}}],
            }
        ).encode()
        return HttpRequest(
            url=self._url(address),
            body=head + raw,
            headers=(
                ("Content-Type", "application/octet-stream"),
                ("Inference-Header-Content-Length", str(len(head))),
            ),
        )

    def message(self) -> bytes:
        """A serialised ModelInferRequest with raw contents."""
        request = service_pb2.ModelInferRequest(model_name=self.model)
        request.inputs.add(name=self.tensor, datatype=self.datatype, shape=self.values.shape)
        request.raw_input_contents.append(self._raw())
        serialised: bytes = request.SerializeToString()
        return serialised

    def flat(self) -> "Sample":
        """The same without a batch dimension."""
        return dataclasses.replace(self, values=self.values[0])

    def _raw(self) -> bytes:
        """The values as binary data."""
        if self.datatype != "BYTES":
            return self.values.tobytes()
        packed: bytes = pack(self.values).tobytes()
        return packed

    def _url(self, address: str) -> str:
        return f"http://{address}/v2/models/{self.model}/infer"


def small(model: str) -> Sample:
    """[1,4] FP32 for `identity` and `tiny`."""
    return Sample(
        model=model,
        tensor="x",
        datatype="FP32",
        values=np.array([[1.5, 2.5, 3.5, 4.5]], np.float32),
        output="y",
    )


def strings(count: int) -> Sample:
    """[1,count] BYTES for `strings`, 20 bytes each."""
    values = np.array([[b"%020d" % number for number in range(count)]], dtype=object)
    return Sample(model="strings", tensor="x", datatype="BYTES", values=values, output="y")


def _printable(value: typing.Any) -> typing.Any:
    return value.decode() if isinstance(value, bytes) else value


def file_bytes() -> Sample:
    """[1,2048] INT32 for `magika`."""
    values = np.random.default_rng(3).integers(0, 256, (1, 2048), np.int32)
    return Sample(
        model="magika", tensor="bytes", datatype="INT32", values=values, output="target_label"
    )


def wide(mebibytes: int) -> Sample:
    """One row of FP32 for `wide`, so large."""
    values = np.ones((1, mebibytes << 18), np.float32)
    return Sample(model="wide", tensor="x", datatype="FP32", values=values, output="y")
