"""The models of the set-up with a local response cache: Python models that count their executions, and ensembles over them."""

from pathlib import Path

from tests.conformance.servers.catalogue import Model, python_model, tensor, write
from tests.conformance.servers.ensembles import ensemble, step

SIZE = 65_536

_ONE = "instance_group [{ kind: KIND_CPU count: 1 }]"
_CACHE = "response_cache { enable: true }"
_A = tensor("A", "FP32", "[ -1 ]")
_INPUTS = ", ".join((
    _A,
    tensor("B", "FP32", "[ -1 ]", "optional: true"),
    tensor("MODE", "STRING", "[ 1 ]", "optional: true"),
))  # fmt: skip
_EXECUTION, _SUM = tensor("EXECUTION", "INT32", "[ 1 ]"), tensor("SUM", "FP32", "[ -1 ]")
_OUTPUTS = f"{_EXECUTION}, {_SUM}"
_STEP = step("step", "A=A", "EXECUTION=EXECUTION SUM=SUM")


def _tally(more: str) -> Model:
    return Model(python_model(_INPUTS, _OUTPUTS, f"{_ONE}\n{more}", batch=8), "tally")


MODELS: dict[str, Model] = {
    "cached": _tally(_CACHE),
    "batched": _tally(f"{_CACHE}\ndynamic_batching {{ max_queue_delay_microseconds: 100 }}"),
    "ordered": _tally(f"{_CACHE}\ndynamic_batching {{ preserve_ordering: true }}"),
    "uncached": _tally(""),
    "off": _tally("response_cache { enable: false }"),
    "twin": _tally(_CACHE),
    "small": _tally(_CACHE),
    "words": Model(
        python_model(
            tensor("IN", "STRING", "[ -1 ]"), tensor("OUT", "STRING", "[ -1 ]"), f"{_ONE}\n{_CACHE}"
        ),
        "passthrough",
    ),
    "step": _tally(_CACHE),
    "plain_step": _tally(""),
    "e_of_cached": ensemble(_A, _OUTPUTS, _STEP, batch=8),
    "e_cached": ensemble(
        _A, _OUTPUTS, step("plain_step", "A=A", "EXECUTION=EXECUTION SUM=SUM"), batch=8, more=_CACHE
    ),
    "e_both": ensemble(_A, _OUTPUTS, _STEP, batch=8, more=_CACHE),
    "c_decoupled": _tally(f"{_CACHE}\nmodel_transaction_policy {{ decoupled: true }}"),
    "c_sequence": _tally(f"{_CACHE}\nsequence_batching {{ }}"),
}


def put(folder: Path) -> list[Path]:
    """Writes the repository."""
    return [write(folder / "models", MODELS)]
