"""One gRPC stream without a transport, for tests: what a client asks, what it gets, and an engine that answers when told."""

import types
import typing

import numpy as np
from typing_extensions import override

from naiad.core.datatypes import FP32
from naiad.core.messages import service_pb2
from naiad.core.request import LATEST
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.errors import InferenceError
from naiad.protocol.codec.pool import Codec
from naiad.protocol.grpc.call import RpcStatus, Sent, in_one_piece
from naiad.protocol.grpc.methods import STREAM_INFER, Methods
from naiad.protocol.grpc.settings import GrpcSettings
from naiad.protocol.grpc.stream import InferStream
from tests.server.protocol.grpc.scripted_engine import (
    DECOUPLED,
    ScriptedEngine,
    SentMetadata,
    message,
    tensor,
)


class Engine(ScriptedEngine):
    """Answers when told; model "d" is decoupled, "m" is not."""

    def __init__(self) -> None:
        super().__init__(None)

    @override
    def look_up(self, name: str, version: int = LATEST) -> typing.Any:
        if name == "d":
            return types.SimpleNamespace(traits=DECOUPLED, infer=self.infer)
        return super().look_up(name, version)

    def respond(
        self,
        number: int,
        value: float = 1,
        *,
        final: bool = True,
        empty: bool = False,
        error: InferenceError | None = None,
    ) -> None:
        """Give a response to the request of that number."""
        request = self.requests[number]
        outputs = (
            NO_OUTPUTS if empty or error else [tensor("OUT", np.array([value], np.float32), FP32)]
        )
        response = InferResponse(
            request.model_name, 1, request.id, outputs, NO_PARAMETERS, error, final, empty
        )
        self.inferences[number].on_response(response)


class BidiStream:
    """One stream and what its client gets."""

    def __init__(
        self,
        *metadata: tuple[str, str],
        engine: ScriptedEngine | None = None,
        codec: Codec | None = None,
        **settings: typing.Any,
    ) -> None:
        self.engine = engine or Engine()
        self.sent: list[typing.Any] = []
        self.end_of: list[RpcStatus | None] = []
        self.capacity_calls = 0
        self.methods = Methods(self.engine, GrpcSettings(**settings), codec)
        refused = self.methods.admit(STREAM_INFER, metadata)
        if refused is not None:
            self.end_of.append(refused)
        stream = self.methods.streaming[STREAM_INFER](SentMetadata(*metadata), self)
        assert isinstance(stream, InferStream)
        self.stream = stream

    def send(self, message: Sent) -> None:
        assert not self.end_of
        body = in_one_piece(message)
        self.sent.append(service_pb2.ModelStreamInferResponse.FromString(body))

    def capacity(self) -> None:
        self.capacity_calls += 1

    def end(self, refused: RpcStatus | None) -> None:
        self.end_of.append(refused)

    def ask(self, request_id: str = "", *, model: str = "m", **parameters: typing.Any) -> None:
        request = message(model=model, id=request_id)
        for name, value in parameters.items():
            field = "bool_param" if isinstance(value, bool) else "string_param"
            setattr(request.parameters[name], field, value)
        self.stream.take(request.SerializeToString())

    def got(self) -> list[tuple[str, str, bool | None]]:
        """Of each response the request's id, the error, and whether it says that it is the last."""
        return [
            (
                each.infer_response.id,
                each.error_message,
                each.infer_response.parameters["triton_final_response"].bool_param
                if "triton_final_response" in each.infer_response.parameters
                else None,
            )
            for each in self.sent
        ]


def scripted(bidi_stream: BidiStream) -> Engine:
    """Its engine, which the test tells what to answer."""
    assert isinstance(bidi_stream.engine, Engine)
    return bidi_stream.engine
