"""ModelInfer: decode, one call to the engine, encode (rows 10.8-10.24). No task and no future per request."""

import functools

from naiad.core.inference import Cancellable
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.engine.api import Engine, Infers, ServedModel
from naiad.errors import InferenceError, unsupported
from naiad.protocol import regions
from naiad.protocol.codec.packed_strings import check
from naiad.protocol.codec.pool import Codec
from naiad.protocol.grpc.call import (
    ContextCall,
    OnRpcResponse,
    Response,
    RpcCall,
    as_inference_error,
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
from naiad.protocol.grpc.codec.request_parameters import forward_metadata
from naiad.protocol.grpc.codec.request_proto import Incoming, RequestReader
from naiad.protocol.header_pattern import HeaderPattern
from naiad.protocol.offload import OffloadedCall
from naiad.protocol.raw_tensors import unchecked


class ModelInfer:
    """The method. `forwarding` finds the metadata that become request parameters; the codec decodes large messages, without it the loop does."""

    def __init__(
        self, engine: Engine, forwarding: HeaderPattern | None, codec: Codec | None = None
    ) -> None:
        self._engine = engine
        self._forwarding = forwarding
        self._codec = codec
        self._reader = RequestReader()

    def __call__(
        self, body: bytes | memoryview, call: RpcCall, on_response: OnRpcResponse
    ) -> Cancellable | None:
        """A `call.Unary`; the checks come in Triton's order: version, model, decoupled, parameters, metadata, data."""
        codec = self._codec if len(body) > MAYBE_LARGE else None
        try:
            if codec is not None and needs_process(body):
                return OffloadedCall(
                    codec,
                    functools.partial(decode, codec, body),
                    proceed=functools.partial(self._decoded, call, on_response),
                    fail=functools.partial(_fail, on_response),
                )
            incoming = self._reader.read(body)
            model = self._look_up(call, incoming)
            request = incoming.request()
            if codec is not None and unchecked(request.inputs):
                return OffloadedCall(
                    codec,
                    functools.partial(check, codec, request),
                    proceed=functools.partial(self._infer, self._engine, call, on_response),
                    fail=functools.partial(_fail, on_response),
                )
            return self._infer(model, call, on_response, request)
        except Exception as error:  # noqa: BLE001 - the client waits for a response
            _fail(on_response, as_inference_error(error, "ModelInfer"))
        return None

    def _decoded(
        self, call: RpcCall, on_response: OnRpcResponse, decoded: LargeRequest
    ) -> Cancellable | None:
        """Continue with a message that a codec process has decoded."""
        decoded.raise_if_unread()
        model = self._look_up(call, decoded)
        return self._infer(model, call, on_response, decoded.request())

    def _look_up(self, call: RpcCall, incoming: Incoming | LargeRequest) -> ServedModel:
        """The model, which is noted for logs and traces; raises InferenceError if it does not serve, or takes streams only (row 10.9)."""
        engine, name = self._engine, incoming.model_name
        model = engine.look_up(name, incoming.model_version)
        if model.traits.decoupled:
            raise unsupported(
                f"ModelInfer RPC doesn't support models with decoupled transaction policy: '{name}' may answer many "
                "times, which takes a stream"
            )
        if type(call) is ContextCall:
            call.context.asks(name)
        elif engine.tracer.active:
            engine.tracer.passed(name)
        return model

    def _infer(
        self, model: Infers, call: RpcCall, on_response: OnRpcResponse, request: InferRequest
    ) -> Cancellable | None:
        if request.in_regions:
            proceed = functools.partial(self._infer, self._engine, call, on_response)
            offload = regions.offloaded(self._codec, functools.partial(_fail, on_response))
            return regions.bring(self._engine, self._codec, request, proceed, offload)
        if self._forwarding is not None:
            forward_metadata(call.invocation_metadata(), self._forwarding, request.parameters)
        respond = functools.partial(_respond, on_response, self._codec)
        context = call.context if type(call) is ContextCall else None
        return model.infer(request, respond, None, context)


def _fail(on_response: OnRpcResponse, error: InferenceError) -> None:
    on_response(rpc_status(error))


def _respond(on_response: OnRpcResponse, codec: Codec | None, response: InferResponse) -> None:
    """Called back by the engine, on the loop. Must not raise into it: others' answers may follow in the same turn."""
    answer: Response
    if response.error is not None:
        answer = rpc_status(response.error)
    else:
        try:
            if codec is not None and takes_long(response):
                OffloadedCall(
                    codec,
                    functools.partial(response_proto.encode_pieces, response),
                    proceed=on_response,
                    fail=functools.partial(_fail, on_response),
                )
                return
            answer = response_proto.encode_pieces(response)
        except Exception as error:  # noqa: BLE001 - as above
            answer = rpc_status(as_inference_error(error, "encoding the response"))
    on_response(answer)
