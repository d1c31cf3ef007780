"""A model of the reader's own under load: served alone by Naiad, or beside Triton, asked again and again with one request."""

import collections.abc
import contextlib
import dataclasses
import json
import pathlib
import struct
import tempfile
import typing
import urllib.request

import numpy as np

from benchmarks.load import HttpRequest, LoadError
from benchmarks.report import CONNECTIONS, table
from benchmarks.server.contest import HTTP_JSON, WIRES, Contest, Plan, play
from naiad.core import datatypes
from naiad.core.messages import service_pb2
from tests.reference.install import install
from tests.reference.process import Program, ServerProcess, naiad_program, reference_program

_NO_JSON = ("FP16", "BF16")
"""Datatypes that only binary data can carry."""

_LOAD_S = 600.0

Input = dict[str, typing.Any]
"""As in the JSON body of an infer request: name, datatype, shape, data."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OwnRequest:
    """One infer request, for each wire (`contest.Request`)."""

    model: str
    inputs: collections.abc.Sequence[Input]

    def json(self, address: str) -> HttpRequest:
        """JSON in, JSON out."""
        body = json.dumps({"inputs": self.inputs}).encode()
        return HttpRequest(
            url=self._url(address), body=body, headers=(("Content-Type", "application/json"),)
        )

    def binary(self, address: str) -> HttpRequest:
        """Binary in, binary out."""
        raw = [_raw(tensor) for tensor in self.inputs]
        described = [
            {**_without_data(tensor), "parameters": {"binary_data_size": len(data)}}
            for tensor, data in zip(self.inputs, raw, strict=True)
        ]
        head = json.dumps(
            {"inputs": described, "parameters": {"binary_data_output": True}}
        ).encode()
        headers = (
            ("Content-Type", "application/octet-stream"),
            ("Inference-Header-Content-Length", str(len(head))),
        )
        return HttpRequest(url=self._url(address), body=head + b"".join(raw), headers=headers)

    def message(self) -> bytes:
        """A serialised ModelInferRequest with raw contents."""
        request = service_pb2.ModelInferRequest(model_name=self.model)
        for tensor in self.inputs:
            request.inputs.add(**_without_data(tensor))
            request.raw_input_contents.append(_raw(tensor))
        serialised: bytes = request.SerializeToString()
        return serialised

    def _url(self, address: str) -> str:
        return f"http://{address}/v2/models/{self.model}/infer"


def run(
    folder: pathlib.Path,
    plan: Plan,
    *,
    request: pathlib.Path | None,
    beside: bool,
    connections: collections.abc.Sequence[int] | None,
) -> int:
    """Serve the model, send load, print a table.

    Args:
        folder: the model's.
        plan: how long and how often.
        request: a file with the JSON body to send; None makes one up.
        beside: whether a tritonserver serves it as well.
        connections: numbers of connections, one measurement each.

    Raises:
        LoadError: the model cannot be asked.
        ServerFailedError: a server did not start.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise LoadError(
            f"{folder} is not a folder: give the folder of one model, as in MODEL=/models/resnet"
        )
    with contextlib.ExitStack() as stack:
        logs = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def serve(name: str, program: Program) -> tuple[str, ServerProcess]:
            options = ("--model-control-mode=explicit", f"--load-model={folder.name}")
            server = ServerProcess(
                program, [folder.parent], log=logs / name, options=options, settle_s=_LOAD_S
            )
            return name, stack.enter_context(server)

        servers = [serve("naiad", naiad_program())]
        if beside:
            servers.insert(0, serve("triton", reference_program(install())))
        sent = OwnRequest(model=folder.name, inputs=_inputs(servers[-1][1], folder.name, request))
        for tensor in sent.inputs:
            print(f"sends {tensor['name']}: {tensor['datatype']} {tensor['shape']}")
        speaks_json = not any(tensor["datatype"] in _NO_JSON for tensor in sent.inputs)
        wires = tuple(wire for wire in WIRES if wire != HTTP_JSON or speaks_json)
        contest = Contest(
            folder.name, sent, tuple(servers), wires, tuple(connections or CONNECTIONS)
        )
        rows = play([contest], plan)
    print(f"\n{plan.text}\n\n{table(rows)}")
    return 0


def _inputs(server: ServerProcess, model: str, given: pathlib.Path | None) -> list[Input]:
    """The inputs in the reader's file, or made up from the model's metadata."""
    if given is not None:
        try:
            inputs: list[Input] = json.loads(given.read_text())["inputs"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LoadError(
                f"{given} is not the JSON body of an infer request: {error!r}"
            ) from None
        return inputs
    try:
        with urllib.request.urlopen(f"http://{server.http}/v2/models/{model}", timeout=60) as reply:
            metadata = json.load(reply)
    except OSError:
        raise LoadError(f"{server.program.name} does not serve {model}\n{server.tail()}") from None
    return [example(each["name"], each["datatype"], each["shape"]) for each in metadata["inputs"]]


def example(name: str, datatype: str, shape: collections.abc.Sequence[int]) -> Input:
    """An input with one element in every free dimension, filled with what most models accept: ones, or a word."""
    full = [1 if size < 0 else size for size in shape]
    value: object = "word" if datatype == "BYTES" else True if datatype == "BOOL" else 1
    return {"name": name, "datatype": datatype, "shape": full, "data": [value] * int(np.prod(full))}


def _without_data(tensor: Input) -> Input:
    return {key: tensor[key] for key in ("name", "datatype", "shape")}


def _raw(tensor: Input) -> bytes:
    """The input's bytes as both wires carry them."""
    values = np.asarray(tensor["data"], dtype=object).reshape(-1)
    if tensor["datatype"] == "BYTES":
        encoded = [str(value).encode() for value in values]
        return b"".join(struct.pack("<I", len(value)) + value for value in encoded)
    datatype = datatypes.BY_NAME[tensor["datatype"]]
    return values.astype(datatype.dtype).tobytes()
