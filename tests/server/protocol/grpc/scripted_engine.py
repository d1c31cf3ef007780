"""A scripted engine, and requests in one line each."""

import collections.abc
import typing

import numpy as np
from typing_extensions import override

from naiad.core.datatypes import BYTES, FP32
from naiad.core.messages import service_pb2
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.engine.api import (
    IndexEntry,
    ModelMetadata,
    ModelTraits,
    ModelVersionStatistics,
    ServerMetadata,
    TensorMetadata,
)
from naiad.errors import InferenceError, invalid
from naiad.metrics.statistics import ModelStatistics
from naiad.protocol.grpc.call import Metadata, Response, RpcStatus, in_one_piece
from tests.support.engines import EngineOfOneModel

PLAIN = ModelTraits(decoupled=False, max_batch_size=8, inputs=())
DECOUPLED = ModelTraits(decoupled=True, max_batch_size=0, inputs=())


def echo(request: InferRequest) -> InferResponse:
    """Each input back under its own name; a fault as the error that the real engine makes of it."""
    for tensor in request.inputs:
        if tensor.fault is not None:
            return failed(request, invalid(request.label + tensor.fault))
    return InferResponse(
        request.model_name, 1, request.id, list(request.inputs), request.parameters
    )


def failed(request: InferRequest, error: InferenceError) -> InferResponse:
    """The response of a refused request."""
    return InferResponse(request.model_name, 1, request.id, NO_OUTPUTS, NO_PARAMETERS, error)


class ScriptedEngine(EngineOfOneModel):
    """Knows one model, "m"; keeps requests, and answers at once by `answer`, or when told if that is None."""

    def __init__(
        self,
        answer: collections.abc.Callable[[InferRequest], InferResponse] | None = echo,
        *,
        traits: ModelTraits = PLAIN,
    ) -> None:
        super().__init__(traits)
        self.answer = answer
        self.entries: list[IndexEntry] = []
        self.counted = ModelStatistics()

    @override
    def answer_at_once(self, request: InferRequest) -> InferResponse | None:
        return None if self.answer is None else self.answer(request)

    def server_metadata(self) -> ServerMetadata:
        return ServerMetadata(
            name="triton", version="0.1.0", extensions=("statistics", "parameters")
        )

    def model_metadata(self, name: str, version: int = LATEST) -> ModelMetadata:
        self.find(name, version)
        return ModelMetadata(
            name=name,
            versions=(1, 3) if version == LATEST else (version,),
            platform="onnxruntime_onnx",
            inputs=(TensorMetadata(name="IN", datatype=FP32, shape=(-1, 4)),),
            outputs=(TensorMetadata(name="OUT", datatype=BYTES, shape=(-1, 1)),),
        )

    def statistics(self, name: str = "", version: int = LATEST) -> list[ModelVersionStatistics]:
        self.find(name or "m", version)
        return [ModelVersionStatistics(name="m", version=2, statistics=self.counted)]

    async def index(self, *, ready_only: bool = False) -> list[IndexEntry]:
        return [entry for entry in self.entries if entry.state == "READY" or not ready_only]


class Answers:
    """Collects what is called back; a test expects exactly one."""

    def __init__(self) -> None:
        self.all: list[Response] = []

    def __call__(self, answer: Response) -> None:
        self.all.append(answer)

    @property
    def message(self) -> bytes:
        """The one answer, which is a message."""
        (answer,) = self.all
        assert not isinstance(answer, RpcStatus), answer
        return in_one_piece(answer)

    @property
    def refusal(self) -> RpcStatus:
        """The one answer, which is a refusal."""
        (answer,) = self.all
        assert isinstance(answer, RpcStatus), answer
        return answer


class SentMetadata:
    """A call that brought this metadata."""

    def __init__(self, *metadata: tuple[str, str | bytes]) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    def peer(self) -> str:
        return ""


def message(*, model: str = "m", **fields: typing.Any) -> typing.Any:
    """A ModelInferRequest without inputs."""
    return service_pb2.ModelInferRequest(model_name=model, **fields)


def add_input(
    request: typing.Any,
    name: str,
    datatype: str,
    shape: collections.abc.Sequence[int],
    raw: bytes | None = None,
    **contents: typing.Any,
) -> typing.Any:
    """Add an input with raw values, or with typed contents."""
    added = request.inputs.add(name=name, datatype=datatype, shape=shape)
    if raw is not None:
        request.raw_input_contents.append(raw)
    if contents:
        added.contents.CopyFrom(service_pb2.InferTensorContents(**contents))
    return added


def small_request(*, request_id: str = "", value: float = 1.0) -> bytes:
    """Two FP32 inputs of shape [1,4], raw."""
    request = message(id=request_id)
    add_input(request, "A", "FP32", [1, 4], np.full(4, value, np.float32).tobytes())
    add_input(request, "B", "FP32", [1, 4], np.arange(4, dtype=np.float32).tobytes())
    return typing.cast("bytes", request.SerializeToString())


def tensor(name: str, array: "np.ndarray[typing.Any, typing.Any]", datatype: typing.Any) -> Tensor:
    """A tensor of the array's shape."""
    return Tensor(name, datatype, array.shape, array)
