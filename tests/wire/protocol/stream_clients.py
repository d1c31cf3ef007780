"""Clients of streams: plain HTTP that reads server-sent events, and Triton's blocking gRPC client."""

import collections.abc
import contextlib
import http.client
import json
import queue
from typing import Any

import numpy as np
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess

GIVE_UP_S = 60


@contextlib.contextmanager
def posted(
    server: ServerProcess, path: str, body: Any, **headers: str
) -> collections.abc.Iterator[http.client.HTTPResponse]:
    """A reply whose head is there."""
    host, port = server.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=GIVE_UP_S)
    try:
        connection.request("POST", f"/v2/models/{path}", json.dumps(body), headers)
        with connection.getresponse() as reply:
            yield reply
    finally:
        connection.close()


def event(reply: http.client.HTTPResponse) -> Any:
    """The next event of a stream; None at its end."""
    line = reply.readline()
    if not line:
        return None
    assert line.startswith(b"data: "), line
    assert reply.readline() == b"\n"
    return json.loads(line[6:])


def events(reply: http.client.HTTPResponse) -> list[Any]:
    return list(iter(lambda: event(reply), None))


def words(found: list[Any]) -> list[str]:
    return [each.get("WORD", each.get("error")) for each in found]


def given(script: str) -> list[Any]:
    tensor = grpc_client.InferInput("SCRIPT", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([script.encode()], dtype=object))
    return [tensor]


class Stream:
    """A stream of Triton's blocking client."""

    def __init__(self, server: ServerProcess, **options: Any) -> None:
        self.answers = queue.SimpleQueue[tuple[Any, InferenceServerException | None]]()
        self.client = grpc_client.InferenceServerClient(server.grpc)
        self.client.start_stream(lambda result, error: self.answers.put((result, error)), **options)

    def ask(
        self, script: str, request_id: str = "", *, model: str = "scripted", **more: Any
    ) -> None:
        self.client.async_stream_infer(model, given(script), request_id=request_id, **more)

    def next(self) -> tuple[str, str, bool]:
        """The id, the word or the error, and whether it is the final response, of the next answer."""
        result, error = self.answers.get(timeout=GIVE_UP_S)
        if error is not None:
            return "", error.message(), False
        response = result.get_response()
        final = response.parameters["triton_final_response"].bool_param
        word = result.as_numpy("WORD")
        return response.id, "" if word is None else word[0].decode(), final

    def all(self, count: int) -> list[tuple[str, str, bool]]:
        return [self.next() for _ in range(count)]

    def nothing_more(self) -> bool:
        self.client.stop_stream()
        return self.answers.empty()


@contextlib.contextmanager
def stream(server: ServerProcess, **options: Any) -> collections.abc.Iterator[Stream]:
    made = Stream(server, **options)
    try:
        yield made
    finally:
        made.client.close()
