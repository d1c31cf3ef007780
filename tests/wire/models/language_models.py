"""Language models by the backend `vllm`, over an engine that makes words (`tests/support/made_up_vllm`), and clients that ask them."""

import dataclasses
import json
import pathlib
import queue
import re
from typing import Any, Self

import numpy as np
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.reference.process import Program, ServerProcess, naiad_program
from tests.wire.plain_http import call, get

GIVE_UP_S = 60
MADE_UP = pathlib.Path(__file__).parents[2] / "support" / "made_up_vllm"
CONFIG = 'backend: "vllm"\ninstance_group { kind: KIND_MODEL count: 1 }\n'


def program() -> Program:
    """Naiad where that vllm is installed."""
    ours = naiad_program()
    path = f"{MADE_UP}:{ours.environ['PYTHONPATH']}"
    return dataclasses.replace(ours, environ={**ours.environ, "PYTHONPATH": path})


def add_model(
    models: pathlib.Path, name: str, arguments: Any = None, *, config: str = "", **files: Any
) -> pathlib.Path:
    """A model with these arguments (text: as it stands) and further files, without `.json`; gives its version's folder."""
    version = models / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(CONFIG + config)
    for file, content in {"model": arguments or {"model": "made/up"}, **files}.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (version / f"{file}.json").write_text(text)
    return version


def generate(server: ServerProcess, model: str, **body: Any) -> tuple[int, Any]:
    status, reply = call(server.http, "POST", f"/v2/models/{model}/generate", body)
    return status, json.loads(reply)


def inputs(text: str, **more: Any) -> list[Any]:
    """`text_input` and further inputs, of one element each."""
    made = []
    for name, value in {"text_input": text, **more}.items():
        if isinstance(value, bool):
            array, datatype = np.array([value]), "BOOL"
        else:
            array, datatype = np.array([value.encode()], dtype=object), "BYTES"
        tensor = grpc_client.InferInput(name, [1], datatype)
        tensor.set_data_from_numpy(array)
        made.append(tensor)
    return made


class TokenStream:
    """A gRPC stream of Triton's client; a context manager."""

    def __init__(self, server: ServerProcess) -> None:
        self._answers = queue.SimpleQueue[tuple[Any, InferenceServerException | None]]()
        self._client = grpc_client.InferenceServerClient(server.grpc)
        self._client.start_stream(lambda result, error: self._answers.put((result, error)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()  # else closing waits for requests without end
        self._client.close()

    def ask(self, model: str, text: str, *, request_id: str = "", **more: Any) -> None:
        parameters = more.pop("parameters", None)
        self._client.async_stream_infer(
            model, inputs(text, **more), request_id=request_id, parameters=parameters
        )

    def cancel(self) -> None:
        self._client.stop_stream(cancel_requests=True)

    def next(self) -> tuple[str, dict[str, Any], bool]:
        """The id, the outputs as lists, and whether it is the last, of the next response.

        Raises:
            InferenceServerException: it is an error.
        """
        result, error = self._answers.get(timeout=GIVE_UP_S)
        if error is not None:
            raise error
        response = result.get_response()
        outputs = {each.name: result.as_numpy(each.name).tolist() for each in response.outputs}
        return response.id, outputs, response.parameters["triton_final_response"].bool_param

    def rest(self) -> list[dict[str, Any]]:
        """The outputs of all responses to one request."""
        found = []
        final = False
        while not final:
            _, outputs, final = self.next()
            found.append(outputs)
        return found


def metric(server: ServerProcess, line: str) -> float:
    """The value of a line of the metrics page; 0 where it is not there."""
    page = get(server.metrics, "/metrics")[1].decode()
    found = re.search(rf"^{re.escape(line)} (.+)$", page, re.MULTILINE)
    return float(found[1]) if found else 0
