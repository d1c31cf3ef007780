"""Asks the service of `examples/quickstart.yaml` what kind of file this one is, through the ingress, over HTTP and gRPC."""

import pathlib
import sys
import time
import typing

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
sys.path.append(str(EXAMPLES))

from magika_features import features, labels  # noqa: E402 - of the examples

_HTTP = "quickstart.example.com:80"
_GRPC = "grpc.quickstart.example.com:80"
_ROUTE_S = 30
_STEP_S = 0.1


def main() -> None:
    """Print both answers."""
    content = np.array([features(pathlib.Path(__file__).read_bytes())], dtype=np.int32)
    names = labels(EXAMPLES / "model_repository")
    for protocol, package, address in (
        ("HTTP", tritonclient.http, _HTTP),
        ("gRPC", tritonclient.grpc, _GRPC),
    ):
        client = package.InferenceServerClient(address)
        tensor = package.InferInput("bytes", list(content.shape), "INT32")
        tensor.set_data_from_numpy(content)
        scores = when_routed(lambda: client.infer("magika", [tensor])).as_numpy("target_label")[0]  # noqa: B023 - called at once
        best = int(scores.argmax())
        print(f"           {protocol}: {names[best]} ({scores[best]:.1%})")
        client.close()


def when_routed(
    send: typing.Callable[[], typing.Any],
    *,
    clock: typing.Callable[[], float] = time.monotonic,
    sleep: typing.Callable[[float], None] = time.sleep,
) -> typing.Any:
    """What `send` returns. An ingress controller has no server for some seconds after the service is Ready: until then it is repeated."""
    deadline = clock() + _ROUTE_S
    while True:
        try:
            return send()
        except InferenceServerException:
            if clock() > deadline:
                raise
        sleep(_STEP_S)


if __name__ == "__main__":
    main()
