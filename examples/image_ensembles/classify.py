"""Asks an ensemble of this example how pictures of pages have to be turned: JPEG files in, a class out for each.

python examples/image_ensembles/classify.py page.jpg --model orientation_by_pillow

Needs nothing but the standard library.
"""

import argparse
import json
import pathlib
import sys
import urllib.request


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="localhost:8000", help="host:port of the server")
    parser.add_argument("--model", default="orientation_by_dali", help="an ensemble")
    parser.add_argument("files", nargs="+", type=pathlib.Path, help="JPEG files")
    asked = parser.parse_args()
    for path in asked.files:
        probability, label = class_of(asked.address, asked.model, path.read_bytes())
        print(f"{path}: {label} ({probability:.1%})")
    return 0


def class_of(address: str, model: str, jpeg: bytes) -> tuple[float, str]:
    """The likeliest class of a picture: its probability and its name."""
    given = {
        "name": "JPEG",
        "datatype": "UINT8",
        "shape": [1, len(jpeg)],
        "parameters": {"binary_data_size": len(jpeg)},
    }
    wanted = {
        "name": "PROBABILITIES",
        "parameters": {"classification": 1, "binary_data": False},
    }
    head = json.dumps({"inputs": [given], "outputs": [wanted]}).encode()
    request = urllib.request.Request(
        f"http://{address}/v2/models/{model}/infer",
        head + jpeg,
        {"Inference-Header-Content-Length": str(len(head))},
    )
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
        (output,) = json.load(response)["outputs"]
    # A class is written as its probability, its number and its name, with colons between them.
    probability, _, label = output["data"][0].split(":")
    return float(probability), label


if __name__ == "__main__":
    sys.exit(main())
