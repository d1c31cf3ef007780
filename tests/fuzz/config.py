"""Texts of config.pbtxt: held to protobuf's own text format, and whatever was read goes through all rules without an exception.

An input is the file's bytes.
"""

import json
import pathlib
import tempfile

from naiad.backends.catalog import Catalog
from naiad.config.config_json import to_json
from naiad.config.pbtxt import parser as pbtxt
from naiad.config.resolving.resolve import resolve
from tests.server.config.official import compare

WORDS = (
    "name", "platform", "backend", "max_batch_size", "input", "output", "dims", "data_type", "TYPE_FP32", "instance_group", "KIND_GPU", "count",
    "gpus", "dynamic_batching", "preferred_batch_size", "priority_levels", "parameters", "key", "value", "string_value", "version_policy",
    "latest", "specific", "reshape", "shape", "optimization", "model_warmup", "ensemble_scheduling", "sequence_batching", "{", "}", "[", "]",
    "<", ">", ":", ",", ";", "#", '\\"', "'", "\\\\x", "\\\\u", "inf", "nan", "0x", "1e9", "true",
)  # fmt: skip

_NOWHERE = pathlib.Path("/nonexistent/m")
_DATA = pathlib.Path(__file__).parents[1] / "data" / "server" / "pbtxt"


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def _folder() -> pathlib.Path:
    """A model's folder with one version that holds a file of two backends, the same for all inputs."""
    if not _FOLDERS:
        _FOLDERS.append(tempfile.TemporaryDirectory())
        version = pathlib.Path(_FOLDERS[0].name) / "m" / "1"
        version.mkdir(parents=True)
        (version / "model.py").touch()
        (version / "model.onnx").write_bytes(b"no model")
    return pathlib.Path(_FOLDERS[0].name) / "m"


def seeds() -> list[bytes]:
    """Configs that are right."""
    return [
        (_DATA / "good.pbtxt").read_bytes(),
        b'backend: "python"\nmax_batch_size: 8\ninput [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]\ndynamic_batching { }\n',
        b'parameters { key: "a" value { string_value: "b" } }\nversion_policy: { latest { num_versions: 2 } }',
    ]


def check(data: bytes) -> None:
    """Raise if our parser and protobuf's differ on this file, or if a rule fails on it."""
    text = data.decode("utf-8", "replace")
    compare(text)
    document = pbtxt.parse(text, path=_NOWHERE / "config.pbtxt")
    json.dumps(to_json(document.message))
    resolution = resolve(_folder(), document=document, backends=Catalog(), complete=lambda _: None)
    for problem in resolution.problems:
        assert problem.message
        if problem.position is not None:
            assert 1 <= problem.position.line <= text.count("\n") + 1
