"""A client over HTTP: infer requests, and events of the model that answers many times."""

import asyncio
import json
import typing

from tests.soak import repository
from tests.soak.asking import ConnectionBrokenError, Question, Told
from tests.soak.connection import Connection, Reply

_OK, _UNAVAILABLE = 200, 503


class HttpClient:
    """Implements `Client`: one connection, one request at a time."""

    def __init__(self, port: int) -> None:
        self._connection = Connection(port)

    async def ask(self, question: Question, *, leave_after_s: float | None = None) -> Told | None:
        """See `Client`."""
        try:
            reply = await self._connection.post(
                _path(question.model), _body(question), leave_after_s=leave_after_s
            )
        except (OSError, asyncio.IncompleteReadError) as error:
            raise ConnectionBrokenError(str(error)) from error
        return None if reply is None else _told(question.model, reply)

    async def close(self) -> None:
        """See `Client`."""
        self._connection.drop()


def _path(model: str) -> str:
    verb = "generate_stream" if model == repository.STREAM else "infer"
    return f"/v2/models/{model}/{verb}"


def _body(question: Question) -> bytes:
    values = question.values
    if question.model == repository.STREAM:
        return json.dumps({"x": values[0]}).encode()
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, len(values)], "data": values}
    body: dict[str, typing.Any] = {"inputs": [tensor]}
    place = question.place
    if place is not None:
        body["parameters"] = {
            "sequence_id": place.key,
            "sequence_start": place.start,
            "sequence_end": place.end,
        }
    return json.dumps(body).encode()


def _told(model: str, reply: Reply) -> Told:
    if reply.status != _OK:
        return Told(
            [], f"{reply.status}: {reply.error()}", unavailable=reply.status == _UNAVAILABLE
        )
    if model != repository.STREAM:
        return Told([reply.json()["outputs"][0]["data"]])
    lines = reply.body.decode().split("\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    # The status went out with the first answer: a worker killed in the middle shows in the last one.
    error = str(events[-1].get("error", "")) if events else "no event"
    return Told([[event["y"]] for event in events if "y" in event], error, unavailable=None)
