"""Asks the example ensemble `file_type` for the three likeliest kinds of each of the given files.

Start a server with `make run` first. Needs nothing but the standard library.
"""

import argparse
import json
import pathlib
import struct
import sys
import urllib.request
from collections.abc import Iterator

ENDS = 4096
"""Bytes at each end of a file that its kind depends on; the rest is not sent."""

LEAST = 8
"""A file of fewer bytes has no kind."""

BATCH = 64
"""Files in one request, the ensemble's max_batch_size."""


def main() -> int:
    """Run it; the exit status is 0 when the server answered for every file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="localhost:8000", help="host:port of the server")
    parser.add_argument("--top", type=int, default=3, help="how many kinds per file")
    parser.add_argument("files", nargs="*", type=pathlib.Path, default=[pathlib.Path(__file__)])
    asked = parser.parse_args()
    contents = {path: both_ends(path) for path in asked.files}
    told = {path: ends for path, ends in contents.items() if len(ends.lstrip()) >= LEAST}
    for path, kinds in zip(told, file_types(asked.address, list(told.values()), asked.top), strict=True):  # fmt: skip
        print(f"{path}: " + ", ".join(f"{kind} {score:.1%}" for score, kind in kinds))
    for path in contents.keys() - told.keys():
        print(f"{path}: too short to tell")
    return 0


def both_ends(path: pathlib.Path) -> bytes:
    """A short file as it is, the two ends of a long one."""
    with path.open("rb") as file:
        beginning = file.read(2 * ENDS)
        if not file.read(1):
            return beginning
        file.seek(-ENDS, 2)
        return beginning[:ENDS] + file.read()


def file_types(
    address: str, contents: list[bytes], top: int = 3
) -> Iterator[list[tuple[float, str]]]:
    """For each content the likeliest kinds: score and name, the likeliest first."""
    for start in range(0, len(contents), BATCH):
        batch = contents[start : start + BATCH]
        # One request for many files, as bytes behind the JSON: each with its length in front of it.
        packed = b"".join(struct.pack("<I", len(each)) + each for each in batch)
        asked = {
            "inputs": [
                {
                    "name": "FILE",
                    "datatype": "BYTES",
                    "shape": [len(batch), 1],
                    "parameters": {"binary_data_size": len(packed)},
                }
            ],
            "outputs": [{"name": "KIND", "parameters": {"classification": top}}],
        }
        head = json.dumps(asked).encode()
        request = urllib.request.Request(
            f"http://{address}/v2/models/file_type/infer",
            head + packed,
            {"Inference-Header-Content-Length": str(len(head))},
        )
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - as above
            (output,) = json.load(reply)["outputs"]
        _, found = output["shape"]
        classes = [text.split(":") for text in output["data"]]
        for first in range(0, len(classes), found):
            yield [(float(score), kind) for score, _index, kind in classes[first : first + found]]


if __name__ == "__main__":
    sys.exit(main())
