"""Asks the service of `examples/quickstart.yaml` what kind of file this one is, through the ingress, over HTTP and gRPC."""

import pathlib
import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
sys.path.append(str(EXAMPLES))

from magika_features import features, labels  # noqa: E402 - of the examples

_HTTP = "quickstart.example.com:80"
_GRPC = "grpc.quickstart.example.com:80"


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
        scores = client.infer("magika", [tensor]).as_numpy("target_label")[0]
        best = int(scores.argmax())
        print(f"           {protocol}: {names[best]} ({scores[best]:.1%})")
        client.close()


if __name__ == "__main__":
    main()
