"""The models of the set-up with a trace file: what it writes of them is compared."""

from pathlib import Path

from tests.conformance.servers.catalogue import GOOD, STREAMING, Model, python_model, tensor, write
from tests.conformance.servers.ensembles import ensemble, step

_IN, _OUT = tensor("IN", "FP32", "[ -1 ]"), tensor("OUT", "FP32", "[ -1 ]")
_ONE = "instance_group [{ kind: KIND_CPU count: 1 }]"


def _typed(kind: str) -> Model:
    return Model(
        python_model(tensor("IN", kind, "[ -1 ]"), tensor("OUT", kind, "[ -1 ]"), _ONE),
        "passthrough",
    )


TYPES = ("BOOL", "INT8", "INT32", "INT64", "UINT16", "UINT64", "FP16", "FP32", "FP64", "STRING")

MODELS: dict[str, Model] = {
    "first": Model(python_model(_IN, _OUT, _ONE), "passthrough"),
    "second": Model(python_model(_IN, _OUT, _ONE), "passthrough"),
    "batched": Model(
        python_model(_IN, _OUT, f"{_ONE}\ndynamic_batching {{ }}", batch=4), "passthrough"
    ),
    "chain": ensemble(
        _IN, _OUT, step("first", "IN=IN", "OUT=X"), step("second", "IN=X", "OUT=OUT")
    ),
    "nested": ensemble(
        _IN, _OUT, step("chain", "IN=IN", "OUT=X"), step("first", "IN=X", "OUT=OUT")
    ),
    "asks": Model(python_model(_IN, _OUT, _ONE), "asking"),
    "raising": GOOD["misbehave"],
    "senders": STREAMING["senders"],
    **{f"typed_{kind.lower()}": _typed(kind) for kind in TYPES},
}


def put(folder: Path) -> list[Path]:
    """Writes the repository."""
    return [write(folder / "models", MODELS)]
