"""For users of PyTriton: its examples as functions of ours, and its own clients against them."""

import collections.abc
import dataclasses
import pathlib
import subprocess
import sys
import typing

import numpy as np
import pytest

import naiad
from tests.reference.install import ReferenceUnavailableError, install

Array = np.ndarray[typing.Any, typing.Any]


@dataclasses.dataclass(frozen=True)
class TheirTensor:
    """Declared as `pytriton.model_config.Tensor` is."""

    shape: tuple[int, ...]
    dtype: typing.Any
    name: str | None = None
    optional: bool = False


VECTOR = TheirTensor(dtype=np.float32, shape=(-1,))


@naiad.model(
    name="AddSub",
    inputs=[VECTOR, VECTOR],
    outputs=[TheirTensor((-1,), np.float32, "add"), TheirTensor((-1,), np.float32, "sub")],
    max_batch_size=128,
)
def add_sub(**inputs: Array) -> dict[str, Array]:
    a, b = inputs.values()
    return {"add": a + b, "sub": a - b}


@naiad.model(name="Fails", inputs=[VECTOR], outputs=[VECTOR])
def fails(x: Array) -> Array:
    raise ValueError("it is broken")


@naiad.model(
    name="Count",
    inputs=[TheirTensor((1,), np.int32)],
    outputs=[TheirTensor((1,), np.int32, "number")],
)
def count(n: Array) -> collections.abc.Iterator[Array]:
    for number in range(int(n[0])):
        yield np.array([number], np.int32)


CLIENT = """\
import asyncio, sys, types

import numpy as np

# The client alone: the whole package starts Triton, and needs more packages for that.
package = types.ModuleType("pytriton")
package.__path__ = [sys.argv[1]]
sys.modules["pytriton"] = package
triton = sys.modules["pytriton.triton"] = types.ModuleType("pytriton.triton")
triton.TRITON_ACCESS_HEADER = "triton-access-token"

from pytriton.client import AsyncioModelClient, DecoupledModelClient, FuturesModelClient, ModelClient
from pytriton.client.exceptions import PyTritonClientInferenceServerError

http, grpc = sys.argv[2:]
a = np.array([[1, 2], [3, 4]], np.float32)
for address in (f"http://{http}", f"grpc://{grpc}"):
    with ModelClient(address, "AddSub", lazy_init=False) as client:
        print({name: values.tolist() for name, values in client.infer_batch(a, a).items()})
        print(client.infer_batch(INPUT_1=a, INPUT_2=a)["add"].tolist())
        print(client.infer_sample(a[0], a[0])["add"].tolist())
        print(client.model_config.max_batch_size, client.is_batching_supported)
    with ModelClient(address, "Fails") as client:
        try:
            client.infer_sample(a[0])
        except PyTritonClientInferenceServerError as error:
            print("it is broken" in str(error))


async def main():
    async with AsyncioModelClient(f"http://{http}", "AddSub") as client:
        print((await client.infer_batch(a, a))["sub"].tolist())


asyncio.run(main())
with FuturesModelClient(f"http://{http}", "AddSub") as client:
    print(client.infer_sample(a[0], a[0]).result()["add"].tolist())
with DecoupledModelClient(f"grpc://{grpc}", "Count") as client:
    print([part["number"].tolist() for part in client.infer_sample(np.array([3], np.int32))])
"""

BOTH = """\
{'add': [[2.0, 4.0], [6.0, 8.0]], 'sub': [[0.0, 0.0], [0.0, 0.0]]}
[[2.0, 4.0], [6.0, 8.0]]
[2.0, 4.0]
128 True
True
"""


@pytest.mark.slow
def test_its_clients_speak_to_our_ports(tmp_path: pathlib.Path) -> None:
    try:
        package = install().triton.parent
    except ReferenceUnavailableError as error:
        pytest.skip(str(error))
    with naiad.Server(functions=[add_sub, fails, count]) as server:
        addresses = [server.serve_http(0), server.serve_grpc(0)]
        ended = subprocess.run(
            [sys.executable, "-c", CLIENT, str(package), *addresses],
            capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == BOTH * 2 + "[[0.0, 0.0], [0.0, 0.0]]\n[2.0, 4.0]\n[[0], [1], [2]]\n"


def test_the_identity_of_requests() -> None:
    identity = naiad.model(
        name="Identity", inputs=[TheirTensor((1,), np.bytes_)], outputs=[TheirTensor((1,), np.bytes_)], max_batch_size=8, takes="requests"
    )(lambda requests: [{"OUTPUT_1": request["INPUT_1"]} for request in requests])  # fmt: skip
    with naiad.Server(functions=[identity]) as server:
        result = server.infer("Identity", {"INPUT_1": [["a"], ["b"]]})
        assert result["OUTPUT_1"].tolist() == [[b"a"], [b"b"]]


def test_optional_inputs_and_parameters() -> None:
    def infer(requests: list[naiad.Request]) -> list[dict[str, Array]]:
        zero = np.zeros((1, 1), np.float32)
        return [
            {"sum": (request.get("a", zero) + request.get("b", zero)) * request.parameters["by"]}
            for request in requests
        ]

    optional = [TheirTensor((1,), np.float32, name, optional=True) for name in "ab"]
    model = naiad.model(
        name="f", inputs=optional, outputs=[TheirTensor((1,), np.float32, "sum")], max_batch_size=4, takes="requests"
    )(infer)  # fmt: skip
    with naiad.Server(functions=[model]) as server:
        sent = server.infer("f", {"b": [[2]]}, parameters={"by": 3})
        assert sent["sum"].tolist() == [[6]]


def test_models_that_share_what_they_learn() -> None:
    """Online learning: one function trains what the other one serves."""
    weight = np.zeros(1, np.float32)

    def train(x: Array) -> Array:
        weight[:] += x.sum()
        return weight.copy()

    def infer(x: Array) -> Array:
        scaled: Array = x * weight
        return scaled

    of_both = {"inputs": [VECTOR], "outputs": [TheirTensor((-1,), np.float32, "y")]}
    functions = [naiad.model(**of_both)(each) for each in (train, infer)]  # type: ignore[arg-type]
    with naiad.Server(functions=functions) as server:
        assert server.infer("infer", {"x": [2.0]})["y"].tolist() == [0]
        assert server.infer("train", {"x": [3.0]})["y"].tolist() == [3]
        assert server.infer("infer", {"x": [2.0]})["y"].tolist() == [6]
