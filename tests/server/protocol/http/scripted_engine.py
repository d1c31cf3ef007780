"""A scripted engine, and what tests check in a reply."""

import asyncio
import collections.abc
import typing

import numpy as np
import orjson
from typing_extensions import override

from naiad.core.datatypes import FP32, DataType
from naiad.core.inference import OnResponse
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
from naiad.errors import InferenceError
from naiad.metrics.statistics import ModelStatistics
from naiad.protocol.http.message import HttpReply
from tests.support.engines import EngineOfOneModel

PLAIN = ModelTraits(
    decoupled=False,
    max_batch_size=8,
    inputs=(TensorMetadata(name="INPUT0", datatype=FP32, shape=(4,)),),
)


def tensor(name: str, datatype: DataType, values: collections.abc.Sequence[typing.Any]) -> Tensor:
    """A tensor of rank 1."""
    array = np.empty(len(values), dtype=datatype.dtype)
    array[:] = values
    return Tensor(name, datatype, array.shape, array)


def response(*outputs: Tensor, request_id: str = "") -> InferResponse:
    """A successful response."""
    return InferResponse("m", 1, request_id, list(outputs), NO_PARAMETERS)


def failure(error: InferenceError, *, request_id: str = "") -> InferResponse:
    """A failed response."""
    return InferResponse("m", 1, request_id, NO_OUTPUTS, NO_PARAMETERS, error)


class ScriptedEngine(EngineOfOneModel):
    """Knows one model; keeps requests, answers when told, or at once when given an answer before."""

    def __init__(self, traits: ModelTraits = PLAIN, *, model: str = "m") -> None:
        super().__init__(traits, model=model)
        self.answer: InferResponse | None = None

    @property
    def request(self) -> InferRequest:
        """The only request so far."""
        (request,) = self.requests
        return request

    @property
    def callbacks(self) -> list[OnResponse]:
        """Of the requests that were not answered at once."""
        return [inference.on_response for inference in self.inferences]

    @override
    def answer_at_once(self, _request: InferRequest) -> InferResponse | None:
        return self.answer

    def server_metadata(self) -> ServerMetadata:
        return ServerMetadata(name="triton", version="0.1.0", extensions=("statistics",))

    def model_metadata(self, name: str, version: int = LATEST) -> ModelMetadata:
        self.find(name, version)
        tensors = (TensorMetadata(name="INPUT0", datatype=FP32, shape=(-1, 4)),)
        return ModelMetadata(
            name=name,
            versions=(1, 3) if version == LATEST else (version,),
            platform="onnxruntime_onnx",
            inputs=tensors,
            outputs=(),
        )

    def statistics(self, name: str = "", version: int = LATEST) -> list[ModelVersionStatistics]:
        self.find(name or self.model, version)
        return [ModelVersionStatistics(name=self.model, version=1, statistics=ModelStatistics())]

    async def index(self, *, ready_only: bool = False) -> list[IndexEntry]:
        ready = IndexEntry(name=self.model, version=1, state="READY")
        return [ready] if ready_only else [ready, IndexEntry(name="never_loaded")]


class Replies:
    """Collects what is called back; a test expects exactly one."""

    def __init__(self) -> None:
        self.all: list[HttpReply] = []
        self._arrived = asyncio.Event()

    def __call__(self, reply: HttpReply) -> None:
        self.all.append(reply)
        self._arrived.set()

    async def arrived(self) -> HttpReply:
        """The one reply, once it is there."""
        await self._arrived.wait()
        return self.only

    @property
    def only(self) -> HttpReply:
        """The one reply."""
        (reply,) = self.all
        return reply


def body_of(reply: HttpReply) -> bytes:
    """A reply's whole body."""
    return b"".join(reply.body)


def json_of(reply: HttpReply) -> typing.Any:
    """A reply's body as JSON."""
    return orjson.loads(body_of(reply))


def error_of(reply: HttpReply) -> str:
    """The message of an error reply; its body holds nothing else."""
    members = json_of(reply)
    assert list(members) == ["error"]
    assert reply.headers[0] == (b"Content-Type", b"application/json")
    message = members["error"]
    assert isinstance(message, str)
    return message


def header_of(reply: HttpReply, name: bytes) -> bytes | None:
    """A reply's header."""
    return dict(reply.headers).get(name)
