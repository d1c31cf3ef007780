"""How tokens are chosen for a request: its parameters as vllm's `SamplingParams`, and the LoRA adapter among them.

Runs in the worker, beside vllm, whose class is a `msgspec.Struct` (vllm/sampling_params.py). msgspec checks the values, and takes "0.5" for 0.5:
a parameter of a request over HTTP or gRPC may be text.
"""

import difflib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

ADAPTER = "lora_name"
"""The parameter that names a LoRA adapter; Triton's, not vllm's."""

_OURS = frozenset(("output_kind", "skip_clone", "output_text_buffer_length"))
"""Fields of `SamplingParams` that the backend sets, or vllm itself."""

_TEXT = frozenset(("stop",))
"""Fields whose text is not JSON, whatever it begins with."""


class WrongRequestError(ValueError):
    """A request that no engine would take; its message is for the client."""


class Sampling(NamedTuple):
    """How the tokens of a request are chosen.

    Attributes:
        values: fields of `SamplingParams`.
        adapter: the name of a LoRA adapter; "" for none.
    """

    values: "dict[str, Any]"
    adapter: str


def read_sampling(text: str, source: str, adapters: Mapping[str, str]) -> Sampling:
    """Parameters from JSON; `source` names where the text is from, `adapters` has those of the model.

    Raises:
        WrongRequestError: it is not a JSON object, or names an adapter that the model does not have.
    """
    try:
        values = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise WrongRequestError(
            f'{source} is not JSON: {error}; write an object such as {{"temperature": 0.5, "max_tokens": 100}}'
        ) from None
    if not isinstance(values, dict):
        raise WrongRequestError(
            f'{source} must be a JSON object such as {{"temperature": 0.5}}, not {text[:80]}'
        )
    adapter = values.pop(ADAPTER, "")
    if not adapter:
        return Sampling(values, "")
    if not adapters:
        raise WrongRequestError(
            f"{ADAPTER} is '{adapter}', and the model has no LoRA adapters: enable_lora in its model.json and multi_lora.json give it some"
        )
    if not isinstance(adapter, str) or adapter not in adapters:
        raise WrongRequestError(
            f"{ADAPTER} is {json.dumps(adapter)}, and the model has the adapters {', '.join(adapters)}"
        )
    return Sampling(values, adapter)


def sampling_params(kind: Any, sampling: Sampling) -> Any:
    """The object of the class `kind`, vllm's `SamplingParams`.

    Raises:
        WrongRequestError: it has no such parameter, or not with this value.
    """
    known = [
        name for name in kind.__struct_fields__ if not name.startswith("_") and name not in _OURS
    ]
    values = dict(sampling.values)
    for name, value in values.items():
        if name not in known:
            like = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean '{like[0]}'?" if like else f"there are {', '.join(sorted(known))}"
            raise WrongRequestError(f"there is no sampling parameter '{name}': {hint}")
        if isinstance(value, str) and name not in _TEXT and value.lstrip()[:1] in {"{", "["}:
            try:
                values[name] = json.loads(value)
            except (ValueError, RecursionError):
                continue  # whether it may be text is for the class to say
    try:
        return msgspec.convert(values, kind, strict=False, str_keys=True)
    except (ValueError, TypeError) as error:
        raise WrongRequestError(f"wrong sampling parameters: {error}") from None
