"""Story a: apply, Ready, the first answer through the ingress; delete, and everything is gone."""

import queue
import typing

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from e2e import load, services
from e2e.kubernetes import Kubernetes

HOST = "demo.example.com"
_WAYS = {"ingress": services.ingress(HOST), "gateway": services.gateway(HOST)}


@pytest.fixture(params=_WAYS)
def demo(request: pytest.FixtureRequest, kubernetes: Kubernetes) -> Kubernetes:
    """A Ready service, reached in one of the two ways."""
    made = services.service("demo")
    made["spec"][request.param] = _WAYS[request.param]
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")
    return kubernetes


def test_it_answers_over_http_and_grpc_and_is_gone_after_delete(demo: Kubernetes) -> None:
    load.wait_for_routes(demo, *load.both(HOST))
    for sender in (load.http(f"{HOST}:80"), load.grpc(f"grpc.{HOST}:80"), load.grpc_stream(f"grpc.{HOST}:80")):  # fmt: skip
        with sender as send:
            send()
    _stream_of_words()
    _tensor_of_20_mb()
    demo.delete("infsvc", "demo")
    demo.wait("nothing left", lambda: not _left(demo), seen=lambda: _left(demo))


def _stream_of_words() -> None:
    """A decoupled model: several responses to one request."""
    responses: queue.SimpleQueue[tuple[typing.Any, typing.Any]] = queue.SimpleQueue()
    client = tritonclient.grpc.InferenceServerClient(f"grpc.{HOST}:80")
    client.start_stream(lambda result, error: responses.put((result, error)))
    tensor = tritonclient.grpc.InferInput("TEXT", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([b"one two three"], dtype=object))
    client.async_stream_infer("typewriter", [tensor])
    words = []
    for _ in range(3):
        result, error = responses.get(timeout=20)
        assert error is None
        words.append(bytes(result.as_numpy("WORD").flat[0]).decode().strip())
    client.stop_stream()
    client.close()
    assert words == ["one", "two", "three"]


def _tensor_of_20_mb() -> None:
    """A body that ingress controllers refuse at their defaults: one text of 20 MB."""
    text = np.array([[b"word " * 4_000_000]], dtype=object)
    client = tritonclient.http.InferenceServerClient(f"{HOST}:80", network_timeout=60)
    tensor = tritonclient.http.InferInput("TEXT", [1, 1], "BYTES")
    tensor.set_data_from_numpy(text)
    assert int(client.infer("word_count", [tensor]).as_numpy("WORDS").flat[0]) == 4_000_000
    client.close()


def _left(kubernetes: Kubernetes) -> list[str]:
    kinds = "deployments,replicasets,pods,services,ingresses,httproutes,grpcroutes,poddisruptionbudgets,networkpolicies"
    return [f"{item['kind']} {item['metadata']['name']}" for item in kubernetes.list(kinds)]
