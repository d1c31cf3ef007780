"""How scenarios ask for streams, and what is compared of them."""

import contextlib
import json
import re
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import grpc
from google.protobuf import json_format
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.scenarios.wire import TIMEOUT_S, Answer, Target

STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer"


def generate(
    target: Target, body: Any, *, model: str = "stream", headers: Mapping[str, str] | None = None
) -> Answer:
    """A generate request; an error in a reply of status 200 stands under `error`, too."""
    reply = target.http(
        "POST",
        f"/v2/models/{model}/generate",
        body if isinstance(body, str | bytes) else json.dumps(body),
        headers,
    )
    answer = reply.answer("endpoint-load-metrics")
    if "error" in answer.get("json", ()):
        answer["error"] = answer.pop("json")["error"]
        answer["body"] = "JSON with ['error']"
    return answer


def events(target: Target, body: Any, *, model: str = "stream") -> Answer:
    """A generate_stream request: the status, the type, and each event; error messages that we extend are cut."""
    reply = target.http("POST", f"/v2/models/{model}/generate_stream", json.dumps(body))
    text = reply.body.decode()
    kind = reply.headers.get("content-type", "")
    answer: Answer = {
        "status": reply.status,
        "type": kind,
        "chunked": "content-length" not in reply.headers,
    }
    if not kind.startswith("text/event-stream"):
        return answer | {"error": text}
    pieces = text.split("\n\n")
    answer["whole"] = pieces.pop() == "" and all(piece.startswith("data: ") for piece in pieces)
    answer["events"] = [_cut(json.loads(piece[6:])) for piece in pieces]
    return answer


def _cut(event: dict[str, Any]) -> dict[str, Any]:
    """Errors and texts of exceptions up to the words that both servers say."""
    for name in ("error", "SEEN"):
        if isinstance(event.get(name), str) and not event[name].startswith("{"):
            event[name] = " ".join(event[name].split(". ")[0].split("\n")[0].split()[:9]).rstrip(
                ".:"
            )
    return event


def asked(
    script: str, request_id: str = "", /, model: str = "stream", **parameters: Any
) -> pb.ModelInferRequest:
    """A streamed request that plays a script."""
    message = pb.ModelInferRequest(model_name=model, id=request_id)
    message.inputs.add(name="SCRIPT", datatype="BYTES", shape=[1])
    text = script.encode()
    message.raw_input_contents.append(struct.pack("<I", len(text)) + text)
    for name, value in parameters.items():
        kind = "bool_param" if isinstance(value, bool) else "string_param"
        setattr(message.parameters[name], kind, value)
    return message


def talk(
    target: Target,
    *requests: pb.ModelInferRequest,
    metadata: Sequence[tuple[str, str]] = (),
    timeout_s: float = TIMEOUT_S,
) -> Answer:
    """Sends requests on one stream, half-closes, and gives every response and the status."""
    call = target.channel().stream_stream(
        STREAM_INFER,
        request_serializer=pb.ModelInferRequest.SerializeToString,
        response_deserializer=pb.ModelStreamInferResponse.FromString,
    )
    found: list[Any] = []
    try:
        found.extend(map(_plain, call(iter(requests), metadata=tuple(metadata), timeout=timeout_s)))
    except grpc.RpcError as error:
        return {"code": error.code().name, "responses": found, "error": error.details()}
    return {"code": "OK", "responses": found}


def _plain(response: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json_format.MessageToDict(response, preserving_proto_field_name=True)
    if "error_message" in plain:
        text = re.sub(r"^\[request id: [^]]*\] ", "", plain["error_message"])
        plain["error_message"] = " ".join(text.split()[:6]).rstrip(".,;:")
    return plain


def ids(answer: Answer, names: Iterable[str]) -> list[str]:
    """In which order the responses with these ids came."""
    came = [response["infer_response"].get("id", "") for response in answer["responses"]]
    return [one for one in came if one in names]


def disconnects(target: Target) -> Answer:
    """A client of generate_stream that closes its connection while the model works."""
    before = target.process.output().count("streaming: cancelled True")
    body = json.dumps({"SCRIPT": "1 cancelled end"}).encode()
    head = f"POST /v2/models/stream/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", target.process.ports.http), timeout=10) as peer:
        peer.sendall(head.encode() + body)
        got = b""
        while b"data: " not in got:
            got += peer.recv(65536)
    return {
        "cancelled": _cancelled(target, before),
        "alive": generate(target, {"SCRIPT": "1+end"})["status"],
    }


def cancels(target: Target) -> Answer:
    """A client that cancels its gRPC stream while the model works."""
    before = target.process.output().count("streaming: cancelled True")
    call = target.channel().stream_stream(
        STREAM_INFER, request_serializer=pb.ModelInferRequest.SerializeToString
    )
    under_way = call(iter([asked("1 cancelled end")]), timeout=10)
    next(under_way)
    under_way.cancel()
    with contextlib.suppress(grpc.RpcError):
        list(under_way)
    return {
        "code": under_way.code().name,
        "cancelled": _cancelled(target, before),
        "alive": talk(target, asked("1+end"))["code"],
    }


def _cancelled(target: Target, before: int) -> bool:
    until = time.monotonic() + 8
    while time.monotonic() < until:
        if target.process.output().count("streaming: cancelled True") > before:
            return True
        time.sleep(0.05)
    return False
