"""Models whose instance groups name host policies, and passive ones."""

from pathlib import Path

from tests.conformance.servers.catalogue import Model, python_model, tensor, write

_DELAY = tensor("DELAY_MS", "INT32", "[ 1 ]")
_REPORT = tensor("REPORT", "STRING", "[ 1 ]")


def _groups(text: str, batching: str = "") -> Model:
    more = f"instance_group [ {text} ] {batching}"
    return Model(python_model(_DELAY, _REPORT, more, batch=1 if batching else 0), "describe")


def _cores(text: str) -> Model:
    groups = f"instance_group [ {text} ]"
    return Model(python_model(_DELAY, tensor("CORES", "INT32", "[ -1 ]"), groups), "cores")


MODELS = {
    "named": _cores('{ kind: KIND_CPU count: 1 host_policy: "first" }'),
    "named_two": _cores('{ kind: KIND_CPU count: 1 host_policy: "both" }'),
    "default_of_cpu": _cores("{ kind: KIND_CPU count: 1 }"),
    "default_of_model": _cores("{ kind: KIND_MODEL count: 1 }"),
    "passive": _groups('{ name: "works" kind: KIND_CPU count: 1 }, { name: "idle" kind: KIND_CPU count: 1 passive: true }'),
    "passive_first": _groups('{ name: "idle" kind: KIND_CPU count: 2 passive: true }, { name: "works" kind: KIND_CPU count: 2 }'),
    "passive_batched": _groups(
        '{ name: "works" kind: KIND_CPU count: 1 }, { name: "idle" kind: KIND_CPU count: 1 passive: true }', "dynamic_batching { }"
    ),
}  # fmt: skip


def write_models(folder: Path) -> list[Path]:
    """A repository of them."""
    return [write(folder / "models", MODELS)]
