"""ModelInfer: decode, one call to the engine, encode (rows 10.8-10.24). No task and no future a request."""

import collections.abc
import functools

from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.engine.api import Engine
from naiad.errors import InferenceError, unsupported
from naiad.protocol.grpc import response_proto
from naiad.protocol.grpc.call import Answer, Call, Metadata, OnAnswer, bug, refusal
from naiad.protocol.grpc.forwarding import HeaderForwarding
from naiad.protocol.grpc.request_proto import RequestReader


class ModelInfer:
    """The method.

    Args:
        engine: answers.
        forwarding: which metadata become request parameters; None when none do.
    """

    def __init__(self, engine: Engine, forwarding: HeaderForwarding | None) -> None:
        self._engine = engine
        self._forwarding = forwarding
        self._reader = RequestReader()

    def __call__(self, body: bytes, call: Call, on_answer: OnAnswer) -> Inference | None:
        """A `call.Unary`; the checks come in the reference's order: version, model, decoupled, parameters, metadata, data."""
        reader = self._reader
        try:
            incoming = reader.read(body)
            shape = self._engine.shape_of(incoming.model_name, incoming.model_version)
            if shape.decoupled:
                on_answer(refusal(_decoupled(incoming.model_name)))
                return None
            request = reader.request(incoming)
            if self._forwarding is not None:
                metadata: Metadata = call.invocation_metadata() or ()
                request.parameters.update(self._forwarding.parameters(metadata))
            return self._engine.infer(request, functools.partial(_answer, on_answer))
        except InferenceError as error:
            on_answer(refusal(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            on_answer(bug(error, "ModelInfer"))
        return None


def _decoupled(name: str) -> InferenceError:
    """Row 10.9."""
    return unsupported(
        f"ModelInfer RPC doesn't support models with decoupled transaction policy: '{name}' may answer many times, "
        "which takes a stream"
    )


def _answer(on_answer: collections.abc.Callable[[Answer], None], response: InferResponse) -> None:
    """Called back by the engine, on the loop. Must not raise into it: others' answers may follow in the same turn."""
    answer: Answer
    if response.error is not None:
        answer = refusal(response.error)
    else:
        try:
            answer = response_proto.encode(response)
        except InferenceError as error:
            answer = refusal(error)
        except Exception as error:  # noqa: BLE001 - as above
            answer = bug(error, "encoding the response")
    on_answer(answer)
