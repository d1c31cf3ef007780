"""Asks the example model `describe_file`, which asks two other models, what the given files are.

Start a server with `make run` first. Needs nothing but the standard library.
"""

import argparse
import json
import pathlib
import sys
import urllib.request


def main() -> int:
    """Run it; the exit status is 0 when every file was described."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="localhost:8000", help="host:port of the server")
    parser.add_argument("files", nargs="*", type=pathlib.Path, default=[pathlib.Path(__file__)])
    asked = parser.parse_args()
    # One request for all files. BYTES are text in JSON; Triton's own clients send any bytes.
    texts = [path.read_text(errors="replace") for path in asked.files]
    tensor = {"name": "FILE", "datatype": "BYTES", "shape": [len(texts), 1], "data": texts}
    url = f"http://{asked.address}/v2/models/describe_file/infer"
    with urllib.request.urlopen(url, json.dumps({"inputs": [tensor]}).encode(), 60) as reply:
        outputs = {each["name"]: each["data"] for each in json.load(reply)["outputs"]}
    for path, kind, words in zip(asked.files, outputs["KIND"], outputs["WORDS"], strict=True):
        print(f"{path}: {kind}, {words} words")
    return 0


if __name__ == "__main__":
    sys.exit(main())
