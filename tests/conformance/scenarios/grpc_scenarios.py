"""Builds scenarios of gRPC: requests of one input, and unary calls."""

from typing import Any

from google.protobuf.message import Message
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import FOUR


def request(
    model: str = "identity",
    *,
    raw: bytes | None = FOUR,
    name: str = "IN",
    datatype: str = "FP32",
    shape: tuple[int, ...] = (4,),
    version: str = "",
    **parameters: Any,
) -> Any:
    """A ModelInferRequest of one input, valid by default; parameters as (kind, value)."""
    message = pb.ModelInferRequest(model_name=model, model_version=version, id="g")
    message.inputs.add(name=name, datatype=datatype, shape=shape)
    if raw is not None:
        message.raw_input_contents.append(raw)
    for key, (kind, content) in parameters.items():
        setattr(message.parameters[key], kind, content)
    return message


def rpc(
    name: str,
    rows: str,
    method: str,
    message: Message | bytes,
    reply: type[Message] | None = None,
    *,
    code: str = "OK",
    says: str | None = None,
    mask: tuple[str, ...] = (),
    server: str = "main",
    expect: dict[str, Any] | None = None,
    metadata: tuple[tuple[str, str], ...] = (),
    service: str = "inference.GRPCInferenceService",
) -> Scenario:
    """A scenario of one unary call."""
    return Scenario(
        name=name,
        rows=tuple(rows.split()),
        ask=lambda target: target.call(method, message, service=service, metadata=metadata).answer(
            reply
        ),
        says=says,
        expect={"code": code, **(expect or {})},
        mask=mask,
        server=server,
    )


def inference(name: str, rows: str, message: Any, **more: Any) -> Scenario:
    """A scenario of one ModelInfer."""
    return rpc(name, rows, "ModelInfer", message, pb.ModelInferResponse, **more)
