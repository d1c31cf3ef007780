"""The models of the set-up of ensembles: a few Python models, good ensembles over them, and ensembles that are refused."""

from pathlib import Path

from tests.conformance.servers.catalogue import Model, python_model, tensor, write

_IN, _OUT = tensor("IN", "FP32", "[ 4 ]"), tensor("OUT", "FP32", "[ 4 ]")
_X, _Y, _Z = (tensor(name, "FP32", "[ 4 ]") for name in "XYZ")
_ONE = "instance_group [{ kind: KIND_CPU count: 1 }]"


def step(model: str, reads: str, writes: str, *, version: int = -1) -> str:
    """A step of `IN=x` (input of the model = tensor of the ensemble), several of them with blanks between, and the same of its outputs."""
    return (
        f'step {{ model_name: "{model}" model_version: {version} '
        f"{_maps('input_map', reads)} {_maps('output_map', writes)} }}\n"
    )


def _maps(field: str, text: str) -> str:
    pairs = [part.split("=") for part in text.split()]
    return " ".join(f'{field} {{ key: "{key}" value: "{value}" }}' for key, value in pairs)


def ensemble(inputs: str, outputs: str, *steps: str, more: str = "", batch: int = 0) -> Model:
    """An ensemble without files."""
    head = f'platform: "ensemble"\nmax_batch_size: {batch}\ninput [{inputs}]\noutput [{outputs}]\n'
    return Model(f"{head}ensemble_scheduling {{\n{''.join(steps)}}}\n{more}", None)


MODELS: dict[str, Model] = {
    "one": Model(python_model(_IN, _OUT, _ONE), "passthrough"),
    "two": Model(
        python_model(
            f"{tensor('IN0', 'FP32', '[ 4 ]')}, {tensor('IN1', 'FP32', '[ 4 ]', 'optional: true')}",
            f"{tensor('OUT0', 'FP32', '[ 4 ]')}, {tensor('OUT1', 'FP32', '[ 4 ]')}",
            _ONE,
        ),
        "passthrough",
    ),
    "rows": Model(python_model(_IN, _OUT, _ONE, batch=4), "passthrough"),
    "fails": Model(
        python_model(tensor("MODE", "STRING", "[ 1 ]"), tensor("OUT", "FP32", "[ 1 ]"), _ONE),
        "misbehave",
    ),
}

GOOD: dict[str, Model] = {
    "chain": ensemble(_X, _Y, step("one", "IN=X", "OUT=t"), step("one", "IN=t", "OUT=Y")),
    "batches": ensemble(
        _X, _Y, step("rows", "IN=X", "OUT=t"), step("rows", "IN=t", "OUT=Y"), batch=4
    ),
    "nested": ensemble(_X, _Y, step("chain", "X=X", "Y=t"), step("one", "IN=t", "OUT=Y")),
    "parts": ensemble(
        _X,
        f"{_Y}, {_Z}",
        step("one", "IN=X", "OUT=t"),
        step("one", "IN=t", "OUT=Y"),
        step("one", "IN=t", "OUT=Z"),
    ),
    "optional": ensemble(
        f"{_X}, {tensor('W', 'FP32', '[ 4 ]', 'optional: true')}",
        _Y,
        step("two", "IN0=X IN1=W", "OUT0=Y"),
    ),
    "failing": ensemble(
        tensor("MODE", "STRING", "[ 1 ]"),
        tensor("Y", "FP32", "[ 1 ]"),
        step("fails", "MODE=MODE", "OUT=Y"),
    ),
    "pinned": ensemble(_X, _Y, step("one", "IN=X", "OUT=Y", version=1)),
}

