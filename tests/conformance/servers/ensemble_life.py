"""Ensembles that stream, that are loaded and unloaded, and that stand in several repositories: the models of three set-ups."""

from pathlib import Path

from tests.conformance.servers.catalogue import Model, python_model, tensor, write
from tests.conformance.servers.ensembles import MODELS, ensemble, step

_ONE = "instance_group [{ kind: KIND_CPU count: 1 }]"
_SCRIPT = tensor("SCRIPT", "STRING", "[ 1 ]")
_NUMBERS, _SEEN = tensor("OUT", "INT32", "[ -1 ]"), tensor("SEEN", "STRING", "[ 1 ]")
_X, _Y = tensor("X", "FP32", "[ 4 ]"), tensor("Y", "FP32", "[ 4 ]")
_S, _N = tensor("S", "STRING", "[ 1 ]"), tensor("N", "INT32", "[ -1 ]")
_T = tensor("T", "STRING", "[ 1 ]")

STREAMS: dict[str, Model] = {
    "stream": Model(
        python_model(
            _SCRIPT, f"{_NUMBERS}, {_SEEN}", f"{_ONE}\nmodel_transaction_policy {{ decoupled: true }}"
        ),
        "streaming",
    ),
    "echo": Model(
        python_model(tensor("IN", "INT32", "[ -1 ]"), tensor("OUT", "INT32", "[ -1 ]"), _ONE),
        "passthrough",
    ),
    "text": Model(
        python_model(tensor("IN", "STRING", "[ 1 ]"), tensor("OUT", "STRING", "[ 1 ]"), _ONE),
        "passthrough",
    ),
    "alone": ensemble(_S, _N, step("stream", "SCRIPT=S", "OUT=N")),
    "before": ensemble(_S, _N, step("text", "IN=S", "OUT=t"), step("stream", "SCRIPT=t", "OUT=N")),
    "behind": ensemble(_S, _N, step("stream", "SCRIPT=S", "OUT=n"), step("echo", "IN=n", "OUT=N")),
    "nested": ensemble(_S, _N, step("behind", "S=S", "N=n"), step("echo", "IN=n", "OUT=N")),
}  # fmt: skip
"""A decoupled model, and ensembles in which it is the only step, the last one, the first one, and inside another ensemble."""

LIFE: dict[str, Model] = {
    "one": MODELS["one"],
    "two": MODELS["two"],
    "chain": ensemble(_X, _Y, step("one", "IN=X", "OUT=t"), step("one", "IN=t", "OUT=Y")),
    "mixed": ensemble(_X, _Y, step("one", "IN=X", "OUT=t"), step("two", "IN0=t", "OUT0=Y")),
    "outer": ensemble(_X, _Y, step("chain", "X=X", "Y=t"), step("two", "IN0=t", "OUT0=Y")),
    "raises": Model(python_model(tensor("IN", "FP32", "[ 4 ]"), tensor("OUT", "FP32", "[ 4 ]"), _ONE), "raising"),
    "broken": ensemble(_X, _Y, step("one", "IN=X", "OUT=t"), step("raises", "IN=t", "OUT=Y")),
    "lost": ensemble(_X, _Y, step("nowhere", "IN=X", "OUT=Y")),
}  # fmt: skip
"""Models that clients load and unload."""


def _named(label: str) -> Model:
    output = tensor("OUT", "FP32", "[ 4 ]", 'label_filename: "labels.txt"')
    config = python_model(tensor("IN", "FP32", "[ 4 ]"), output, _ONE)
    return Model(config, "passthrough", files={"labels.txt": f"{label}\n" * 4})


_OF_BOTH = step("both", "IN=X", "OUT=Y")
FIRST: dict[str, Model] = {
    "both": _named("first"),
    "only_first": _named("only first"),
    "e_first": ensemble(_X, _Y, _OF_BOTH),
    "e_both": ensemble(_X, _Y, _OF_BOTH),
    "e_across": ensemble(_X, _Y, step("only_second", "IN=X", "OUT=Y")),
    "e_mixed": ensemble(_X, _Y, step("both", "IN=X", "OUT=t"), step("only_second", "IN=t", "OUT=Y")),
}  # fmt: skip
SECOND: dict[str, Model] = {
    "both": _named("second"),
    "only_second": _named("only second"),
    "e_second": ensemble(_X, _Y, _OF_BOTH),
    "e_both": ensemble(_X, _Y, _OF_BOTH),
}
"""Two repositories with namespaces; the labels of outputs say whose model a step is."""


def streams(folder: Path) -> list[Path]:
    """Write the models of streams."""
    return [write(folder / "models", STREAMS)]


def life(folder: Path) -> list[Path]:
    """Write the models that are loaded and unloaded."""
    return [write(folder / "models", LIFE)]


def namespaces(folder: Path) -> list[Path]:
    """Write both repositories."""
    return [write(folder / "first", FIRST), write(folder / "second", SECOND)]
