"""How scenarios speak to a server: bytes out, bytes in, and nothing in between that repairs a request.

HTTP goes through http.client, or over a bare socket where the request itself is the point. gRPC goes through grpcio
with tritonclient's messages, serialised by the scenario, so that a message can also be one that no client would build.
"""

import base64
import http.client
import json
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message
from tritonclient.grpc import service_pb2 as pb

from tests.reference.process import ServerProcess

TIMEOUT_S = 15.0

Answer = dict[str, Any]
"""What a server answered, as nested plain values; compared leaf by leaf."""


@dataclass(frozen=True)
class Target:
    """One running server, as a scenario sees it."""

    process: ServerProcess
    channels: dict[str, grpc.Channel] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`reference` or `naiad`."""
        return self.process.program.name

    def http(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        port: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> "Reply":
        """Sends one request on a connection of its own and reads the whole reply."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", port or self.process.ports.http, timeout=timeout_s
        )
        try:
            data = body.encode() if isinstance(body, str) else body
            connection.request(method, path, body=data, headers=dict(headers or {}))
            reply = connection.getresponse()
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def infer(
        self,
        model: str,
        request: Any,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> "Reply":
        """POSTs an inference request; anything but bytes and text is made JSON."""
        body = request if isinstance(request, bytes | str) else json.dumps(request)
        return self.http("POST", f"/v2/models/{model}/infer", body, headers, timeout_s=timeout_s)

    def raw(self, data: bytes, *, port: int | None = None, wait_s: float = TIMEOUT_S) -> bytes:
        """Sends bytes over a bare socket and gives all bytes that come back until the server closes it."""
        with socket.create_connection(
            ("127.0.0.1", port or self.process.ports.http), timeout=wait_s
        ) as peer:
            peer.sendall(data)
            received = b""
            deadline = time.monotonic() + wait_s
            while time.monotonic() < deadline:
                piece = peer.recv(65536)
                if not piece:
                    break
                received += piece
            return received

    def channel(self, kind: str = "plain") -> grpc.Channel:
        """The gRPC channel of a scenario's server, opened once."""
        if kind not in self.channels:
            options = [("grpc.max_receive_message_length", -1), ("grpc.enable_retries", 0)]
            self.channels[kind] = grpc.insecure_channel(self.process.grpc, options=options)
        return self.channels[kind]

    def call(
        self,
        method: str,
        message: Message | bytes,
        *,
        service: str = "inference.GRPCInferenceService",
        metadata: Sequence[tuple[str, str]] = (),
        timeout_s: float = TIMEOUT_S,
        compression: grpc.Compression | None = None,
    ) -> "GrpcReply":
        """One unary call with serialised bytes; errors become the reply's code and message."""
        call: Callable[..., Any] = self.channel().unary_unary(f"/{service}/{method}")
        data = message if isinstance(message, bytes) else message.SerializeToString()
        try:
            reply, _ = call.with_call(  # type: ignore[attr-defined]  # grpc's multicallable has no types
                data, timeout=timeout_s, metadata=tuple(metadata), compression=compression
            )
        except grpc.RpcError as error:
            return GrpcReply(error.code().name, error.details() or "", b"")
        return GrpcReply("OK", "", reply)

    def report(
        self, model: str, delay_ms: int = 0, *, batch: bool = False, **parameters: Any
    ) -> Answer:
        """Asks a `describe` model what it sees. Gives its report, or `{"status": …, "error": …}`."""
        shape = [1, 1] if batch else [1]
        request: dict[str, Any] = {"inputs": [value("DELAY_MS", "INT32", shape, [delay_ms])]}
        if parameters:
            request["parameters"] = parameters
        return self.infer(model, request).report()

    def close(self) -> None:
        """Closes what is open on this side."""
        for channel in self.channels.values():
            channel.close()
        self.channels.clear()


@dataclass(frozen=True)
class Reply:
    """One HTTP reply; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def answer(self, *names: str) -> Answer:
        """What is compared: status, content type, the JSON part, the binary part in hex, and the headers named.

        Of an error reply its type is left out (2.51 says text/plain for some, rows 1.2 and 1.9 JSON; one scenario
        of its own holds that), and its text stands under `error`, where `Scenario.says` treats it.
        """
        found: Answer = {"status": self.status}
        for name in names:
            found[f"header {name}"] = self.headers.get(name.lower())
        if self.status >= http.HTTPStatus.BAD_REQUEST:
            found["body"], found["error"] = self._error()
            return found
        if self.body:
            found["type"] = self.headers.get("content-type", "").replace("; ", ";").lower()
        length = self.headers.get("inference-header-content-length")
        head = self.body if length is None else self.body[: int(length)]
        if found.get("type") in {"application/json", "application/octet-stream"}:
            found["json"] = json.loads(head.decode("utf-8", "surrogateescape"))
        elif head:
            found["text"] = head.decode("utf-8", "replace")
        if length is not None:
            found["binary"] = self.body[int(length) :].hex()
        return found

    def _error(self) -> tuple[str, str]:
        if not self.body:
            return "empty", ""
        try:
            content = json.loads(self.body)
        except ValueError:
            return "no JSON", self.body.decode("utf-8", "replace")
        if not isinstance(content, dict):
            return "JSON, but no object", str(content)
        return f"JSON with {sorted(content)}", str(content.get("error"))

    def report(self) -> Answer:
        """The first element of the output REPORT, which `describe` and `toolbox` fill with JSON."""
        if self.status != http.HTTPStatus.OK:
            return self.answer()
        outputs = {output["name"]: output for output in json.loads(self.body)["outputs"]}
        return {"status": self.status, "report": json.loads(outputs["REPORT"]["data"][0])}


@dataclass(frozen=True)
class GrpcReply:
    """The outcome of a unary call: the code's name, the error's message, the reply's bytes."""

    code: str
    message: str
    body: bytes

    def answer(self, kind: type[Message] | None = None) -> Answer:
        """What is compared: the code, and the reply's fields or the error's message (under `error`)."""
        found: Answer = {"code": self.code}
        if self.code != "OK":
            found["error"] = self.message
        elif kind is not None:
            message = kind()
            message.ParseFromString(self.body)
            found["message"] = json_format.MessageToDict(message, preserving_proto_field_name=True)
        return found

    def report(self) -> Answer:
        """What `describe` reports, or the error."""
        if self.code != "OK":
            return self.answer()
        message = pb.ModelInferResponse()
        message.ParseFromString(self.body)
        names = [output.name for output in message.outputs]
        raw = message.raw_output_contents[names.index("REPORT")]
        return {"code": "OK", "report": json.loads(raw[4:])}


def value(
    name: str, datatype: str, shape: list[int], data: Any, **parameters: Any
) -> dict[str, Any]:
    """One input of a JSON request; `data=None` leaves the member out."""
    found: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
    if data is not None:
        found["data"] = data
    if parameters:
        found["parameters"] = parameters
    return found


def four(data: Any = (1, 2, 3, 4), shape: Sequence[int] = (4,), **more: Any) -> dict[str, Any]:
    """A request for `identity`, valid by default; `more` are further top-level members."""
    return {"inputs": [value("IN", "FP32", list(shape), list(data))], **more}


FOUR = struct.pack("<4f", 1, 2, 3, 4)
"""The binary form of what `four` sends."""


def with_binary(request: Any, *blobs: bytes) -> tuple[bytes, dict[str, str]]:
    """A body of JSON and binary parts, and the header that says where one ends."""
    head = json.dumps(request).encode()
    return head + b"".join(blobs), {"Inference-Header-Content-Length": str(len(head))}


def strings(*values: bytes) -> bytes:
    """BYTES elements as they are on the wire (row 3.13)."""
    return b"".join(struct.pack("<I", len(one)) + one for one in values)


def encoded(data: bytes) -> str:
    """Bytes as protobuf's JSON form writes them."""
    return base64.b64encode(data).decode()
