"""ModelInfer: decode, one call to the engine, encode (rows 10.8-10.24). No task and no future per request."""

import functools

from naiad.core.inference import Cancellable, Inference
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.engine.api import Engine
from naiad.errors import InferenceError, unsupported
from naiad.protocol.codec.packed_strings import check
from naiad.protocol.codec.pool import Codec
from naiad.protocol.grpc.call import (
    Call,
    Metadata,
    OnResponse,
    Response,
    bug,
    context_of,
    rpc_status,
)
from naiad.protocol.grpc.codec import response_proto
from naiad.protocol.grpc.codec.large_messages import (
    MAYBE_LARGE,
    LargeRequest,
    decode,
    needs_process,
    takes_long,
)
from naiad.protocol.grpc.codec.request_proto import RequestReader
from naiad.protocol.grpc.forwarding import HeaderForwarding
from naiad.protocol.offload import OffloadedCall
from naiad.protocol.raw_tensors import unchecked


class ModelInfer:
    """The method.

    Args:
        engine: runs the requests.
        forwarding: which metadata become request parameters; None when none do.
        codec: decodes large messages; without it the loop does.
    """

    def __init__(
        self, engine: Engine, forwarding: HeaderForwarding | None, codec: Codec | None = None
    ) -> None:
        self._engine = engine
        self._forwarding = forwarding
        self._codec = codec
        self._reader = RequestReader()

    def __call__(self, body: bytes, call: Call, on_response: OnResponse) -> Cancellable | None:
        """A `call.Unary`; the checks come in Triton's order: version, model, decoupled, parameters, metadata, data."""
        reader = self._reader
        codec = self._codec if len(body) > MAYBE_LARGE else None
        try:
            if codec is not None and needs_process(body):
                return OffloadedCall(
                    codec,
                    functools.partial(decode, codec, body),
                    proceed=functools.partial(self._decoded, call, on_response),
                    fail=functools.partial(_fail, on_response),
                )
            incoming = reader.read(body)
            traits = self._engine.traits_of(incoming.model_name, incoming.model_version)
            if traits.decoupled:
                on_response(rpc_status(_decoupled(incoming.model_name)))
                return None
            request = reader.request(incoming)
            if codec is not None and unchecked(request.inputs):
                return OffloadedCall(
                    codec,
                    functools.partial(check, codec, request),
                    proceed=functools.partial(self._infer, call, on_response),
                    fail=functools.partial(_fail, on_response),
                )
            return self._infer(call, on_response, request)
        except InferenceError as error:
            on_response(rpc_status(error))
        except Exception as error:  # noqa: BLE001 - the client waits for a response
            on_response(bug(error, "ModelInfer"))
        return None

    def _decoded(
        self, call: Call, on_response: OnResponse, decoded: LargeRequest
    ) -> Inference | None:
        """Continue with a message that a codec process has decoded."""
        decoded.raise_if_unread()
        if self._engine.traits_of(decoded.model_name, decoded.model_version).decoupled:
            raise _decoupled(decoded.model_name)
        return self._infer(call, on_response, decoded.taken())

    def _infer(
        self, call: Call, on_response: OnResponse, request: InferRequest
    ) -> Inference | None:
        if self._forwarding is not None:
            metadata: Metadata = call.invocation_metadata() or ()
            request.parameters.update(self._forwarding.parameters(metadata))
        respond = functools.partial(_respond, on_response, self._codec)
        return self._engine.infer(request, respond, None, context_of(call))


def _decoupled(name: str) -> InferenceError:
    """The error of a model that takes streams only (row 10.9)."""
    return unsupported(
        f"ModelInfer RPC doesn't support models with decoupled transaction policy: '{name}' may answer many times, "
        "which takes a stream"
    )


def _fail(on_response: OnResponse, error: InferenceError) -> None:
    on_response(rpc_status(error))


def _respond(on_response: OnResponse, codec: Codec | None, response: InferResponse) -> None:
    """Called back by the engine, on the loop. Must not raise into it: others' answers may follow in the same turn."""
    answer: Response
    if response.error is not None:
        answer = rpc_status(response.error)
    else:
        try:
            if codec is not None and takes_long(response):
                OffloadedCall(
                    codec,
                    functools.partial(response_proto.encode, response),
                    proceed=on_response,
                    fail=functools.partial(_fail, on_response),
                )
                return
            answer = response_proto.encode(response)
        except InferenceError as error:
            answer = rpc_status(error)
        except Exception as error:  # noqa: BLE001 - as above
            answer = bug(error, "encoding the response")
    on_response(answer)