_BROKEN = tensor("Y", "INT32", "[ 4 ]")
REFUSED: dict[str, tuple[str, Model]] = {
    "e_no_steps": ("must specify 'step' for ensemble 'e_no_steps'", ensemble(_X, _Y)),
    "e_not_set": (
        "ensemble scheduling must be set for ensemble e_not_set whose platform is ensemble",
        Model(f'platform: "ensemble"\ninput [{_X}]\noutput [{_Y}]\n', None),
    ),
    "e_instances": (
        "instance group should not be specified for ensemble 'e_instances'",
        ensemble(_X, _Y, step("one", "IN=X", "OUT=Y"), more=_ONE),
    ),
    "e_optimization": (
        "optimization should not be specified for ensemble 'e_optimization'",
        ensemble(_X, _Y, step("one", "IN=X", "OUT=Y"), more="optimization { }"),
    ),
    "e_no_input_map": (
        "must specify 'input_map' in step 0 of ensemble 'e_no_input_map'",
        ensemble(_X, _Y, step("one", "", "OUT=Y")),
    ),
    "e_no_output_map": (
        "must specify 'output_map' in step 0 of ensemble 'e_no_output_map'",
        ensemble(_X, _Y, step("one", "IN=X", "")),
    ),
    "e_twice": (
        "ensemble tensor 'Y' can appear in an output map only once for ensemble 'e_twice' step 1",
        ensemble(_X, _Y, step("one", "IN=X", "OUT=Y"), step("one", "IN=X", "OUT=Y")),
    ),
    "e_unused_input": (
        "ensemble input 'Z' for ensemble e_unused_input' is not used",
        ensemble(f"{_X}, {_Z}", _Y, step("one", "IN=X", "OUT=Y")),
    ),
    "e_unused_output": (
        "ensemble output 'Z' for ensemble e_unused_output' is not used",
        ensemble(_X, f"{_Y}, {_Z}", step("one", "IN=X", "OUT=Y")),
    ),
    "e_unwritten": (
        "output 'Y' for ensemble 'e_unwritten' is not written: at least one of its depending tensors, 't', is not connected",
        ensemble(_X, _Y, step("one", "IN=X", "OUT=u"), step("two", "IN0=u IN1=t", "OUT0=Y")),
    ),
    "e_unused": (
        "ensemble tensor 't' is unused in ensemble 'e_unused'",
        ensemble(_X, _Y, step("two", "IN0=X", "OUT0=Y OUT1=t")),
    ),
    "e_missing": (
        "ensemble e_missing contains models that are not available or ambiguous: nowhere",
        ensemble(_X, _Y, step("nowhere", "IN=X", "OUT=Y")),
    ),
    "e_type": (
        "in ensemble e_type, ensemble tensor Y: inconsistent data type: TYPE_INT32 is inferred from model e_type while TYPE_FP32 is inferred from model one",
        ensemble(_X, _BROKEN, step("one", "IN=X", "OUT=Y")),
    ),
    "e_shape": (
        "in ensemble e_shape, ensemble tensor Y: inconsistent shape: [5] is inferred from model e_shape while [4] is inferred from model one",
        ensemble(_X, tensor("Y", "FP32", "[ 5 ]"), step("one", "IN=X", "OUT=Y")),
    ),
    "e_batch": (
        "ensemble e_batch allows maximum batch size 8, but it contains model rows which only allows maximum batch size to be 4",
        ensemble(_X, _Y, step("rows", "IN=X", "OUT=Y"), batch=8),
    ),
    "e_no_such_input": (
        "in ensemble e_no_such_input, ensemble tensor X is mapping to non-existing input NO in model one",
        ensemble(_X, _Y, step("one", "NO=X", "OUT=Y")),
    ),
    "e_no_such_output": (
        "in ensemble e_no_such_output, ensemble tensor Y is mapped from non-existing output NO in model one",
        ensemble(_X, _Y, step("one", "IN=X", "NO=Y")),
    ),
    "e_not_mapped": (
        "in ensemble e_not_mapped, input IN0 in model two is not mapped to any ensemble tensors",
        ensemble(_X, _Y, step("two", "IN1=X", "OUT0=Y")),
    ),
    "e_version": (
        "ensemble 'e_version' depends on 'one' whose required version 9 is not loaded",
        ensemble(_X, _Y, step("one", "IN=X", "OUT=Y", version=9)),
    ),
    "e_cycle": (
        "circular dependency between ensembles: e_cycle -> ",
        ensemble(_X, _Y, step("e_cycle", "X=X", "Y=Y")),
    ),
}
"""Each with the words of its refusal."""


def put(folder: Path) -> list[Path]:
    """Write all of them."""
    root = write(folder / "models", {**MODELS, **GOOD})
    write(root, {name: model for name, (_, model) in REFUSED.items()})
    return [root]
