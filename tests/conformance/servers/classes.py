"""The models of the set-up of classification: outputs of every type, with and without label files, and ensembles over them."""

from dataclasses import replace
from pathlib import Path

from tests.conformance.servers.catalogue import Model, python_model, tensor, write
from tests.conformance.servers.ensembles import ensemble, step

TYPES = "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 STRING".split()  # noqa: SIM905 (a row of words)

_ONE = "instance_group [{ kind: KIND_CPU count: 1 }]"
_LABELS = {"labels.txt": "cat\n\nsea lion \nname: with, signs\n"}
_NAMED = 'label_filename: "labels.txt"'
_IN, _IN4 = tensor("IN", "FP32", "[ -1 ]"), tensor("IN", "FP32", "[ 4 ]")
_OUT = tensor("OUT", "FP32", "[ -1 ]", _NAMED)
_OUT4 = tensor("OUT", "FP32", "[ 4 ]", _NAMED)
_X, _Y = tensor("X", "FP32", "[ 4 ]"), tensor("Y", "FP32", "[ 4 ]")


def _labelled(config: str, **files: str) -> Model:
    return Model(config, "passthrough", files=files or _LABELS)


MODELS: dict[str, Model] = {
    "kinds": Model(
        python_model(
            ", ".join(tensor(f"IN_{t}", t, "[ -1 ]", "optional: true") for t in TYPES),
            ", ".join(tensor(f"OUT_{t}", t, "[ -1 ]") for t in TYPES),
            _ONE,
        ),
        "passthrough",
    ),
    "named": _labelled(python_model(_IN, _OUT, _ONE)),
    "rows": _labelled(python_model(_IN4, _OUT4, _ONE, batch=4)),
    "grids": _labelled(
        python_model(
            tensor("IN", "FP32", "[ 2, 3 ]"), tensor("OUT", "FP32", "[ 2, 3 ]", _NAMED), _ONE, batch=4
        )
    ),
    "grid": _labelled(
        python_model(tensor("IN", "FP32", "[ 2, 3 ]"), tensor("OUT", "FP32", "[ 2, 3 ]", _NAMED), _ONE)
    ),
    "nothing": Model(
        python_model(_IN, tensor("OUT", "FP32", "[ -1 ]", 'label_filename: "labels.txt"'), _ONE),
        "passthrough",
        files={"labels.txt": ""},
    ),
    "decoupled": Model(
        python_model(
            tensor("SCRIPT", "STRING", "[ 1 ]"),
            f"{tensor('OUT', 'INT32', '[ -1 ]', _NAMED)}, {tensor('SEEN', 'STRING', '[ 1 ]')}",
            f"{_ONE}\nmodel_transaction_policy {{ decoupled: true }}",
        ),
        "streaming",
        files=_LABELS,
    ),
    "inherits": ensemble(_X, _Y, step("rows", "IN=X", "OUT=Y"), batch=4),
    "through": ensemble(_X, _Y, step("inherits", "X=X", "Y=Y"), batch=4),
    "of_the_last": ensemble(
        _X, _Y, step("rows", "IN=X", "OUT=t"), step("plain", "IN=t", "OUT=Y"), batch=4
    ),
    "plain": Model(python_model(_IN4, tensor("OUT", "FP32", "[ 4 ]"), _ONE, batch=4), "passthrough"),
    "own": replace(
        ensemble(_X, tensor("Y", "FP32", "[ 4 ]", _NAMED), step("rows", "IN=X", "OUT=Y"), batch=4),
        files={"labels.txt": "own\n"},
    ),
    "missing_file": Model(python_model(_IN, _OUT, _ONE), "passthrough"),
    "outside": _labelled(
        python_model(_IN, tensor("OUT", "FP32", "[ -1 ]", 'label_filename: "../named/labels.txt"'), _ONE)
    ),
}  # fmt: skip


def put(folder: Path) -> list[Path]:
    """Write all of them."""
    return [write(folder / "models", MODELS)]
