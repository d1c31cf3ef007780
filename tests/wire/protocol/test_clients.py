"""Triton's own clients, unchanged, against the real server on loopback."""

import collections.abc
import contextlib
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from tests.reference.process import ServerProcess

CLIENTS = ("http", "grpc")


@contextlib.contextmanager
def client(kind: str, server: ServerProcess) -> collections.abc.Iterator[tuple[Any, Any]]:
    """The client and its module."""
    module = http_client if kind == "http" else grpc_client
    address = server.http if kind == "http" else server.grpc
    made = module.InferenceServerClient(address)
    try:
        yield made, module
    finally:
        made.close()


def tensor(module: Any, name: str, array: "np.ndarray[Any, Any]", datatype: str) -> Any:
    made = module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_real_onnx_model_answers(kind: str, server: ServerProcess) -> None:
    x = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)
    with client(kind, server) as (asked, module):
        result = asked.infer("add", [tensor(module, "x", x, "FP32")], request_id="r1")
    np.testing.assert_array_equal(result.as_numpy("y"), x + x)
    response = result.get_response()
    assert (response["id"] if kind == "http" else response.id) == "r1"


@pytest.mark.parametrize("kind", CLIENTS)
def test_strings_go_in_and_out(kind: str, server: ServerProcess) -> None:
    text = np.array([["grüße".encode()], [b""]], dtype=object)
    with client(kind, server) as (asked, module):
        result = asked.infer("text", [tensor(module, "TEXT", text, "BYTES")])
    assert result.as_numpy("LOUD").tolist() == [["grüße".encode().upper()], [b""]]


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_required_input_is_missed_also_after_requests_that_had_it(
    kind: str, server: ServerProcess
) -> None:
    hello = np.array([[b"hello"]], dtype=object)
    with client(kind, server) as (asked, module):
        text, note = (tensor(module, name, hello, "BYTES") for name in ("TEXT", "NOTE"))
        asked.infer("text", [text])
        asked.infer("text", [text, note])
        with pytest.raises(
            module.InferenceServerException, match="missing required input"
        ) as caught:
            asked.infer("text", [note])
    assert "['TEXT']" in str(caught.value)


@pytest.mark.parametrize("kind", CLIENTS)
def test_control_plane_calls_agree(kind: str, server: ServerProcess) -> None:
    with client(kind, server) as (asked, _):
        assert asked.is_server_live()
        assert asked.is_server_ready()
        assert asked.is_model_ready("add")
        more = {} if kind == "http" else {"as_json": True}
        assert asked.get_server_metadata(**more)["name"] == "triton"
        assert asked.get_model_metadata("add", **more)["inputs"][0]["shape"] in (
            [-1, 4],
            ["-1", "4"],
        )
        config = asked.get_model_config("add", **more)
        assert (config if kind == "http" else config["config"])["max_batch_size"] == 8
        index = asked.get_model_repository_index(**more)
        names = {entry["name"] for entry in (index if kind == "http" else index["models"])}
        assert names == {"add", "text", "slow"}
        statistics = asked.get_inference_statistics("add", **more)
        assert statistics["model_stats"][0]["name"] == "add"


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_compression_both_ways(kind: str, compression: str, server: ServerProcess) -> None:
    x = np.ones((8, 4), np.float32)
    more = (
        {
            "request_compression_algorithm": compression,
            "response_compression_algorithm": compression,
        }
        if kind == "http"
        else {"compression_algorithm": compression}
    )
    with client(kind, server) as (asked, module):
        result = asked.infer("add", [tensor(module, "x", x, "FP32")], **more)
    np.testing.assert_array_equal(result.as_numpy("y"), x + x)


@pytest.mark.parametrize("kind", CLIENTS)
def test_an_error_says_what_to_send(kind: str, server: ServerProcess) -> None:
    x = np.ones((4,), np.float32)
    module = http_client if kind == "http" else grpc_client
    with (
        client(kind, server) as (asked, _),
        pytest.raises(Exception, match="unexpected shape") as caught,
    ):
        asked.infer("add", [tensor(module, "x", x, "FP32")])
    assert "send [1,4]" in str(caught.value)


@pytest.mark.slow
def test_many_requests_at_once_are_batched_and_all_answered(server: ServerProcess) -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    asked = http_client.InferenceServerClient(server.http, concurrency=16)
    try:
        pending = [
            asked.async_infer("add", [tensor(http_client, "x", x * k, "FP32")]) for k in range(64)
        ]
        for k, each in enumerate(pending):
            np.testing.assert_array_equal(each.get_result().as_numpy("y"), 2 * x * k)
    finally:
        asked.close()
