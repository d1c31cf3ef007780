"""Files of many kinds, the same on every machine, and what the `magika` package says of them.

Where that package is installed, `python -m tests.wire.documentation.sample_files` writes down again what it says.
"""

import io
import json
import pathlib
import struct
import tarfile
import wave
import zipfile
import zlib
from typing import Any

ROOT = pathlib.Path(__file__).parents[3]
TRUTH = ROOT / "tests" / "data" / "server" / "magika.json"

_PYTHON = b'''import os

def total(path):
    """The bytes of all files below a folder."""
    return sum(os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(path) for name in names)
'''


def _png() -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    rows = b"".join(b"\0" + bytes((x * y) % 256 for x in range(64)) for y in range(64))
    head = struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0)
    data = zlib.compress(rows, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("a.txt", "b.txt"):
            archive.writestr(zipfile.ZipInfo(name), f"the text of {name}\n" * 40)
    return file.getvalue()


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        member = tarfile.TarInfo("total.py")
        member.size = len(_PYTHON)
        archive.addfile(member, io.BytesIO(_PYTHON))
    return file.getvalue()


def _wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"".join(struct.pack("<h", (n * 997) % 9000) for n in range(2000)))
    return file.getvalue()


def samples() -> dict[str, bytes]:
    """Contents by file name."""
    return {
        "total.py": _PYTHON,
        "long.py": b"\n\n   " + _PYTHON * 60 + b"\n\n\n",
        "note.md": b"# A note\n\n* one line\n* [another](line.md)\n\n## More\n\nSome `code` and **words**.\n",
        "main.c": b'#include <stdio.h>\n\nint main(void)\n{\n    printf("%d\\n", 42);\n    return 0;\n}\n',
        "page.html": b"<!DOCTYPE html>\n<html><head><title>A page</title></head><body><h1>Hello</h1><p>text</p></body></html>\n",
        "data.json": json.dumps(
            {"name": "x", "list": list(range(30)), "deep": {"a": None}}, indent=1
        ).encode(),
        "table.csv": b"id,name,price\n" + b"".join(b"%d,item %d,%d.50\n" % (n, n, n) for n in range(40)),
        "run.sh": b'#!/bin/sh\nset -e\nfor file in *.txt; do\n  echo "$file"\n  wc -l < "$file"\ndone\n',
        "query.sql": b"CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL);\nSELECT id, COUNT(*) FROM t GROUP BY id ORDER BY 2;\n",
        "picture.png": _png(),
        "archive.zip": _zip(),
        "archive.tar": _tar(),
        "sound.wav": _wav(),
        "network.onnx": (ROOT / "examples/model_repository/magika/1/model.onnx").read_bytes(),
    }  # fmt: skip


def truth() -> dict[str, list[list[Any]]]:
    """By file name: the three likeliest kinds, each with its score."""
    found: dict[str, list[list[Any]]] = json.loads(TRUTH.read_text())
    return found


def by_the_package() -> dict[str, list[list[Any]]]:
    """The same, as the package says it now."""
    import magika  # type: ignore[import-not-found]  # noqa: PLC0415 - few machines have it

    network = magika.Magika()
    config = network._model_config
    found: dict[str, list[list[Any]]] = {}
    for name, content in samples().items():
        best = network.identify_bytes(content).prediction
        features = network._extract_features_from_seekable(
            magika.magika.Seekable(io.BytesIO(content)),
            config.beg_size,
            config.mid_size,
            config.end_size,
            config.padding_token,
            config.block_size,
            config.use_inputs_at_offsets,
        )
        (scores,) = network._get_raw_predictions([(pathlib.Path(name), features)])
        order = sorted(range(len(scores)), key=lambda index: -scores[index])[:3]
        found[name] = [
            [str(config.target_labels_space[index]), round(float(scores[index]), 6)]
            for index in order
        ]
        assert found[name][0][0] == str(best.dl.label)
    return found


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(kinds)}" for name, kinds in by_the_package().items())
    TRUTH.write_text("{\n" + ",\n".join(lines) + "\n}\n")
