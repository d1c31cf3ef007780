"""The models of the set-up `calls`: one that asks others (`models/calling.py`), and those that it asks."""

from pathlib import Path

from tests.conformance.servers import catalogue
from tests.conformance.servers.catalogue import Model, python_model, tensor

_REPORT = tensor("REPORT", "STRING", "[ 1 ]")
_DECOUPLED = "model_transaction_policy { decoupled: true }"

_OTHERS = ("identity", "batched", "words_one", "report", "misbehave")
MODELS: dict[str, Model] = {
    **{name: catalogue.GOOD[name] for name in _OTHERS},
    "calling": Model(python_model(tensor("PROBE", "STRING", "[ 1 ]"), _REPORT), "calling"),
    "streaming": Model(
        python_model(
            tensor("SCRIPT", "STRING", "[ 1 ]"),
            f"{tensor('OUT', 'INT32', '[ -1 ]')}, {tensor('SEEN', 'STRING', '[ 1 ]')}",
            _DECOUPLED,
        ),
        "streaming",
    ),
    "raising": Model(
        python_model(tensor("IN", "FP32", "[ 4 ]"), tensor("OUT", "FP32", "[ 4 ]")), "raising"
    ),
}
AT_START = ("identity", "words_one", "report", "misbehave", "streaming", "calling")
"""The others are loaded by `calling`, or never."""


def write(folder: Path) -> list[Path]:
    """Lay the repository out."""
    return [catalogue.write(folder / "models", MODELS)]
